"""How far the mean of few scenarios can be trusted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

# `exp` overflows at 710.
_MOST_LOG = 700.0


def interval(
    geomean: float, log_slowdowns: Iterable[float], group: Iterable[int], folds: int
) -> tuple[float, float] | None:
    """The 95 % interval of a cross-validated geometric mean: Student's t over groups, of the logarithms of the valid
    choices. None of fewer than two groups.

    Scenarios of one group repeat each other, so they count once in the error. Folds share most of what they train on,
    so that their errors agree: the variance is that of independent ones times 1 + folds / (folds - 1) (Nadeau and
    Bengio, Inference for the generalization error, 2003), which makes the interval of five folds 1.5 times as wide.
    """
    groups = defaultdict[int, list[float]](list)
    for x, number in zip(log_slowdowns, group, strict=True):
        if math.isfinite(x):
            groups[number].append(x)
    n, count = len(groups), sum(map(len, groups.values()))
    if n < 2:
        return None
    mean, centre = math.fsum(x for own in groups.values() for x in own) / count, math.log(geomean)
    spread = math.fsum(math.fsum(x - mean for x in own) ** 2 for own in groups.values()) * n / (n - 1)
    half = student(n) * math.sqrt(spread * (1 + folds / (folds - 1))) / count
    return math.exp(max(centre - half, 0.0)), math.exp(min(centre + half, _MOST_LOG))


def student(n: int) -> float:
    """The 97.5 % point of Student's t for n values: 2.2 for a dozen, 1.96 for many."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975))
