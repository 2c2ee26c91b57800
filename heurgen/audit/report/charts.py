"""Geometry of the maps and of the distribution: data in, pixels out; templates draw them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen import ir
from heurgen.audit.evidence import View, column_values, map_columns
from heurgen.audit.report.scales import (
    Scale,
    category_scale,
    number_scale,
    placed,
    shortened,
    slowdown_scale,
)
from heurgen.audit.report.words import config_tag, scenario_label, times

if TYPE_CHECKING:
    from heurgen.costs import Floats

# Upper ends of the classes by which slowdowns are coloured; above the last is a class of its own.
CLASSES = (1.02, 1.05, 1.1, 1.25, 1.5)
WIDTH, HEIGHT = 430, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 10, 44
# Where a view has more scenarios than marks fit, cells of the finest of these grids that stays below the cap.
_GRIDS = ((64, 48), (48, 36), (36, 27), (28, 21), (20, 15), (14, 10), (10, 7), (6, 5), (4, 3), (2, 2), (1, 1))
_STEPS = 240
# On an axis with at most so many values, marks of one value take turns over so many places, so far apart.
_FEW, _TURNS, _TURN = 8, 5, 0.016


@dataclass(frozen=True, slots=True)
class Frame:
    """An axis frame in pixels: ticks are (pixel, label)."""

    width: int
    height: int
    left: int
    top: int
    right: int
    bottom: int
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_name: str
    y_name: str
    x_cuts: tuple[float, ...] = ()
    y_cuts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """One scenario, or all of a leaf within one cell (`n` of them). `level` indexes CLASSES; -1: not valid,
    -2: slowdown unknown."""

    x: float
    y: float
    r: float
    level: int
    config: int
    leaf: int
    n: int
    label: str


@dataclass(frozen=True, slots=True)
class Map:
    frame: Frame
    marks: tuple[Mark, ...]
    n_scenarios: int
    binned: bool
    grid: tuple[int, int]


def level_of(slowdown: float) -> int:
    """The class of a slowdown (a ratio); -1 for a choice that is not valid."""
    if not math.isfinite(slowdown):
        return -1
    return next((i for i, limit in enumerate(CLASSES) if slowdown <= limit + 1e-12), len(CLASSES))


def scatter(view: View, cap: int) -> Map:
    """The map of a view's scenarios over its two most important columns, with at most `cap` marks."""
    names = map_columns(view)
    scales = [_scale(view, name) for name in names]
    frame = _frame(view, names, scales)
    unit = [
        np.array([s.place(v) for v in column_values(view, n).tolist()])
        for n, s in zip(names, scales, strict=True)
    ]
    while len(unit) < 2:
        unit.append(np.full(len(view.rows), 0.5))
    unit = [_spread(u, other) for u, other in zip(unit, unit[::-1], strict=True)]
    grid, groups = (0, 0), [[i] for i in range(len(view.rows))]
    if len(groups) > cap:
        grid, groups = _cells(view, unit, cap)
    marks = [_mark(view, group, unit, frame) for group in groups]
    # Bad ones last, so that they are drawn on top and come last in the order of the keyboard.
    marks.sort(key=lambda m: (m.level == -1, m.level, m.leaf, m.y, m.x, m.label))
    return Map(frame, tuple(_apart(marks)), len(view.rows), bool(grid[0]), grid)


def _spread(places: Floats, other: Floats) -> Floats:
    """Places on an axis of few values, moved sideways by turns, so that a column does not hide its own marks."""
    values, codes = np.unique(places, return_inverse=True)
    if not 1 < len(values) <= _FEW or len(places) <= 2 * len(values):
        return places
    moved = places.copy()
    for code in range(len(values)):
        own = np.flatnonzero(codes == code)
        turn = np.empty(len(own))
        turn[np.argsort(other[own], kind="stable")] = np.arange(len(own)) % _TURNS
        moved[own] += (turn - (_TURNS - 1) / 2) * _TURN
    return np.asarray(np.clip(moved, 0.01, 0.99))


def _scale(view: View, name: str) -> Scale:
    column = next(c for c in view.table.columns if c.name == name)
    if column.type == "category":
        return category_scale(column.values)
    if column.type == "bool":
        return category_scale(("false", "true"))
    return number_scale(column_values(view, name).tolist())


def _frame(view: View, names: Sequence[str], scales: Sequence[Scale]) -> Frame:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    labels = [f"{n} ({s.note})" if s.note else n for n, s in zip(names, scales, strict=True)]
    xs = scales[0].ticks if scales else ()
    ys = scales[1].ticks if len(scales) > 1 else ()
    cuts: list[tuple[float, ...]] = [(), ()]
    for axis, (name, scale) in enumerate(zip(names, scales, strict=True)):
        start, length = (_LEFT, right - _LEFT) if axis == 0 else (_TOP, bottom - _TOP)
        at = placed(scale, start, length, flip=axis == 1)
        found = {
            n.threshold for n in ir.nodes(view.selector.tree) if isinstance(n, ir.Split) and n.feature == name
        }
        cuts[axis] = tuple(at(t) for t in sorted(found) if scale.low < t < scale.high)
    return Frame(
        WIDTH,
        HEIGHT,
        _LEFT,
        _TOP,
        right,
        bottom,
        tuple((round(_LEFT + t.at * (right - _LEFT), 1), t.label) for t in xs),
        tuple((round(bottom - t.at * (bottom - _TOP), 1), t.label) for t in ys),
        shortened(labels[0], 50) if labels else "",
        shortened(labels[1], 40) if len(labels) > 1 else "",
        *cuts,
    )


def _cells(view: View, unit: Sequence[Floats], cap: int) -> tuple[tuple[int, int], list[list[int]]]:
    """Scenarios grouped by (cell, leaf) on the finest grid that stays within the cap."""
    for grid in _GRIDS:
        columns = [np.minimum((u * n).astype(np.int64), n - 1) for u, n in zip(unit, grid, strict=True)]
        groups: dict[tuple[int, int, int], list[int]] = {}
        for i, key in enumerate(
            zip(columns[0].tolist(), columns[1].tolist(), view.leaf.tolist(), strict=True)
        ):
            groups.setdefault(key, []).append(i)
        if len(groups) <= cap:
            break
    # A tree of more leaves than marks: the smallest groups are not drawn, the caption gives the count.
    kept = sorted(sorted(groups), key=lambda k: -len(groups[k]))[:cap]
    return grid, [groups[k] for k in sorted(kept)]


def _mark(view: View, group: list[int], unit: Sequence[Floats], frame: Frame) -> Mark:
    x, y = (float(u[group].mean()) for u in unit)
    slow = view.slowdown[group]
    finite = slow[np.isfinite(slow)]
    mean = math.exp(float(finite.mean())) if len(finite) else math.nan
    invalid = len(group) - len(finite)
    level = -2 if not view.known else -1 if invalid else level_of(mean)
    first = view.choices[group[0]]
    radius = 4.2 if len(group) == 1 else min(4.2 + 1.5 * math.log2(len(group)), 13.0)
    if level > 0 and len(group) == 1:
        radius += 0.5 * level
    if len(group) == 1:
        label = scenario_label(first)
    else:
        worst = f", worst {times(math.exp(float(finite.max())))}" if len(finite) else ""
        bad = f", {invalid} not valid" if view.known and invalid else ""
        typical = f": {times(mean)} on average{worst}" if len(finite) else ""
        label = f"{len(group)} scenarios{typical}{bad}"
    label += f"; config {config_tag(first.leaf.config)}, leaf {first.leaf_index + 1}"
    return Mark(
        round(frame.left + x * (frame.right - frame.left), 1),
        round(frame.bottom - y * (frame.bottom - frame.top), 1),
        round(radius, 1),
        level,
        first.leaf.config,
        first.leaf_index,
        len(group),
        label,
    )


def _apart(marks: list[Mark]) -> list[Mark]:
    """Marks that coincide, moved apart on a spiral of a few pixels."""
    seen: dict[tuple[int, int], int] = {}
    moved: list[Mark] = []
    for mark in marks:
        spot = (round(mark.x / 5), round(mark.y / 5))
        k = seen[spot] = seen.get(spot, -1) + 1
        angle, radius = 2.399963 * k, 3.4 * math.sqrt(k)
        fields: dict[str, Any] = {f: getattr(mark, f) for f in Mark.__dataclass_fields__}
        fields |= {
            "x": round(mark.x + radius * math.cos(angle), 1),
            "y": round(mark.y + radius * math.sin(angle), 1),
        }
        moved.append(Mark(**fields))
    return moved


# --- distribution -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One step curve. `style` names a class of the style sheet; `path` is SVG path data."""

    name: str
    style: str
    path: str
    summary: str


@dataclass(frozen=True, slots=True)
class Distribution:
    frame: Frame
    lines: tuple[Line, ...]
    cut: bool


def distribution(series: Sequence[tuple[str, str, Floats]]) -> Distribution:
    """Share of scenarios at most so slow, one step curve per (name, style, log-slowdowns).

    Choices that are not valid never count as fast enough, so that their curve stays below 100 %.
    """
    highest = max(
        (math.exp(float(x[np.isfinite(x)].max())) for _, _, x in series if np.isfinite(x).any()), default=1.0
    )
    scale = slowdown_scale(highest)
    width, height, left, top = 440, 290, 64, 10
    right, bottom = width - 12, height - 40
    at_x, share = placed(scale, left, right - left), Scale("linear", 0.0, 1.0, ())
    at_y = placed(share, top, bottom - top, flip=True)
    frame = Frame(
        width,
        height,
        left,
        top,
        right,
        bottom,
        tuple((round(left + t.at * (right - left), 1), t.label) for t in scale.ticks),
        tuple((at_y(p / 100), f"{p} %") for p in (0, 25, 50, 75, 100)),
        "slowdown against the best config (log scale)",
        "share of scenarios",
    )
    lines = [Line(n, s, _steps(x, at_x, at_y), _told(x)) for n, s, x in series]
    return Distribution(frame, tuple(lines), highest > scale.high * 1.0001)


def _steps(values: Floats, at_x: Any, at_y: Any) -> str:
    ok, total = np.sort(values[np.isfinite(values)]), max(len(values), 1)
    every = max(1, math.ceil(len(ok) / _STEPS))
    shown = sorted({*range(every - 1, len(ok), every), len(ok) - 1} if len(ok) else set())
    path = f"M{at_x(1.0):g} {at_y(0.0):g}"
    for i in shown:
        path += f"H{at_x(math.exp(float(ok[i]))):g}V{at_y((i + 1) / total):g}"
    return path + f"H{at_x(1e9):g}"


def _told(values: Floats) -> str:
    ok = values[np.isfinite(values)]
    if not len(ok):
        return "no valid choice"
    return f"geometric mean {times(math.exp(float(ok.mean())))}, worst {times(math.exp(float(ok.max())))}"
