"""Cells that failed by chance: a driver that lost its context, a time-out of a busy host, another's memory.

What a config failed on it is never chosen for, nor for the region around, since a failure mostly follows a rule: the
shared memory, a stride. One cell of fifty that failed for no reason leaves, in a log of some hundred scenarios, no
config for any region, and what failed least ships for all. Such failures follow neither from the features nor from
what else failed in the scenario, and come to every config and every scenario alike. `train` says so: only a
measurement can tell what such a cell would have been.
"""

from __future__ import annotations

import numpy as np

from heurgen.trees import constants
from heurgen.trees.chance import ENOUGH
from heurgen.trees.problem import Bools, Floats, Ints, Problem
from heurgen.trees.spread import within_float32

# The share of the cells around one that failed up to which it failed by chance, cells found so far left out; and the
# fewest scenarios that are around. Of modelled attention, matrix products and convolutions (100 to 1,500 scenarios,
# limits of shared memory) with 1 and 5 % failing by chance 0.93 to 0.995 and 0.90 to 0.94 of these are found so, and of
# 100 cells that are found 0 to 3.7 failed by a limit. Fewest 10: 0.97 to 0.995, 0.93 to 0.97, up to 22 of 100.
SHARE, AROUND = 0.1, 5
# What is found in one pass hides no other in the next. 3 passes: 0.92 to 0.96 and 0.80 to 0.86.
PASSES, FOLDS = 6, 5
# Mean square deviation of counts from what chance gives each scenario, and each config, of one by chance 1: on such
# logs 0.75 to 1.5, in failures that follow a rule which trees do not find 5 and more.
UNEVEN_SCENARIOS, UNEVEN_CONFIGS = 1.5, 3.0
# Scenarios that are looked at together: trees of more take seconds.
TOGETHER = 4000


def failed_by_chance(p: Problem) -> int:
    """How many cells failed by chance of the rows looked at, TOGETHER at the most, which are spread over all; 0 where
    too few did, or too unevenly, to be told from what failed by a rule.
    """
    if p.labels_only or p.n_real < constants.LEARNER.trusted:
        return 0
    rows = np.arange(0, len(p.X), -(-len(p.X) // TOGETHER))
    X, failed = within_float32(p.X[rows]), np.asarray((~p.covered & ~p.untried)[rows])
    # Where a first pass finds few, as where all follows rules, more of them take time.
    if _found(X, failed, p.untried[rows], 1).sum() < ENOUGH:
        return 0
    found = _found(X, failed, p.untried[rows], PASSES)
    able: Bools = found | p.covered[rows]
    rate = found.sum() / able.sum()
    uneven = [_unevenness(found.sum(axis=axis), rate * able.sum(axis=axis)) for axis in (1, 0)]
    even = uneven[0] < UNEVEN_SCENARIOS and uneven[1] < UNEVEN_CONFIGS
    return int(found.sum()) if even else 0


def _found(X: Floats, failed: Bools, untried: Bools, passes: int) -> Bools:
    """Which cells failed [n, C] where few others did of the scenarios around."""
    left, used = failed | untried, np.flatnonzero(failed.any(axis=0))
    for number in range(passes if len(used) else 0):
        alone: Bools = failed[:, used] & (_shares(X, left, used, number) <= SHARE)
        if not (alone & left[:, used]).any():
            break
        left[:, used] &= ~alone
    return failed & ~left


def _shares(X: Floats, left: Bools, used: Ints, number: int) -> Floats:
    """The share of `left` in the cells around each scenario's, of the configs `used`.

    Around: in the same leaf of a tree that has not seen the scenario. The larger share counts of a tree of the features
    and of one that knows how many configs failed, too: what fails by a limit fails where others do.
    """
    from sklearn.tree import DecisionTreeRegressor  # here, since few logs need it

    fold = np.random.RandomState(number).permutation(len(X)) % FOLDS
    y, found = left[:, used].astype(np.float64), np.zeros((len(X), len(used)))
    for columns in (X, np.column_stack([X, left.sum(axis=1)])):
        for k in range(FOLDS):
            out = fold == k
            tree = DecisionTreeRegressor(min_samples_leaf=AROUND, random_state=0).fit(columns[~out], y[~out])
            found[out] = np.maximum(found[out], tree.predict(columns[out]).reshape(-1, len(used)))
    return found


def _unevenness(count: Ints, expected: Floats) -> float:
    """Mean square deviation of counts from what is expected, of counts by chance 1."""
    return float(((count - expected) ** 2).sum() / expected.sum())
