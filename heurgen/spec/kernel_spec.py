"""The kernel spec: which columns of a log are features, parameters and bookkeeping, and what they hold."""

from __future__ import annotations

import keyword
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from heurgen.base.errors import HeurgenError, UsageError, quoted
from heurgen.base.outline import outline
from heurgen.base.text import did_you_mean
from heurgen.base.toml import Table, parse_toml, read_toml
from heurgen.ir import (
    COLUMN_TYPES,
    MAX_TEXT,
    VENDOR,
    Aliases,
    ColumnType,
    Unknown,
    Value,
    check_name,
    check_no_clash,
    expr,
)
from heurgen.ir.expr import Expr
from heurgen.spec.categories import read_categories
from heurgen.spec.log_columns import LogColumns as LogColumns
from heurgen.spec.log_columns import check_wide, read_log_columns

T = TypeVar("T")

# Every integer up to here is a float64 of its own; beyond, training would merge neighbours.
MAX_EXACT_INT = 2**53
_INT = re.compile(r"-?[0-9]+(?:\.0+)?")
NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
# What a bool may be in a log; TRUE and FALSE are of spreadsheets and R.
BOOLS = {
    "true": True, "True": True, "TRUE": True, "1": True,
    "false": False, "False": False, "FALSE": False, "0": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A feature or a parameter as the spec describes it.

    `min`, `max` and `values` are enforced on logs, not at launch. `optional` and `vendors` are for
    parameters: a blank cell is None; the parameter exists for these vendors alone (empty: for all).
    `column` is the log's column, where it has another name.
    `aliases` and `unknown` are for category features, as in `ir.Feature`: a log's cell may hold an alias too.
    """

    name: str
    type: ColumnType
    min: float | None = None
    max: float | None = None
    values: tuple[str, ...] = ()
    unit: str = ""
    doc: str = ""
    optional: bool = False
    vendors: tuple[str, ...] = ()
    unknown: Unknown = "fallback"
    aliases: Aliases = ()
    column: str = ""

    @property
    def source(self) -> str:
        """The log's column."""
        return self.column or self.name

    def exists_for(self, vendor: str) -> bool:
        return not self.vendors or vendor in self.vendors


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    name: str
    expression: Expr


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The roles of a log's columns. Feature order is the argument order of generated functions.

    `group` names the features whose scenarios are held out together where they agree in all of them, since repeats
    of a shape flatter held-out figures; without it they are found in the log (`heurgen help spec`, "Groups").
    """

    name: str
    features: tuple[Column, ...]
    parameters: tuple[Column, ...]
    derived: tuple[DerivedColumn, ...] = ()
    log: LogColumns = field(default_factory=LogColumns)
    group: tuple[str, ...] = ()

    __repr__ = outline

    def parameters_of(self, vendor: str) -> tuple[Column, ...]:
        """The parameters that exist for a vendor, in spec order."""
        return tuple(p for p in self.parameters if p.exists_for(vendor))


# --- the text of one cell ---------------------------------------------------------------------------------


def number(text: str) -> float | None:
    """A plain decimal or exponent form as a finite float (-0 as 0); None for other text, nan and inf too."""
    if not NUMBER.fullmatch(text):
        return None
    value = float(text) + 0.0
    return value if math.isfinite(value) else None


# A time in ms. Beyond these, quotients and squares of times are no float64 any more; no clock gives such a time.
MIN_TIME, MAX_TIME = 1e-100, 1e100


def is_time(value: float) -> bool:
    """Whether a number can be the time of a measurement, in whatever unit."""
    return MIN_TIME <= value <= MAX_TIME


def cell_value(column: Column, text: str) -> Value:
    """The value that a non-blank cell holds. Nothing is stripped: spaces around a value are an error.

    Bools are true, True, 1, false, False, 0. Ints lie within +-2**53, where a float64 is exact; 16.0 is one, as pandas
    writes a column of ints that has blank cells.

    Raises:
        UsageError: the text does not fit the column's type or its limits; `column` is set.
    """
    value = _PARSERS[column.type](column, text)
    if not isinstance(value, str):
        if column.min is not None and value < column.min:
            raise _unfit(column, text, f"at least {column.min}", "min in the spec")
        if column.max is not None and value > column.max:
            raise _unfit(column, text, f"at most {column.max}", "max in the spec")
    return value


def _unfit(column: Column, text: str, expected: str, hint: str | None = None) -> UsageError:
    if text != text.strip():
        hint = "remove the spaces around the value"
    return UsageError(f"found {quoted(text)}, expected {expected}", column=column.name, hint=hint)


def _parse_int(column: Column, text: str) -> int:
    if not _INT.fullmatch(text):
        raise _unfit(column, text, "a whole number such as 16")
    digits = text.partition(".")[0]
    # int() refuses more than 4300 digits; no number of 40 digits is within the limit.
    value = int(digits) if len(digits) < 40 else MAX_EXACT_INT + 1
    if abs(value) > MAX_EXACT_INT:
        raise _unfit(column, text, "a whole number within +-2**53", "larger ones are not exact in training")
    return value


def _parse_float(column: Column, text: str) -> float:
    value = number(text)
    if value is None:
        raise _unfit(column, text, "a finite number such as 0.5 or 1e-3")
    return value


def _parse_bool(column: Column, text: str) -> bool:
    if text not in BOOLS:
        raise _unfit(column, text, "true or false (or 1, 0)")
    return BOOLS[text]


def _parse_category(column: Column, text: str) -> str:
    text = dict(column.aliases).get(text, text)
    if column.values and text not in column.values:
        expected = ", ".join(quoted(v) for v in column.values[:8]) + (
            ", ..." if len(column.values) > 8 else ""
        )
        close = did_you_mean(text, column.values)
        raise _unfit(
            column, text, f"one of {expected}", "values in the spec" + (f"; {close}" if close else "")
        )
    if not column.values and text != text.strip():
        raise _unfit(column, text, "a category without spaces around it")
    return text


_PARSERS: dict[ColumnType, Callable[[Column, str], int | float | bool | str]] = {
    "int": _parse_int,
    "float": _parse_float,
    "bool": _parse_bool,
    "category": _parse_category,
}


# --- reading a spec ---------------------------------------------------------------------------------------

_TABLES = ("kernel", "features", "derived", "parameters", "log")
_COLUMN_KEYS = ("type", "min", "max", "values", "unit", "doc", "column")
_FEATURE_KEYS = (*_COLUMN_KEYS, "aliases", "unknown")
_PARAMETER_KEYS = (*_COLUMN_KEYS, "optional", "vendors")


def read_spec(path: str | os.PathLike[str]) -> KernelSpec:
    """Read a kernel spec (TOML).

    Raises:
        SpecError: the file cannot be read, is no TOML, or says something that a spec cannot mean; names the
            file, the line where it can be found, and the key.
    """
    return spec_from(read_toml(path))


def parse_spec(text: str, file: str | None = None) -> KernelSpec:
    """`read_spec`, for text; `file` is what errors call it."""
    return spec_from(parse_toml(text, file))


def spec_from(top: Table) -> KernelSpec:
    """`read_spec`, for TOML that is read already."""
    top.only(*_TABLES, "group", what="table")
    for key in ("kernel", "features", "parameters"):
        if key not in top:
            hint = "a spec needs [kernel], [features], [parameters]"
            raise top.error(f"the table [{key}] is missing", hint=hint)
    derived = top.table("derived")
    spec = KernelSpec(
        name=_kernel_name(top.table("kernel")),
        features=_columns(top.table("features"), "feature"),
        parameters=_columns(top.table("parameters"), "parameter"),
        derived=tuple(_derived(derived, name) for name in derived),
        log=read_log_columns(top.table("log")),
        group=top.texts("group", (), expected="a list of features"),
    )
    vendor = dict(spec.log.constants).get("vendor")
    if vendor is not None and (problem := vendor_problem(vendor)) is not None:
        raise top.table("log").table("vendor").wrong("const", problem)
    for name in spec.group:
        if name not in {f.name for f in spec.features}:
            close = did_you_mean(name, [f.name for f in spec.features])
            raise top.error(f"{quoted(name)} is no feature", "group", hint=close)
    _check_spec(top, spec)
    return spec


def _kernel_name(table: Table) -> str:
    table.only("name")
    if "name" not in table:
        raise table.error("the key 'name' is missing", hint='write name = "my_kernel"')
    name = table.text("name")
    _rewrapped(table, "name", lambda: check_name(name, "kernel"))
    return name


def _rewrapped(table: Table, key: str, check: Callable[[], T]) -> T:
    """What `check` gives; its error becomes one at the key."""
    try:
        return check()
    except HeurgenError as error:
        raise table.error(error.message, key, error.hint) from error


def _columns(table: Table, role: str) -> tuple[Column, ...]:
    if not table.data:
        raise table.error(f"[{role}s] is empty, expected at least one")
    return tuple(_column(table, name, role) for name in table)


def _column(table: Table, name: str, role: str) -> Column:
    _rewrapped(table, name, lambda: check_name(name, role))
    if role == "parameter" and name.startswith("_"):
        raise table.error(f"parameter name {quoted(name)} starts with an underscore", name)
    entry = table.table(name, hint='write { type = "int" }')
    entry.only(*(_PARAMETER_KEYS if role == "parameter" else _FEATURE_KEYS))
    if "type" not in entry:
        raise entry.error("the key 'type' is missing", hint=f"one of {', '.join(COLUMN_TYPES)}")
    one_of = f"one of {', '.join(COLUMN_TYPES)}"
    type_ = entry.text("type", expected=one_of)
    if type_ not in COLUMN_TYPES:
        raise entry.wrong("type", one_of)
    low, high = _limits(entry, type_)
    values = _values(entry, type_)
    unknown, aliases = read_categories(entry, name, type_, values)
    return Column(
        name=name,
        type=type_,
        min=low,
        max=high,
        values=values,
        unit=_remark(entry, "unit"),
        doc=_remark(entry, "doc"),
        optional=entry.flag("optional", False),
        vendors=_vendors(entry),
        unknown=unknown,
        aliases=aliases,
        column=_source(entry, name),
    )


def _source(entry: Table, name: str) -> str:
    column = entry.text("column", name, expected="the name of a column")
    if not column:
        raise entry.wrong("column", "the name of a column")
    return "" if column == name else column


def _remark(entry: Table, key: str) -> str:
    text = entry.text(key, "")
    if len(text) > MAX_TEXT:
        raise entry.error(f"found {len(text)} characters, expected at most {MAX_TEXT}", key)
    return text


def _limits(entry: Table, type_: str) -> tuple[float | None, float | None]:
    for key in ("min", "max"):
        if key in entry and type_ not in ("int", "float"):
            raise entry.error(f"{key} does not apply to the type {type_}", key)
    low: float | None
    high: float | None
    if type_ == "int":
        low, high = (_exact_int(entry, key) for key in ("min", "max"))
    else:
        low, high = (_exact(entry, key) for key in ("min", "max"))
    if low is not None and high is not None and low > high:
        raise entry.error(f"min = {low} is larger than max = {high}", "min")
    return low, high


def _exact_int(entry: Table, key: str) -> int | None:
    expected = "a whole number within +-2**53"
    return entry.integer(key, None, low=-MAX_EXACT_INT, high=MAX_EXACT_INT, expected=expected)


def _exact(entry: Table, key: str) -> float | None:
    """A finite float, or an int that a float64 holds as it is."""
    found = entry.number(key, None)
    if type(found) is int and abs(found) > MAX_EXACT_INT:
        raise entry.wrong(key, "a finite number")
    return found


def _strings(entry: Table, key: str) -> tuple[str, ...]:
    found = entry.texts(key)
    if not found:
        raise entry.wrong(key, "a list of strings")
    return found


def _values(entry: Table, type_: str) -> tuple[str, ...]:
    if "values" not in entry:
        return ()
    if type_ != "category":
        raise entry.error(f"values does not apply to the type {type_}", "values")
    values = _strings(entry, "values")
    if "" in values:
        raise entry.error("found '', expected text", "values", "for a blank cell use optional = true")
    return values


def _vendors(entry: Table) -> tuple[str, ...]:
    if "vendors" not in entry:
        return ()
    vendors = _strings(entry, "vendors")
    for vendor in vendors:
        if (problem := vendor_problem(vendor)) is not None:
            raise entry.error(f"found {quoted(vendor)}, expected {problem}", "vendors")
    return vendors


def vendor_problem(vendor: str) -> str | None:
    """What a vendor name should have been; None for a good one. It becomes part of function names."""
    if not VENDOR.fullmatch(vendor):
        return "a vendor in lower-case letters, digits and underscores, such as nvidia"
    return "a vendor that is no Python keyword" if keyword.iskeyword(vendor) else None


def _derived(table: Table, name: str) -> DerivedColumn:
    _rewrapped(table, name, lambda: check_name(name, "derived feature"))
    text = table.text(name, expected='an expression in quotes such as "a * b"')
    return DerivedColumn(name, _rewrapped(table, name, lambda: expr.parse(text)))


def _check_sources(top: Table, spec: KernelSpec) -> None:
    """Each column of the log has one role."""
    seen = dict.fromkeys(spec.log.names, "[log]")
    for role, members in (("features", spec.features), ("parameters", spec.parameters)):
        for column in members:
            other = seen.setdefault(column.source, column.name)
            if column.column and other != column.name:
                message = f"the column {quoted(column.source)} is that of {quoted(other)} too"
                raise top.table(role).error(message, column.name)


def _check_spec(top: Table, spec: KernelSpec) -> None:
    """What can only be seen across tables: clashes, and the names that expressions read."""
    columns: list[Any] = []
    roles = (("features", spec.features), ("derived", spec.derived), ("parameters", spec.parameters))
    taken = dict(zip(spec.log.names, ("vendor", "device", "time", "status", "scenario"), strict=True))
    if len(taken) < len(spec.log.names):
        twice = next(n for n in spec.log.names if spec.log.names.count(n) > 1)
        raise top.error(f"two keys name the column {quoted(twice)}", "log")
    for role, members in roles:
        table = top.table(role)
        for column in members:
            columns.append(column)
            _rewrapped(table, column.name, lambda: check_no_clash(columns))
            if column.name in taken:
                raise table.error(
                    f"the name {quoted(column.name)} is taken by the log's {taken[column.name]} column",
                    column.name,
                    f"rename it, or set {taken[column.name]} in [log]",
                )
    _check_sources(top, spec)
    inputs = tuple(f.name for f in spec.features)
    check_wide(top.table("log"), spec.log, tuple(p.name for p in spec.parameters), inputs)
    numeric = {f.name: f.type != "category" for f in spec.features}
    table = top.table("derived")
    for derived in spec.derived:
        for name in sorted(expr.names(derived.expression)):
            if name not in numeric:
                raise table.error(f"{quoted(name)} is no feature", derived.name, did_you_mean(name, numeric))
            if not numeric[name]:
                raise table.error(f"{quoted(name)} is a category, expected a number", derived.name)
