"""The joint strategy: one partition, a config in every leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heurgen.trees import constants
from heurgen.trees.bins import binned
from heurgen.trees.chance import tried
from heurgen.trees.configs import choose, region_costs
from heurgen.trees.coverage import settling_cut
from heurgen.trees.crossed import crossed
from heurgen.trees.grow import grow
from heurgen.trees.guards import Limit, guarded, limits
from heurgen.trees.node import Branch, Cut, Tip, Tree, best_tip, goes_left, parted, real_cost
from heurgen.trees.points import between
from heurgen.trees.problem import (
    UNIT,
    Floats,
    Ints,
    Problem,
    priced,
    subset,
    tailed,
    with_configs,
    without_columns,
)
from heurgen.trees.refine import Weighed, move, prune, weighed, with_max_leaves
from heurgen.trees.regime import Regime

# A tree of two levels is too small to spend one on coverage.
SETTLE_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides a joint tree: `price` is one of `LEARNER.prices`, `tail` as in `FitOptions`.

    `by_rows`: the configs are chosen by what they do for single scenarios, not for the regions of a tree.
    `spare`: tests that guards may add to a path of `depth`.
    `spare_leaves`: leaves that guards may add to `max_leaves` where the problem is `careful`.
    `lightly`: points between are fewer and weigh less.
    `wary`: guards pay no more than the usual price of a leaf.
    `doubtful`: a leaf of a sparse table pays in full for doubt.
    `dense`: a sparse table's tree grows by the rules of others.
    `nameless`: no test asks for a category of few scenarios a value.
    """

    n_configs: int
    price: float
    depth: int
    max_leaves: int
    tail: float = 0.0
    by_rows: bool = False
    spare: int = 0
    spare_leaves: int = 0
    lightly: bool = False
    wary: bool = False
    doubtful: bool = False
    dense: bool = False
    nameless: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A tree over a problem with the chosen configs."""

    p: Problem
    tree: Tree


def price_units(price: float, n_real: int) -> float:
    """A leaf's price in cost units."""
    return float(np.rint(price * UNIT * np.sqrt(n_real / 64)))


# --- the configs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Configs to choose from (indices into the problem's), and their summed costs in the regions of a tree [R, C].

    A config that wins here and there inside regions helps no tree: sets are chosen by what they do for regions. Where
    a log is too small for its regions to be trusted, `rows` holds the scenarios' own costs as a second opinion.
    """

    configs: Ints
    costs: Floats
    rows: Floats | None

    def best(self, s: Settings) -> Ints:
        """The set of configs that serves the regions best, or the rows (indices into the problem's).

        By rows: the best among half as many again that serve the log best. With more to choose from, single
        scenarios decide.
        """
        if not s.by_rows or self.rows is None:
            return self.configs[choose(self.costs, s.n_configs)]
        wide = choose(self.rows, s.n_configs + s.n_configs // 2)
        return wide[choose(self.rows[:, wide], s.n_configs)]


def pool(p: Problem, r: Regime) -> Pool:
    c = constants.LEARNER
    own = with_configs(replace(p, sparse=r.sparse), choose(p.cost, c.pool, rounds=0))
    tree = _grown(own, c.region_depth, r.max_leaves)
    tree = prune(priced(own), weighed(priced(own), tree), price_units(c.price, p.n_real), r.max_leaves)
    place = {column: i for i, column in enumerate(p.configs.tolist())}
    order = np.array([place[column] for column in own.configs.tolist()])
    # Configs in the problem's order, so that ties go to the first.
    back = np.argsort(order)
    rows = p.cost if r.few else None
    return Pool(order[back], region_costs(own.cost, leaf_of(own, tree))[:, back], rows)


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
        below, above = parted(rows, left)
        walk(node.left, below)
        walk(node.right, above)

    walk(tree, np.arange(len(p.X)))
    return found


# --- the tree -----------------------------------------------------------------------------------------------


def prepared(p: Problem, chosen: Ints, r: Regime, s: Settings) -> Problem:
    """The problem with a config set, and points between where the log is small."""
    c, sparse = constants.LEARNER, r.sparse and not s.dense
    ruled = replace(p, sparse=sparse, careful=r.careful and not s.dense, doubtful=s.doubtful)
    own = with_configs(ruled, chosen)
    own = without_columns(own, r.crowded) if s.nameless else own
    if r.between or s.dense:
        near, weight = (c.light_neighbours, c.light_weight) if s.lightly else (c.neighbours, c.weight)
        own = between(own, near, weight, fading=r.few and not s.lightly)
    return crossed(own, r.crosses, r.moves) if r.moves else own


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A grown tree ready to be pruned at any price; `settled`: of both sides of a cut that settles coverage."""

    p: Problem
    tree: Weighed | None
    settled: tuple[Cut, Grown, Grown] | None = None


def grown(p: Problem, s: Settings) -> Grown:
    """The tree to prune.

    Where a cut settles coverage it is made first, alone: of a region bounded by it no launch of the other kind
    is a part, whatever its other features are, and no leaf pays for doubt about them.
    """
    cut = settling_cut(p) if s.depth >= SETTLE_DEPTH else None
    if cut is None:
        priced_ = tailed(priced(p), s.tail)
        return Grown(priced_, weighed(priced_, _grown(priced_, s.depth, s.max_leaves)))
    left = goes_left(p, np.arange(len(p.X)), cut)
    below = replace(s, depth=s.depth - 1)
    return Grown(p, None, (cut, grown(subset(p, left), below), grown(subset(p, ~left), below)))


def _grown(p: Problem, depth: int, max_leaves: int) -> Tree:
    c, bins, rows = constants.LEARNER, binned(p), np.arange(len(p.X))
    tree = grow(p, bins, depth, c.overgrowth * max_leaves)
    for _ in range(c.moves):
        tree = prune(p, weighed(p, tree), price_units(c.prices[0], p.n_real), max_leaves)
        tree = move(p, bins, rows, tree)
    return tree


def finish(p: Problem, g: Grown, s: Settings, known: list[Limit]) -> Tree:
    """A grown tree pruned at a price per leaf and to the most leaves allowed, with guards (`known`: limits of `p`)."""
    tree = _finished(g, price_units(s.price, p.n_real), s.max_leaves)
    tree = with_max_leaves(p, tree, s.max_leaves) if g.settled else tree
    price = price_units(min(s.price, constants.LEARNER.price) if s.wary else s.price, p.n_real)
    leaves = s.max_leaves + (s.spare_leaves if p.careful else 0)
    return tried(p, guarded(p, tree, known, price, s.depth + s.spare, leaves))


def _finished(g: Grown, units: float, max_leaves: int) -> Tree:
    if g.settled is None:
        assert g.tree is not None
        return prune(g.p, g.tree, units, max_leaves)
    cut, below, above = g.settled
    left, right = _finished(below, units, max_leaves), _finished(above, units, max_leaves)
    return left if isinstance(left, Tip) and left == right else Branch(cut, left, right)


def fit_joint(p: Problem, r: Regime, s: Settings) -> Fitted:
    """Fit, never worse on the scenarios than the best single config; nor than a smaller depth, where `r` says so.

    Every depth up to the limit is fitted then, and the deepest tree ships unless a shallower one has a lower
    training objective.
    """
    small = prepared(p, pool(p, r).best(s), r, s)
    best: Tree = best_tip(small, np.flatnonzero(small.real))
    known = limits(small)
    for depth in range(1 if r.every_depth else s.depth, s.depth + 1):
        at = replace(s, depth=depth)
        # Guards may fill the depth that a shallower tree leaves, as they do in cross-validation.
        tree = finish(small, grown(small, at), s if small.careful else at, known)
        if real_cost(small, tree) <= real_cost(small, best):
            best = tree
    return or_single(p, Fitted(small, best))


def or_single(p: Problem, fitted: Fitted) -> Fitted:
    """The fit with nothing in a leaf that was never measured there (see `chance.tried`); or the best single config of
    all where the chosen set misses it and loses to it.
    """
    fitted = Fitted(fitted.p, tried(fitted.p, fitted.tree))
    rows = np.flatnonzero(p.real)
    single = best_tip(p, rows)
    if float(p.cost[rows, single.config].sum()) < real_cost(fitted.p, fitted.tree):
        only = with_configs(p, np.array([single.config]))
        return Fitted(only, best_tip(only, rows))
    return fitted
