"""Tree diagrams: one row per node, its condition in front, what ships and what backs it behind.

A row is labelled by the condition that leads to it, so that a leaf reads from the root down without a legend.
Lines are as thick as their share of the training scenarios.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heurgen import ir, passes
from heurgen.audit.evidence import LeafEvidence, View, leaf_evidence
from heurgen.audit.regions import edge_text, leaf_regions
from heurgen.audit.report.scales import shortened
from heurgen.audit.report.words import conditions, config_tag, differing, pretty, times, value_text
from heurgen.audit.score import leaf_counts, numbered_leaf
from heurgen.text import counted

# Pixels. A character of the monospaced 12 px type is 7.25 wide in every stack that the style sheet names.
CHAR, SMALL, INDENT, ROW, HEAD = 7.25, 6.65, 18, 22, 26
_LABEL_LIMIT, _VALUE_LIMIT, _SECOND_LIMIT = 44, 12, 80


@dataclass(frozen=True, slots=True)
class Link:
    """The line from a node down to one child: from (x, y0) to (x, y1), then right to x1."""

    x: float
    y0: float
    y1: float
    x1: float
    width: float


@dataclass(frozen=True, slots=True)
class Row:
    """One node. `leaf` is the joint leaf's number (None: a test); `leaves` the joint leaves to highlight."""

    x: float
    y: float
    height: float
    text: str
    full: str
    n: int
    leaf: int | None
    leaves: str = ""
    tag: str = ""
    config: int = 0
    cells: tuple[tuple[float, str], ...] = ()
    second: str = ""
    label: str = ""
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    width: float
    height: float
    columns: tuple[tuple[float, str], ...]
    rows: tuple[Row, ...]
    links: tuple[Link, ...]
    cells_at: float
    title: str
    constant: str = ""
    n_folded: int = 0


@dataclass(slots=True)
class _Draft:
    """Rows and links while they are collected."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)


def frontier(tree: ir.Node, limit: int) -> set[int]:
    """The `id`s of nodes to fold so that at most `limit` rows end the diagram.

    The node with the most training scenarios is opened first, until the limit is reached.
    """
    heap = [(-_count(tree), 0, tree)]
    opened, ends = 0, 0
    while heap and len(heap) + ends < limit:
        _, _, node = heapq.heappop(heap)
        if isinstance(node, ir.Leaf):
            ends += 1
            continue
        for child in (node.left, node.right):
            opened += 1
            heapq.heappush(heap, (-_count(child), opened, child))
    return {id(node) for _, _, node in heap if not isinstance(node, ir.Leaf)}


def _count(node: ir.Node) -> int:
    return sum(leaf.n_scenarios for leaf in ir.leaves(node))


def _collect(tree: ir.Node, flags: Sequence[str], limit: int) -> _Draft:
    """Rows in the order of reading, with depth, condition and training count."""
    draft, folds, counts = _Draft(), frontier(tree, limit), leaf_counts(tree)
    leaf_number = 0

    def visit(node: ir.Node, level: int, text: str, parent: int | None) -> int:
        nonlocal leaf_number
        index = len(draft.rows)
        row: dict[str, Any] = {"level": level, "text": text, "node": node, "leaf": None, "stands": 0}
        draft.rows.append(row)
        if parent is not None:
            draft.links.append((parent, index))
        if isinstance(node, ir.Leaf) or id(node) in folds:
            row["n"], row["leaf"] = _count(node), leaf_number
            row["stands"] = 0 if isinstance(node, ir.Leaf) else counts[id(node)]
            leaf_number += counts[id(node)]
            return int(row["n"])
        left = visit(node.left, level + 1, pretty(edge_text(node, True, flags)), index)
        right = visit(node.right, level + 1, pretty(edge_text(node, False, flags)), index)
        row["n"] = left + right
        return left + right

    visit(tree, 0, "every launch", None)
    return draft


def joint_diagram(view: View, flags: tuple[str, ...], limit: int) -> Diagram:
    """The tree that ships, with what the log says of each leaf."""
    selector = view.selector
    found = leaf_evidence(view)
    regions = [" and ".join(conditions(r, flags)) or "every launch" for _, r in leaf_regions(selector.tree)]
    varying, constant = _varying(selector)
    names = ["config", *(selector.parameters[i] for i in varying), "train n", "expected"]

    def cells(row: dict[str, Any]) -> list[str]:
        leaf: ir.Leaf = row["node"]
        config = selector.configs[leaf.config]
        texts = [shortened(value_text(config[i]), _VALUE_LIMIT) for i in varying]
        return [config_tag(leaf.config), *texts, str(leaf.n_scenarios), times(leaf.slowdown)]

    def rest(row: dict[str, Any]) -> dict[str, Any]:
        leaf, own = row["node"], found[row["leaf"]]
        second = "; ".join(filter(None, (log_text(view, leaf, own), runner_text(view, leaf, own))))
        return {
            "second": shortened(second, _SECOND_LIMIT),
            "label": _told(view, leaf, regions[row["leaf"]], own.index, second),
            "leaves": str(row["leaf"]),
            "config": leaf.config,
            "tag": config_tag(leaf.config),
        }

    draft = _collect(selector.tree, flags, limit)
    title = f"Decision tree of {view.vendor}: {len(found)} leaves"
    return _laid_out(draft, names, cells, rest, title, constant)


def _varying(selector: ir.Selector) -> tuple[list[int], str]:
    """Parameters that differ between configs in use, and the text of the others."""
    used = sorted({leaf.config for leaf in ir.leaves(selector.tree)})
    columns = list(zip(*(selector.configs[c] for c in used), strict=True))
    same = [len({(type(v), v) for v in column}) == 1 for column in columns]
    constant = [
        f"{n}={value_text(c[0])}" for n, c, s in zip(selector.parameters, columns, same, strict=True) if s
    ]
    return [i for i, s in enumerate(same) if not s], " ".join(constant)


def runner_text(view: View, leaf: ir.Leaf, own: LeafEvidence) -> str:
    """What the next best config for a leaf changes, and how slow it would be."""
    if own.runner_up is None:
        return "no runner-up known" if view.known and own.n else ""
    changed = differing(view.selector.parameters, view.selector.configs[leaf.config], own.runner_up)
    where = "" if own.runner_valid == own.n else f" in {own.runner_valid} of {own.n}"
    return f"next {times(own.runner_slowdown)}{where}: {changed}"


def log_text(view: View, leaf: ir.Leaf, own: LeafEvidence) -> str:
    """A leaf on the given log, where that differs from what training recorded."""
    if own.n == leaf.n_scenarios and times(own.slowdown) == times(leaf.slowdown):
        return ""
    if not own.n:
        return "not in this log"
    bad = f", {own.n_invalid} not valid" if own.n_invalid else ""
    known = f", {times(own.slowdown)}" if own.slowdown is not None else ""
    return f"this log {own.n}{known}{bad}"


def _told(view: View, leaf: ir.Leaf, where: str, index: int, second: str) -> str:
    config = view.selector.configs[leaf.config]
    pairs = " ".join(f"{n}={value_text(v)}" for n, v in zip(view.selector.parameters, config, strict=True))
    return (
        f"Leaf {index + 1}: {where}. Config {config_tag(leaf.config)}: {pairs}. "
        f"{counted(leaf.n_scenarios, 'training scenario')}, expected {times(leaf.slowdown)}. {second}"
    )


def parameter_diagrams(view: View, flags: tuple[str, ...], limit: int) -> list[Diagram]:
    """One small tree per parameter, equal siblings merged, as the generated functions have them."""
    return [_parameter_diagram(view, name, flags, limit) for name in view.selector.parameters]


def _parameter_diagram(view: View, name: str, flags: tuple[str, ...], limit: int) -> Diagram:
    values, tree = passes.project(view.selector, name)
    members = _joint_leaves(view, tree)

    def cells(row: dict[str, Any]) -> list[str]:
        leaf: ir.Leaf = row["node"]
        return [shortened(value_text(values[leaf.config]), 20), str(leaf.n_scenarios), times(leaf.slowdown)]

    def rest(row: dict[str, Any]) -> dict[str, Any]:
        leaf: ir.Leaf = row["node"]
        count = counted(leaf.n_scenarios, "training scenario")
        told = f"{name} = {value_text(values[leaf.config])}: {row['text']}; {count}"
        return {"leaves": members.get(row["leaf"], ""), "label": told}

    draft = _collect(tree, flags, limit)
    return _laid_out(draft, [name, "train n", "expected"], cells, rest, name)


def _joint_leaves(view: View, tree: ir.Node) -> dict[int, str]:
    """The joint leaves of the log's scenarios that end in each leaf of a projected tree.

    Merging only joins regions, so that each joint leaf lies in one leaf of the projection.
    """
    names = [c.name for c in view.table.columns]
    found: dict[int, set[int]] = {}
    counts = leaf_counts(tree)
    tested = {n.feature for n in ir.nodes(tree) if not isinstance(n, ir.Leaf)}
    _, first = np.unique(view.leaf, return_index=True)
    for i in first.tolist():
        choice = view.choices[i]
        values = dict(zip(names, view.table.X[view.rows[i]].tolist(), strict=True)) | choice.features
        row = {name: values.get(name, math.nan) for name in tested}
        _, index = numbered_leaf(tree, row, counts)
        found.setdefault(index, set()).add(choice.leaf_index)
    return {index: " ".join(map(str, sorted(members))) for index, members in found.items()}


# --- pixels -----------------------------------------------------------------------------------------------


def _laid_out(
    draft: _Draft,
    names: Sequence[str],
    cells: Callable[[dict[str, Any]], list[str]],
    rest: Callable[[dict[str, Any]], dict[str, Any]],
    title: str,
    constant: str = "",
) -> Diagram:
    ends = [r["leaf"] is not None and not r["stands"] for r in draft.rows]
    texts = [cells(r) if end else [] for r, end in zip(draft.rows, ends, strict=True)]
    widths = [
        max([SMALL * len(n), *(CHAR * len(t[i]) for t in texts if t)]) + 13 for i, n in enumerate(names)
    ]
    labels = [shortened(r["text"], _LABEL_LIMIT) for r in draft.rows]
    tree_end = max(INDENT * r["level"] + CHAR * len(t) for r, t in zip(draft.rows, labels, strict=True)) + 34
    right = [round(tree_end + sum(widths[: i + 1]) - 8, 1) for i in range(len(names))]
    rows: list[Row] = []
    y = float(HEAD)
    for r, text, label, end in zip(draft.rows, texts, labels, ends, strict=True):
        more = rest(r) if end else _fold_words(r)
        row = Row(
            8.0 + INDENT * r["level"], y, ROW, label, r["text"], r["n"], r["leaf"] if end else None, **more
        )
        height = ROW + (15 if end and row.second else 0)
        rows.append(replace(row, height=height, cells=tuple(zip(right, text, strict=False))))
        y += height
    links = tuple(_link(rows[a], rows[b], max(rows[0].n, 1)) for a, b in draft.links)
    second = max((CHAR * 0.92 * len(r.second) + tree_end + 30 for r in rows if r.second), default=0.0)
    return Diagram(
        width=round(max(right[-1], second) + 8, 1),
        height=round(y + 6, 1),
        columns=tuple(zip(right, names, strict=True)),
        rows=tuple(rows),
        links=links,
        cells_at=round(tree_end, 1),
        title=title,
        constant=constant,
        n_folded=sum(r["stands"] for r in draft.rows),
    )


def _fold_words(row: dict[str, Any]) -> dict[str, Any]:
    if not row["stands"]:
        return {}
    return {"second": f"… {row['stands']} leaves, not drawn", "fold": True}


def _link(parent: Row, child: Row, total: int) -> Link:
    width = 1.0 + 4.0 * math.sqrt(child.n / total)
    return Link(parent.x, parent.y + 16, child.y + 11, child.x - 3, round(width, 1))
