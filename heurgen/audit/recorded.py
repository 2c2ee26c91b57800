"""What a model says of its own making: `Selector.choice`, and the evidence in its leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from heurgen import ir
from heurgen.audit.score import Summary
from heurgen.errors import printable
from heurgen.text import table


@dataclass(frozen=True, slots=True)
class Block:
    """A table of what training recorded; `header` is empty for names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def training(selector: ir.Selector) -> Summary | None:
    """The figures that the leaves carry: the geometric mean alone. None where costs are unknown."""
    leaves = [leaf for leaf in ir.leaves(selector.tree) if leaf.n_scenarios]
    n = sum(leaf.n_scenarios for leaf in leaves)
    if not n or any(leaf.slowdown is None for leaf in leaves):
        return None
    total = math.fsum(leaf.n_scenarios * math.log(leaf.slowdown or 1.0) for leaf in leaves)
    return Summary(n, math.exp(total / n), None, None, None, None, None)


# Names under which a selector's record may give the figures of its cross-validation.
_HELD_OUT = ("held_out", "heldout", "cross_validation", "cv")
_FIGURES = {
    "geomean_slowdown": ("geomean_slowdown", "geomean"),
    "p95_slowdown": ("p95_slowdown", "p95"),
    "max_slowdown": ("max_slowdown", "max"),
    "within_1_1": ("within_1_1", "within"),
    "invalid_share": ("invalid_share", "invalid"),
}


def held_out(selector: ir.Selector) -> tuple[Summary | None, str]:
    """The cross-validated figures that training recorded, and how they came about; None without any."""
    choice = selector.choice
    found = next((choice[k] for k in _HELD_OUT if choice.get(k) is not None), None)
    if _is_number(found):
        return Summary(selector.n_scenarios, float(found), None, None, None, None, None), _how(choice)
    if not isinstance(found, Mapping):
        return None, "training recorded no cross-validation"
    figures = {
        name: next((float(found[k]) for k in keys if _is_number(found.get(k))), None)
        for name, keys in _FIGURES.items()
    }
    if figures["geomean_slowdown"] is None and _is_number(found.get("mean_log_slowdown")):
        figures["geomean_slowdown"] = math.exp(found["mean_log_slowdown"])
    n = found.get("n_scenarios")
    whole = n if type(n) is int else selector.n_scenarios
    return Summary(whole, agreement=None, **figures), _how({**choice, **found})


def _how(record: Mapping[str, Any]) -> str:
    folds, repeats = record.get("folds"), record.get("repeats")
    if type(folds) is not int:
        return "recorded by training"
    again = f", {repeats} times" if type(repeats) is int and repeats > 1 else ""
    return f"{folds} folds over scenarios{again}, recorded by training"


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def blocks(selector: ir.Selector) -> tuple[Block, ...]:
    """`Selector.choice` as tables: lists of records by column, all else as names and values."""
    plain: list[tuple[str, ...]] = []
    tables: list[Block] = []

    def visit(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key in sorted(value):
                visit(f"{name} {_words(key)}".strip(), value[key])
        elif isinstance(value, list | tuple) and value and all(isinstance(v, Mapping) for v in value):
            tables.append(_records(name, value))
        else:
            plain.append((name, _text(value)))

    visit("", selector.choice)
    first = (Block("how strategy and size were chosen", (), tuple(plain)),) if plain else ()
    return (*first, *tables)


def to_text(selector: ir.Selector) -> str:
    """`blocks` for a terminal, under the selector's name."""
    parts = [f"{selector.vendor}{f' ({printable(selector.device)})' if selector.device else ''}"]
    for block in blocks(selector):
        parts.append(f"  {block.title}")
        rows = table(block.header, block.rows) if block.header else table(("", ""), block.rows).lstrip("\n")
        parts += [f"    {line}" for line in rows.splitlines()]
    return "\n".join(parts)


def _records(name: str, records: Sequence[Mapping[str, Any]]) -> Block:
    header = tuple(dict.fromkeys(key for record in records for key in record))
    rows = tuple(tuple(_text(r.get(key)) for key in header) for r in records)
    return Block(name, tuple(map(_words, header)), rows)


def _words(key: object) -> str:
    return printable(key).replace("_", " ")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) >= 10 else f"{value:.4f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return printable(value)
