"""The tree while it is fitted: tests are gaps between training values, not yet thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from heurgen.trees.problem import Bools, Floats, Ints, Problem


@dataclass(frozen=True, slots=True)
class Cut:
    """`x <= low` goes left; `high` is the next value of the node's rows. Categories: the codes in `left`."""

    column: int
    low: float = 0.0
    high: float = 0.0
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tip:
    config: int


@dataclass(frozen=True, slots=True)
class Branch:
    cut: Cut
    left: Tree
    right: Tree


Tree: TypeAlias = Branch | Tip


def goes_left(p: Problem, rows: Ints, cut: Cut) -> Bools:
    x = p.X[:, cut.column][rows]
    if p.columns[cut.column].type == "category":
        goes = np.zeros(int(x.max(initial=0)) + 1, dtype=bool)
        codes = np.array(cut.left, dtype=np.int64)
        goes[codes[codes < len(goes)]] = True
        found: Bools = goes[x.astype(np.int64)]
        return found
    return np.asarray(x <= cut.low)


def parted(rows: Ints, left: Bools) -> tuple[Ints, Ints]:
    """The rows that go left, and the others. A mask as an index takes three times as long, where neighbours part."""
    return rows.compress(left), rows.compress(~left)


def assign(p: Problem, rows: Ints, tree: Tree) -> Ints:
    """The config (index into the problem's) that each row ends in."""
    found = np.empty(len(rows), dtype=np.int64)

    def walk(rows: Ints, places: Ints, tree: Tree) -> None:
        while not isinstance(tree, Tip):
            left = goes_left(p, rows, tree.cut)
            (below, rows), (within, places) = parted(rows, left), parted(places, left)
            walk(below, within, tree.left)
            tree = tree.right
        found[places] = tree.config

    walk(rows, np.arange(len(rows)), tree)
    return found


def row_costs(p: Problem, rows: Ints, tree: Tree) -> Floats:
    return p.cost[rows, assign(p, rows, tree)]


def real_cost(p: Problem, tree: Tree) -> float:
    """The training objective: the summed cost of the scenarios alone."""
    rows = np.flatnonzero(p.real)
    return float(row_costs(p, rows, tree).sum())


def best_tip(p: Problem, rows: Ints) -> Tip:
    return Tip(int((p.cost.take(rows, axis=0).sum(axis=0) + p.leaf_price).argmin()))


def tips(tree: Tree) -> Iterator[Tip]:
    """Left to right."""
    waiting: list[Tree] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Tip):
            yield node
        else:
            waiting += (node.right, node.left)


def doubt(p: Problem, tree: Tree) -> float:
    """What the leaves pay for their configs' coverage."""
    return float(sum(p.leaf_price[tip.config] for tip in tips(tree)))


def n_leaves(tree: Tree) -> int:
    return sum(1 for _ in tips(tree))


def height(tree: Tree) -> int:
    return 0 if isinstance(tree, Tip) else 1 + max(height(tree.left), height(tree.right))
