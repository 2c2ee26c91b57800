"""Kernel spec -> TOML text: what `init` and `import --write-spec` leave behind for a person to confirm.

Every string may be hostile: strings and keys are escaped by TOML's rules, comments hold printable text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from heurgen import expr
from heurgen.errors import SpecError, printable, quoted
from heurgen.spec import Column, DerivedColumn, KernelSpec, LogColumns

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


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
    pairs of a [log] key and a remark (a key with a remark is written even where it has its default).
    """

    name: str
    features: tuple[Entry, ...]
    parameters: tuple[Entry, ...]
    derived: tuple[DerivedColumn, ...] = ()
    log: LogColumns = field(default_factory=LogColumns)
    name_remark: str = ""
    header: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    log_remarks: tuple[tuple[str, str], ...] = ()


def spec_to_toml(spec: KernelSpec) -> str:
    """The spec as TOML; reading it gives back an equal spec.

    Raises:
        SpecError: a string holds a lone surrogate, which TOML cannot write.
    """
    return to_toml(
        Draft(
            name=spec.name,
            features=tuple(map(Entry, spec.features)),
            parameters=tuple(map(Entry, spec.parameters)),
            derived=spec.derived,
            log=spec.log,
        )
    )


def to_toml(draft: Draft) -> str:
    """The draft as TOML text; the same draft gives the same bytes.

    Raises:
        SpecError: a string holds a lone surrogate, which TOML cannot write.
    """
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    yield from (_comment(line) for line in draft.header)
    yield "[kernel]"
    yield f"name = {string(draft.name)}{_remark(draft.name_remark)}"
    yield ""
    yield "[features]  # order = argument order of generated functions"
    yield from map(_entry, draft.features)
    if draft.derived:
        yield ""
        yield "[derived]"
        for derived in draft.derived:
            yield f"{key(derived.name)} = {string(expr.to_text(derived.expression))}"
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
            yield _comment(f"  {name}: {why}")


def _entry(entry: Entry) -> str:
    column = entry.column
    parts = [f"type = {string(column.type)}"]
    for bound in ("min", "max"):
        value = getattr(column, bound)
        if value is not None:
            parts.append(f"{bound} = {number(value)}")
    if column.values:
        parts.append(f"values = {_array(column.values)}")
    if column.optional:
        parts.append("optional = true")
    if column.vendors:
        parts.append(f"vendors = {_array(column.vendors)}")
    parts += [f"{k} = {string(v)}" for k, v in (("unit", column.unit), ("doc", column.doc)) if v]
    line = f"{key(column.name)} = {{ {', '.join(parts)} }}"
    return (line if entry.active else _comment(line)) + _remark(entry.remark)


def _log(draft: Draft) -> Iterator[str]:
    remarks, default = dict(draft.log_remarks), LogColumns()
    for name in (f.name for f in fields(LogColumns)):
        value = getattr(draft.log, name)
        if value != getattr(default, name) or name in remarks:
            text = string(value) if isinstance(value, str) else number(value)
            yield f"{name} = {text}{_remark(remarks.get(name, ''))}"


def string(text: str) -> str:
    """A TOML basic string."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(c: str) -> str:
    if c in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[c]
    if "\ud800" <= c <= "\udfff":
        raise SpecError(
            f"{quoted(c)} is half a character, which TOML cannot write", hint="rename it in the log"
        )
    if c == " " or printable(c) == c:
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else string(name)


def number(value: float) -> str:
    """An int where the value is one, else the shortest float that reads back the same."""
    return repr(int(value)) if isinstance(value, int) or value.is_integer() else repr(float(value))


def _array(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(string, values))}]"


def _comment(text: str) -> str:
    return f"# {printable(text)}".rstrip()


def _remark(text: str) -> str:
    return f"  # {printable(text)}" if text else ""
