"""What the page shows, as plain data; templates turn it into HTML and SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heurgen import ir
from heurgen.audit import recorded
from heurgen.audit.diff import WINNERS_ONLY, Change, Diff, but_for
from heurgen.audit.evidence import View, config_uses, views
from heurgen.audit.explain import explain
from heurgen.audit.regions import flags_of
from heurgen.audit.report.charts import Distribution, drawn
from heurgen.audit.report.coding import to_script
from heurgen.audit.report.coverage import Coverage, coverage
from heurgen.audit.report.devices import Disagreements, disagreements
from heurgen.audit.report.diagrams import Diagram, joint_diagram
from heurgen.audit.report.explorer import explorer, held_out_slowdowns, training_rows
from heurgen.audit.report.facts import log_facts, model_facts, n_dropped
from heurgen.audit.report.headline import (
    AGREEMENT,
    FIGURES,
    HeadlineRow,
    cells,
    curves,
    headline,
    others,
    series_of,
)
from heurgen.audit.report.lead import Lead, lead, overall
from heurgen.audit.report.words import (
    LEAST_FIGURES,
    UNKNOWN,
    config_pairs,
    config_tag,
    differing,
    pairs_text,
    pretty,
    share,
    times,
    told_apart,
    value_text,
)
from heurgen.audit.score import Choice, Score, figures, group_name
from heurgen.base.errors import printable
from heurgen.base.figures import Summary

if TYPE_CHECKING:
    from heurgen.audit.defaults import Defaults
    from heurgen.logs.costs import CostTable
    from heurgen.logs.tuning_log import TuningLog

WORST = 12
# Regions of a diff: 35,000 are a page of 20 MB.
CHANGES = 200
# Devices whose figures get a section of their own; the headline table lists all.
SECTIONS = 8


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is drawn: scenarios, configs of the heat map, leaves of the tree diagram, devices."""

    scenarios: int
    configs: int
    leaves: int
    sections: int = SECTIONS


@dataclass(frozen=True, slots=True)
class Worst:
    scenario: str
    features: str
    slowdown: str
    chosen: str
    best: str
    path: tuple[str, ...]
    leaf: int
    tag: str


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
    """One vendor and device. `explorer` is what the page's script is given, as JSON."""

    key: str
    vendor: str
    device: str
    known: bool
    own_selector: bool
    n: int
    lead: Lead
    explorer: str
    n_configs_left_out: int
    multiples: tuple[tuple[int, str, str], ...]
    columns: tuple[str, ...]
    headline: tuple[HeadlineRow, ...]
    ecdf: Distribution | None
    n_drawn: int
    dots: str
    joint: Diagram
    worst: tuple[Worst, ...]
    coverage: Coverage
    uses: tuple[UseRow, ...]
    choice: tuple[recorded.Block, ...]
    legend: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A device, or the selector of several: its section (none where it is left out), held-out figures, the log's
    geometric mean.
    """

    name: str
    key: str
    cells: tuple[str, ...]
    on_log: str


@dataclass(frozen=True, slots=True)
class Page:
    kernel: str
    title: str
    known: bool
    columns: tuple[str, ...]
    overview: tuple[OverviewRow, ...]
    overall: str
    sections: tuple[Section, ...]
    left_out: tuple[str, ...]
    provenance: tuple[tuple[str, str], ...]
    log: tuple[tuple[str, str], ...]
    n_scenarios: int
    n_dropped: int
    notes: tuple[str, ...]
    same_log: bool
    diff: Diff | None
    changes: tuple[ChangeRow, ...]
    gains: tuple[str, ...]
    devices: Disagreements
    device_maps: tuple[tuple[str, ...], ...]


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
    baseline_score: Score | None = None
    diff: Diff | None = None


def report(given: Given, detail: Detail) -> Page:
    module = given.module
    same = recorded.is_training_log(module, given.log)
    found = views(module, given.tables, given.score)
    largest = sorted(found, key=lambda v: -len(v.rows))[: detail.sections]
    kept = [v for v in found if any(v is w for w in largest)]
    sections = tuple(_section(given, view, f"s{i}", detail, same) for i, view in enumerate(kept))
    keys = {(s.vendor, s.device): s.key for s in sections}
    known = any(v.known for v in found)
    return Page(
        kernel=module.kernel,
        title=f"{module.kernel}: audit of a launch heuristic",
        known=known,
        columns=FIGURES if known else AGREEMENT,
        overview=tuple(_overview(found, keys, known, same)),
        overall=overall(found, same),
        sections=sections,
        left_out=tuple(group_name(v.vendor, v.device) for v in found if (v.vendor, v.device) not in keys),
        provenance=model_facts(module),
        log=log_facts(given.log, same),
        n_scenarios=given.log.n_scenarios - n_dropped(given.log),
        n_dropped=n_dropped(given.log),
        notes=tuple(printable(n) for n in given.notes),
        same_log=same,
        diff=given.diff,
        changes=() if given.diff is None else change_rows(given.diff),
        gains=gain_lines(given.diff, same),
        devices=disagreements(module, found),
        device_maps=tuple(_device_maps(sections)),
    )


def _device_maps(sections: Sequence[Section]) -> Iterator[tuple[str, ...]]:
    """The sections of every vendor that has several devices with selectors of their own."""
    for vendor in dict.fromkeys(s.vendor for s in sections):
        own = tuple(s.key for s in sections if s.vendor == vendor and s.own_selector)
        if len(own) > 1:
            yield own


def _overview(
    found: Sequence[View], keys: Mapping[tuple[str, str], str], known: bool, same: bool
) -> Iterator[OverviewRow]:
    """A row a device; above those that share a selector one with its figures, which are of none of them alone."""
    told = set[int]()
    for view in found:
        held, _ = recorded.held_out(view.selector)
        shared = others(view)
        if shared and id(view.selector) not in told:
            told.add(id(view.selector))
            alike = [v for v in found if v.selector is view.selector]
            name = f"{view.vendor}: the selector{shared}"
            yield OverviewRow(
                name, "", cells(held, known), _on_log([c for v in alike for c in v.choices], known)
            )
        key = keys.get((view.vendor, view.device), "")
        own = cells(_of_one_device(view, same) if shared else held, known)
        yield OverviewRow(f"{view.vendor}: {view.device}", key, own, _on_log(view.choices, known))


def _of_one_device(view: View, same: bool) -> Summary:
    """What training recorded of one device of several: how many scenarios, and their held-out geometric mean.

    Records of single scenarios are means over the repeats: their worst is not the worst answer. Where one of them was
    not valid nothing is told.
    """
    held = held_out_slowdowns(view, same) if view.known else None
    if held is None or not all(map(math.isfinite, held)):
        return Summary(len(view.rows))
    return Summary(len(view.rows), math.exp(math.fsum(map(math.log, held)) / len(held)))


def _on_log(choices: Sequence[Choice], known: bool) -> str:
    found = figures(choices)
    return times(found.geomean_slowdown) if known else share(found.agreement)


def _section(given: Given, view: View, key: str, detail: Detail, same: bool) -> Section:
    module, selector = given.module, view.selector
    flags = flags_of(module)
    summary = figures(view.choices)
    series = series_of(given, view)
    used = sorted({leaf.config for leaf in ir.leaves(selector.tree)})
    held = held_out_slowdowns(view, same)
    rows = drawn(view, detail.scenarios, held, _named_worst(view, same))
    data = explorer(module, view, rows, detail.configs, same)
    return Section(
        key=key,
        vendor=view.vendor,
        device=view.device,
        known=view.known,
        own_selector=selector.device is not None,
        n=len(view.rows),
        lead=lead(view, summary, same, {row: i for i, row in enumerate(rows)}),
        explorer=to_script(data),
        n_configs_left_out=data["heat"]["left_out"] if view.known else 0,
        multiples=tuple(_multiples(view, used)),
        columns=FIGURES if view.known else AGREEMENT,
        headline=tuple(headline(view, summary, series, same)),
        ecdf=curves(series, held, recorded.several_repeats(selector)) if view.known else None,
        n_drawn=len(rows),
        dots=_dots(view, held),
        joint=joint_diagram(view, flags, detail.leaves),
        worst=tuple(_worst(module, view)),
        coverage=coverage(module, view, flags),
        uses=tuple(_uses(view, summary)),
        choice=recorded.blocks(selector),
        legend=tuple(
            (config_tag(c), c, config_pairs(selector.parameters, selector.configs[c])) for c in used
        ),
    )


def _named_worst(view: View, same: bool) -> list[int]:
    """Places of the worst held-out scenarios that training recorded by name."""
    at = training_rows(view) if same else None
    return [] if at is None else [at[w.row] for w in recorded.held_out_worst(view.selector) if w.row in at]


def _dots(view: View, held: Sequence[float] | None) -> str:
    if held is not None:
        mean = " (the mean of its repeats)" if recorded.several_repeats(view.selector) else ""
        return f"held-out slowdown{mean}"
    return "slowdown with the tree that ships" if view.known else "whether the choice is the measured winner"


def _multiples(view: View, used: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """(config, its tag, where it is chosen and where it would win) for the small maps."""
    for config in used:
        chosen = sum(c.leaf.config == config for c in view.choices)
        wins = sum(c.best == view.selector.configs[config] for c in view.choices)
        yield config, config_tag(config), f"chosen {chosen}, would win {wins}"


def _worst(module: ir.HeuristicModule, view: View) -> list[Worst]:
    if not view.known:
        return []
    order = sorted(view.choices, key=lambda c: (c.slowdown is not None, -(c.slowdown or 0.0), c.row))
    shown = [c for c in order[:WORST] if c.slowdown is None or c.slowdown > 1.0]
    return [_worst_row(module, view, i + 1, c) for i, c in enumerate(shown)]


def _worst_row(module: ir.HeuristicModule, view: View, rank: int, choice: Choice) -> Worst:
    names = view.selector.parameters
    found = explain(module, choice.vendor, choice.features, choice.device)
    digits = told_apart(module.selector(choice.vendor, choice.device).tree)
    told = [pretty(s.test, digits.get(s.test.partition(" ")[0], LEAST_FIGURES)) for s in found.steps]
    path = tuple(f"{text}: {'yes' if s.held else 'no'}" for text, s in zip(told, found.steps, strict=True))
    return Worst(
        scenario=printable(choice.scenario) or str(rank),
        features=pairs_text(choice.features),
        slowdown=times(choice.slowdown) if choice.slowdown is not None else f"not valid ({choice.status})",
        chosen=config_pairs(names, choice.chosen),
        best=differing(names, choice.chosen, choice.best) or "the same",
        path=path,
        leaf=choice.leaf_index,
        tag=config_tag(choice.leaf.config),
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


def change_rows(diff: Diff) -> tuple[ChangeRow, ...]:
    """The first changes as the page tells them."""
    return tuple(change_row(c) for c in diff.changes[:CHANGES])


def change_row(change: Change) -> ChangeRow:
    arrows = ", ".join(f"{n} {value_text(a)} → {value_text(b)}" for n, (a, b) in change.differing.items())
    region = " and ".join(map(pretty, change.region)) or "every launch"
    gain = change.gain
    lost = any(s.old is not None and s.new is None for s in change.scenarios)
    worse = lost or (gain is not None and gain < 0.9995)
    told = f"{_gain(gain)}{but_for(gain, change.scenarios)}"
    return ChangeRow(
        group_name(change.vendor, change.device),
        region,
        printable(arrows),
        len(change.scenarios),
        told,
        worse,
    )


def gain_lines(diff: Diff | None, trained: bool) -> tuple[str, ...]:
    """A sentence for every vendor, and device that has a selector, whose gain over the log is known, or cannot be.

    trained: the log is that of the new model.
    """
    if diff is None:
        return ()
    found = []
    for of, gain in diff.gains.items():
        if gain is not None:
            speed = f"the new model{', which was trained on it,' * trained} is {gain:.3f}× as fast as the baseline"
            told = f"{speed}{but_for(gain, diff.moved(*of))}"
            found.append(f"{printable(group_name(*of))}: over all scenarios of the given log {told}.")
        elif of[0] in diff.winners_only:
            found.append(f"{printable(group_name(*of))}: {WINNERS_ONLY}.")
    return tuple(found)


def _gain(gain: float | None) -> str:
    if gain is None:
        return UNKNOWN
    if 0.9995 <= gain < 1.0005:
        return "equal"
    return f"{gain:.3f}× faster" if gain > 1 else f"{1 / gain:.3f}× slower"
