"""A fitted tree -> IR: round thresholds, on the safe side where configs are not covered beyond them."""

from __future__ import annotations

import math

import numpy as np

from heurgen.costs import CostTable, TableColumn
from heurgen.ir import Leaf, Membership, Node, Selector, Split
from heurgen.passes import roundest
from heurgen.trees.node import Branch, Tip, Tree, goes_left, tips
from heurgen.trees.problem import Bools, Floats, Ints, Problem


def to_ir(p: Problem, tree: Tree, numbers: dict[int, int], table: CostTable) -> Node:
    """The tree as IR; `numbers` maps the problem's config index to the selector's."""
    return _node(p, np.arange(len(p.X)), tree, numbers, table)


def _node(p: Problem, rows: Ints, tree: Tree, numbers: dict[int, int], table: CostTable) -> Node:
    if isinstance(tree, Tip):
        return _leaf(p, rows, tree, numbers, table)
    left = goes_left(p, rows, tree.cut)
    below = _node(p, rows[left], tree.left, numbers, table)
    above = _node(p, rows[~left], tree.right, numbers, table)
    column = p.columns[tree.cut.column]
    if column.type != "category":
        return Split(column.name, threshold(p, rows, tree), below, above)
    present = np.unique(p.X[rows, tree.cut.column]).astype(np.int64).tolist()
    values = tuple(column.values[i] for i in present if i in tree.cut.left)
    others = tuple(column.values[i] for i in present if i not in tree.cut.left)
    real = p.real[rows]
    unknown_left = bool(real[left].sum() > real[~left].sum())
    return Membership(column.name, values, others, unknown_left, below, above)


def _leaf(p: Problem, rows: Ints, tip: Tip, numbers: dict[int, int], table: CostTable) -> Leaf:
    index = p.index[rows[p.real[rows]]]
    slowdown = None
    if table.costs_known:
        logs = table.log_slowdown[index, p.configs[tip.config]]
        known = sorted(logs[np.isfinite(logs)].tolist())
        slowdown = math.exp(math.fsum(known) / len(known)) if known else None
    return Leaf(numbers[tip.config], len(index), slowdown)


# --- thresholds ---------------------------------------------------------------------------------------------


def threshold(p: Problem, rows: Ints, tree: Branch) -> int | float:
    """The threshold of a number test.

    The roundest number between the rows on either side. Where one side ships a config that was not covered on
    the other side's scenarios, the gap goes to the other side: nobody measured there that it works. Where both
    do, the side whose scenarios all have one value (decode: one query token) keeps that value alone.
    """
    column = p.columns[tree.cut.column]
    left = goes_left(p, rows, tree.cut)
    x, real = p.X[rows, tree.cut.column], p.real[rows]
    tight_left = _exclusive(p, rows[~left], tree.left)
    tight_right = _exclusive(p, rows[left], tree.right)
    if tight_left and tight_right:
        single_left = len(np.unique(x[left & real])) == 1
        single_right = len(np.unique(x[~left & real])) == 1
        tight_left, tight_right = single_left, single_right and not single_left
    low, high = tree.cut.low, min(tree.cut.high, float(x[~left].min()))
    if tight_left:
        return _typed(column, float(x[left & real].max()))
    if tight_right:
        return _just_below(column, low, float(x[~left & real].min()))
    return between_values(
        column, *_widened(low, high, float(x[left & real].max()), float(x[~left & real].min()))
    )


# Points between scenarios place a threshold only so exactly: a rounder number this near is as good.
ROOM = 1.15


def _widened(low: float, high: float, real_low: float, real_high: float) -> tuple[float, float]:
    """The gap between two points, widened by ROOM within the gap between the scenarios on either side."""
    wide = sorted((low / ROOM, low * ROOM))[0], sorted((high / ROOM, high * ROOM))[1]
    return max(real_low, wide[0]), min(real_high, wide[1])


def between_values(column: TableColumn, low: float, high: float) -> int | float:
    """The roundest threshold in the gap; a gap between whole numbers that holds none goes to the lower one."""
    if column.type == "float":
        return roundest(low, high, "float")
    whole_low, whole_high = math.floor(low), math.ceil(high)
    return roundest(whole_low, max(whole_high, whole_low + 1), column.type)


def _exclusive(p: Problem, others: Ints, tree: Tree) -> bool:
    """Whether the tree ships a config that some scenario among `others` does not cover."""
    configs = np.array(sorted({tip.config for tip in tips(tree)}), dtype=np.int64)
    covered: Bools = p.covered[np.ix_(others[p.real[others]], configs)]
    return not bool(covered.all())


def _typed(column: TableColumn, value: float) -> int | float:
    return value if column.type == "float" else int(value)


def _just_below(column: TableColumn, low: float, high: float) -> int | float:
    """The threshold next to `high`: the integer before it, or a round float within a thousandth of the gap."""
    if column.type != "float":
        return 0 if column.type == "bool" else math.ceil(high) - 1
    near = max(low, high - (high - low) / 1000)
    return roundest(near if near < high else low, high, "float")


# --- answers ------------------------------------------------------------------------------------------------


def route(tree: Node, columns: tuple[TableColumn, ...], X: Floats) -> Ints:
    """The config index that a tree gives for each row of X [N, F] (columns as in a cost table)."""
    place = {c.name: i for i, c in enumerate(columns)}
    found = np.empty(len(X), dtype=np.int64)

    def walk(node: Node, rows: Ints) -> None:
        if isinstance(node, Leaf):
            found[rows] = node.config
            return
        i = place[node.feature]
        x = X[rows, i]
        if isinstance(node, Split):
            left: Bools = x <= node.threshold
        else:
            named = node.others if node.unknown_left else node.values
            left = np.isin(x, [columns[i].values.index(v) for v in named]) ^ node.unknown_left
        walk(node.left, rows[left])
        walk(node.right, rows[~left])

    walk(tree, np.arange(len(X)))
    return found


def choices(selector: Selector, table: CostTable, rows: Ints) -> Ints:
    """The table's config column that a selector chooses for each of the rows; -1 where the table lacks it."""
    order = [selector.parameters.index(name) for name in table.parameters]
    number = {config: i for i, config in enumerate(table.configs)}
    column = np.array([number.get(tuple(c[i] for i in order), -1) for c in selector.configs], dtype=np.int64)
    return column[route(selector.tree, table.columns, table.X[rows])]
