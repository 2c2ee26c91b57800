"""The joint strategy: one partition, a config in every leaf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heurgen.trees.configs import choose
from heurgen.trees.grow import look_ahead, regression_tree, settled, winner_tree
from heurgen.trees.node import Tree, best_tip, real_cost
from heurgen.trees.problem import UNIT, Ints, Problem, between, with_configs
from heurgen.trees.refine import prune, refine, total, with_max_leaves

# Configs worth a look when the set is chosen: those that a tree without limits might use.
POOL = 24
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
    """The configs to choose leaves from: those that serve the regions of an unlimited regression tree best.

    A config that wins here and there inside regions helps no tree; summing costs per region first lets only
    those count that a tree can tell apart.
    """
    pool = choose(p.cost, POOL)
    return pool if len(pool) <= count else pool[choose(p.cost[:, pool], count)]


def grow(p: Problem, depth: int, max_leaves: int) -> Tree:
    """The best of the refined starting trees, grown at the lowest price; `finish` prunes it."""
    rows = np.arange(len(p.X))
    price = price_units(PRICES[0], p.n_real)
    starts = [look_ahead(p, rows, depth, price)]
    starts += [settled(p, rows, depth, 2 * max_leaves, make) for make in (regression_tree, winner_tree)]
    trees = [refine(p, start, depth, price) for start in starts]
    costs = [total(p, rows, tree, price) for tree in trees]
    return trees[int(np.argmin(costs))]


def finish(p: Problem, tree: Tree, price: float, max_leaves: int) -> Tree:
    return with_max_leaves(p, prune(p, tree, price), max_leaves)


def prepared(p: Problem, max_configs: int) -> Problem:
    """The problem with its config set chosen and points between added."""
    return between(with_configs(p, config_set(p, max_configs)))


def fit_joint(p: Problem, s: Settings) -> Fitted:
    """Fit, never worse on the scenarios than the best single config or than a smaller depth.

    Every depth up to the limit is fitted, and the deepest tree ships unless a shallower one has a lower
    training objective.
    """
    small = prepared(p, s.max_configs)
    price = price_units(s.price, p.n_real)
    best: Tree = best_tip(small, np.flatnonzero(small.real))
    for depth in range(1, s.depth + 1):
        tree = finish(small, grow(small, depth, s.max_leaves), price, s.max_leaves)
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

