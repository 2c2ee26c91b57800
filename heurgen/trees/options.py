"""What a caller may ask of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heurgen.errors import UsageError, quoted

Strategy = Literal["auto", "joint", "per-parameter", "optimal"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "joint", "per-parameter", "optimal")
DEFAULT_DEPTH = 6


@dataclass(frozen=True, slots=True)
class FitOptions:
    """
    strategy     how the tree is learnt; "auto" chooses strategy and size by cross-validation over scenarios
    max_depth    most tests on a path (default 6; strategy optimal: 3)
    max_leaves   most leaves (default 24 up to 500 scenarios, then 64)
    max_configs  most distinct configs
    prefer       "small": auto takes the smallest tree within 0.01 (log) of the best, not within 0.002
    """

    strategy: Strategy = "auto"
    max_depth: int | None = None
    max_leaves: int | None = None
    max_configs: int = 8
    prefer: Literal["accuracy", "small"] = "accuracy"

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(
                f"unknown strategy {quoted(self.strategy)}", hint=f"one of {', '.join(STRATEGIES)}"
            )
        if self.prefer not in ("accuracy", "small"):
            raise UsageError(f"unknown preference {quoted(self.prefer)}", hint="accuracy or small")
        for name in ("max_depth", "max_leaves", "max_configs"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, found {quoted(value)}")


def leaf_cap(options: FitOptions, n_scenarios: int) -> int:
    """Most leaves: what was asked, else 24 for small logs and 64 (depth 6, full) where scenarios abound."""
    if options.max_leaves is not None:
        return options.max_leaves
    return 24 if n_scenarios <= 500 else 64
