"""Starting trees: scikit-learn's, and our own with two levels of look-ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from heurgen.trees.candidates import candidates
from heurgen.trees.depth2 import pair_costs, stump_costs
from heurgen.trees.node import Branch, Cut, Tip, Tree, best_tip, n_leaves, row_costs
from heurgen.trees.problem import Bools, Floats, Ints, Problem


# A tree of two levels is too small to spend one on coverage.
SETTLE_DEPTH = 3


def look_ahead(p: Problem, rows: Ints, depth: int, price: float) -> Tree:
    """Grown top down; each test is the root of the best tree of depth 2 below it. `price` per leaf."""
    tip = best_tip(p, rows)
    if depth == 0 or p.real[rows].sum() < 2:
        return tip
    cuts, B = candidates(p, rows)
    if not cuts:
        return tip
    score = stump_costs if depth == 1 else pair_costs
    costs = score(B, p.cost[rows], p.real[rows], price)
    clean = clean_cuts(p, rows, B)
    if depth >= SETTLE_DEPTH and clean.any():
        costs[~clean] = np.inf
    best = int(costs.argmin())
    alone = float(p.cost[rows, tip.config].sum())
    if not costs[best] < alone + price:
        return tip
    left = B[:, best] > 0
    tree = Branch(
        cuts[best],
        look_ahead(p, rows[left], depth - 1, price),
        look_ahead(p, rows[~left], depth - 1, price),
    )
    grown = float(row_costs(p, rows, tree).sum()) + n_leaves(tree) * price
    return tree if grown < alone + price else tip


def clean_cuts(p: Problem, rows: Ints, B: Floats) -> Bools:
    """Which cuts settle coverage: configs covered on a part of the scenarios are all or none on either side [Q].

    Such a cut tells kinds of launches apart (decode and prefill). It is made first, alone: a region bounded by
    it contains no launch of the other kind, whatever its other features are.
    """
    covered = p.covered[rows][p.real[rows]]
    partial = np.flatnonzero(covered.any(axis=0) & ~covered.all(axis=0))
    if not len(partial):
        return np.zeros(B.shape[1], dtype=bool)
    left = B[p.real[rows]]
    n_left, n = left.sum(axis=0), len(left)
    found: Bools = np.ones(B.shape[1], dtype=bool)
    for c in partial.tolist():
        both = left.T @ covered[:, c].astype(np.float64)
        rest = covered[:, c].sum() - both
        found &= ((both == 0) | (both == n_left)) & ((rest == 0) | (rest == n - n_left))
    return found


Maker: TypeAlias = Callable[[Problem, Ints, int, int], Tree]


def settled(p: Problem, rows: Ints, depth: int, max_leaves: int, make: Maker) -> Tree:
    """The cuts that settle coverage, and below them the trees that `make` gives on the scenarios."""
    cuts, B = candidates(p, rows)
    clean = np.flatnonzero(clean_cuts(p, rows, B)) if depth >= SETTLE_DEPTH and cuts else []
    if not len(clean):
        return make(p, rows[p.real[rows]], depth, max_leaves)
    left = B[:, clean[0]] > 0
    return Branch(
        cuts[clean[0]],
        settled(p, rows[left], depth - 1, max_leaves, make),
        settled(p, rows[~left], depth - 1, max_leaves, make),
    )


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

    if depth == 0:
        return best_tip(p, rows)
    X, meaning = encode(p, rows)
    estimator = DecisionTreeRegressor(
        max_depth=depth, max_leaf_nodes=max(max_leaves, 2), random_state=0, min_samples_leaf=1
    ).fit(X, np.minimum(p.cost[rows], 4 * np.median(p.cost[rows]) + 1))
    return from_estimator(p, rows, estimator, X, meaning)


def winner_tree(p: Problem, rows: Ints, depth: int, max_leaves: int) -> Tree:
    """scikit-learn's classification of the winner, weighted by what a wrong choice costs on average."""
    from sklearn.tree import DecisionTreeClassifier

    cost = p.cost[rows]
    regret = cost.mean(axis=1) - cost.min(axis=1)
    if depth == 0 or not regret.any():
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
        return Branch(cut, build(arrays.children_left[node], below), build(arrays.children_right[node], above))

    return build(0, np.arange(len(rows)))


def gap(p: Problem, rows: Ints, column: int, left: Bools) -> Cut:
    """The cut of a number column between the rows that go left and the others."""
    x = p.X[rows, column]
    return Cut(column, float(x[left].max()), float(x[~left].min()))
