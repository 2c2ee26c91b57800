"""A greedy tree in milliseconds, for those who fit hundreds: an adaptive sweep asks after every batch if it may stop.

scikit-learn's regression tree over all configs' costs, without look-ahead and refinement. It needs more scenarios
for the same loss than what ships, so what it says of the worth of more of them errs on the safe side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_LEAVES = 48
MIN_LEAF = 2
# Trees whose regions choose configs, each with its own draw of so many features at every test, and their least leaf.
DRAWS, DRAWN, REGION = 8, 0.6, 3


def choose(X: Floats, cost: Floats, asked: Floats) -> Ints:
    """The column of cost [N, C] (finite log-slowdowns) that a tree over X [N, F] gives for each row of `asked`."""
    from sklearn.tree import DecisionTreeRegressor

    leaf = min(MIN_LEAF, len(X))
    tree = DecisionTreeRegressor(max_leaf_nodes=MAX_LEAVES, min_samples_leaf=leaf, random_state=0).fit(
        X, cost
    )
    here, there = tree.apply(X), tree.apply(asked)
    best = {node: int(cost[here == node].sum(axis=0).argmin()) for node in np.unique(here).tolist()}
    return np.array([best[node] for node in there.tolist()], dtype=np.int64)


def region_costs(X: Floats, cost: Floats) -> Floats:
    """The costs of all configs summed over each region of a few trees over X [N, F], the mean of the trees [R, C].

    A config that wins here and there inside regions helps no tree. One tree over few scenarios cuts by luck.
    """
    from sklearn.tree import DecisionTreeRegressor

    found = []
    for draw in range(DRAWS):
        leaf = min(REGION, len(X))
        tree = DecisionTreeRegressor(max_features=DRAWN, min_samples_leaf=leaf, random_state=draw).fit(
            X, cost
        )
        region = np.unique(tree.apply(X), return_inverse=True)[1]
        sums = np.zeros((int(region.max()) + 1, cost.shape[1]))
        np.add.at(sums, region, cost / DRAWS)
        found.append(sums)
    return np.vstack(found)
