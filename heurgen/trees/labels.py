"""What is recorded of a choice among trees where the log holds winners alone: agreement, never a slowdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heurgen.ir import Selector
from heurgen.trees.problem import NOT_WINNER


def without_slowdowns(selector: Selector) -> Selector:
    """A selector of a winners-only table with its record in the terms of agreement.

    There every choice costs NOT_WINNER or nothing, so a mean cost m says that the winner was chosen in a share of
    1 - m / NOT_WINNER.
    """
    return selector if selector.costs_known else replace(selector, choice=_told(selector.choice))


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        told = {k: _told(v) for k, v in value.items() if "slowdown" not in k}
        mean = value.get("mean_log_slowdown")
        return told if mean is None else told | {"agreement": round(1.0 - mean / NOT_WINNER, 6)}
    return [_told(v) for v in value] if isinstance(value, list | tuple) else value
