"""The first screen: one sentence, the held-out figures, and the worst launches that training held out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heurgen import ir
from heurgen.audit import recorded
from heurgen.audit.report.explorer import held_out_slowdowns, told, training_rows
from heurgen.audit.report.headline import others
from heurgen.audit.report.words import config_pairs, differing, pairs_text, share, shorten, times
from heurgen.audit.worst import NOTICED
from heurgen.base.errors import printable
from heurgen.base.text import counted, share_text

if TYPE_CHECKING:
    from heurgen.audit.evidence import View
    from heurgen.base.figures import Summary

WORST = 6
Figures = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HeldOutWorst:
    """A scenario of the training log, as cross-validation answered it while it was held out."""

    number: int
    scenario: str
    told: str
    features: str
    slowdown: str
    chosen: str
    best: str


@dataclass(frozen=True, slots=True)
class Lead:
    """`on_log` are the figures on the given log, which flatter where it is the training log; `note` says what is not
    known, `unrecorded` why the worst held-out scenarios are not.
    """

    sentence: str
    held_out: Figures
    on_log: str
    worst: tuple[HeldOutWorst, ...]
    flawless: bool
    note: str
    unrecorded: str


def lead(view: View, on_log: Summary, same_log: bool, places: Mapping[int, int]) -> Lead:
    """places: scenario of the view -> its number among those that the page draws."""
    selector = view.selector
    held, how = recorded.held_out(selector)
    figures = _held_out_figures(view, held)
    return Lead(
        sentence=_sentence(view, held, same_log),
        held_out=figures,
        on_log=_on_log(on_log, same_log),
        worst=tuple(_worst(view, same_log, places)),
        flawless=held is not None and (held.max_slowdown or 9.0) < NOTICED and not held.invalid_share,
        # The tree that ships has seen them all: its like, and at times other configs, answered.
        note=f"Each launch answered by a tree learnt without it: {how}.{_interval(view, same_log)}"
        if figures
        else f"Held-out figures: {how}.",
        unrecorded=_unrecorded(selector, same_log),
    )


def _interval(view: View, same_log: bool) -> str:
    """How far the held-out mean can be trusted, where the view has the whole training log."""
    places = training_rows(view) if same_log else None
    if places is None or len(places) != view.selector.n_scenarios:
        return ""
    rows = view.rows[[places[row] for row in sorted(places)]]
    ends = recorded.held_out_interval(view.selector, view.table.group[rows].tolist())
    return "" if ends is None else f" 95 % interval of the mean: {times(ends[0])} to {times(ends[1])}."


def _unrecorded(selector: ir.Selector, same_log: bool) -> str:
    """Why no held-out scenario is named; `auto` alone holds out, and holds out nothing of a log of few groups."""
    if not recorded.is_counted(selector.tree):
        return ": a module does not carry it, its model does"
    if not same_log:
        return " for this log"
    note = selector.choice.get("note")
    return f": {note}" if isinstance(note, str) else ": train again with --strategy auto to know"


def _sentence(view: View, held: Summary | None, same_log: bool) -> str:
    leaves = list(ir.leaves(view.selector.tree))
    size = f"{counted(len({x.config for x in leaves}), 'config')}, {counted(len(leaves), 'leaf')}"
    if not view.selector.costs_known:
        agreement = None if held is None else held.agreement
        launches = f"unseen launches{others(view)}"
        known = "" if agreement is None else f"; the measured winner on {share(agreement)} of {launches}"
        return f"{size}; learnt from winners alone, so that no slowdown is known{known}"
    if held is None or held.geomean_slowdown is None:
        invalid = _invalid(view, held, same_log, f"unseen launches{others(view)}")
        return f"{size}{invalid or '; how it does on unseen launches was not recorded'}"
    invalid = _invalid(view, held, same_log, "them")
    text = f"{size}; {times(held.geomean_slowdown)} on unseen launches{others(view)}"
    if held.max_slowdown is None:
        return text + invalid
    if held.max_slowdown < NOTICED:
        return f"{text}{invalid or ', everywhere'}"
    return f"{text}, worst {times(held.max_slowdown)}{_where(view, held.max_slowdown, same_log)}{invalid}"


def _where(view: View, slowest: float, same_log: bool) -> str:
    """The scenario that fared worst while held out, where training recorded it and this view has it."""
    row = next((w.row for w in recorded.held_out_worst(view.selector) if w.slowdown is not None), None)
    if row is None:  # the list is full of choices that were not valid
        every = recorded.held_out_scenarios(view.selector) or []
        row = next((i for i, x in enumerate(every) if math.isclose(x, slowest, rel_tol=1e-3)), None)
    return _at(view, row, same_log)


def _invalid(view: View, held: Summary | None, same_log: bool, launches: str) -> str:
    """How often the held-out choice failed or was never measured, and where for example."""
    if held is None or not held.invalid_share:
        return ""
    row = next((w.row for w in recorded.held_out_worst(view.selector) if w.slowdown is None), None)
    place = _at(view, row, same_log).replace(" at", ", as at", 1)
    return f"; not valid on {share_text(held.invalid_share)} of {launches}{place}"


def _at(view: View, row: int | None, same_log: bool) -> str:
    """A scenario of the training table by what tells it from the others; nothing where this view does not have it."""
    at = training_rows(view) if same_log else None
    return "" if at is None or row not in at else f" at {told(view, view.choices[at[row]].features)}"


def overall(found: Sequence[View], same_log: bool) -> str:
    """One sentence for a page of several devices: how good, from device to device, and where it is worst."""
    devices = counted(len(found), "device")
    new = sum(bool(v.selector.devices) and v.device not in v.selector.devices for v in found)
    devices += f", {new} of which training did not see" if new else ""
    held = [(view, recorded.held_out(view.selector)[0]) for view in found]
    agreed = [
        h.agreement
        for v, h in held
        if h is not None and h.agreement is not None and not v.selector.costs_known
    ]
    if agreed and len(agreed) == len(found):
        return f"{devices}; the measured winner on {_span(map(share, sorted(agreed)))} of unseen launches"
    told = [
        (h.geomean_slowdown, h.max_slowdown or 1.0, v)
        for v, h in held
        if h is not None and h.geomean_slowdown
    ]
    if len(told) < len(found):
        return f"{devices}; how they do on unseen launches is below, as far as it is known"
    usual = _span(map(times, sorted(geomean for geomean, _, _ in told)))
    worst = max(slowest for _, slowest, _ in told)
    most = max(h.invalid_share or 0.0 for _, h in held if h is not None)
    # Of the devices, the one with the most; a share that is under a limit is so on all of them.
    limit = share_text(most)
    limit = limit if limit.startswith("under") else f"up to {limit}"
    invalid = f"; not valid on {limit} of them" if most else ""
    if worst < NOTICED:
        return f"{devices}; {usual} on unseen launches{invalid}"
    # A selector of several devices has one worst scenario, which is on one of them.
    views = [(v, _where(v, slowest, same_log)) for _, slowest, v in told if slowest == worst]
    view, place = max(views, key=lambda at: bool(at[1]))
    on = f" on {view.vendor}: {view.device}{place}" if place or len(views) == 1 else ""
    return f"{devices}; {usual} on unseen launches, worst {times(worst)}{on}{invalid}"


def _span(texts: Iterable[str]) -> str:
    """The first and the last of some figures in order; one where they read the same."""
    every = list(texts)
    return every[0] if every[0] == every[-1] else f"{every[0]} to {every[-1]}"


def _held_out_figures(view: View, held: Summary | None) -> Figures:
    if held is None:
        return ()
    if not view.selector.costs_known:
        return () if held.agreement is None else (("agrees with the winner", share(held.agreement)),)
    return (
        ("geometric mean", times(held.geomean_slowdown)),
        ("95th percentile", times(held.p95_slowdown)),
        ("worst", times(held.max_slowdown)),
        ("within 1.1×", share(held.within_1_1)),
        ("not valid", share(held.invalid_share)),
    )


def _on_log(on_log: Summary, same_log: bool) -> str:
    count = counted(on_log.n_scenarios, "scenario")
    told = f"The given log: {count}, not the training log"
    if same_log:
        told = f"Training: {count} on the training log, which flatters"
    if on_log.geomean_slowdown is None:
        agreement = on_log.agreement
        return told + ("" if agreement is None else f": {share(agreement)} the measured winner")
    return (
        f"{told}: geometric mean {times(on_log.geomean_slowdown)}, 95th percentile "
        f"{times(on_log.p95_slowdown)}, worst {times(on_log.max_slowdown)}, within 1.1× {share(on_log.within_1_1)}, "
        f"not valid {share(on_log.invalid_share)}"
    )


def _worst(view: View, same_log: bool, places: Mapping[int, int]) -> list[HeldOutWorst]:
    """The worst held-out scenarios of this view; none where training recorded none or the log is another."""
    at = training_rows(view)
    if at is None or held_out_slowdowns(view, same_log) is None:
        return []
    names, found = view.selector.parameters, []
    for item in recorded.held_out_worst(view.selector):
        if item.row not in at or (item.slowdown is not None and item.slowdown < NOTICED):
            continue
        choice = view.choices[at[item.row]]
        found.append(
            HeldOutWorst(
                number=places.get(at[item.row], -1),
                scenario=shorten(printable(choice.scenario)),
                told=told(view, choice.features),
                features=pairs_text(choice.features),
                slowdown="not valid" if item.slowdown is None else times(item.slowdown),
                chosen=config_pairs(names, item.chosen),
                best=differing(names, item.chosen, choice.best) or "the same",
            )
        )
    return found[:WORST]
