"""What stands side by side, as a table and as curves: the model, a baseline, defaults, one config, the oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heurgen import ir
from heurgen.audit import recorded
from heurgen.audit.evidence import View, best_single, in_selector_order
from heurgen.audit.report.charts import Distribution, distribution
from heurgen.audit.report.words import UNKNOWN, config_pairs, share, short, times
from heurgen.base.errors import printable
from heurgen.base.figures import Summary, summarise
from heurgen.base.text import counted

if TYPE_CHECKING:
    from heurgen.audit.report.data import Given
    from heurgen.logs.costs import Floats

FIGURES = ("geomean", "p95", "max", "within 1.1×", "not valid", "scenarios")
AGREEMENT = ("agrees with the winner", "scenarios")


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    """A choice and its cells under `FIGURES`, or under `AGREEMENT`."""

    name: str
    note: str
    cells: tuple[str, ...]
    main: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A choice on the given log: log-slowdowns [S], NaN where not valid. `style` is a class of the style sheet."""

    name: str
    style: str
    note: str
    costs: Floats


def series_of(given: Given, view: View) -> list[Series]:
    """Everything whose slowdowns on the given log are known, the model first; nothing for winners alone."""
    if not view.known:
        return []
    found = [Series("this model", "model", "", view.slowdown)]
    if given.baseline_score is not None:
        before = {(c.vendor, c.row): c.slowdown for c in given.baseline_score.choices}
        old = [before.get((view.vendor, r)) for r in view.rows.tolist()]
        costs = np.array([math.nan if x is None else math.log(x) for x in old])
        found.append(Series("baseline model", "base", "", costs))
    if given.defaults is not None and view.vendor in given.defaults.columns:
        column = given.defaults.columns[view.vendor][view.rows]
        costs = np.where(column >= 0, view.costs[np.arange(len(column)), column], np.nan)
        found.append(Series("today’s defaults", "today", printable(given.defaults.what), costs))
    single = best_single(view)
    if single is not None:
        config = config_pairs(view.selector.parameters, in_selector_order(view, single))
        found.append(Series("best single config", "single", config, view.costs[:, single]))
    return found


def headline(view: View, on_log: Summary, series: Sequence[Series], same: bool) -> Iterator[HeadlineRow]:
    """Held-out figures first, then the log's, then what they compare with."""
    known, selector = view.known, view.selector
    held_out, how = recorded.held_out(selector)
    how = f"{how},{of}" if held_out is not None and (of := others(view)) else how
    yield HeadlineRow("this model, held out", how, cells(held_out, known), True)
    if same:
        note = f"{counted(len(view.rows), 'scenario')} of the training log, which flatters"
        yield HeadlineRow("this model, training", note, cells(on_log, known))
    else:
        note = "a log that is not the training log"
        yield HeadlineRow("this model, given log", note, cells(on_log, known))
        trained = recorded.training(selector)
        yield HeadlineRow("this model, training", _training_note(selector), cells(trained, known))
    for other in series[1:]:
        yield HeadlineRow(other.name, other.note, cells(summarise(other.costs.tolist()), known))
    if known:
        best = ("1.000×", "1.000×", "1.000×", "100.0 %", "0.0 %", str(len(view.rows)))
        yield HeadlineRow("oracle", "the best measured config of every scenario", best)


def others(view: View) -> str:
    """Whose launches the figures of the view's selector are, where they are not of this device alone."""
    devices = view.selector.devices
    if not devices or devices == (view.device,):
        return ""
    return f" of {short(devices[0])}" if len(devices) == 1 else f" of its {len(devices)} devices"


def _training_note(selector: ir.Selector) -> str:
    if not selector.costs_known:
        return "winners only: slowdown unknown"
    if not recorded.is_counted(selector.tree):
        return f"{counted(selector.n_scenarios, 'scenario')}, whose figures a module does not carry"
    return f"{counted(selector.n_scenarios, 'scenario')}, recorded in the leaves"


def cells(summary: Summary | None, known: bool) -> tuple[str, ...]:
    """The figures under `FIGURES`; of winners alone those under `AGREEMENT`."""
    if summary is None:
        return (UNKNOWN,) * len(FIGURES if known else AGREEMENT)
    count = str(summary.n_scenarios) if summary.n_scenarios else UNKNOWN
    if not known:
        return share(summary.agreement), count
    return (
        times(summary.geomean_slowdown),
        times(summary.p95_slowdown),
        times(summary.max_slowdown),
        share(summary.within_1_1),
        share(summary.invalid_share),
        count,
    )


def curves(series: Sequence[Series], held: Sequence[float] | None, averaged: bool = False) -> Distribution:
    """The distributions; where held-out slowdowns (ratios) are known, they lead, and the model's own are training's.

    averaged: they are means over several repeats of the folds, so that their worst is below the headline's.
    """
    lines = [(s.name, s.style, s.costs) for s in series]
    if held is not None:
        lines[0] = ("this model, training", "trained", lines[0][2])
        name = "this model, held out" + (", mean of the repeats" if averaged else "")
        lines.insert(0, (name, "model", np.log(np.array(held))))
    return distribution(lines)
