"""A fitted tree -> IR: round thresholds, on the safe side where configs are not covered beyond them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from heurgen.ir import Leaf, Membership, Node, Selector, Split
from heurgen.ir.passes import roundest
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import constants
from heurgen.trees.node import Cut, Tip, Tree, goes_left, parted
from heurgen.trees.problem import UNIT, Bools, Floats, Ints, Problem, config_order


def to_ir(p: Problem, tree: Tree, among: Sequence[int], table: CostTable | None = None) -> Node:
    """The tree as IR, with the table's config columns in its leaves; `among`: the problem's configs that an unknown
    category may get. `table`: leaves say its evidence, and where none of `among` is safe, one of all its configs is.
    """
    return _node(p, _part(p, np.arange(len(p.X)), tree), among, table, {})


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A subtree with its rows and which of them go left; `configs` has a bit for each config that it ships, `covered`
    one for each config that is covered on all its scenarios, `somewhere` on any.
    """

    rows: Ints
    tree: Tree
    configs: int
    covered: int
    somewhere: int
    goes_left: Bools
    sides: tuple[_Part, ...] = ()


def _part(p: Problem, rows: Ints, tree: Tree) -> _Part:
    if isinstance(tree, Tip):
        covered = p.covered.take(rows[p.real[rows]], axis=0)
        always, somewhere = np.asarray(covered.all(axis=0)), np.asarray(covered.any(axis=0))
        every = np.ones(len(rows), dtype=bool)
        return _Part(rows, tree, 1 << tree.config, _bits(always), _bits(somewhere), every)
    left = goes_left(p, rows, tree.cut)
    within, beyond = parted(rows, left)
    below, above = _part(p, within, tree.left), _part(p, beyond, tree.right)
    configs, reached = below.configs | above.configs, below.somewhere | above.somewhere
    return _Part(rows, tree, configs, below.covered & above.covered, reached, left, (below, above))


def _bits(configs: Bools) -> int:
    return int.from_bytes(np.packbits(configs, bitorder="little").tobytes(), "little")


def _node(
    p: Problem, part: _Part, among: Sequence[int], table: CostTable | None, arriving: Mapping[int, Set[int]]
) -> Node:
    """arriving: which categories come here, of each column that was tested on the way: no unknown one does."""
    rows, tree = part.rows, part.tree
    if isinstance(tree, Tip):
        return _leaf(p, rows, tree, table)
    number = tree.cut.column
    column = p.columns[number]
    if column.type != "category":
        below, above = (_node(p, side, among, table, arriving) for side in part.sides)
        return Split(column.name, _threshold(p, part, tree.cut), below, above)
    came = set(np.unique(p.X[rows, number]).astype(np.int64).tolist())
    chosen = set(tree.cut.left) & came or set(tree.cut.left)  # of a guard none came
    present = sorted(came | chosen)
    rest = set(present) - chosen
    below, above = (
        _node(p, side, among, table, {**arriving, number: of})
        for side, of in zip(part.sides, (chosen, rest), strict=True)
    )
    values = tuple(column.values[i] for i in present if i in chosen)
    others = tuple(column.values[i] for i in present if i in rest)
    if number not in arriving or not arriving[number] <= set(present):
        safe = Leaf(_safest(p, rows, number, among, table))
        if isinstance(below, Leaf) and below.config == safe.config:
            return Membership(column.name, values, others, True, below, above)
        if not (isinstance(above, Leaf) and above.config == safe.config):
            above = Membership(column.name, others, values, False, above, safe)
    return Membership(column.name, values, others, False, below, above)


def _safest(p: Problem, rows: Ints, column: int, among: Sequence[int], table: CostTable | None) -> int:
    """The config for a category that training never saw: of `among`, one that covers these rows in every category.

    Else, of all in the table, the fastest that succeeded in all of them: kernels that are written for a category each
    leave such launches to a generic one, which wins nowhere. Else one of `among` that fails in fewest categories, then
    scenarios; of equals the one that costs least.
    """
    real = rows[p.real[rows]]
    columns = np.array(among, dtype=np.int64)
    failed = ~p.covered[np.ix_(real, columns)]
    kinds = np.unique(p.X[real, column], return_inverse=True)[1].reshape(-1)
    bad = np.array([len(np.unique(kinds[f])) for f in failed.T])
    cost = np.minimum(p.cost[np.ix_(real, columns)], constants.LEARNER.uncovered * UNIT).sum(axis=0)
    best = int(np.lexsort((np.arange(len(among)), cost, failed.sum(axis=0), bad))[0])
    generic = _generic(table, p.index[real]) if table is not None and bad[best] else None
    return int(p.configs[among[best]]) if generic is None else generic


def _generic(table: CostTable, rows: Ints) -> int | None:
    """The fastest of the table's configs that succeeded in all of these rows; None where none did."""
    able = [c for c in config_order(table) if np.isfinite(table.log_slowdown[rows, c]).all()]
    return min(able, key=lambda c: math.fsum(table.log_slowdown[rows, c].tolist()), default=None)


def _leaf(p: Problem, rows: Ints, tip: Tip, table: CostTable | None) -> Leaf:
    index, config = p.index[rows[p.real[rows]]], int(p.configs[tip.config])
    if table is None or not len(index):
        return Leaf(config)
    slowdown, n_ok = evidence(table, index, config)
    return Leaf(config, len(index), slowdown, n_ok)


def evidence(table: CostTable, rows: Ints, column: int) -> tuple[float | None, int | None]:
    """The geometric mean slowdown of a config (a column of the table) over the rows that it succeeded in, and how many
    those are; (None, None) where costs are unknown.
    """
    if not table.costs_known:
        return None, None
    logs = table.log_slowdown[rows, column]
    known = sorted(logs[np.isfinite(logs)].tolist())
    return (math.exp(math.fsum(known) / len(known)) if known else None), len(known)


# --- thresholds ---------------------------------------------------------------------------------------------


def _threshold(p: Problem, part: _Part, cut: Cut) -> int | float:
    """The threshold of a number test.

    The roundest number between the rows on either side. Where one side ships a config that was not covered on
    the other side's scenarios, the gap goes to the other side: nobody measured there that it works. Where both
    do, the side whose scenarios all have one value (decode: one query token) keeps that value alone. Before that, where
    the problem is `careful`: the side that ships a config which was covered on none of the other's scenarios.
    """
    column, left = p.columns[cut.column], part.goes_left
    x, real = p.X[:, cut.column][part.rows], p.real[part.rows]
    here, there = x.compress(left & real), x.compress(~left & real)
    # A guard has no scenario on one side: its configs were never seen to work there.
    if not len(there):
        return _typed(column, cut.low)
    if not len(here):
        return _just_below(column, cut.low, cut.high)
    below, above = part.sides
    tight_left, tight_right = bool(below.configs & ~above.covered), bool(above.configs & ~below.covered)
    if tight_left and tight_right and p.careful:
        nowhere_right, nowhere_left = below.configs & ~above.somewhere, above.configs & ~below.somewhere
        if bool(nowhere_right) != bool(nowhere_left):
            tight_left, tight_right = bool(nowhere_right), bool(nowhere_left)
    if tight_left and tight_right:
        tight_left = bool(here.min() == here.max())
        tight_right = bool(there.min() == there.max()) and not tight_left
    if tight_left:
        return _typed(column, float(here.max()))
    if tight_right:
        high = float(there.min())
        low = cut.low if high - cut.low > MEETS * abs(high) else float(here.max())
        return _just_below(column, low, high)
    high = min(cut.high, float(x.compress(~left).min()))
    return between_values(column, *_widened(cut.low, high, float(here.max()), float(there.min())))


# A point this near to a scenario's size meets it (see `points.between`): no threshold between the two can be read.
MEETS = 2.0**-38
# Points between scenarios place a threshold only so exactly: a rounder number this near is as good.
ROOM = 1.15


def _widened(low: float, high: float, real_low: float, real_high: float) -> tuple[float, float]:
    """The gap between two points, widened by ROOM within the gap between the scenarios on either side."""
    wide = sorted((low / ROOM, low * ROOM))[0], sorted((high / ROOM, high * ROOM))[1]
    return max(real_low, wide[0]), min(real_high, wide[1])


def between_values(column: TableColumn, low: float, high: float) -> int | float:
    """The roundest threshold in the gap; a gap between whole numbers that holds none goes to the lower one."""
    if column.type == "float":
        return _roundest(low + 0.0, high + 0.0, "float")
    whole_low, whole_high = math.floor(low), math.ceil(high)
    return _roundest(whole_low, max(whole_high, whole_low + 1), column.type)


# Trees of one cross-validation share most of their gaps.
_roundest = lru_cache(maxsize=2**14, typed=True)(roundest)


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
    code = [{v: at for at, v in enumerate(c.values)} for c in columns]
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
            left = np.isin(x, [code[i][v] for v in named]) ^ node.unknown_left
        within, beyond = parted(rows, left)
        walk(node.left, within)
        walk(node.right, beyond)

    walk(tree, np.arange(len(X)))
    return found


def choices(selector: Selector, table: CostTable, rows: Ints) -> Ints:
    """The table's config column that a selector chooses for each of the rows; -1 where the table lacks it."""
    order = [selector.parameters.index(name) for name in table.parameters]
    number = {config: i for i, config in enumerate(table.configs)}
    column = np.array([number.get(tuple(c[i] for i in order), -1) for c in selector.configs], dtype=np.int64)
    return column[route(selector.tree, table.columns, table.X[rows])]
