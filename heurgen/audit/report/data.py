"""What the page shows, as plain data; templates turn it into HTML and SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen import ir
from heurgen.audit import recorded
from heurgen.audit.diff import Change, Diff
from heurgen.audit.evidence import View, best_single, config_uses, in_selector_order, summary_of, views
from heurgen.audit.explain import explain
from heurgen.audit.regions import flags_of
from heurgen.audit.report.charts import Distribution, Map, distribution, scatter
from heurgen.audit.report.coverage import Coverage, coverage
from heurgen.audit.report.diagrams import Diagram, joint_diagram, parameter_diagrams
from heurgen.audit.report.words import (
    UNKNOWN,
    config_pairs,
    config_tag,
    differing,
    pairs_text,
    pretty,
    share,
    times,
)
from heurgen.audit.score import Choice, Score, Summary
from heurgen.errors import printable
from heurgen.text import counted

if TYPE_CHECKING:
    from heurgen.audit.defaults import Defaults
    from heurgen.costs import CostTable, Floats
    from heurgen.logs import TuningLog

WORST = 12
# Devices whose figures get a section of their own; the headline table lists all.
SECTIONS = 8


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is drawn: marks per map, leaves per tree diagram, whether parameters get their own trees."""

    marks: int
    leaves: int
    parameters: bool = True
    sections: int = SECTIONS


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    name: str
    note: str
    cells: tuple[str, ...]
    main: bool = False


@dataclass(frozen=True, slots=True)
class Worst:
    rank: int
    scenario: str
    features: str
    slowdown: str
    chosen: str
    best: str
    path: tuple[str, ...]
    leaf: int
    tag: str
    config: int


@dataclass(frozen=True, slots=True)
class UseRow:
    tag: str
    config: int
    values: str
    n_leaves: int
    n_training: int
    n: int
    without: str
    change: str
    invalid: str
    leaves: str


@dataclass(frozen=True, slots=True)
class Section:
    """One vendor and device."""

    key: str
    vendor: str
    device: str
    known: bool
    own_selector: bool
    n: int
    kpis: tuple[tuple[str, str], ...]
    headline: tuple[HeadlineRow, ...]
    ecdf: Distribution | None
    map: Map
    joint: Diagram
    parameters: tuple[Diagram, ...]
    worst: tuple[Worst, ...]
    coverage: Coverage
    uses: tuple[UseRow, ...]
    choice: tuple[recorded.Block, ...]
    legend: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True)
class Report:
    kernel: str
    title: str
    overview: tuple[tuple[str, str, Summary], ...]
    sections: tuple[Section, ...]
    left_out: tuple[str, ...]
    provenance: tuple[tuple[str, str], ...]
    log: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    same_log: bool
    diff: Diff | None
    changes: tuple[ChangeRow, ...]


@dataclass(frozen=True, slots=True)
class ChangeRow:
    where: str
    region: str
    change: str
    n: int
    gain: str
    worse: bool


@dataclass(frozen=True, slots=True)
class Given:
    """All that a report is made of."""

    module: ir.HeuristicModule
    tables: Sequence[CostTable]
    score: Score
    log: TuningLog
    notes: Sequence[str] = ()
    defaults: Defaults | None = None
    baseline: ir.HeuristicModule | None = None
    baseline_score: Score | None = None
    diff: Diff | None = None


def report(given: Given, detail: Detail) -> Report:
    module = given.module
    same = module.provenance.get("log_hash") == given.log.content_hash
    found = views(module, given.tables, given.score)
    largest = sorted(found, key=lambda v: -len(v.rows))[: detail.sections]
    drawn = [v for v in found if any(v is w for w in largest)]
    sections = tuple(_section(given, view, f"s{i}", detail, same) for i, view in enumerate(drawn))
    keys = {(s.vendor, s.device): s.key for s in sections}
    overview = []
    for name, summary in given.score.groups.items():
        key = next((k for (v, d), k in keys.items() if f"{v} / {d}" == name), "")
        overview.append((name, key, summary))
    return Report(
        kernel=module.kernel,
        title=f"{module.kernel}: audit of a launch heuristic",
        overview=tuple(overview),
        sections=sections,
        left_out=tuple(f"{v.vendor} / {v.device}" for v in found if (v.vendor, v.device) not in keys),
        provenance=_provenance(module),
        log=_log_facts(given, same),
        notes=tuple(printable(n) for n in given.notes),
        same_log=same,
        diff=given.diff,
        changes=() if given.diff is None else tuple(_change(c) for c in given.diff.changes),
    )


def _section(given: Given, view: View, key: str, detail: Detail, same: bool) -> Section:
    module, selector = given.module, view.selector
    flags = flags_of(module)
    summary = summary_of(view.slowdown, view.known)
    series = _series(given, view)
    used = sorted({leaf.config for leaf in ir.leaves(selector.tree)})
    return Section(
        key=key,
        vendor=view.vendor,
        device=view.device,
        known=view.known,
        own_selector=selector.device is not None,
        n=len(view.rows),
        kpis=_kpis(summary),
        headline=tuple(_headline(given, view, summary, series, same)),
        ecdf=distribution([(n, s, x) for n, s, _, x in series]) if view.known else None,
        map=scatter(view, detail.marks),
        joint=joint_diagram(view, flags, detail.leaves),
        parameters=tuple(parameter_diagrams(view, flags, detail.leaves)) if detail.parameters else (),
        worst=tuple(_worst(module, view)),
        coverage=coverage(module, view, flags),
        uses=tuple(_uses(view, summary)),
        choice=recorded.blocks(selector),
        legend=tuple(
            (config_tag(c), c, config_pairs(selector.parameters, selector.configs[c])) for c in used
        ),
    )


def _kpis(summary: Summary) -> tuple[tuple[str, str], ...]:
    if summary.geomean_slowdown is None:
        agree = "slowdown unknown" if summary.invalid_share is None else "no valid choice"
        return (("slowdown", agree), ("scenarios", str(summary.n_scenarios)))
    return (
        ("geometric mean", times(summary.geomean_slowdown)),
        ("95th percentile", times(summary.p95_slowdown)),
        ("worst", times(summary.max_slowdown)),
        ("within 1.1×", share(summary.within_1_1)),
        ("not valid", share(summary.invalid_share)),
        ("scenarios", str(summary.n_scenarios)),
    )


# --- headline ---------------------------------------------------------------------------------------------


def _series(given: Given, view: View) -> list[tuple[str, str, str, Floats]]:
    """(name, style, note, log-slowdowns) of everything that is compared on the given log."""
    if not view.known:
        return []
    series = [("this model", "model", "", view.slowdown)]
    if given.baseline_score is not None:
        before = {(c.vendor, c.row): c.slowdown for c in given.baseline_score.choices}
        old = [before.get((view.vendor, r)) for r in view.rows.tolist()]
        series.append(
            ("baseline model", "base", "", np.array([math.nan if x is None else math.log(x) for x in old]))
        )
    if given.defaults is not None and view.vendor in given.defaults.columns:
        column = given.defaults.columns[view.vendor][view.rows]
        costs = view.costs[np.arange(len(column)), column]
        costs = np.where(column >= 0, costs, np.nan)
        series.append(("today’s defaults", "today", printable(given.defaults.what), costs))
    single = best_single(view)
    if single is not None:
        config = config_pairs(view.selector.parameters, in_selector_order(view, single))
        series.append(("best single config", "single", config, view.costs[:, single]))
    return series


def _headline(
    given: Given, view: View, summary: Summary, series: Sequence[tuple[str, str, str, Floats]], same: bool
) -> list[HeadlineRow]:
    on_log = "this log is the training log" if same else "a log that is not the training log"
    training = recorded.training(view.selector)
    if same and len(view.selector.devices) <= 1:
        training = summary
    rows = [
        HeadlineRow("this model, given log", on_log, _cells(summary), True),
        HeadlineRow("this model, training", _training_note(view.selector, same), _cells(training)),
    ]
    held_out, how = recorded.held_out(view.selector)
    rows.append(HeadlineRow("this model, cross-validated", how, _cells(held_out)))
    for name, _, note, costs in series[1:]:
        rows.append(HeadlineRow(name, note, _cells(summary_of(costs))))
    if view.known:
        n = len(view.rows)
        rows.append(
            HeadlineRow(
                "oracle",
                "the best measured config of every scenario",
                ("1.000×", "1.000×", "1.000×", "100.0 %", "0.0 %", str(n)),
            )
        )
    return rows


def _training_note(selector: ir.Selector, same: bool) -> str:
    if not selector.costs_known:
        return "winners only: slowdown unknown"
    where = "recorded in the leaves" if not same else "as shipped"
    return f"{counted(selector.n_scenarios, 'scenario')}, {where}"


def _cells(summary: Summary | None) -> tuple[str, ...]:
    if summary is None:
        return (UNKNOWN,) * 6
    return (
        times(summary.geomean_slowdown),
        times(summary.p95_slowdown),
        times(summary.max_slowdown),
        share(summary.within_1_1),
        share(summary.invalid_share),
        str(summary.n_scenarios) if summary.n_scenarios else UNKNOWN,
    )


# --- tables -----------------------------------------------------------------------------------------------


def _worst(module: ir.HeuristicModule, view: View) -> list[Worst]:
    if not view.known:
        return []
    order = sorted(view.choices, key=lambda c: (c.slowdown is not None, -(c.slowdown or 0.0), c.row))
    shown = [c for c in order[:WORST] if c.slowdown is None or c.slowdown > 1.0]
    return [_worst_row(module, view, i + 1, c) for i, c in enumerate(shown)]


def _worst_row(module: ir.HeuristicModule, view: View, rank: int, choice: Choice) -> Worst:
    names = view.selector.parameters
    found = explain(module, choice.vendor, choice.features, choice.device)
    path = tuple(pretty(f"{s.test}: {'yes' if s.held else 'no'}") for s in found.steps)
    return Worst(
        rank=rank,
        scenario=printable(choice.scenario) or str(rank),
        features=pairs_text(choice.features),
        slowdown=times(choice.slowdown) if choice.slowdown is not None else f"not valid ({choice.status})",
        chosen=config_pairs(names, choice.chosen),
        best=differing(names, choice.chosen, choice.best) or "the same",
        path=path,
        leaf=choice.leaf_index,
        tag=config_tag(choice.leaf.config),
        config=choice.leaf.config,
    )


def _uses(view: View, summary: Summary) -> list[UseRow]:
    rows = []
    leaves = [leaf.config for leaf in ir.leaves(view.selector.tree)]
    for use in config_uses(view):
        change = UNKNOWN
        if use.without is not None and summary.geomean_slowdown:
            percent = 100 * (use.without / summary.geomean_slowdown - 1)
            change = f"{percent:+.1f} %"
        rows.append(
            UseRow(
                config_tag(use.config),
                use.config,
                config_pairs(view.selector.parameters, view.selector.configs[use.config]),
                use.n_leaves,
                use.n_training,
                use.n,
                times(use.without),
                change,
                share(use.invalid_without),
                " ".join(str(i) for i, c in enumerate(leaves) if c == use.config),
            )
        )
    return rows


def _change(change: Change) -> ChangeRow:
    arrows = ", ".join(f"{n} {_word(a)} → {_word(b)}" for n, (a, b) in change.differing.items())
    gain = change.gain
    if gain is None:
        text = UNKNOWN
    else:
        text = (
            f"{gain:.3f}× faster"
            if gain >= 1.0005
            else f"{1 / gain:.3f}× slower"
            if gain <= 0.9995
            else "equal"
        )
    where = change.vendor if change.device is None else f"{change.vendor} / {change.device}"
    region = pretty(" and ".join(change.region)) or "every launch"
    return ChangeRow(
        where, region, printable(arrows), len(change.scenarios), text, gain is not None and gain < 0.9995
    )


def _word(value: ir.Value) -> str:
    return "none" if value is None else str(value)


# --- provenance -------------------------------------------------------------------------------------------


def _provenance(module: ir.HeuristicModule) -> tuple[tuple[str, str], ...]:
    rows = [(printable(k).replace("_", " "), _flat(v)) for k, v in module.provenance.items()]
    for selector in module.selectors:
        name = selector.vendor if selector.device is None else f"{selector.vendor} / {selector.device}"
        size = f"{sum(1 for _ in ir.leaves(selector.tree))} leaves, depth {ir.depth(selector.tree)}"
        trained = f"{selector.n_scenarios} scenarios, {selector.n_measurements} measurements"
        costs = "" if selector.costs_known else "; winners only, slowdown unknown"
        rows.append(
            (f"selector {printable(name)}", f"{printable(selector.strategy)}; {size}; {trained}{costs}")
        )
    return tuple(rows)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{printable(k)} {_flat(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_flat, value)) or "none"
    return printable(value)


def _log_facts(given: Given, same: bool) -> tuple[tuple[str, str], ...]:
    log = given.log
    return (
        ("content hash", f"sha256 {log.content_hash}" + (" (the training log)" if same else "")),
        ("measurements", f"{log.n_measurements}, {log.n_failures} of them failures"),
        ("scenarios", str(log.n_scenarios)),
        ("configs", str(log.n_configs)),
        ("devices", ", ".join(printable(d) for d in log.devices)),
    )
