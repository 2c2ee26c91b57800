"""What a caller may ask of a fit."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Literal

from heurgen.base.errors import UsageError, quoted

Strategy = Literal["auto", "joint", "per-parameter", "optimal"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "joint", "per-parameter", "optimal")
MAX_CONFIGS = 64
# Beyond these a fit takes for ever, or all memory, for trees that nobody reads.
_MOST = {"max_depth": 16, "max_leaves": 1_000_000, "max_configs": 1_000_000}


@dataclass(frozen=True, slots=True)
class FitOptions:
    """
    strategy     how the tree is learnt; "auto" chooses strategy and size by cross-validation over scenarios
    max_depth    most tests on a path, 16 or fewer (default: `regime`'s for the number of scenarios; guards may add two;
                 strategy optimal: 3)
    max_leaves   most leaves (default likewise)
    max_configs  most distinct configs (default: 64 for auto, which chooses how many, on few scenarios 8 unless another
                 number is surely better; 8 for the other strategies); what answers unknown categories may be one more
    prefer       "small": auto takes the fewest configs and leaves within 0.01 (log) of the best, not within 0.002
    tail         what the worst scenarios weigh beyond their share: a log-slowdown beyond 1.1x counts 1 + tail times in
                 joint trees (auto fits no others then; strategies per-parameter and optimal know none).
                 None: auto compares 0 and 1 and takes what has the better p95 at no loss of the mean beyond 0.002
    shortlist    configs per region for a tuner that tries few (0: none)
    """

    strategy: Strategy = "auto"
    max_depth: int | None = None
    max_leaves: int | None = None
    max_configs: int | None = None
    prefer: Literal["accuracy", "small"] = "accuracy"
    tail: float | None = None
    shortlist: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(
                f"unknown strategy {quoted(self.strategy)}", hint=f"one of {', '.join(STRATEGIES)}"
            )
        if self.prefer not in ("accuracy", "small"):
            raise UsageError(f"unknown preference {quoted(self.prefer)}", hint="accuracy or small")
        for name in ("max_depth", "max_leaves", "max_configs", "shortlist", "tail"):
            value = getattr(self, name)
            if type(value) is not bool and isinstance(value, numbers.Real):  # numpy's, too
                own = int(value) if isinstance(value, numbers.Integral) else float(value)
                object.__setattr__(self, name, own)
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 1 <= value <= most):
                raise UsageError(f"{name} must be a whole number from 1 to {most}, found {quoted(value)}")
        if type(self.shortlist) is not int or not 0 <= self.shortlist <= MAX_CONFIGS:
            raise UsageError(f"shortlist must be a whole number from 0 to 64, found {quoted(self.shortlist)}")
        if self.tail is not None and not (type(self.tail) in (int, float) and 0 <= self.tail <= 100):
            raise UsageError(f"tail must be a number from 0 to 100, found {quoted(self.tail)}")
        if self.tail and self.strategy not in ("auto", "joint"):
            said = f"the strategy {quoted(self.strategy)} knows no tail, found {quoted(self.tail)}"
            raise UsageError(said, hint="leave it out, or take strategy auto or joint")
