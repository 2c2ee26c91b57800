"""What a model says of its own making: `Selector.choice`, and the evidence in its leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from heurgen import ir
from heurgen.audit.score import group_name
from heurgen.base.errors import printable
from heurgen.base.figures import Summary
from heurgen.base.intervals import interval
from heurgen.base.text import share_text, slowdown_text
from heurgen.render.describe import expected

if TYPE_CHECKING:
    from heurgen.logs.tuning_log import TuningLog


@dataclass(frozen=True, slots=True)
class Block:
    """A table of what training recorded; `header` is empty for names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def training(selector: ir.Selector) -> Summary | None:
    """The figures that the leaves carry: the geometric mean alone. None where costs are unknown."""
    mean = expected(selector.tree)
    return None if mean is None else Summary(sum(x.n_scenarios for x in ir.leaves(selector.tree)), mean)


def is_counted(tree: ir.Node) -> bool:
    """Whether the leaves carry training's counts: those of a generated module do not, and 0 would be no count."""
    return any(leaf.n_scenarios for leaf in ir.leaves(tree))


_FIGURES = ("geomean_slowdown", "p95_slowdown", "max_slowdown", "within_1_1", "invalid_share", "agreement")


def told(selector: ir.Selector) -> Mapping[str, Any]:
    """What training recorded, less figures that look like slowdowns where costs are unknown."""
    return selector.choice if selector.costs_known else _without_slowdowns(selector.choice)


def training_data(selector: ir.Selector) -> dict[str, Any]:
    """How a selector was learnt, as JSON data."""
    named = {"vendor": selector.vendor, "device": selector.device, "strategy": selector.strategy}
    return {**named, "choice": dict(told(selector))}


def _without_slowdowns(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = (k for k in value if "slowdown" not in str(k) and k != "within_1_1")
        return {k: _without_slowdowns(value[k]) for k in kept}
    return [_without_slowdowns(v) for v in value] if isinstance(value, list | tuple) else value


def held_out(selector: ir.Selector) -> tuple[Summary | None, str]:
    """The cross-validated figures that training recorded, and how they came about; None without any."""
    choice = told(selector)
    found = choice.get("held_out")
    if not isinstance(found, Mapping):
        return None, "no cross-validation is recorded"
    return _summary(found, selector.n_scenarios), _how({**choice, **found})


def unknown_device(selector: ir.Selector) -> Summary | None:
    """What training recorded of devices left out of it in turn; None of one device, or where costs are unknown."""
    found = selector.choice.get("unknown_device")
    if not isinstance(found, Mapping) or not selector.costs_known:
        return None
    return _summary(found, selector.n_scenarios)


def _summary(found: Mapping[str, Any], n_scenarios: int) -> Summary:
    """The figures of a record, which counts answers: a scenario is one in every repeat."""
    return Summary(n_scenarios, **{k: float(found[k]) for k in _FIGURES if _is_number(found.get(k))})


def held_out_text(found: Summary | None) -> str:
    """`1.045x, worst 2.44x, not valid on 3.0 %`: figures of `held_out` in a line; empty where nothing is known."""
    if found is None:
        return ""
    told = [] if found.geomean_slowdown is None else [slowdown_text(found.geomean_slowdown)]
    told += [] if found.max_slowdown is None else [f"worst {slowdown_text(found.max_slowdown)}"]
    told += [f"not valid on {share_text(found.invalid_share)}"] if found.invalid_share else []
    return ", ".join(told)


def answering(module: ir.HeuristicModule) -> list[ir.Selector]:
    """The selectors that answer for what was measured. A vendor's whose devices all have their own answers for others
    alone.
    """
    own = {(s.vendor, s.device) for s in module.selectors if s.device is not None}
    found = []
    for selector in module.selectors:
        measured = {(selector.vendor, device) for device in selector.devices}
        if selector.device is not None or not measured or not measured <= own:
            found.append(selector)
    return found


def held_out_by_name(module: ir.HeuristicModule) -> dict[str, Summary]:
    """The cross-validated figures of every selector of `answering` that has them, under the names of `Score.groups`."""
    found = {}
    for selector in answering(module):
        figures, _ = held_out(selector)
        if figures is None:
            continue
        if not selector.costs_known:
            figures = Summary(figures.n_scenarios, agreement=figures.agreement)
        told_of = figures.invalid_share if selector.costs_known else figures.agreement
        if told_of is not None:  # a record of the mean alone is no row of figures
            found[group_name(selector.vendor, selector.device)] = figures
    return found


def is_training_log(module: ir.HeuristicModule, log: TuningLog) -> bool:
    """Whether the model was trained on exactly this log, so that figures on it flatter."""
    return module.provenance.get("log_hash") == log.content_hash


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A scenario (its row in the cost table) as it was answered while held out; slowdown None: not valid."""

    row: int
    slowdown: float | None
    chosen: ir.Config


def held_out_scenarios(selector: ir.Selector) -> list[float] | None:
    """Held-out slowdown of every scenario of the training table, in its order (several repeats: their geometric mean;
    NaN where a choice was not valid). None where training recorded none.
    """
    record = _record(selector).get("scenarios")
    if not isinstance(record, list | tuple) or not record:
        return None
    if not all(x is None or _is_number(x) for x in record):
        return None
    return [math.nan if x is None else float(x) for x in record]


def held_out_interval(selector: ir.Selector, group: Sequence[int]) -> tuple[float, float] | None:
    """The 95 % interval of the held-out geometric mean, see `interval`; None where it is not known.

    group: of every scenario of the training table, in its order
    """
    (found, _), every, folds = held_out(selector), held_out_scenarios(selector), told(selector).get("folds")
    mean = 0.0 if found is None else found.geomean_slowdown or 0.0
    if mean <= 0 or every is None or len(every) != len(group) or type(folds) is not int or folds < 2:
        return None
    logs = (math.log(x) if x > 0 else math.nan for x in every)
    return interval(mean, logs, group, folds)


def held_out_worst(selector: ir.Selector) -> list[HeldOut]:
    """The worst held-out choices that training recorded, worst first.

    Records of single scenarios have fewer places than figures: what reads as the figure's worst is the figure, so that
    both round to the same text.
    """
    figures, _ = held_out(selector)
    most = None if figures is None else figures.max_slowdown
    found = []
    worst = _record(selector).get("worst")
    for item in worst if isinstance(worst, list | tuple) else ():
        if not isinstance(item, Mapping):
            continue
        row, chosen, slowdown = item.get("scenario"), item.get("chosen"), item.get("slowdown")
        if type(row) is not int or not 0 <= row < selector.n_scenarios:
            continue
        if isinstance(chosen, list | tuple) and len(chosen) == len(selector.parameters):
            slow = float(slowdown) if _is_number(slowdown) else None
            slow = most if most is not None and slow == round(most, 4) else slow
            found.append(HeldOut(row, slow, tuple(chosen)))
    return found


def several_repeats(selector: ir.Selector) -> bool:
    """Whether cross-validation answered every scenario more than once, on other divisions into folds."""
    repeats = {**selector.choice, **_record(selector)}.get("repeats")
    return type(repeats) is int and repeats > 1


def _record(selector: ir.Selector) -> Mapping[str, Any]:
    found = selector.choice.get("held_out")
    return found if isinstance(found, Mapping) else {}


def _how(record: Mapping[str, Any]) -> str:
    folds, repeats = record.get("folds"), record.get("repeats")
    if type(folds) is not int:
        return "recorded by training"
    again = f", {repeats} times" if type(repeats) is int and repeats > 1 else ""
    return f"{folds} folds over scenarios{again}, recorded by training"


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_PLACE = {"scenario": "place_in_the_table"}


def blocks(selector: ir.Selector) -> tuple[Block, ...]:
    """`Selector.choice` as tables: lists of records by column, all else as names and values.

    The slowdown of every held-out scenario is left out: a page draws it, and the model holds it.
    """
    plain: list[tuple[str, ...]] = []
    tables: list[Block] = []

    def visit(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key in sorted(value):
                if key == "scenarios" and name == "held out":
                    continue
                visit(f"{name} {_words(key)}".strip(), value[key])
        elif isinstance(value, list | tuple) and value and all(isinstance(v, Mapping) for v in value):
            # What a record calls a scenario is its place in the table, not the id that the log gives it.
            tables.append(_records(name, [{_PLACE.get(k, k): v[k] for k in v} for v in value]))
        else:
            plain.append((name, _text(value)))

    visit("", told(selector))
    first = (Block("how strategy and size were chosen", (), tuple(plain)),) if plain else ()
    return (*first, *tables)


def _records(name: str, records: Sequence[Mapping[str, Any]]) -> Block:
    header = tuple(dict.fromkeys(key for record in records for key in record))
    rows = tuple(tuple(_text(r.get(key)) for key in header) for r in records)
    return Block(name, tuple(map(_words, header)), rows)


def _words(key: object) -> str:
    return printable(key).replace("within_1_1", "within_1.1x").replace("_", " ")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return printable(value)
