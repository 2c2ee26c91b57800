"""Axes: from values to places on a line of length 1, with ticks that a person would write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import east_asian_width

from heurgen.base.errors import printable

# Log axes where the largest value is this many times the smallest.
_LOG_FROM = 20.0
# Numbers are drawn as no nearer to 0 and no farther from it: their ratios and differences stay numbers.
_LEAST, _MOST = 1e-290, 1e290
# Room that a label needs, as a share of the axis.
_APART = 0.13


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """`place` maps a value to 0..1 (clipped). `kind` is linear, log, log1p or category."""

    kind: str
    low: float
    high: float
    ticks: tuple[Tick, ...]

    def place(self, value: float) -> float:
        if value != value:
            return 0.0
        kind = self.kind
        low, high, at = _warp(kind, self.low), _warp(kind, self.high), _warp(kind, value)
        return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5

    @property
    def note(self) -> str:
        return "log scale" if self.kind in ("log", "log1p") else ""


def _warp(kind: str, value: float) -> float:
    if kind == "log":
        return math.log(max(value, _LEAST))
    return math.log1p(max(value, 0.0)) if kind == "log1p" else value


def number_scale(numbers: Sequence[float]) -> Scale:
    """An axis for numbers: logarithmic where they span more than a factor of 20, linear otherwise."""
    finite = [v for v in numbers if math.isfinite(v)]
    low, high = (_drawn(min(finite)), _drawn(max(finite))) if finite else (0.0, 1.0)
    if low == high:
        low, high = (low - 0.5, high + 0.5) if low < 1 else (low * 0.9, high * 1.1)
    kind = "linear"
    if low > 0 and high / low > _LOG_FROM:
        kind = "log"
    elif low == 0 and high > _LOG_FROM:
        kind = "log1p"
    low, high = _padded(kind, low, high)
    scale = Scale(kind, low, high, ())
    values = _tick_values(kind, low, high)
    labels = _labels(values) if kind == "linear" else map(compact, values)
    ticks = tuple(Tick(scale.place(t), label) for t, label in zip(values, labels, strict=True))
    return Scale(kind, low, high, ticks)


def _drawn(value: float) -> float:
    """The value, or the nearest one that axes of round numbers can hold."""
    return math.copysign(min(max(abs(value), _LEAST), _MOST), value) if value else 0.0


def _padded(kind: str, low: float, high: float) -> tuple[float, float]:
    """A little room at both ends, so that no mark lies on the frame."""
    if kind == "log":
        low, room = max(low, _LEAST), math.exp(0.03 * (math.log(high) - math.log(max(low, _LEAST))))
        return max(low / room, _LEAST), high * room
    if kind == "log1p":
        return 0.0, math.expm1(math.log1p(high) * 1.03)
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def category_scale(labels: Sequence[str]) -> Scale:
    """One place per category, in order."""
    n = max(len(labels), 1)
    shown = range(n) if n <= 12 else range(0, n, math.ceil(n / 12))
    ticks = tuple(Tick((i + 0.5) / n, shortened(printable(labels[i]), 24)) for i in shown if i < len(labels))
    return Scale("category", -0.5, n - 0.5, ticks)


def slowdown_scale(highest: float) -> Scale:
    """From 1.0 to the highest slowdown (at least 1.25, at most 10), logarithmic."""
    top = min(max(highest, 1.25), 10.0)
    scale = Scale("log", 1.0, top, ())
    steps = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0)
    ticks: list[Tick] = []
    for step in (s for s in steps if s <= top):
        place = scale.place(step)
        if not ticks or place - ticks[-1].at >= _APART:
            ticks.append(Tick(place, f"{step:g}×"))
    return Scale("log", 1.0, top, tuple(ticks))


def _tick_values(kind: str, low: float, high: float) -> list[float]:
    if kind == "linear":
        return _linear_ticks(low, high)
    first = math.floor(math.log10(low)) if kind == "log" else 0
    decades = range(first, math.floor(math.log10(high)) + 1)
    shown = [10.0**e for e in decades if low <= 10.0**e <= high]
    if len(shown) < 3:  # 5 to 110 holds two powers of ten
        shown = [m * 10.0**e for e in decades for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    shown = [0.0, *shown] if kind == "log1p" else shown
    return shown[:: math.ceil(len(shown) / 8)] if len(shown) > 8 else shown


def _linear_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    base = 10.0 ** math.floor(math.log10(raw))
    step = next((base * m for m in (1, 2, 2.5, 5) if base * m >= raw), base * 10)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _labels(ticks: Sequence[float]) -> list[str]:
    """Evenly spaced ticks as `compact` writes them; with all their figures where one would read as another number,
    as 4096 and 4097 both as 4.1k.
    """
    labels = [compact(t) for t in ticks]
    step = min((b - a for a, b in pairwise(ticks)), default=math.inf)
    if all(abs(_number(label) - t) <= step / 20 for label, t in zip(labels, ticks, strict=True)):
        return labels
    # One figure more than the first of the step, which may be 2.5.
    places = 1 - math.floor(math.log10(step))
    return [_in_full(t, places) for t in ticks]


def _number(label: str) -> float:
    """What a label of `compact` says."""
    size = {"G": 1e9, "M": 1e6, "k": 1e3}.get(label[-1], 1.0)
    return float(label.rstrip("GMk")) * size


def _in_full(value: float, places: int) -> str:
    """A number to so many places after the point, or before it where that is negative."""
    size = abs(value)
    power = math.floor(math.log10(size)) if value else 0
    unit = f"e{power:+d}"
    if 1e6 <= size < 1e12:
        power, unit = (9, "G") if size >= 1e9 else (6, "M")
    elif not value or 1e-3 <= size < 1e6:
        power, unit = 0, ""
    return f"{round(value / 10.0**power, places + power):.15g}{unit}"


def compact(value: float) -> str:
    """1500 as 1.5k: at most three or four figures, for an axis."""
    pairs: tuple[tuple[float, str], ...] = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    if abs(value) >= 1e12:
        return f"{value:.0e}"
    for size, unit in pairs:
        if abs(value) >= size:
            return f"{round(value / size, 2):g}{unit}"
    if 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{round(value, 6):.4g}"


def people(value: float) -> str:
    """A number as people read it: whole ones in full up to nine figures, others to four: 104677, 0.01052, 8.744e-06."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"


def _cut(ticks: Sequence[Tick], width: float) -> list[tuple[Tick, str]]:
    """Every first, second, third, ... category, so that their cut labels differ: `op_000`, not `op...` twelve times."""
    for every in range(1, len(ticks) + 1):
        shown = ticks[::every]
        room = max(3, int(width / len(shown) / 8))
        labels = [shortened(t.label, room) for t in shown]
        if len(set(labels)) == len(labels):
            return list(zip(shown, labels, strict=True))
    return []


def roomy(scale: Scale, width: float) -> list[Tick]:
    """Ticks whose labels do not touch on a horizontal axis so wide: categories are cut to their room, and fewer where
    they would read the same; others are left out.

    The page's script does the same (`roomy` in map.js). A character takes up to 7.8 pixels, on a phone.
    """
    end, found = -math.inf, []
    for tick, label in (
        _cut(scale.ticks, width) if scale.kind == "category" else ((t, t.label) for t in scale.ticks)
    ):
        half = room_of(label) * 3.9
        if tick.at * width - half > end + 5:
            found.append(Tick(tick.at, label))
            end = tick.at * width + half
    return found


def room_of(text: str) -> int:
    """The room that a text takes, in characters: letters of East Asia are twice as wide."""
    return len(text) if text.isascii() else len(text) + sum(east_asian_width(c) in "WF" for c in text)


def shortened(text: str, limit: int) -> str:
    """The text, or as much of it as has this room."""
    if room_of(text) <= limit:
        return text
    kept = text[: limit - 1]
    while room_of(kept) >= limit:
        kept = kept[:-1]
    return kept + "…"


def placed(scale: Scale, start: float, length: float, flip: bool = False) -> Callable[[float], float]:
    """A function from values to pixels, rounded to a tenth."""

    def at(value: float) -> float:
        place = scale.place(value)
        return round(start + length * (1.0 - place if flip else place), 1)

    return at
