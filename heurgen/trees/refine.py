"""Refinement of a tree for slowdown: tests moved, subtrees solved again, leaves relabelled, branches pruned."""

from __future__ import annotations

import numpy as np

from heurgen.trees.grow import Memo, gap, look_ahead
from heurgen.trees.node import (
    Branch,
    Cut,
    Tip,
    Tree,
    best_tip,
    doubt,
    goes_left,
    height,
    n_leaves,
    row_costs,
    tips,
)
from heurgen.trees.problem import Bools, Floats, Ints, Problem

ROUNDS = 4


def refine(p: Problem, tree: Tree, depth: int, price: float, memo: Memo) -> Tree:
    """The tree after passes over its nodes, top down, until none lowers `cost + price * leaves`."""
    rows = np.arange(len(p.X))
    tree = relabel(p, rows, tree)
    best = total(p, rows, tree, price)
    for _ in range(ROUNDS):
        tree = _pass(p, rows, tree, depth, price, memo)
        now = total(p, rows, tree, price)
        if not now < best:
            break
        best = now
    return tree


def total(p: Problem, rows: Ints, tree: Tree, price: float) -> float:
    return float(row_costs(p, rows, tree).sum()) + doubt(p, tree) + price * n_leaves(tree)


def relabel(p: Problem, rows: Ints, tree: Tree) -> Tree:
    """Every leaf with the config that costs least there; a leaf without scenarios gives way to its sibling."""
    if isinstance(tree, Tip):
        return best_tip(p, rows)
    left = goes_left(p, rows, tree.cut)
    if not p.real[rows[left]].any():
        return relabel(p, rows, tree.right)
    if not p.real[rows[~left]].any():
        return relabel(p, rows, tree.left)
    cut = tree.cut if tree.cut.left else gap(p, rows, tree.cut.column, left)
    return Branch(cut, relabel(p, rows[left], tree.left), relabel(p, rows[~left], tree.right))


def _pass(p: Problem, rows: Ints, tree: Tree, depth: int, price: float, memo: Memo) -> Tree:
    options: list[Tree] = [tree]
    if isinstance(tree, Branch):
        options += [relabel(p, rows, child) for child in (tree.left, tree.right)]
        options.append(relabel(p, rows, Branch(_moved(p, rows, tree), tree.left, tree.right)))
    if depth > 0 and height(tree) <= 2:
        options.append(look_ahead(p, rows, min(depth, 2), price, memo))
    costs = [total(p, rows, option, price) for option in options]
    tree = options[int(np.argmin(costs))]
    if isinstance(tree, Tip):
        return tree
    left = goes_left(p, rows, tree.cut)
    return Branch(
        tree.cut,
        _pass(p, rows[left], tree.left, depth - 1, price, memo),
        _pass(p, rows[~left], tree.right, depth - 1, price, memo),
    )


# --- the best test above two given subtrees -----------------------------------------------------------------


def _moved(p: Problem, rows: Ints, tree: Branch) -> Cut:
    """The test that sends every row where it costs least, subtrees given; the present one on a tie."""
    gain = row_costs(p, rows, tree.left) - row_costs(p, rows, tree.right)
    best, found = float(gain[goes_left(p, rows, tree.cut)].sum()), tree.cut
    for column, description in enumerate(p.columns):
        x = p.X[rows, column]
        if description.type == "category":
            score, cut = _best_set(column, x.astype(np.int64), gain)
        else:
            score, cut = _best_gap(column, x, gain)
        if cut is not None and score < best:
            best, found = score, cut
    return found


def _best_gap(column: int, x: Floats, gain: Floats) -> tuple[float, Cut | None]:
    values, place = np.unique(x, return_inverse=True)
    if len(values) < 2:
        return 0.0, None
    below = np.cumsum(np.bincount(place.reshape(-1), weights=gain))[:-1]
    at = int(below.argmin())
    return float(below[at]), Cut(column, float(values[at]), float(values[at + 1]))


def _best_set(column: int, x: Ints, gain: Floats) -> tuple[float, Cut | None]:
    values, place = np.unique(x, return_inverse=True)
    sums = np.bincount(place.reshape(-1), weights=gain)
    left = sums < 0
    if left.all() or not left.any():
        return 0.0, None
    return float(sums[left].sum()), Cut(column, left=tuple(values[left].tolist()))


# --- pruning ------------------------------------------------------------------------------------------------


def prune(p: Problem, tree: Tree, price: float) -> Tree:
    """The best subtree at `price` per leaf, without splits that only leads within the noise pay for."""
    return _prune(p, np.arange(len(p.X)), tree, price)[0]


def _prune(p: Problem, rows: Ints, tree: Tree, price: float) -> tuple[Tree, Floats, int]:
    """The pruned tree, the cost of each of the rows in it, and its number of leaves."""
    tip = best_tip(p, rows)
    alone = p.cost[rows, tip.config]
    if isinstance(tree, Tip):
        return tip, alone, 1
    left = goes_left(p, rows, tree.cut)
    below, cost_below, n_below = _prune(p, rows[left], tree.left, price)
    above, cost_above, n_above = _prune(p, rows[~left], tree.right, price)
    costs = np.empty(len(rows))
    costs[left], costs[~left] = cost_below, cost_above
    n = n_below + n_above
    if below == above and isinstance(below, Tip):
        return tip, alone, 1
    kept = Branch(tree.cut, below, above)
    gain = float((alone - costs).sum()) + doubt(p, tip) - doubt(p, kept)
    if gain > price * (n - 1) and beyond_noise(p, rows, alone, costs):
        return kept, costs, n
    return tip, alone, 1


def beyond_noise(p: Problem, rows: Ints, before: Floats, after: Floats) -> bool:
    """Whether leads larger than the noise of their scenario, taken alone, speak for the change."""
    lead = before - after
    carried: Bools = p.real[rows] & (np.abs(lead) > p.noise[rows])
    return float(lead[carried].sum()) > 0


def with_max_leaves(p: Problem, tree: Tree, max_leaves: int) -> Tree:
    """Weakest-link pruning (Breiman et al. 1984, 3.3) down to at most `max_leaves` leaves."""
    rows = np.arange(len(p.X))
    while n_leaves(tree) > max_leaves:
        tree = _without(tree, _weakest(p, rows, tree)[1], p, rows)
    return tree


def _weakest(p: Problem, rows: Ints, tree: Tree, path: str = "") -> tuple[float, str]:
    """The branch whose leaves save least, per leaf, over one leaf in its place; as a path of L and R."""
    if isinstance(tree, Tip):
        return np.inf, path
    left = goes_left(p, rows, tree.cut)
    alone = float(p.cost[rows].sum(axis=0).min())
    own = (alone - float(row_costs(p, rows, tree).sum())) / (n_leaves(tree) - 1), path
    below = _weakest(p, rows[left], tree.left, path + "L")
    above = _weakest(p, rows[~left], tree.right, path + "R")
    return min(own, below, above, key=lambda found: (found[0], len(found[1]), found[1]))


def _without(tree: Tree, path: str, p: Problem, rows: Ints) -> Tree:
    if not path or isinstance(tree, Tip):
        return best_tip(p, rows)
    left = goes_left(p, rows, tree.cut)
    if path[0] == "L":
        return Branch(tree.cut, _without(tree.left, path[1:], p, rows[left]), tree.right)
    return Branch(tree.cut, tree.left, _without(tree.right, path[1:], p, rows[~left]))


def used(tree: Tree) -> list[int]:
    return sorted({tip.config for tip in tips(tree)})
