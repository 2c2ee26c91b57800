"""What a leaf would ship next, and what a tuner that tries few configs should try there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from heurgen import ir
from heurgen.logs.costs import CostTable
from heurgen.trees.build import route
from heurgen.trees.problem import UNIT, Floats, Ints, config_order

# Leaves are small, so scenarios on the other side of the last test before a leaf count for its shortlist too, so much.
# On the H200 log the best of 3 is 1.0092 held out with 0.02 to 0.05, 1.0111 with 0.15, 1.0132 with 0.3.
NEARBY = 0.05
# Beyond this log-slowdown, 1.35x, or where it did not succeed, a config is of no use to a tuner that tries others too.
USELESS = 0.3


def with_alternatives(selector: ir.Selector, table: CostTable, rows: Ints, size: int) -> ir.Selector:
    """The selector with every leaf's runner-up (where costs are known) and shortlist of `size` configs (0: none)."""
    columns = _columns(selector, table)
    order = np.array(config_order(table), dtype=np.int64)
    found: list[tuple[_Next | None, list[int]]] = []
    by_place, leaves = numbered(selector.tree)
    at = route(by_place, table.columns, table.X[rows])
    weights = _nearness(selector.tree) if size else np.empty((0, 0))
    for i, (leaf, last) in enumerate(zip(leaves, _last_tests(selector.tree, ir.Leaf(1)), strict=True)):
        own, choice = rows[at == i], columns[leaf.config]
        runner = _runner_up(table, own, order, choice) if table.costs_known and len(own) else None
        listed: list[int] = []
        if size:
            weight = weights[i, at] if len(own) else _of_last_test(last, table, rows)
            listed = _shortlist(table, rows, weight, order, choice, size)
        found.append((runner, listed))
    used = {c for runner, listed in found for c in (*listed, *([] if runner is None else [runner.column]))}
    extra = [c for c in order.tolist() if c in used - set(columns)]
    number = {c: i for i, c in enumerate([*columns, *extra])}
    ready = iter(
        replace(
            leaf,
            runner_up=None if runner is None else runner.named(number),
            shortlist=tuple(number[c] for c in listed),
        )
        for leaf, (runner, listed) in zip(leaves, found, strict=True)
    )
    tree = relabelled(selector.tree, ready)
    return replace(selector, tree=tree, alternatives=tuple(table.configs[c] for c in extra))


def listed_costs(selector: ir.Selector, table: CostTable, rows: Ints) -> Floats:
    """Log-slowdown [N, K] of each row's shortlist, the choice first; inf where it did not succeed or the list ends."""
    columns = {config: i for i, config in enumerate(table.configs)}
    by_place, leaves = numbered(selector.tree)
    at = route(by_place, table.columns, table.X[rows])
    costs = np.full((len(rows), max(1, *(len(leaf.shortlist) for leaf in leaves))), np.inf)
    for i, leaf in enumerate(leaves):
        listed = [columns[selector.listed[c]] for c in leaf.shortlist or (leaf.config,)]
        costs[at == i, : len(listed)] = table.log_slowdown[np.ix_(rows[at == i], listed)]
    return np.where(np.isfinite(costs), costs, np.inf)


def _columns(selector: ir.Selector, table: CostTable) -> list[int]:
    number = {config: i for i, config in enumerate(table.configs)}
    return [number[config] for config in selector.configs]


def numbered(tree: ir.Node) -> tuple[ir.Node, list[ir.Leaf]]:
    """The tree with every leaf's config its number, left to right, and the leaves."""
    leaves = list(ir.leaves(tree))
    return relabelled(tree, iter(ir.Leaf(i) for i in range(len(leaves)))), leaves


def relabelled(node: ir.Node, leaves: Iterator[ir.Leaf]) -> ir.Node:
    if isinstance(node, ir.Leaf):
        return next(leaves)
    left = relabelled(node.left, leaves)
    return replace(node, left=left, right=relabelled(node.right, leaves))


# --- one leaf -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Next:
    column: int
    slowdown: float
    n_ok: int
    tie: bool

    def named(self, number: dict[int, int]) -> ir.RunnerUp:
        return ir.RunnerUp(number[self.column], self.slowdown, self.n_ok, self.tie)


def _runner_up(table: CostTable, rows: Ints, order: Ints, choice: int) -> _Next | None:
    """The config that succeeds in most of the rows after the choice, of equals the fastest; None: there is no other.

    A tie: over the rows where both succeeded it loses less than the noise of one measurement, on average.
    """
    logs = table.log_slowdown[np.ix_(rows, order)]
    ok = np.isfinite(logs)
    units = np.where(ok, np.rint(np.where(ok, logs, 0.0) * UNIT), 0.0).sum(axis=0)
    others = np.flatnonzero(ok.any(axis=0) & (order != choice))
    if not len(others):
        return None
    count = ok.sum(axis=0)
    best = int(min(others.tolist(), key=lambda i: (-count[i], units[i] / count[i], i)))
    known = sorted(logs[ok[:, best], best].tolist())
    own = table.log_slowdown[rows, choice]
    both = ok[:, best] & np.isfinite(own)
    loss = math.fsum((logs[both, best] - own[both]).tolist())
    noise = math.fsum(np.log1p(table.noise[rows[both]]).tolist())
    tie = bool(both.any()) and loss <= noise
    return _Next(int(order[best]), math.exp(math.fsum(known) / len(known)), len(known), tie)


def _nearness(node: ir.Node) -> Floats:
    """What scenarios of leaf j count for leaf i [L, L], from left to right."""
    if isinstance(node, ir.Leaf):
        return np.ones((1, 1))
    left, right = _nearness(node.left), _nearness(node.right)
    n = len(left)
    found = np.zeros((n + len(right), n + len(right)))
    found[:n, :n], found[n:, n:] = left, right
    found[:n, n:] = NEARBY if n == 1 else 0.0
    found[n:, :n] = NEARBY if len(right) == 1 else 0.0
    return found


def _last_tests(node: ir.Node, last: ir.Node) -> Iterator[ir.Node]:
    """For every leaf, left to right, the last test above it, alone: 1 on the leaf's side."""
    if isinstance(node, ir.Leaf):
        yield last
    else:
        yield from _last_tests(node.left, replace(node, left=ir.Leaf(1), right=ir.Leaf(0)))
        yield from _last_tests(node.right, replace(node, left=ir.Leaf(0), right=ir.Leaf(1)))


def _of_last_test(last: ir.Node, table: CostTable, rows: Ints) -> Floats:
    """What rows count for a leaf without any [N]: 1 if of its kind (beyond a guard), or all (an unknown category)."""
    weight = route(last, table.columns, table.X[rows]).astype(np.float64)
    return weight if weight.any() else np.ones(len(rows))


def _shortlist(
    table: CostTable, rows: Ints, weight: Floats, order: Ints, choice: int, size: int
) -> list[int]:
    """The choice, then greedily what lowers the mean of the best log-slowdown most, among configs that never failed
    on the leaf's own rows and succeeded somewhere there; of equals the one that costs least alone.

    rows, weight  [N]  the table's rows, and what each counts for this leaf: 1.0 its own, see `NEARBY`
    """
    rows, weight = rows[weight > 0], weight[weight > 0]
    logs = table.log_slowdown[np.ix_(rows, order)]
    ok, own = np.isfinite(logs), weight == 1.0
    costs = np.rint(
        np.where(ok, np.minimum(np.where(ok, logs, 0.0), USELESS), USELESS) * (weight * UNIT)[:, None]
    )
    free = ok[own].any(axis=0) & ~np.isinf(logs[own]).any(axis=0) & (order != choice)
    alone, best, listed = costs.sum(axis=0), costs[:, order == choice], [choice]
    while len(listed) < size and free.any():
        left = np.flatnonzero(free)
        together = np.minimum(costs[:, left], best).sum(axis=0)
        found = int(left[np.lexsort((left, alone[left], together))[0]])
        listed.append(int(order[found]))
        free[found] = False
        best = np.minimum(best, costs[:, found : found + 1])
    return listed
