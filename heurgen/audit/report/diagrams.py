"""Tree diagrams: one row per node, its condition in front, what ships and what backs it behind.

A row is labelled by the condition that leads to it, so that a leaf reads from the root down without a legend.
Lines are as thick as their share of the training scenarios.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from heurgen import ir
from heurgen.audit.evidence import LeafEvidence, View, leaf_evidence
from heurgen.audit.explain import FEW
from heurgen.audit.recorded import is_counted
from heurgen.audit.regions import edge_text, leaf_regions
from heurgen.audit.report.scales import room_of, shortened
from heurgen.audit.report.words import (
    LEAST_FIGURES,
    conditions,
    config_pairs,
    config_tag,
    differing,
    pretty,
    times,
    told_apart,
    value_text,
)
from heurgen.audit.score import leaf_counts
from heurgen.base.text import counted

# Pixels. A character of the monospaced 12 px type is 7.25 wide in every stack that the style sheet names.
CHAR, SMALL, INDENT, ROW, HEAD = 7.25, 6.65, 18, 22, 26
_LABEL_LIMIT, _VALUE_LIMIT, _SECOND_LIMIT = 44, 12, 96


@dataclass(frozen=True, slots=True)
class Link:
    """The line from a node down to one child: from (x, y0) to (x, y1), then right to x1."""

    x: float
    y0: float
    y1: float
    x1: float
    width: float


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """One node. `leaf` is its number (None: a test); `span` the first and last leaf under it. `pairs`, `where` and
    `evidence` say a leaf in words, for a narrow screen and for those who listen.
    """

    x: float
    y: float
    height: float
    text: str
    n: int
    leaf: int | None
    tag: str = ""
    config: int = 0
    cells: tuple[tuple[float, str], ...] = ()
    second: str = ""
    fold: bool = False
    span: str = ""
    pairs: str = ""
    where: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Diagram:
    width: float
    height: float
    columns: tuple[tuple[float, str], ...]
    rows: tuple[DrawnRow, ...]
    links: tuple[Link, ...]
    cells_at: float
    title: str
    constant: str
    n_folded: int
    counted: bool


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
    leaf_number, digits = 0, told_apart(tree)

    def visit(node: ir.Node, level: int, text: str, parent: int | None) -> int:
        nonlocal leaf_number
        index, first = len(draft.rows), leaf_number
        row: dict[str, Any] = {"level": level, "text": text, "node": node, "leaf": None, "stands": 0}
        draft.rows.append(row)
        if parent is not None:
            draft.links.append((parent, index))
        if isinstance(node, ir.Leaf) or id(node) in folds:
            row["n"], row["leaf"] = _count(node), leaf_number
            row["stands"] = 0 if isinstance(node, ir.Leaf) else counts[id(node)]
            leaf_number += counts[id(node)]
            row["span"] = f"{first} {leaf_number - 1}"
            return int(row["n"])
        told = [
            pretty(edge_text(node, side, flags), digits.get(node.feature, LEAST_FIGURES))
            for side in (True, False)
        ]
        left = visit(node.left, level + 1, told[0], index)
        right = visit(node.right, level + 1, told[1], index)
        row["n"], row["span"] = left + right, f"{first} {leaf_number - 1}"
        return left + right

    visit(tree, 0, "every launch", None)
    return draft


def joint_diagram(view: View, flags: tuple[str, ...], limit: int) -> Diagram:
    """The tree that ships, with what the log says of each leaf."""
    selector = view.selector
    notes = leaf_notes(view)
    digits = told_apart(selector.tree)
    told = (conditions(region, flags, digits) for _, region in leaf_regions(selector.tree))
    regions = [" and ".join(texts) or "every launch" for texts in told]
    varying, constant = _varying(selector)
    known = is_counted(selector.tree)
    names = [
        "config",
        *(selector.parameters[i] for i in varying),
        *["train n"] * known,
        *["in training"] * (known and selector.costs_known),
    ]

    def cells(row: dict[str, Any]) -> list[str]:
        leaf: ir.Leaf = row["node"]
        config = selector.configs[leaf.config]
        texts = [shortened(value_text(config[i]), _VALUE_LIMIT) for i in varying]
        slow = [times(leaf.slowdown)] * (known and selector.costs_known)
        return [config_tag(leaf.config), *texts, *[str(leaf.n_scenarios)] * known, *slow]

    def rest(row: dict[str, Any]) -> dict[str, Any]:
        leaf, second = row["node"], notes[row["leaf"]]
        slow = f", {times(leaf.slowdown)} in training" if leaf.slowdown is not None else ""
        trained = f"{counted(leaf.n_scenarios, 'training scenario')}{slow}" if known else ""
        return {
            "second": shortened(second, _SECOND_LIMIT),
            "config": leaf.config,
            "tag": config_tag(leaf.config),
            "pairs": config_pairs(selector.parameters, selector.configs[leaf.config]),
            "where": regions[row["leaf"]],
            "evidence": "; ".join(filter(None, (trained, second))),
        }

    draft = _collect(selector.tree, flags, limit)
    title = f"Decision tree of {view.vendor}: {counted(len(notes), 'leaf')}"
    return _laid_out(draft, names, cells, rest, title, constant, known)


def _varying(selector: ir.Selector) -> tuple[list[int], str]:
    """Parameters that differ between configs in use, and the text of the others."""
    used = sorted({leaf.config for leaf in ir.leaves(selector.tree)})
    columns = list(zip(*(selector.configs[c] for c in used), strict=True))
    same = [len({(type(v), v) for v in column}) == 1 for column in columns]
    constant = [
        f"{n}={value_text(c[0])}" for n, c, s in zip(selector.parameters, columns, same, strict=True) if s
    ]
    return [i for i, s in enumerate(same) if not s], " ".join(constant)


def leaf_notes(view: View) -> list[str]:
    """Of every leaf, in words: how it does on the given log where that is not the training log, and the next best."""
    pairs = zip(ir.leaves(view.selector.tree), leaf_evidence(view), strict=True)
    parts = [(log_text(leaf, own, _place(view)), runner_text(view, leaf, own)) for leaf, own in pairs]
    return ["; ".join(filter(None, part)) for part in parts]


def _place(view: View) -> str:
    """What the view's scenarios are all of: the log, or a device where that has several."""
    return "device" if len(set(view.table.device)) > 1 else "log"


def runner_text(view: View, leaf: ir.Leaf, own: LeafEvidence) -> str:
    """What the next best config for a leaf changes, and how slow it would be."""
    if own.runner_up is None:
        return "no runner-up known" if view.known and own.n else ""
    changed = differing(view.selector.parameters, view.selector.configs[leaf.config], own.runner_up)
    where = "" if own.runner_valid == own.n else f" in {own.runner_valid} of {own.n}"
    return f"next {times(own.runner_slowdown)}{where}{_why_not(view, leaf, own)}: {changed}"


def _why_not(view: View, leaf: ir.Leaf, own: LeafEvidence) -> str:
    """Why a runner-up that does better on this log was not chosen (what pays is decided on held-out scenarios)."""
    better = own.runner_slowdown is not None and own.slowdown is not None
    if not better or own.runner_slowdown >= own.slowdown:  # type: ignore[operator]
        return ""
    if own.runner_valid < own.n - own.n_invalid:
        return " (better, but not measured or failed in the others)"
    if log_text(leaf, own):
        return f" (better on this {_place(view)}, not in training)"
    if own.runner_up not in view.selector.configs:
        return " (better, but one config more did not pay held out)"
    if own.n < FEW:
        return f" (better, but on {counted(own.n, 'scenario')} alone)"
    return " (better here, but not held out)"


def log_text(leaf: ir.Leaf, own: LeafEvidence, place: str = "log") -> str:
    """A leaf on the given log, or on one device of it (`_place`), where that differs from what training recorded."""
    if own.n == leaf.n_scenarios and times(own.slowdown) == times(leaf.slowdown):
        return ""
    if not own.n:
        return "not on this device" if place == "device" else "not in this log"
    bad = f", {own.n_invalid} not valid" if own.n_invalid else ""
    known = f", {times(own.slowdown)}" if own.slowdown is not None else ""
    return f"this {place} {own.n}{known}{bad}"


# --- pixels -----------------------------------------------------------------------------------------------


def _laid_out(
    draft: _Draft,
    names: Sequence[str],
    cells: Callable[[dict[str, Any]], list[str]],
    rest: Callable[[dict[str, Any]], dict[str, Any]],
    title: str,
    constant: str,
    known: bool,
) -> Diagram:
    texts = [cells(r) if _is_leaf(r) else [] for r in draft.rows]
    widths = [
        max([SMALL * len(n), *(CHAR * room_of(t[i]) for t in texts if t)]) + 13 for i, n in enumerate(names)
    ]
    labels = [shortened(r["text"], _LABEL_LIMIT) for r in draft.rows]
    tree_end = (
        max(INDENT * r["level"] + CHAR * room_of(t) for r, t in zip(draft.rows, labels, strict=True)) + 34
    )
    right = [round(tree_end + sum(widths[: i + 1]) - 8, 1) for i in range(len(names))]
    rows: list[DrawnRow] = []
    y = float(HEAD)
    for r, text, label in zip(draft.rows, texts, labels, strict=True):
        placed = tuple(zip(right, text, strict=False))
        rows.append(_drawn(r, y, label, placed, rest(r) if _is_leaf(r) else _fold_words(r)))
        y += rows[-1].height
    links = tuple(_link(rows[a], rows[b], max(rows[0].n, 1)) for a, b in draft.links)
    second = max((CHAR * 0.92 * room_of(r.second) + tree_end + 30 for r in rows if r.second), default=0.0)
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
        counted=known,
    )


def _is_leaf(row: dict[str, Any]) -> bool:
    return row["leaf"] is not None and not row["stands"]


def _drawn(
    row: dict[str, Any], y: float, label: str, cells: tuple[tuple[float, str], ...], words: dict[str, Any]
) -> DrawnRow:
    leaf = _is_leaf(row)
    return DrawnRow(
        x=8.0 + INDENT * row["level"],
        y=y,
        height=ROW + (15 if leaf and words["second"] else 0),
        text=label,
        n=row["n"],
        leaf=row["leaf"] if leaf else None,
        cells=cells,
        span=row["span"],
        **words,
    )


def _fold_words(row: dict[str, Any]) -> dict[str, Any]:
    if not row["stands"]:
        return {}
    return {"second": f"… {counted(row['stands'], 'leaf')}, not drawn", "fold": True}


def _link(parent: DrawnRow, child: DrawnRow, total: int) -> Link:
    width = 1.0 + 4.0 * math.sqrt(child.n / total)
    return Link(parent.x, parent.y + 16, child.y + 11, child.x - 3, round(width, 1))
