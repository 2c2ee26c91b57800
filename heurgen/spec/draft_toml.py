"""Kernel spec -> TOML text: what `init` and `import --write-spec` leave behind for a person to confirm.

Every string may be hostile: strings and keys are escaped by TOML's rules, comments hold printable text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from heurgen.base import toml
from heurgen.base.errors import printable
from heurgen.ir import expr
from heurgen.spec.kernel_spec import Column, DerivedColumn, LogColumns
from heurgen.spec.log_columns import BY_NAME, ROLES


@dataclass(frozen=True, slots=True)
class Entry:
    """A feature or parameter with a remark; one that is not `active` is written as a comment."""

    column: Column
    remark: str = ""
    active: bool = True


@dataclass(frozen=True, slots=True)
class Draft:
    """A kernel spec on its way to a file.

    `header` are comment lines at the top, `left_out` pairs of a column and why it has no role, `log_remarks`
    pairs of a [log] key and a remark (a key with a remark is written even where it has its default). `notes` are
    what must not be overlooked, for stderr.
    """

    name: str
    features: tuple[Entry, ...]
    parameters: tuple[Entry, ...]
    derived: tuple[DerivedColumn, ...] = ()
    log: LogColumns = field(default_factory=LogColumns)
    group: tuple[str, ...] = ()
    name_remark: str = ""
    header: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    log_remarks: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self, columns: Iterable[str]) -> dict[str, Any]:
        """What each of a log's columns is, and which guesses a person is to confirm, as JSON data."""
        entries = [("feature", e) for e in self.features] + [("parameter", e) for e in self.parameters]
        why = dict(self.log_remarks)
        said = {getattr(self.log, key): {"role": key, "why": why.get(key, "")} for key in ROLES}
        said |= {column: {"role": "config", "why": ""} for column, _ in self.log.wide}
        said |= {name: {"role": "none", "why": reason} for name, reason in self.left_out}
        said |= {e.column.column or e.column.name: _entry_data(role, e) for role, e in entries}
        nothing = {"role": "none", "why": ""}
        remarks = [("kernel.name", self.name_remark), *((f"log.{k}", reason) for k, reason in why.items())]
        remarks += [(f"{role}s.{e.column.name}", e.remark) for role, e in entries]
        return {
            "kernel": self.name,
            "columns": [{"column": c, **said.get(c, nothing)} for c in columns],
            "questions": [{"key": key, "why": reason} for key, reason in remarks if reason],
        }


def _entry_data(role: str, entry: Entry) -> dict[str, Any]:
    column = entry.column
    return {
        "role": role,
        "why": entry.remark,
        "name": column.name,
        "type": column.type,
        "used": entry.active,
    }


def to_toml(draft: Draft) -> str:
    """The draft as TOML text; the same draft gives the same bytes.

    Raises:
        SpecError: a string holds a lone surrogate, which TOML cannot write.
    """
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    yield from (toml.comment(line) for line in draft.header)
    if draft.group:
        yield from (
            f"group = {toml.value(draft.group)}  # scenarios equal in these are held out together",
            "",
        )
    yield "[kernel]"
    yield f"name = {toml.string(draft.name)}{_remark(draft.name_remark)}"
    yield ""
    yield "[features]  # order = argument order of generated functions"
    yield from map(_entry, draft.features)
    if draft.derived:
        yield ""
        yield "[derived]"
        for derived in draft.derived:
            yield f"{toml.key(derived.name)} = {toml.string(expr.to_text(derived.expression))}"
    yield ""
    yield "[parameters]"
    yield from map(_entry, draft.parameters)
    log = list(_log(draft))
    if log:
        yield from ("", "[log]", *log)
    if draft.left_out:
        yield ""
        yield "# Columns without a role:"
        for name, why in draft.left_out:
            yield toml.comment(f"  {name}: {why}")


def _entry(entry: Entry) -> str:
    column = entry.column
    parts = [f"type = {toml.string(column.type)}"]
    if column.column:
        parts.append(f"column = {toml.string(column.column)}")
    for bound in ("min", "max"):
        value = getattr(column, bound)
        if value is not None:
            parts.append(f"{bound} = {toml.number(value)}")
    if column.values:
        parts.append(f"values = {toml.value(column.values)}")
    if column.aliases:
        parts.append(f"aliases = {toml.value(dict(column.aliases))}")
    if column.unknown != "fallback":
        parts.append(f"unknown = {toml.string(column.unknown)}")
    if column.optional:
        parts.append("optional = true")
    if column.vendors:
        parts.append(f"vendors = {toml.value(column.vendors)}")
    parts += [f"{k} = {toml.string(v)}" for k, v in (("unit", column.unit), ("doc", column.doc)) if v]
    line = f"{toml.key(column.name)} = {{ {', '.join(parts)} }}"
    return (line if entry.active else toml.comment(line)) + _remark(entry.remark)


_KEYS = tuple("vendor device time status scenario noise unit objective success failures".split())


def _log(draft: Draft) -> Iterator[str]:
    remarks, log, default = dict(draft.log_remarks), draft.log, LogColumns()
    constants = dict(log.constants)
    for name in _KEYS:
        found = {"const": constants[name]} if name in constants else getattr(log, name)
        if name == "vendor" and log.vendor_by_name:
            found = BY_NAME
        if found != getattr(default, name) or (name in remarks and found is not None):
            text = toml.number(found) if isinstance(found, float) else toml.value(found)
            yield f"{name} = {text}{_remark(remarks.get(name, ''))}"
    if log.winners_only:
        said = remarks.get("winners_only", "every row is the winner of its scenario: slowdown is unknown")
        yield f"winners_only = true{_remark(said)}"
    if log.wide:
        yield ""
        yield "[log.wide]  # a column a config: its parameters"
        for column, values in log.wide:
            yield f"{toml.key(column)} = {toml.value(dict(values))}"


def _remark(text: str) -> str:
    return f"  # {printable(text)}" if text else ""
