"""Geometry of the distribution, the axes of the map, and which scenarios a page draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen.audit.evidence import View, column_values
from heurgen.audit.report.scales import Scale, category_scale, number_scale, placed, slowdown_scale
from heurgen.audit.report.words import times

if TYPE_CHECKING:
    from heurgen.logs.costs import Floats

# Upper ends of the classes by which slowdowns are coloured; above the last is a class of its own.
CLASSES = (1.02, 1.05, 1.1, 1.25, 1.5)
_STEPS = 240


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


def level_of(slowdown: float) -> int:
    """The class of a slowdown (a ratio); -1 for a choice that is not valid."""
    if not math.isfinite(slowdown):
        return -1
    return next((i for i, limit in enumerate(CLASSES) if slowdown <= limit + 1e-12), len(CLASSES))


def column_scale(view: View, name: str) -> Scale:
    """The axis of one column of the view's scenarios."""
    column = next(c for c in view.table.columns if c.name == name)
    if column.type == "category":
        return category_scale(column.values)
    if column.type == "bool":
        return category_scale(("false", "true"))
    return number_scale(np.unique(column_values(view, name)).tolist())


def drawn(view: View, limit: int, held: Sequence[float] | None = None, keep: Sequence[int] = ()) -> list[int]:
    """Places in the view of the scenarios that a page draws one by one: all, or `limit` of them.

    Those are `keep`, a tenth of the limit for the worst, one of every leaf, and evenly spaced ones of the rest in
    order of leaf and slowdown. held: the slowdowns (ratios, NaN: not valid) that make the worst, in place of the
    view's own.
    """
    n = len(view.rows)
    if n <= limit:
        return list(range(n))
    slow = view.slowdown if held is None else np.log(np.array(held, dtype=np.float64))
    slow = np.where(np.isfinite(slow), slow, np.inf if view.known else 0.0)
    worst = np.argsort(-slow, kind="stable")[: limit // 10].tolist()
    _, first = np.unique(view.leaf, return_index=True)
    found = dict.fromkeys([*keep, *worst, *first.tolist()])
    found = dict.fromkeys([*found][:limit])
    rest = [i for i in np.lexsort((slow, view.leaf)).tolist() if i not in found]
    at = np.linspace(0, len(rest) - 1, limit - len(found)).astype(int)
    return sorted([*found, *(rest[i] for i in at.tolist())])


# --- distribution -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Curve:
    """One step curve. `style` names a class of the style sheet; `path` is SVG path data."""

    name: str
    style: str
    path: str
    summary: str


@dataclass(frozen=True, slots=True)
class Distribution:
    frame: Frame
    lines: tuple[Curve, ...]
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
    lines = [Curve(n, s, _steps(x, at_x, at_y), _told(x)) for n, s, x in series]
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
