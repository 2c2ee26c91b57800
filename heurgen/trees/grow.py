"""Starting trees: scikit-learn's, and our own with two levels of look-ahead."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from heurgen.trees.candidates import candidates
from heurgen.trees.depth2 import pair_costs, stump_costs
from heurgen.trees.node import Branch, Cut, Tip, Tree, best_tip, doubt, n_leaves, row_costs
from heurgen.trees.problem import UNIT, Bools, Floats, Ints, Problem

Score: TypeAlias = Callable[[Floats, Floats, Bools, float, Floats], Floats]
# The best cut found for a set of rows, None where there is none: the same rows are met at many depths.
Memo: TypeAlias = dict[tuple[bytes, bool], "tuple[Cut, Bools, float] | None"]


def look_ahead(p: Problem, rows: Ints, depth: int, price: float, memo: Memo) -> Tree:
    """Grown top down; each test is the root of the best tree of depth 2 below it. `price` per leaf.

    `memo` belongs to this problem and price.
    """
    tip = best_tip(p, rows)
    if depth == 0 or p.real[rows].sum() < 2:
        return tip
    key = hashlib.blake2b(rows.tobytes(), digest_size=16).digest(), depth == 1
    if key not in memo:
        memo[key] = _best_cut(p, rows, stump_costs if depth == 1 else pair_costs, price)
    found = memo[key]
    alone = float(p.cost[rows, tip.config].sum()) + doubt(p, tip)
    if found is None or not found[2] < alone + price:
        return tip
    cut, left, _ = found
    tree = Branch(
        cut,
        look_ahead(p, rows[left], depth - 1, price, memo),
        look_ahead(p, rows[~left], depth - 1, price, memo),
    )
    grown = float(row_costs(p, rows, tree).sum()) + doubt(p, tree) + n_leaves(tree) * price
    return tree if grown < alone + price else tip


def _best_cut(p: Problem, rows: Ints, score: Score, price: float) -> tuple[Cut, Bools, float] | None:
    cuts, B = candidates(p, rows)
    if not cuts:
        return None
    costs = score(B, p.cost[rows], p.real[rows], price, p.leaf_price)
    best = int(costs.argmin())
    return cuts[best], B[:, best] > 0, float(costs[best])


# --- scikit-learn -------------------------------------------------------------------------------------------


def encode(p: Problem, rows: Ints) -> tuple[Floats, list[Cut]]:
    """Columns for scikit-learn, and what `column <= 0.5 + k` means for each (a Cut with the k-th gap).

    Numbers become their dense rank, which float32 holds exactly; categories one column each.
    """
    blocks, meaning = [], []
    for column, description in enumerate(p.columns):
        x = p.X[rows, column]
        values, rank = np.unique(x, return_inverse=True)
        if description.type == "category":
            for v in values.astype(np.int64).tolist():
                blocks.append((x != v).astype(np.float64))
                meaning.append(Cut(column, left=(v,)))
        else:
            blocks.append(rank.reshape(-1).astype(np.float64))
            meaning.append(Cut(column))
    return np.column_stack(blocks), meaning


def regression_tree(p: Problem, rows: Ints, depth: int, max_leaves: int) -> Tree:
    """scikit-learn's multi-output regression of the costs: variance of every config's cost falls."""
    from sklearn.tree import DecisionTreeRegressor

    X, meaning = encode(p, rows)
    estimator = DecisionTreeRegressor(
        max_depth=depth, max_leaf_nodes=max(max_leaves, 2), random_state=0, min_samples_leaf=1
    ).fit(X, capped(p.cost[rows]))
    return from_estimator(p, rows, estimator, X, meaning)


def capped(cost: Floats) -> Floats:
    """Costs for least squares: beyond e^2 = 7.4x, and unmeasured, all are equally bad."""
    return np.minimum(cost / UNIT, 2.0)


def winner_tree(p: Problem, rows: Ints, depth: int, max_leaves: int) -> Tree:
    """scikit-learn's classification of the winner, weighted by what a wrong choice costs on average."""
    from sklearn.tree import DecisionTreeClassifier

    cost = p.cost[rows]
    regret = cost.mean(axis=1) - cost.min(axis=1)
    if not regret.any():
        return best_tip(p, rows)
    X, meaning = encode(p, rows)
    estimator = DecisionTreeClassifier(
        criterion="entropy", max_depth=depth, max_leaf_nodes=max(max_leaves, 2), random_state=0
    ).fit(X, cost.argmin(axis=1), sample_weight=regret / regret.mean())
    return from_estimator(p, rows, estimator, X, meaning)


def from_estimator(
    p: Problem,
    rows: Ints,
    estimator: Any,
    X: Floats,
    meaning: list[Cut],
    label: Callable[[Ints, int], int] | None = None,
) -> Tree:
    """A fitted sklearn tree over `encode`d rows.

    A leaf is labelled with the config that costs least there, or with `label(rows, sklearn node)`.
    """
    arrays = estimator.tree_

    def build(node: int, own: Ints) -> Tree:
        if arrays.children_left[node] == -1:
            return Tip(label(rows[own], node)) if label else best_tip(p, rows[own])
        cut = meaning[arrays.feature[node]]
        left: Bools = X[own, arrays.feature[node]] <= arrays.threshold[node]
        below, above = own[left], own[~left]
        if not cut.left:
            cut = gap(p, rows[own], cut.column, left)
        return Branch(
            cut, build(arrays.children_left[node], below), build(arrays.children_right[node], above)
        )

    return build(0, np.arange(len(rows)))


def gap(p: Problem, rows: Ints, column: int, left: Bools) -> Cut:
    """The cut of a number column between the rows that go left and the others."""
    x = p.X[rows, column]
    return Cut(column, float(x[left].max()), float(x[~left].min()))
