"""Measurements that stand out as if the clock or the machine was disturbed while they were taken.

The yardstick are the configs one step away: equal in all parameters but one, and in that one at the next value measured
(of a category, which has no order, any other). Speed may well depend on one parameter's value; then it does so in other
scenarios, or for another config of that value, too. What is left is seen once: a disturbance, or worth a second look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import printable
from heurgen.ir import Config
from heurgen.logs.costs import Floats, repeats
from heurgen.logs.outcomes import UNTIMED
from heurgen.logs.tuning_log import TuningLog

# How much slower is neither noise nor a step of a parameter: on modelled attention and on its H200 logs half of what is
# measured is within 1.06x of the configs one step away. A disturbance of less costs a learner little.
_STANDS_OUT = 1.3
# In how many of the other scenarios the config must do better than here by that factor. Not in all: it may have been
# disturbed there as well, or belong to a kind of launch that is rare.
_ELSEWHERE = 0.9
# Times so close have one cause: the step between the two configs does nothing there, and what is slow is slow in both.
_SAME = 1.05
# Less is no yardstick: a median of two is as far off as either, nine of ten are not to be had of fewer.
_NEIGHBOURS = 3
_SCENARIOS = 10


@dataclass(frozen=True, slots=True)
class StandOut:
    """A measurement (of repeats the slowest) that took `factor` times the median of the configs one step away."""

    file: str
    line: int
    factor: float


def stand_outs(log: TuningLog) -> tuple[StandOut, ...]:
    """Measurements to take again, the worst first; none where the log cannot tell.

    A log tells, for each device, where at least half of its measurements have three neighbours and are within 1.3x
    of their median. Repeats that agree are believed.
    """
    if log.spec.log.winners_only:
        return ()
    cells = repeats(log)
    first = cells.order[cells.starts]
    fastest, slowest = log.time[first], log.time[cells.order[cells.starts + np.maximum(cells.good - 1, 0)]]
    confirmed = (cells.good > 1) & (slowest <= _STANDS_OUT * fastest)
    device = (log.vendor.codes * len(log.devices) + log.device.codes)[first]
    ok = np.isfinite(cells.median) & (cells.median < UNTIMED)
    found: list[tuple[float, int]] = []
    for one in np.unique(device[ok]).tolist():
        own = np.flatnonzero(ok & (device == one))
        factors = _factors_of(log, first[own], cells.median[own])
        bad = ~np.isnan(factors) & ~confirmed[own]
        rows = cells.order[cells.starts[own[bad]] + cells.good[own[bad]] - 1]
        found += zip(factors[bad].tolist(), rows.tolist(), strict=True)
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    places = log.cells.places([row for _, row in found])
    return tuple(StandOut(*place, factor) for place, (factor, _) in zip(places, found, strict=True))


def stand_out_notes(found: Sequence[StandOut], log: TuningLog) -> tuple[str, ...]:
    """The note on them, if there are any."""
    if not found:
        return ()
    n, worst = log.n_measurements - log.n_failures, found[0]
    verb, them = ("stands", "it") if len(found) == 1 else ("stand", "them")
    return (
        f"{len(found):,} of {n:,} measurements {verb} out from those of configs one step away (worst: line "
        f"{worst.line} of {printable(worst.file)}, {worst.factor:.1f}x): measure {them} again",
    )


def _factors_of(log: TuningLog, rows: NDArray[np.int64], times: Floats) -> Floats:
    """`_factors` of one device's cells, which `rows` of the log are of."""
    scenarios, row = np.unique(log.scenario[rows], return_inverse=True)
    numbers, column = np.unique(log.config[rows], return_inverse=True)
    at = log.config_row[numbers]
    # Codes are in the order of the values.
    configs = list(zip(*(p.codes[at].tolist() for p in log.parameters), strict=True))
    table = np.full((len(scenarios), len(configs)), np.nan)
    table[row, column] = times
    ordered = [p.type != "category" for p in log.spec.parameters]
    return _factors(table, _neighbours(configs, ordered))[row, column]


def _neighbours(configs: Sequence[Config], ordered: Sequence[bool]) -> list[list[int]]:
    """The configs one step away from each of `configs`, which are sorted."""
    found: list[list[int]] = [[] for _ in configs]
    for i, has_order in enumerate(ordered):
        lines: dict[Config, list[int]] = {}
        for c, config in enumerate(configs):
            lines.setdefault((*config[:i], *config[i + 1 :]), []).append(c)
        for line in lines.values():
            for at, c in enumerate(line):
                near = line[max(0, at - 1) : at + 2] if has_order else line
                found[c] += [other for other in near if other != c]
    return found


def _factors(times: Floats, neighbours: Sequence[Sequence[int]]) -> Floats:
    """Of what stands out of times [S, C], how many times its neighbours' median; NaN elsewhere."""
    excess, alike = np.full(times.shape, np.nan), np.zeros(times.shape, dtype=np.bool_)
    for c, near in enumerate(neighbours):
        if len(near) < _NEIGHBOURS:
            continue
        others = np.sort(times[:, near], axis=1)  # NaN last
        n = np.isfinite(others).sum(axis=1)
        rows = np.flatnonzero(n >= _NEIGHBOURS)
        others, n, own = others[rows], n[rows], times[rows, c]
        at = np.arange(len(rows))
        excess[rows, c] = own / (others[at, (n - 1) // 2] * 0.5 + others[at, n // 2] * 0.5)
        ratio = others / own[:, None]
        alike[rows, c] = ((ratio < _SAME) & (ratio > 1 / _SAME)).any(axis=1)
    factors = np.full(times.shape, np.nan)
    if (np.abs(np.log(excess)) < np.log(_STANDS_OUT)).sum() * 2 < np.isfinite(times).sum():
        return factors
    for c in range(times.shape[1]):
        rows = np.flatnonzero(np.isfinite(excess[:, c]))
        own = excess[rows, c]
        less = np.searchsorted(np.sort(own), own / _STANDS_OUT, side="right")  # never counts itself
        bad = (own > _STANDS_OUT) & (less >= _ELSEWHERE * (len(rows) - 1)) & ~alike[rows, c]
        if len(rows) > _SCENARIOS:
            factors[rows[bad], c] = own[bad]
    return factors
