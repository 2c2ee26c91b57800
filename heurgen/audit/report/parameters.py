"""One tree a parameter: the joint tree seen by one parameter alone, as data that the page's script draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from heurgen import ir
from heurgen.audit.evidence import View
from heurgen.audit.recorded import is_counted
from heurgen.audit.regions import edge_text
from heurgen.audit.report.scales import shortened
from heurgen.audit.report.words import LEAST_FIGURES, pretty, told_apart, value_text
from heurgen.audit.score import leaf_counts, numbered_leaf
from heurgen.ir import passes


def parameter_trees(view: View, flags: Sequence[str]) -> list[dict[str, Any]]:
    """Per parameter its name and its tree with equal siblings merged.

    A test is [its text where it holds, its text where not, left, right]; a leaf [value, training
    scenarios (None: not known), expected slowdown, joint leaves of the log in it].
    """
    found = []
    for name in view.selector.parameters:
        values, tree = passes.project(view.selector, name)
        texts = [value_text(v) for v in values]
        found.append({"name": name, "tree": _tree(tree, texts, joint_leaves(view, tree), flags)})
    return found


def _tree(
    tree: ir.Node, values: Sequence[str], members: Mapping[int, list[int]], flags: Sequence[str]
) -> Any:
    number, known, digits = count(), is_counted(tree), told_apart(tree)

    def visit(node: ir.Node) -> list[Any]:
        if isinstance(node, ir.Leaf):
            slow = None if node.slowdown is None else round(node.slowdown, 3)
            n = node.n_scenarios if known else None
            return [values[node.config], n, slow, members.get(next(number), [])]
        told = [
            pretty(edge_text(node, side, flags), digits.get(node.feature, LEAST_FIGURES))
            for side in (True, False)
        ]
        texts = [shortened(text, 200) for text in told]
        left = visit(node.left)
        return [*texts, left, visit(node.right)]

    return visit(tree)


def joint_leaves(view: View, tree: ir.Node) -> dict[int, list[int]]:
    """The joint leaves of the log's scenarios that end in each leaf of a projected tree.

    Merging only joins regions, so that each joint leaf lies in one leaf of the projection.
    """
    names = [c.name for c in view.table.columns]
    found: dict[int, set[int]] = {}
    counts = leaf_counts(tree)
    tested = ir.tested(tree)
    _, first = np.unique(view.leaf, return_index=True)
    for i in first.tolist():
        choice = view.choices[i]
        values = dict(zip(names, view.table.X[view.rows[i]].tolist(), strict=True)) | choice.features
        row = {name: values.get(name, math.nan) for name in tested}
        _, index = numbered_leaf(tree, row, counts)
        found.setdefault(index, set()).add(choice.leaf_index)
    return {index: sorted(members) for index, members in found.items()}
