"""Configs that a sweep passed over: not measured in most scenarios for its own reasons, though they may apply there.

An adaptive sweep measures all configs in a first part of the scenarios and a shortlist in the others. The learner would
take the gaps for launches that do not apply: a table of which most is missing has rules of its own (`coverage.sparse`),
no cut settles what covers what, and every leaf pays for doubt. Such configs can serve no region, for none was measured
throughout it, so they are left out.

What tells them: where a config was measured, it was not measured in most of the nearest scenarios. One that does not
apply to some kind of scenario was measured in its neighbours of the other kinds. And they were passed over together, in
whole scenarios; in a log of random samples each scenario has a few of them. Last, a sweep passes over what its
shortlist does without: solvers that apply to some categories alone have other neighbours, too, and are the best where
they apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heurgen.trees import constants
from heurgen.trees.spread import evenly, nearest, unit_spread

if TYPE_CHECKING:
    from heurgen.logs.costs import CostTable, Floats, Ints

# Nearest scenarios that are asked, of at most so many scenarios spread over the table.
NEAREST, ASKED = 5, 200
# A config that was measured in less than this share of them was passed over; those that are left must have been
# measured in more than that of them in the mean.
FEW, MOST = 0.5, 0.75
# The mean square, over scenarios, of the share of such configs that was measured, against the square of the mean: 1
# where it is the same everywhere, 7 where one scenario in seven has all of them.
TOGETHER = 1.5
# What the loss of such configs may cost, as a mean log-slowdown over the scenarios where they were measured. Adaptive
# sweeps replayed on the logs in data/ lose 0.0002 to 0.0021 (`benchmarks/adaptive.py`), ten logs of 60 to 1,000
# convolutions 0.12 to 0.43 without their solvers of some filters and strides.
LOSS = 0.03


def measured_throughout(table: CostTable) -> Ints:
    """The configs (columns of the table, ascending) that were not passed over: all but in a table with many gaps.

    All, too, where without the others there would be as many gaps, a scenario would be left without a config, or what
    is best would be lost.
    """
    every = np.arange(len(table.configs), dtype=np.int64)
    covered, gaps = np.isfinite(table.log_slowdown), constants.LEARNER.sparse
    if not table.costs_known or 1 - covered.mean() <= gaps or 1 - covered.mean(axis=0).max() > gaps:
        return every
    share = _shares(table)
    kept = every[share >= FEW]
    if not len(kept) or len(kept) == len(every) or share[kept].mean() < MOST:
        return every
    others = np.delete(covered, kept, axis=1).mean(axis=1)
    if (others**2).mean() < TOGETHER * others.mean() ** 2:
        return every
    left = covered[:, kept]
    if 1 - left.mean() > gaps or not left.any(axis=1).all():
        return every
    loss = np.where(left, table.log_slowdown[:, kept], np.inf).min(axis=1)
    lost = loss[others > 0]  # none where they failed wherever they were measured
    return kept if not len(lost) or lost.mean() <= LOSS else every


def _shares(table: CostTable) -> Floats:
    """Of each config, the mean share of the scenarios nearest to one where it was measured that it was measured in [C].

    Nearest on the same device, of which a scenario alone says nothing. 1 for a config that was measured in no scenario
    that is asked.
    """
    tried = ~np.isnan(table.times)
    device = np.unique(table.device, return_inverse=True)[1]
    logs = (table.X > 0).all(axis=0)
    Z = np.where(logs, np.log(np.where(logs, table.X, 1.0)), table.X)
    Z = unit_spread(Z)
    n = table.n_scenarios
    asked = evenly(n, ASKED)
    shares, known = np.zeros((len(asked), tried.shape[1])), tried[asked]
    for i, row in enumerate(asked.tolist()):
        distance = np.where(device == device[row], np.round(((Z - Z[row]) ** 2).sum(axis=1), 9), np.inf)
        distance[row] = np.inf
        near = nearest(distance[None], min(NEAREST, n))[0]
        near = near[np.isfinite(distance[near])]
        shares[i] = tried[near].sum(axis=0) / max(len(near), 1)
        known[i] &= len(near) > 0
    count, total = known.sum(axis=0), (shares * known).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), 1.0)
