"""Points crossed from two scenarios: launches on which a config would fail, though training saw none of them.

A limit often follows a product: a block's rows times the head size times the bytes of a number fit the shared memory,
or do not. A leaf may hold no scenario beyond it while its region does, by the luck of some hundred scenarios, and no
limit of one feature says so. A scenario with one feature of another is a launch that may come, unless that feature
follows from the others, as the longest query does where all have one token. Where a tree on what failed, or was never
measured, says that a config fails there, growth and pruning see it.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from heurgen.trees import constants
from heurgen.trees.points import with_points
from heurgen.trees.problem import UNIT, Floats, Problem, Shared
from heurgen.trees.spread import within_float32

# How often every feature is crossed at the least, and to how many points; and what all of them weigh together, those
# without a failure, which are left out, among them: as much as the scenarios, and at least as so many, since few say
# little of where configs fail (docs/learning.md).
ROUNDS, POINTS, SCENARIOS = 2, 2400, 320
# Share of a feature's variance that a tree over the others explains of scenarios that it has not seen, from which it
# follows from them: sums and maxima of lengths 0.5 to 1, what is drawn by itself -1.2 to 0.3 (docs/learning.md). Asked
# of so many scenarios.
FOLLOWS, ASKED, FOLDS = 0.4, 1000, 5


def free(p: Problem) -> frozenset[str]:
    """The features that may take another scenario's value while all others stay; none where scenarios are too few to
    tell.
    """
    X = p.X[p.real]
    if len(X) < FOLDS:
        return frozenset()
    X = X[:: -(-len(X) // ASKED)]
    ranks = np.column_stack([np.unique(x, return_inverse=True)[1].reshape(-1) for x in X.T]).astype(float)
    return frozenset(
        c.name for i, c in enumerate(p.columns) if np.ptp(ranks[:, i]) and _explained(ranks, i) < FOLLOWS
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


def crossed(p: Problem, names: Set[str]) -> Problem:
    """The problem with points that have a scenario's costs and all of its features but one of `names`, where a config
    fails then.

    It costs there what an invalid choice does, not as much as one that was seen to fail: the tree may be wrong.
    """
    from sklearn.tree import DecisionTreeRegressor  # here, since few logs need it

    real = np.flatnonzero(p.real)
    X, failed = p.X[real], ~p.covered[real]
    varied = [i for i, c in enumerate(p.columns) if c.name in names and (X[:, i] != X[0, i]).any()]
    if not (varied and failed.any()):
        return p
    rng, n = np.random.RandomState(0), len(real)
    copies = len(varied) * max(ROUNDS, -(-POINTS // (n * len(varied))))
    points = np.tile(X, (copies, 1))
    for number in range(copies):
        column = varied[number % len(varied)]
        points[number * n : (number + 1) * n, column] = X[rng.permutation(n), column]
    scaled = within_float32(np.vstack([X, points]))
    fails = (
        DecisionTreeRegressor(random_state=0).fit(scaled[:n], failed.astype(np.float64)).predict(scaled[n:])
    )
    fails = fails.reshape(len(points), -1) > 0.5
    origin = np.tile(real, copies)
    kept = (fails & p.covered[origin]).any(axis=1)
    points, fails, origin = points[kept], fails[kept], origin[kept]
    invalid, weight = np.rint(constants.LEARNER.invalid * UNIT), max(1.0, SCENARIOS / n) / copies
    cost = np.where(fails | ~p.covered[origin], invalid, p.cost[origin])
    whole = np.vstack([p.X, points])
    whole, shared = p.shared.lines.setdefault(b"crossed" + points.tobytes(), (whole, Shared()))
    runs = ~fails & p.covered[origin]
    return with_points(p, whole, shared, np.rint(weight * cost), runs, origin, np.full(len(points), weight))
