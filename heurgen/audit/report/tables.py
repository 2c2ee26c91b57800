"""Small pages: `heurgen evaluate --html` and `heurgen diff --html`. No script at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heurgen.audit.diff import Diff
from heurgen.audit.report import page_parts
from heurgen.audit.report.data import ChangeRow, change_rows, gain_lines
from heurgen.audit.report.scales import placed, slowdown_scale
from heurgen.audit.report.words import share, times
from heurgen.base.text import counted

WIDTH, LEFT, ROW = 620, 210, 22
FIGURES = ("strategy", "geomean", "p95", "max", "within 1.1×", "not valid", "leaves", "configs")
AGREEMENT = ("strategy", "agrees with the winner", "leaves", "configs")


@dataclass(frozen=True, slots=True)
class StrategyLine:
    """A strategy in a chart: pixels of its geometric mean, p95 and worst; beyond the axis they lie at its end."""

    name: str
    y: float
    points: tuple[float, float, float]
    told: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A table of strategies with its chart; `ticks` are (pixel, label), `cut`: points lie beyond the axis."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[StrategyLine, ...]
    ticks: tuple[tuple[float, str], ...]
    height: int
    cut: bool = False


def evaluation_page(evaluations: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> str:
    """The page of `heurgen evaluate`. evaluations: its results as dicts, one a vendor; notes: what it said first."""
    panels = []
    for found in evaluations:
        folds = (
            f"{found['vendor']}: {found['folds']} folds over scenarios, {counted(found['repeats'], 'repeat')}"
        )
        panels.append(_panel(folds, found["rows"]))
        if found["extrapolation"]:
            beyond = f"{found['vendor']}: trained on low {found['dominant']}, tested beyond"
            panels.append(_panel(beyond, found["extrapolation"]))
    return _page("Strategies on scenarios that they were not trained on", panels=panels, notes=notes)


def diff_page(diff: Diff, trained: bool = False) -> str:
    """The page of `heurgen diff`. trained: its log is the one that the new model was trained on."""
    return _page(
        "What changed between two models",
        diff=diff,
        changes=change_rows(diff),
        gains=gain_lines(diff, trained),
    )


def _page(title: str, **data: Any) -> str:
    environment, style, policy = page_parts()
    empty: dict[str, Any] = {
        "panels": [],
        "notes": (),
        "diff": None,
        "changes": list[ChangeRow](),
        "gains": (),
    }
    given = empty | data
    given["slowdowns"] = given["diff"] is not None or any(p.lines for p in given["panels"])
    return environment.get_template("tables.html.jinja").render(
        title=title, r=given, style=style, policy=policy
    )


def _panel(title: str, rows: Sequence[Mapping[str, Any]]) -> Panel:
    known = [r for r in rows if r["geomean_slowdown"] is not None]
    highest = max((r["max_slowdown"] for r in known), default=1.25)
    scale, length = slowdown_scale(highest), WIDTH - LEFT - 20
    at = placed(scale, LEFT, length)
    lines = tuple(
        StrategyLine(
            r["strategy"],
            ROW * (i + 0.5) + 6,
            (at(r["geomean_slowdown"]), at(r["p95_slowdown"]), at(r["max_slowdown"])),
            f"{r['strategy']}: geometric mean {times(r['geomean_slowdown'])}, 95th percentile "
            f"{times(r['p95_slowdown'])}, worst {times(r['max_slowdown'])}",
        )
        for i, r in enumerate(known)
    )
    size = ROW * len(known) + 40
    if not known:
        winners = tuple((r["strategy"], share(r["agreement"]), *_sizes(r)) for r in rows)
        return Panel(f"{title}; winners only, slowdown unknown", AGREEMENT, winners, (), (), size)
    ticks = tuple((round(LEFT + t.at * length, 1), t.label) for t in scale.ticks)
    cut = highest > scale.high * 1.0001
    return Panel(title, FIGURES, tuple(map(_cells, rows)), lines, ticks, size, cut)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["strategy"],
        times(row["geomean_slowdown"]),
        times(row["p95_slowdown"]),
        times(row["max_slowdown"]),
        share(row["within_1_1"]),
        share(row["invalid_share"]),
        *_sizes(row),
    )


def _sizes(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{row[k]:.1f}" if math.isfinite(row[k]) else "–" for k in ("leaves", "configs"))
