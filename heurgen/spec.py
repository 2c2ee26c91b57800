"""The kernel spec: which columns of a log are features, parameters and bookkeeping, and what they hold."""

from __future__ import annotations

import difflib
import keyword
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from heurgen import expr
from heurgen.errors import HeurgenError, ModelError, SpecError, UsageError, quoted
from heurgen.expr import Expr
from heurgen.ir import COLUMN_TYPES, VENDOR, ColumnType, Value, check_name, check_no_clash

# Every integer up to here is a float64 of its own; beyond, training would merge neighbours.
MAX_EXACT_INT = 2**53
_INT = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BOOLS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


@dataclass(frozen=True, slots=True)
class Column:
    """A feature or a parameter as the spec describes it.

    `min`, `max` and `values` are enforced on logs, not at launch. `optional` and `vendors` are for
    parameters: a blank cell is None; the parameter exists for these vendors alone (empty: for all).
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

    def exists_for(self, vendor: str) -> bool:
        return not self.vendors or vendor in self.vendors


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    name: str
    expression: Expr


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Names of the bookkeeping columns, and the relative noise where a log has no repeats."""

    vendor: str = "vendor"
    device: str = "device"
    time: str = "time_ms"
    status: str = "status"
    scenario: str = "scenario"
    noise: float = 0.02

    @property
    def names(self) -> tuple[str, ...]:
        return (self.vendor, self.device, self.time, self.status, self.scenario)


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The roles of a log's columns. Feature order is the argument order of generated functions."""

    name: str
    features: tuple[Column, ...]
    parameters: tuple[Column, ...]
    derived: tuple[DerivedColumn, ...] = ()
    log: LogColumns = field(default_factory=LogColumns)

    def parameters_of(self, vendor: str) -> tuple[Column, ...]:
        """The parameters that exist for a vendor, in spec order."""
        return tuple(p for p in self.parameters if p.exists_for(vendor))


# --- the text of one cell ---------------------------------------------------------------------------------


def number(text: str) -> float | None:
    """A plain decimal or exponent form as a finite float (-0 as 0); None for other text, nan and inf too."""
    if not _FLOAT.fullmatch(text):
        return None
    value = float(text) + 0.0
    return value if math.isfinite(value) else None


def cell_value(column: Column, text: str) -> Value:
    """The value that a non-blank cell holds. Nothing is stripped: spaces around a value are an error.

    Bools are true, True, 1, false, False, 0. Ints lie within +-2**53, where a float64 is exact.

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
    # int() refuses more than 4300 digits; no number of 40 digits is within the limit.
    value = int(text) if len(text) < 40 else MAX_EXACT_INT + 1
    if abs(value) > MAX_EXACT_INT:
        raise _unfit(column, text, "a whole number within +-2**53", "larger ones are not exact in training")
    return value


def _parse_float(column: Column, text: str) -> float:
    value = number(text)
    if value is None:
        raise _unfit(column, text, "a finite number such as 0.5 or 1e-3")
    return value


def _parse_bool(column: Column, text: str) -> bool:
    if text not in _BOOLS:
        raise _unfit(column, text, "true or false (or 1, 0)")
    return _BOOLS[text]


def _parse_category(column: Column, text: str) -> str:
    if column.values and text not in column.values:
        expected = ", ".join(quoted(v) for v in column.values[:8]) + (
            ", ..." if len(column.values) > 8 else ""
        )
        raise _unfit(column, text, f"one of {expected}", did_you_mean(text, column.values))
    if not column.values and text != text.strip():
        raise _unfit(column, text, "a category without spaces around it")
    return text


_PARSERS: dict[ColumnType, Callable[[Column, str], int | float | bool | str]] = {
    "int": _parse_int,
    "float": _parse_float,
    "bool": _parse_bool,
    "category": _parse_category,
}


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the closest known word, if one is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {quoted(close[0])}?" if close else None


# --- reading a spec ---------------------------------------------------------------------------------------

_TABLES = ("kernel", "features", "derived", "parameters", "log")
_COLUMN_KEYS = ("type", "min", "max", "values", "unit", "doc")
_PARAMETER_KEYS = (*_COLUMN_KEYS, "optional", "vendors")


def read_spec(path: str | os.PathLike[str]) -> KernelSpec:
    """Read a kernel spec (TOML).

    Raises:
        SpecError: the file cannot be read, is no TOML, or says something that a spec cannot mean; names the
            file, the line where it can be found, and the key.
    """
    source = _Source(os.fspath(path), _read_text(path))
    try:
        data = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(source.file, str(error)) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of brackets
        raise SpecError(f"this is no TOML: {error}", file=source.file) from error
    for key in data:
        source.known(key, _TABLES, (), "table")
    for key in ("kernel", "features", "parameters"):
        if key not in data:
            raise source.error(
                (), f"the table [{key}] is missing", "a spec needs [kernel], [features], [parameters]"
            )
    tables = {key: source.table(data.get(key, {}), (key,)) for key in _TABLES}
    spec = KernelSpec(
        name=_kernel_name(source, tables["kernel"]),
        features=_columns(source, tables["features"], "features"),
        parameters=_columns(source, tables["parameters"], "parameters"),
        derived=tuple(_derived(source, name, text) for name, text in tables["derived"].items()),
        log=_log_columns(source, tables["log"]),
    )
    _check_spec(source, spec)
    return spec


def _read_text(path: str | os.PathLike[str]) -> str:
    file = os.fspath(path)
    try:
        # Some editors begin a file with a byte order mark, which TOML does not know.
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"byte {error.start} is no UTF-8", file=file, hint="save the file as UTF-8"
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(f"cannot be read: {reason}", file=file) from error


def _toml_error(file: str, message: str) -> SpecError:
    found = re.search(r" \(at line ([0-9]+), column ([0-9]+)\)$", message)
    if found is None:
        return SpecError(f"this is no TOML: {message}", file=file)
    text = f"this is no TOML: {message[: found.start()]}, at character {found[2]}"
    return SpecError(text, file=file, row=int(found[1]))


@dataclass(frozen=True, slots=True)
class _Source:
    """A spec's file name and text, to say where an error is."""

    file: str
    text: str

    def error(self, key: tuple[str, ...], message: str, hint: str | None = None) -> SpecError:
        row = _line_of(self.text, key)
        return SpecError(message, file=self.file, row=row, column=".".join(key) or None, hint=hint)

    def known(self, key: str, allowed: Iterable[str], where: tuple[str, ...], what: str = "key") -> None:
        allowed = tuple(allowed)
        if key not in allowed:
            hint = did_you_mean(key, allowed) or f"known: {', '.join(allowed)}"
            raise self.error((*where, key), f"unknown {what} {quoted(key)}", hint)

    def table(self, value: object, key: tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(key, value, "a table")
        return value

    def wrong(self, key: tuple[str, ...], found: object, expected: str, hint: str | None = None) -> SpecError:
        shown = quoted(found) if isinstance(found, str) else quoted(found).strip("'\"")
        return self.error(key, f"found {shown}, expected {expected}", hint)


def _line_of(text: str, key: tuple[str, ...]) -> int | None:
    """The line of the longest prefix of `key` that a plain search finds."""
    section: tuple[str, ...] = ()
    lines: dict[tuple[str, ...], int] = {}
    for number_, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            section = _dotted(header[1])
            lines.setdefault(section, number_)
        elif assignment := re.match(r"\s*([^=#]+?)\s*=", line):
            lines.setdefault(section + _dotted(assignment[1]), number_)
    prefixes = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[prefix] for prefix in prefixes if prefix in lines), None)


def _dotted(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


def _kernel_name(source: _Source, table: Mapping[str, Any]) -> str:
    for key in table:
        source.known(key, ("name",), ("kernel",))
    if "name" not in table:
        raise source.error(("kernel",), "the key 'name' is missing", 'write name = "my_kernel"')
    name = table["name"]
    if not isinstance(name, str):
        raise source.wrong(("kernel", "name"), name, "a string")
    _rewrapped(source, ("kernel", "name"), lambda: check_name(name, "kernel"))
    return name


def _rewrapped(source: _Source, key: tuple[str, ...], check: Callable[[], object]) -> None:
    try:
        check()
    except ModelError as error:
        raise source.error(key, error.message, error.hint) from error


def _columns(source: _Source, table: Mapping[str, Any], role: str) -> tuple[Column, ...]:
    if not table:
        raise source.error((role,), f"[{role}] is empty, expected at least one")
    return tuple(_column(source, name, value, role) for name, value in table.items())


def _column(source: _Source, name: str, value: object, role: str) -> Column:
    key = (role, name)
    _rewrapped(source, key, lambda: check_name(name, role.removesuffix("s")))
    if role == "parameters" and name.startswith("_"):
        raise source.error(key, f"parameter name {quoted(name)} starts with an underscore")
    if not isinstance(value, dict):
        raise source.wrong(key, value, "a table", 'write { type = "int" }')
    for entry in value:
        source.known(entry, _PARAMETER_KEYS if role == "parameters" else _COLUMN_KEYS, key)
    if "type" not in value:
        raise source.error(key, "the key 'type' is missing", f"one of {', '.join(COLUMN_TYPES)}")
    type_ = value["type"]
    if not isinstance(type_, str) or type_ not in COLUMN_TYPES:
        raise source.wrong((*key, "type"), type_, f"one of {', '.join(COLUMN_TYPES)}")
    for entry, kind, word in (
        ("unit", str, "a string"),
        ("doc", str, "a string"),
        ("optional", bool, "true or false"),
    ):
        if type(value.get(entry, kind())) is not kind:
            raise source.wrong((*key, entry), value[entry], word)
    low, high = _limits(source, key, value, type_)
    return Column(
        name=name,
        type=type_,
        min=low,
        max=high,
        values=_values(source, key, value, type_),
        unit=value.get("unit", ""),
        doc=value.get("doc", ""),
        optional=value.get("optional", False),
        vendors=_vendors(source, key, value),
    )


def _limits(
    source: _Source, key: tuple[str, ...], value: Mapping[str, Any], type_: str
) -> tuple[float | None, float | None]:
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "int": ((int,), "a whole number within +-2**53"),
        "float": ((int, float), "a finite number"),
    }
    for entry in ("min", "max"):
        if entry not in value:
            continue
        if type_ not in kinds:
            raise source.error((*key, entry), f"{entry} does not apply to the type {type_}")
        kind, word = kinds[type_]
        found = value[entry]
        if type(found) not in kind or not _is_exact(found):
            raise source.wrong((*key, entry), found, word)
    low, high = value.get("min"), value.get("max")
    if low is not None and high is not None and low > high:
        raise source.error((*key, "min"), f"min = {low} is larger than max = {high}")
    return low, high


def _is_exact(found: float) -> bool:
    """A finite float, or an int that a float64 holds as it is."""
    return abs(found) <= MAX_EXACT_INT if isinstance(found, int) else math.isfinite(found)


def _strings(source: _Source, key: tuple[str, ...], found: object) -> tuple[str, ...]:
    if not isinstance(found, list) or not found or any(type(v) is not str for v in found):
        raise source.wrong(key, found, "a list of strings")
    twice = next((v for i, v in enumerate(found) if v in found[:i]), None)
    if twice is not None:
        raise source.error(key, f"{quoted(twice)} is listed twice")
    return tuple(found)


def _values(source: _Source, key: tuple[str, ...], value: Mapping[str, Any], type_: str) -> tuple[str, ...]:
    if "values" not in value:
        return ()
    if type_ != "category":
        raise source.error((*key, "values"), f"values does not apply to the type {type_}")
    values = _strings(source, (*key, "values"), value["values"])
    if "" in values:
        raise source.error(
            (*key, "values"), "found '', expected text", "for a blank cell use optional = true"
        )
    return values


def _vendors(source: _Source, key: tuple[str, ...], value: Mapping[str, Any]) -> tuple[str, ...]:
    if "vendors" not in value:
        return ()
    vendors = _strings(source, (*key, "vendors"), value["vendors"])
    for vendor in vendors:
        if (problem := vendor_problem(vendor)) is not None:
            raise source.error((*key, "vendors"), f"found {quoted(vendor)}, expected {problem}")
    return vendors


def vendor_problem(vendor: str) -> str | None:
    """What a vendor name should have been; None for a good one. It becomes part of function names."""
    if not VENDOR.fullmatch(vendor):
        return "a vendor in lower-case letters, digits and underscores, such as nvidia"
    return "a vendor that is no Python keyword" if keyword.iskeyword(vendor) else None


def _derived(source: _Source, name: str, text: object) -> DerivedColumn:
    key = ("derived", name)
    _rewrapped(source, key, lambda: check_name(name, "derived feature"))
    if not isinstance(text, str):
        raise source.wrong(key, text, 'an expression in quotes such as "a * b"')
    try:
        return DerivedColumn(name, expr.parse(text))
    except HeurgenError as error:
        raise source.error(key, error.message, error.hint) from error


def _log_columns(source: _Source, table: Mapping[str, Any]) -> LogColumns:
    for key, value in table.items():
        source.known(key, (f.name for f in fields(LogColumns)), ("log",))
        if key == "noise":
            if type(value) not in (int, float) or not _is_exact(value) or value < 0:
                raise source.wrong(("log", key), value, "a finite number that is not negative, such as 0.02")
        elif type(value) is not str or not value or value != value.strip():
            raise source.wrong(("log", key), value, "the name of a column")
    return LogColumns(**{**table, "noise": float(table.get("noise", LogColumns().noise))})


def _check_spec(source: _Source, spec: KernelSpec) -> None:
    """What can only be seen across tables: clashes, and the names that expressions read."""
    columns: list[Any] = []
    roles = (("features", spec.features), ("derived", spec.derived), ("parameters", spec.parameters))
    taken = dict(zip(spec.log.names, ("vendor", "device", "time", "status", "scenario"), strict=True))
    if len(taken) < len(spec.log.names):
        twice = next(n for n in spec.log.names if spec.log.names.count(n) > 1)
        raise source.error(("log",), f"two keys name the column {quoted(twice)}")
    for role, members in roles:
        for column in members:
            columns.append(column)
            _rewrapped(source, (role, column.name), lambda: check_no_clash(columns))
            if column.name in taken:
                raise source.error(
                    (role, column.name),
                    f"the name {quoted(column.name)} is taken by the log's {taken[column.name]} column",
                    f"rename it, or set {taken[column.name]} in [log]",
                )
    numeric = {f.name: f.type != "category" for f in spec.features}
    for derived in spec.derived:
        for name in sorted(expr.names(derived.expression)):
            key = ("derived", derived.name)
            if name not in numeric:
                raise source.error(key, f"{quoted(name)} is no feature", did_you_mean(name, numeric))
            if not numeric[name]:
                raise source.error(key, f"{quoted(name)} is a category, expected a number")
