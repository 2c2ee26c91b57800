"""The worst choices by name: which scenario, what was chosen, and what was right there."""

from __future__ import annotations

from dataclasses import replace

from heurgen import ir
from heurgen.audit.gate import Offender, offender, offender_lines, severity
from heurgen.audit.recorded import HeldOut, answering, held_out_worst
from heurgen.audit.score import Choice, Score

# As many as a person reads. Slowdowns below NOTICED read 1.000x.
SHOWN = 5
# Of these at most so many choices that were never measured, which may be good ones: gaps would hide what is known.
GAPS = 2
NOTICED = 1.0005


def worst(module: ir.HeuristicModule, score: Score, trained: bool) -> list[Offender]:
    """The worst SHOWN, worst first; none where every choice is the best one, or no slowdown is known. Choices that
    were never measured fill more than GAPS of the places only where nothing else is left.

    trained: the log is the one that the module was trained on: as its scenarios were answered while they were held
    out, where training recorded it.
    """
    choices = _held_out(module, score) if trained else score.choices
    slow = [c for c in choices if c.status != "unknown" and (c.slowdown is None or c.slowdown >= NOTICED)]
    found = sorted(map(offender, slow), key=severity)
    gaps = [one for one in found if _is_gap(one)]
    known = [one for one in found if not _is_gap(one)]
    gaps = gaps[: max(GAPS, SHOWN - len(known))]
    return sorted(known[: SHOWN - len(gaps)] + gaps, key=severity)


def _is_gap(one: Offender) -> bool:
    return one.slowdown is None and one.status != "failed"


def to_text(found: list[Offender], trained: bool, several: bool) -> str:
    """`several`: the log is of several devices."""
    return "\n".join([f"worst{', held out' if trained else ''}", *offender_lines(found, several)])


def _held_out(module: ir.HeuristicModule, score: Score) -> list[Choice]:
    """The choices that training recorded, for the scenarios of each selector's table: all of its vendor, or of its
    device, in their order.
    """
    found = []
    for selector in answering(module):
        of = (selector.vendor, *([] if selector.device is None else [selector.device]))
        table = sorted(
            (c for c in score.choices if (c.vendor, c.device)[: len(of)] == of), key=lambda c: c.row
        )
        if len(table) == selector.n_scenarios:
            found += [_answered(table[item.row], item) for item in held_out_worst(selector)]
    return found


def _answered(choice: Choice, item: HeldOut) -> Choice:
    """The scenario with what was chosen while it was held out; a record of an invalid choice does not say why."""
    status = "while held out" if item.slowdown is None else "ok"
    return replace(choice, chosen=item.chosen, slowdown=item.slowdown, status=status)
