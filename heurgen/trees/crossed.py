"""Points crossed from two scenarios: launches on which a config would fail, though training saw none of them.

A limit often follows a product: a block's rows times the head size times the bytes of a number fit the shared memory,
or do not. A leaf may hold no scenario beyond it while its region does, by the luck of some hundred scenarios, and no
limit of one feature says so. A scenario with one feature of another is a launch that may come, unless that feature
follows from the others, as the longest query does where all have one token. What is derived is derived again. Where a
tree on what failed, or was never measured, says that a config fails there, growth and pruning see it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heurgen.trees import constants
from heurgen.trees.derived import derive
from heurgen.trees.points import with_points
from heurgen.trees.problem import UNIT, Bools, Floats, Ints, Problem, Shared, Supposed
from heurgen.trees.spread import within_float32

# How often every feature is crossed at the least, and to how many points; and what all of them weigh together, those
# without a failure, which are left out, among them: as much as the scenarios, and at least as so many, since few say
# little of where configs fail (docs/learning.md).
ROUNDS, POINTS, SCENARIOS = 2, 2400, 320
# Share of a feature's variance that a tree over the others explains of scenarios that it has not seen, from which it
# follows from them: sums and maxima of lengths 0.5 to 1, what is drawn by itself -1.2 to 0.3 (docs/learning.md). Asked
# of so many scenarios.
FOLLOWS, ASKED, FOLDS = 0.4, 1000, 5


def free(p: Problem) -> tuple[frozenset[str], frozenset[tuple[str, ...]]]:
    """(The given features that may take another scenario's value while all others stay; those that may move so in some
    layer, features that say the same, such as a filter and its padding, together). None of too few scenarios to tell.

    A log may have every layer with many batches, and a tree knows all features of a layer that it has seen: whether one
    follows from the others is then asked of each layer once.
    """
    given = [i for i, c in enumerate(p.columns) if not c.derived]
    ranks = _ranks(p)[:, given]
    alike = _alike(ranks)
    ranks = ranks[:, [together[0] for together in alike]]
    names = [tuple(p.columns[given[i]].name for i in together) for together in alike]
    found = _free(ranks)
    alone = frozenset(
        together[0] for together, moves in zip(names, found, strict=True) if moves and len(together) == 1
    )
    if found.any() and not found.all():
        found[~found] = _free(np.unique(ranks[:, ~found], axis=0))
    return alone, frozenset(together for together, moves in zip(names, found, strict=True) if moves)


def _ranks(p: Problem) -> Floats:
    """The places of the values in the order of each feature's, of ASKED scenarios at the most."""
    X = p.X[p.real]
    X = X[:: -(-len(X) // ASKED)]
    return np.column_stack([np.unique(x, return_inverse=True)[1].reshape(-1) for x in X.T]).astype(float)


def _free(ranks: Floats) -> Bools:
    """Which columns vary, and do not follow from the others; none of fewer rows than can be held out."""
    columns = range(ranks.shape[1])
    able = len(ranks) >= FOLDS
    return np.array(
        [able and np.ptp(ranks[:, i]) > 0 and _explained(ranks, i) < FOLLOWS for i in columns], dtype=bool
    )


def _explained(ranks: Floats, column: int) -> float:
    """The share of a column's variance that trees over the others explain, each of scenarios that it has not seen."""
    from sklearn.tree import DecisionTreeRegressor  # here, since few logs need it

    others, y = np.delete(ranks, column, axis=1), ranks[:, column]
    if not others.shape[1]:
        return 0.0
    fold, told = np.random.RandomState(0).permutation(len(y)) % FOLDS, np.zeros(len(y))
    for k in range(FOLDS):
        out = fold == k
        tree = DecisionTreeRegressor(min_samples_leaf=3, random_state=0).fit(others[~out], y[~out])
        told[out] = tree.predict(others[out])
    return float(1 - ((y - told) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def _alike(ranks: Floats) -> list[list[int]]:
    """The columns that vary, those together of which each tells the other."""
    found: list[list[int]] = []
    for i, x in enumerate(ranks.T):
        same = [
            together
            for together in found
            if len(np.unique(ranks[:, [together[0], i]], axis=0))
            == len(np.unique(x))
            == len(np.unique(ranks[:, together[0]]))
        ]
        if same:
            same[0].append(i)
        elif np.ptp(x):
            found.append([i])
    return found


def crossed(p: Problem, alone: Set[str], together: Set[tuple[str, ...]]) -> Problem:
    """The problem with what `free` says may move: points for growth and pruning, which have a scenario's costs and all
    of its features but one of `alone`, where a config fails then; and beside its rows, for guards, `Supposed` launches.

    A point costs there what an invalid choice does, not as much as one that was seen to fail: the tree may be wrong.
    Growth that sees all that may move `together` loses more where launches are like the scenarios than it wins where
    they are not (docs/learning.md); a guard sends no scenario elsewhere.
    """
    one_by_one = {(name,) for name in alone}
    likely = _points(p, together)
    points = likely if one_by_one == together else _points(p, one_by_one)
    if likely is not None:
        p = replace(p, supposed=Supposed(likely.X, likely.fails, likely.weight))
    if points is None:
        return p
    X, fails, origin, weight = points
    cost = np.where(fails, np.rint(constants.LEARNER.invalid * UNIT), p.cost[origin])
    whole = np.vstack([p.X, X])
    whole, shared = p.shared.lines.setdefault(b"crossed" + X.tobytes(), (whole, Shared()))
    return with_points(p, whole, shared, np.rint(weight * cost), ~fails, origin, np.full(len(X), weight))


class _Points(NamedTuple):
    """Features [M, F]; configs that fail there, or on the scenario that it is of [M, C]; the row of that; weight."""

    X: Floats
    fails: Bools
    origin: Ints
    weight: float


def _points(p: Problem, moves: Set[tuple[str, ...]]) -> _Points | None:
    """Scenarios with such features of another where some config that ran for the scenario would fail."""
    from sklearn.tree import DecisionTreeRegressor  # here, since few logs need it

    real = np.flatnonzero(p.real)
    X, failed = p.X[real], ~p.covered[real]
    places = {c.name: i for i, c in enumerate(p.columns)}
    moved = sorted([places[name] for name in together if name in places] for together in moves)
    varied = [columns for columns in moved if (X[:, columns] != X[0, columns]).any()]
    if not (varied and failed.any()):
        return None
    rng, n = np.random.RandomState(0), len(real)
    copies = len(varied) * max(ROUNDS, -(-POINTS // (n * len(varied))))
    points = np.tile(X, (copies, 1))
    for number in range(copies):
        columns, others = varied[number % len(varied)], X[rng.permutation(n)]
        points[number * n : (number + 1) * n, columns] = others[:, columns]
    derive(p.columns, points)
    origin, told = np.tile(real, copies), np.isfinite(points).all(axis=1)
    points, origin = points[told], origin[told]
    scaled = within_float32(np.vstack([X, points]))
    tree = DecisionTreeRegressor(random_state=0).fit(scaled[:n], failed.astype(np.float64))
    fails = tree.predict(scaled[n:]).reshape(len(points), -1) > 0.5
    kept = (fails & p.covered[origin]).any(axis=1)
    points, fails, origin = points[kept], fails[kept], origin[kept]
    return _Points(points, fails | ~p.covered[origin], origin, max(1.0, SCENARIOS / n) / copies)
