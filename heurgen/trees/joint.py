"""The joint strategy: one partition, a config in every leaf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heurgen.trees.candidates import candidates
from heurgen.trees.configs import choose, region_costs
from heurgen.trees.grow import Memo, look_ahead, regression_tree, winner_tree
from heurgen.trees.node import Branch, Cut, Tip, Tree, best_tip, goes_left, real_cost
from heurgen.trees.problem import UNIT, Ints, Problem, between, priced, subset, with_configs
from heurgen.trees.refine import prune, refine, total, with_max_leaves

# Configs worth a look when the set is chosen: those that a tree without limits might use.
POOL = 24
# Up to this many scenarios the regions of a tree are too uncertain to choose configs by.
SMALL = 500
REGION_DEPTH = 5
# A tree of two levels is too small to spend one on coverage.
SETTLE_DEPTH = 3
SETTLE_CUTS = 4096
# Price of a leaf, as a total log-slowdown that it must save, before cross-validation chooses it: for 64
# scenarios; it grows with the square root of their number, as the sum of as many errors does.
PRICES = (0.01, 0.03, 0.1, 0.3, 1.0)
DEFAULT_PRICE = 0.03


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides a joint tree: `price` is one of PRICES."""

    max_configs: int
    price: float = DEFAULT_PRICE
    depth: int = 6
    max_leaves: int = 24


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A tree over a problem with the chosen configs."""

    p: Problem
    tree: Tree


def price_units(price: float, n_real: int) -> float:
    """A leaf's price in cost units."""
    return float(np.rint(price * UNIT * np.sqrt(n_real / 64)))


def config_set(p: Problem, count: int) -> Ints:
    """The configs to choose leaves from (indices into the problem's).

    Small logs: the best set among half as many again, which serve the log best: with more to choose from, single
    scenarios decide (held-out on the H200 log: 1.040, from all configs 1.048). Else of two sets the one whose
    tree is better.

    One serves the scenarios best, each with the best of the set. The other serves the regions best that a tree
    with a larger pool finds: a config that wins here and there inside regions helps no tree.
    """
    if p.n_real <= SMALL:
        pool = choose(p.cost, count + count // 2)
        return pool[choose(p.cost[:, pool], count)]
    best = choose(p.cost, count)
    if len(best) < count:
        return best
    pool = choose(p.cost, POOL)
    wide = with_configs(p, pool)
    place = np.argsort(np.argsort(wide.configs))
    price = price_units(DEFAULT_PRICE, p.n_real)
    leaf = leaf_of(wide, look_ahead(wide, np.arange(len(p.X)), REGION_DEPTH, price, {}))
    regional = pool[choose(region_costs(wide.cost, leaf)[:, place], count)]
    options = [best, regional]
    return options[int(np.argmin([_tree_cost(p, option) for option in options]))]


def _tree_cost(p: Problem, configs: Ints) -> float:
    """What a quickly grown tree with these configs costs."""
    own = with_configs(p, configs)
    rows, price = np.arange(len(p.X)), price_units(DEFAULT_PRICE, p.n_real)
    return total(own, rows, look_ahead(own, rows, REGION_DEPTH, price, {}), price)


def leaf_of(p: Problem, tree: Tree) -> Ints:
    """The number of the leaf of each row."""
    found = np.zeros(len(p.X), dtype=np.int64)
    count = 0

    def walk(node: Tree, rows: Ints) -> None:
        nonlocal count
        if isinstance(node, Tip):
            found[rows] = count
            count += 1
            return
        left = goes_left(p, rows, node.cut)
        walk(node.left, rows[left])
        walk(node.right, rows[~left])

    walk(tree, np.arange(len(p.X)))
    return found


def grow(p: Problem, depth: int, max_leaves: int, memos: dict[str, Memo], side: str = "") -> Tree:
    """The best of the refined starting trees, at the lowest price; `finish` prunes it.

    Where a cut settles coverage it is made first, alone: of a region bounded by it no launch of the other kind
    is a part, whatever its other features are. `memos` may be shared by fits of one problem at several depths.
    """
    cut = settling_cut(p) if depth >= SETTLE_DEPTH else None
    if cut is not None:
        left = goes_left(p, np.arange(len(p.X)), cut)
        return Branch(
            cut,
            grow(subset(p, left), depth - 1, max_leaves, memos, side + "L"),
            grow(subset(p, ~left), depth - 1, max_leaves, memos, side + "R"),
        )
    rows = np.arange(len(p.X))
    price = price_units(PRICES[0], p.n_real)
    p = priced(p)
    memo = memos.setdefault(side, {})
    starts = [look_ahead(p, rows, depth, price, memo)]
    scenarios = np.flatnonzero(p.real)
    starts += [make(p, scenarios, depth, 2 * max_leaves) for make in (regression_tree, winner_tree)]
    trees = [refine(p, start, depth, price, memo) for start in starts]
    costs = [total(p, rows, tree, price) for tree in trees]
    return trees[int(np.argmin(costs))]


def settling_cut(p: Problem) -> Cut | None:
    """A cut after which every config is covered on all scenarios of a side or on none: decode and prefill, say.

    None where there is none, or nothing to settle.
    """
    covered = p.covered[p.real]
    partial = covered.any(axis=0) & ~covered.all(axis=0)
    if not partial.any():
        return None
    covered = covered[:, partial]
    first = (covered == covered[0]).all(axis=1)
    if not (covered[~first] == covered[~first][0]).all():
        return None
    cuts, B = candidates(p, np.flatnonzero(p.real), SETTLE_CUTS)
    for cut, left in zip(cuts, B.T, strict=True):
        if np.array_equal(left > 0, first) or np.array_equal(left > 0, ~first):
            return cut
    return None


def finish(p: Problem, tree: Tree, price: float, max_leaves: int) -> Tree:
    """A grown tree pruned at a price per leaf, and to the most leaves allowed."""
    return with_max_leaves(p, _pruned(p, tree, price), max_leaves)


def _pruned(p: Problem, tree: Tree, price: float) -> Tree:
    if isinstance(tree, Branch) and tree.cut == settling_cut(p):
        left = goes_left(p, np.arange(len(p.X)), tree.cut)
        below, above = (
            _pruned(subset(p, left), tree.left, price),
            _pruned(subset(p, ~left), tree.right, price),
        )
        kept = Branch(tree.cut, below, above)
        return below if isinstance(below, Tip) and below == above else kept
    return prune(priced(p), tree, price)


def prepared(p: Problem, chosen: Ints) -> Problem:
    """The problem with a config set and points between added."""
    return between(with_configs(p, chosen))


def fit_joint(p: Problem, s: Settings) -> Fitted:
    """Fit, never worse on the scenarios than the best single config or than a smaller depth.

    Every depth up to the limit is fitted, and the deepest tree ships unless a shallower one has a lower
    training objective.
    """
    small = prepared(p, config_set(p, s.max_configs))
    price = price_units(s.price, p.n_real)
    best: Tree = best_tip(small, np.flatnonzero(small.real))
    memos: dict[str, Memo] = {}
    for depth in range(1, s.depth + 1):
        tree = finish(small, grow(small, depth, s.max_leaves, memos), price, s.max_leaves)
        if real_cost(small, tree) <= real_cost(small, best):
            best = tree
    return or_single(p, Fitted(small, best))


def or_single(p: Problem, fitted: Fitted) -> Fitted:
    """The fit, or the best single config of all where the chosen set misses it and loses to it."""
    rows = np.flatnonzero(p.real)
    single = best_tip(p, rows)
    if float(p.cost[rows, single.config].sum()) < real_cost(fitted.p, fitted.tree):
        only = with_configs(p, np.array([single.config]))
        return Fitted(only, best_tip(only, rows))
    return fitted
