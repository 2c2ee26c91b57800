"""Where the log has data: range and density of every feature, and what lies between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from heurgen import ir
from heurgen.audit.evidence import View, column_values, leaf_evidence
from heurgen.audit.regions import leaf_regions
from heurgen.audit.report.scales import category_scale, number_scale, people, placed, roomy, shortened
from heurgen.audit.report.words import conditions, pretty, told_apart
from heurgen.base.errors import literal
from heurgen.base.text import counted, number_text

if TYPE_CHECKING:
    from heurgen.logs.costs import Floats, TableColumn

WIDTH = 340
_EDGE, _TALL = 6, 34
_BINS = 40
# A stretch without data is told where it takes up this share of the axis.
_GAP = 0.15
_TOLD = 12


@dataclass(frozen=True, slots=True)
class Strip:
    """One feature: bars and cuts (thresholds of the tree) are SVG path data; gaps are (x, width) pixels."""

    name: str
    about: str
    seen: str
    trained: str
    n_distinct: int
    bars: str
    gaps: tuple[tuple[float, float], ...]
    cuts: str
    ticks: tuple[tuple[float, str], ...]
    note: str


@dataclass(frozen=True, slots=True)
class Coverage:
    strips: tuple[Strip, ...]
    holes: tuple[str, ...]
    n_more: int


def coverage(module: ir.HeuristicModule, view: View, flags: tuple[str, ...]) -> Coverage:
    strips, holes = [], []
    cuts = _cuts(view)
    for column in view.table.columns:
        feature = next((f for f in module.columns if f.name == column.name), None)
        strip, found = _strip(view, feature, column, cuts.get(column.name, ()))
        strips.append(strip)
        holes += found
    holes += _thin_leaves(view, flags)
    return Coverage(tuple(strips), tuple(holes[:_TOLD]), max(0, len(holes) - _TOLD))


def _strip(
    view: View, feature: ir.Feature | ir.Derived | None, column: TableColumn, cuts: Sequence[float]
) -> tuple[Strip, list[str]]:
    name = column.name
    values, counts = np.unique(column_values(view, name), return_counts=True)
    flags = ("false", "true") if column.type == "bool" else ()
    labels = column.values if column.type == "category" else flags
    scale = category_scale(labels) if labels else number_scale(values.tolist())
    places, at = [scale.place(v) for v in values.tolist()], placed(scale, _EDGE, WIDTH - 2 * _EDGE)
    if labels:
        gaps, told = _category_holes(name, labels, values)
    else:
        gaps, told = _number_holes(name, values, places, cuts, 1.0 if column.type == "int" else 0.0)
    unit = f", {feature.unit}" if isinstance(feature, ir.Feature) and feature.unit else ""
    about = feature.expression if isinstance(feature, ir.Derived) else f"{column.type}{unit}"
    strip = Strip(
        name=name,
        about=shortened(pretty(about), 60),
        seen=_seen(values, len(labels)),
        trained="" if labels else _range_text(view.selector.ranges.get(name)),
        n_distinct=len(values),
        bars=_bars(places, counts.tolist(), len(labels)),
        gaps=tuple((at(a), round(at(b) - at(a), 1)) for a, b in gaps),
        cuts="".join(f"M{at(c):g} 2V42" for c in cuts if scale.low < c < scale.high),
        ticks=tuple((round(_EDGE + t.at * (WIDTH - 2 * _EDGE), 1), t.label) for t in roomy(scale, WIDTH)),
        note=scale.note,
    )
    return strip, told


def _seen(values: Floats, n_labels: int) -> str:
    if n_labels:
        return f"{len(set(values.tolist()))} of {n_labels} values"
    return _range_text((float(values.min()), float(values.max())))


def _range_text(seen: tuple[float, float] | None) -> str:
    return "" if seen is None else f"{people(seen[0])} to {people(seen[1])}"


def _bars(places: Sequence[float], scenarios: Sequence[int], n_labels: int) -> str:
    """A bar for every bin that holds scenarios; heights are square roots of counts. scenarios: how many lie at each
    place.
    """
    counts, starts = _density(places, scenarios, n_labels)
    width, top, low = _bar_width(len(counts)), max(counts) or 1, 4 + _TALL
    path = ""
    for count, start in zip(counts, starts, strict=True):
        if count:
            left, high = (
                round(_EDGE + start * (WIDTH - 2 * _EDGE), 1),
                round(low - _TALL * math.sqrt(count / top), 1),
            )
            path += f"M{left:g} {low}V{high:g}H{round(left + width, 1):g}V{low}Z"
    return path


def _bar_width(n: int) -> float:
    return max(1.0, (WIDTH - 2 * _EDGE) / n - 1)


def _density(
    places: Sequence[float], scenarios: Sequence[int], n_labels: int
) -> tuple[list[int], list[float]]:
    """Scenarios per bin, and where each bin starts (0..1)."""
    bins = min(n_labels, 60) if n_labels else _BINS
    counts = [0] * bins
    for place, n in zip(places, scenarios, strict=True):
        counts[min(int(place * bins), bins - 1)] += n
    return counts, [i / bins for i in range(bins)]


def _cuts(view: View) -> dict[str, list[float]]:
    """The thresholds of each feature that the tree asks for, in order."""
    found: dict[str, set[float]] = {}
    for node in ir.nodes(view.selector.tree):
        if isinstance(node, ir.Split):
            found.setdefault(node.feature, set()).add(float(node.threshold))
    return {name: sorted(thresholds) for name, thresholds in found.items()}


def _number_holes(
    name: str, values: Floats, places: Sequence[float], cuts: Sequence[float], step: float
) -> tuple[list[tuple[float, float]], list[str]]:
    """Stretches of the axis without a scenario, the widest first; a threshold inside is said so.

    values: each once, in order, and their places. step: values so near have none between them, as ints 0 and 1, which
    lie far apart on a logarithmic axis.
    """
    pairs = pairwise(zip(values.tolist(), places, strict=True))
    wide = [(q - p, a, b) for (a, p), (b, q) in pairs if b - a > step and q - p >= _GAP]
    gaps = [(a, b) for _, a, b in sorted(wide, key=lambda g: -g[0])]
    told = []
    for low, high in gaps:
        inside = [number_text(c) for c in cuts if low <= c < high]
        cut = f"; the tree decides at {', '.join(inside)} in there" if inside else ""
        told.append(f"no scenario with {people(low)} < {name} < {people(high)}{cut}")
    return gaps, told


def _category_holes(
    name: str, labels: tuple[str, ...], values: Floats
) -> tuple[list[tuple[float, float]], list[str]]:
    seen = set(values.tolist())
    missing = [i for i in range(len(labels)) if float(i) not in seen]
    listed = ", ".join(shortened(literal(labels[i]), 30) for i in missing[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    told = [f"no scenario with {name} = {listed}{more}"] if missing else []
    return [(i - 0.5, i + 0.5) for i in missing], told


def _thin_leaves(view: View, flags: tuple[str, ...]) -> list[str]:
    """Leaves in which this log has no scenario, or one alone."""
    regions = [region for _, region in leaf_regions(view.selector.tree)]
    told, digits = [], told_apart(view.selector.tree)
    for own, region in zip(leaf_evidence(view), regions, strict=True):
        if own.n <= 1:
            where = " and ".join(conditions(region, flags, digits)) or "every launch"
            told.append(
                f"{counted(own.n, 'scenario') if own.n else 'no scenario'} in leaf {own.index + 1}: {where}"
            )
    return told
