"""A tree as it answers where some of its features are known beforehand: on one device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from heurgen import ir
from heurgen.logs.costs import CostTable
from heurgen.trees.alternatives import numbered, relabelled, with_alternatives
from heurgen.trees.build import evidence, route
from heurgen.trees.problem import Ints


def specialised(
    selector: ir.Selector, table: CostTable, rows: Ints, device: str, values: Mapping[str, float]
) -> ir.Selector:
    """The selector where features have `values`: no test of them is left, and its evidence is that of `rows`.

    Of the features in `values` the tree tests numbers alone.
    """
    tree = _resolved(selector.tree, values)
    used = sorted({leaf.config for leaf in ir.leaves(tree)})
    size = max(len(leaf.shortlist) for leaf in ir.leaves(selector.tree))
    bare = replace(
        selector,
        device=device,
        configs=tuple(selector.configs[i] for i in used),
        alternatives=(),
        tree=relabelled(tree, _leaves(tree, used, selector.configs, table, rows)),
        choice={"requested": selector.choice["requested"]},
    )
    return with_alternatives(bare, table, rows, size)


def _resolved(node: ir.Node, values: Mapping[str, float]) -> ir.Node:
    if isinstance(node, ir.Leaf):
        return node
    if node.feature in values:
        return _resolved(node.left if ir.goes_left(node, values[node.feature]) else node.right, values)
    return replace(node, left=_resolved(node.left, values), right=_resolved(node.right, values))


def _leaves(
    tree: ir.Node, used: list[int], configs: tuple[ir.Config, ...], table: CostTable, rows: Ints
) -> Iterator[ir.Leaf]:
    """The leaves from left to right, each with what the rows that end there say of its config."""
    by_place, leaves = numbered(tree)
    at = route(by_place, table.columns, table.X[rows])
    column = {config: i for i, config in enumerate(table.configs)}
    for i, leaf in enumerate(leaves):
        own = rows[at == i]
        slowdown, n_ok = evidence(table, own, column[configs[leaf.config]])
        yield ir.Leaf(used.index(leaf.config), len(own), slowdown, n_ok)
