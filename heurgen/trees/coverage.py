"""Which configs cover which scenarios: the cut that settles it, and tables of which many cells are missing."""

from __future__ import annotations

import numpy as np

from heurgen.trees import constants
from heurgen.trees.configs import USUAL, choose
from heurgen.trees.grow import gap
from heurgen.trees.node import Cut
from heurgen.trees.problem import Bools, Problem


def sparse(p: Problem) -> bool:
    """Whether most of the cells are missing or failed, of the configs that serve best, too, and no one cut says which.

    Where blocks that do not fit a shape are not measured, say, most configs fail on most shapes. Growth that counts an
    uncovered scenario as 22000x then looks for coverage alone, and a leaf that pays full price for doubt must save more
    than its config is worth: both count less (`Problem.guide`, `priced`), and a config that covers a part of a side
    hides the others less (`Bins.floor`). Points between scenarios are left out: they stand only between scenarios that
    are covered alike, mostly in a few of the patterns. What ships still covers what it serves: labels, pruning and
    held-out figures count coverage as ever.

    A log merged of sweeps with configs of their own has as many gaps, but in configs that no leaf needs, and by these
    rules its trees are worse. Held out, a log of paged_attention in six sweeps, each of 12 good configs and 0.15 of the
    others, is 1.051 by them and 1.044 without, one like mixed_mm 1.0123 and 1.0107; hopper_paged_attention with its
    test log, which has 90 configs more, 1.056 (1.4 % invalid) and 1.047 (0.7 %). Of 12 configs such logs have up to
    0.48 of the cells missing, others from 0.50 on; of all 64 of a pool both have 0.50 to 0.75.
    """
    c, covered = constants.LEARNER, p.covered[p.real]
    if 1 - covered.mean() <= c.sparse:
        return False
    serving = choose(p.cost[p.real], USUAL, rounds=0)
    # Where no other improves on fewer (a naive solver that runs always, and two more), they tell little of the log.
    merged = len(serving) == USUAL and 1 - covered[:, serving].mean() <= c.sparse_serving
    return not merged and settling_cut(p) is None


def settling_cut(p: Problem) -> Cut | None:
    """A cut after which every config is covered on all scenarios of a side or on none: decode and prefill, say.

    None where there is none, or nothing to settle.
    """
    rows = np.flatnonzero(p.real)
    covered = p.covered[rows]
    partial = covered.any(axis=0) & ~covered.all(axis=0)
    if not partial.any():
        return None
    covered = covered[:, partial]
    first: Bools = (covered == covered[0]).all(axis=1)
    if not (covered[~first] == covered[~first][0]).all():
        return None
    for column, description in enumerate(p.columns):
        x = p.X[rows, column]
        a, b = x[first], x[~first]
        if description.type == "category":
            if not np.intersect1d(a, b).size:
                return Cut(column, left=tuple(np.unique(a).astype(np.int64).tolist()))
        elif a.max() < b.min() or b.max() < a.min():
            return gap(p, rows, column, first if a.max() < b.min() else ~first)
    return None
