"""The headline figures of slowdown, computed here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

NEAR = 1.1
# Of what share of the scenarios the 95th percentile is the largest slowdown.
_P95 = 0.95
# A choice of exactly 1.1x is within 1.1x, whatever the last bit of a quotient of two times says.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Summary:
    """Slowdown over scenarios. None where it is unknown: winners-only logs, or no valid choice.

    `geomean_slowdown`, `p95_slowdown`, `max_slowdown` and `within_1_1` are over the valid choices;
    `invalid_share` is the share of all scenarios whose choice failed or was never measured.
    `agreement` is the share whose choice is the measured winner.

    `p95_slowdown` lies at rank 0.95 (n - 1) of the sorted slowdowns, from 0, on the line between the two
    neighbours (Hyndman and Fan's definition 7, numpy's default): for 11 scenarios half way between the second
    largest and the largest. It equals the largest only where the two largest are equal, or n is 1.
    """

    n_scenarios: int
    geomean_slowdown: float | None = None
    p95_slowdown: float | None = None
    max_slowdown: float | None = None
    within_1_1: float | None = None
    invalid_share: float | None = None
    agreement: float | None = None


def summarise(
    log_slowdowns: Iterable[float], *, known: bool = True, agreement: float | None = None
) -> Summary:
    """The figures of one choice per scenario.

    Args:
        log_slowdowns: natural logarithm of each choice's slowdown; NaN or infinite where it was not valid.
        known: False where the log carries no costs: then only the number of scenarios is known.
        agreement: what `Summary` says of it.
    """
    every = list(log_slowdowns)
    valid = sorted(x for x in every if math.isfinite(x))
    n, total = len(valid), len(every)
    if not known or not n:
        return Summary(total, invalid_share=1.0 if known and total else None, agreement=agreement)
    slow = [math.exp(x) for x in valid]
    return Summary(
        n_scenarios=total,
        geomean_slowdown=math.exp(math.fsum(valid) / n),
        p95_slowdown=_between(slow, _P95 * (n - 1)),
        max_slowdown=slow[-1],
        within_1_1=sum(x <= NEAR * (1 + _ROUNDING) for x in slow) / n,
        invalid_share=(total - n) / total,
        agreement=agreement,
    )


def _between(ordered: list[float], rank: float) -> float:
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])
