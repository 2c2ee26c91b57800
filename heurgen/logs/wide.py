"""`heurgen init --wide`: a spec for a table with a column a config, each cell a time."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from heurgen.base.errors import LogError, printable
from heurgen.base.text import counted
from heurgen.logs import column_names
from heurgen.logs.cells import Cells
from heurgen.logs.importers.common import column_type, described, safe_name
from heurgen.logs.naming import names_for, plain, spellings, unit_in
from heurgen.logs.numbers import numbers
from heurgen.logs.vendors import VendorGuess, guessed_vendor
from heurgen.spec.draft_toml import Draft, Entry
from heurgen.spec.log_columns import LogColumns, WideColumn, is_throughput, names_time, unit_of

_LESS = (
    'guess: the cells are times, less is better; write "max" and time = "throughput" for TFLOPS and the like'
)
_PAIR = re.compile(r"([A-Za-z_][A-Za-z_0-9-]*?)\s*[=:]\s*([A-Za-z0-9_.+-]+)")


def wide_draft(table: Cells, path: str, features: tuple[str, ...], vendor: str | None) -> Draft:
    """Columns that are features (or bookkeeping) by name, or as said; each other column of numbers is a config.

    A config column's name is read as its parameters (`BLOCK_M=64,num_warps=4`); any other name is the value of one
    parameter, `config`.

    Raises:
        LogError: fewer than two columns can be configs, or none a feature.
        UsageError: `vendor` is neither a column nor a vendor.
    """
    place = _places(table, vendor)
    rest = [c for c in table.texts if c not in place.values()]
    configs = [
        c for c in rest if c not in features and (features or not _is_input(table, c)) and _times(table, c)
    ]
    inputs = list(features) or [
        c for c in rest if c not in configs and "" not in table.texts[c] and printable(c) == c
    ]
    if len(configs) < 2 or not inputs:
        what = "fewer than two columns look like configs" if inputs else "no column looks like a feature"
        raise LogError(what, file=path, hint="say which columns are the features: --features NAME,...")
    wide = _columns(configs)
    names_of = names_for(inputs, table.texts)
    parameters = list(dict.fromkeys(name for _, values in wide for name, _ in values))
    values = {p: {dict(v).get(p, "") for _, v in wide} for p in parameters}
    words = sorted({t for c in configs for t in _words(table.texts[c])})
    guess = (
        None if "vendor" in place else guessed_vendor(table.texts.get(place.get("device", ""), []), vendor)
    )
    log, remarks = _vendor_and_device(guess, has_device="device" in place)
    read = _cells_by_name(configs)
    if not read and not any(map(names_time, configs)):
        remarks = (*remarks, ("objective", _LESS))
    return Draft(
        name=safe_name(re.sub(r"\..*", "", re.split(r"[/\\]", path)[-1])),
        features=tuple(_feature(table, c, names_of[c]) for c in inputs),
        parameters=tuple(
            Entry(described(p, v, optional="" in v), "guess; confirm") for p, v in values.items()
        ),
        log=replace(log, failures=tuple(words), wide=wide, **place, **read),
        log_remarks=remarks,
        header=(f"Drafted by heurgen init --wide from {counted(len(wide), 'config')}.",),
        left_out=tuple((c, "no number and no feature") for c in rest if c not in configs and c not in inputs),
    )


def _places(table: Cells, vendor: str | None) -> dict[str, Any]:
    """The columns of "vendor", "device" and "scenario", of those that the table has."""
    found = {
        key: next((c for c in table.texts if set(spellings(c)) & set(column_names.BOOKKEEPING[key])), None)
        for key in ("vendor", "device", "scenario")
    }
    if vendor in table.texts:
        found["vendor"] = vendor
    return {key: column for key, column in found.items() if column is not None}


def _cells_by_name(configs: list[str]) -> dict[str, Any]:
    """What [log] says of the cells, where the columns' names say it: "Triton (TFLOPS)", or one unit of all."""
    if all(map(is_throughput, configs)):
        return {"time": "throughput", "objective": "max"}
    units = {unit_of(c) for c in configs} - {None}
    return {"unit": units.pop()} if len(units) == 1 else {}


def _vendor_and_device(
    guess: VendorGuess | None, *, has_device: bool
) -> tuple[LogColumns, tuple[tuple[str, str], ...]]:
    """What [log] says where columns do not (no `guess`: one says the vendor), and the remarks on it."""
    vendor = VendorGuess("") if guess is None else guess
    constants = vendor.constants if has_device else (*vendor.constants, ("device", "unknown"))
    log = LogColumns(constants=constants, vendor_by_name=vendor.by_name)
    device = () if has_device else (("device", "the table has no such column; say which"),)
    return log, device if guess is None else (("vendor", guess.remark), *device)


def _feature(table: Cells, column: str, name: str) -> Entry:
    found = described(name, table.texts[column])
    return Entry(
        replace(found, column="" if name == column else column, unit=unit_in(column)), "guess; confirm"
    )


def _is_input(table: Cells, column: str) -> bool:
    """Whether a column is a feature by its name, or a label: what is measured with "triton" is no version of it."""
    name = plain(column)
    label = (
        column_names.is_label(name) and column_type(table.texts[column]) != "float" and not unit_in(column)
    )
    return column_names.is_feature(name) or label


def _times(table: Cells, column: str) -> bool:
    found = numbers([t for t in table.texts[column] if t])
    return sum(v is not None and v > 0 for v in found) * 2 > len(found)


def _words(texts: list[str]) -> list[str]:
    """What stands in a column of times that is no time."""
    return [t for t, n in zip(texts, numbers(texts), strict=True) if t and n is None]


def _columns(configs: list[str]) -> tuple[WideColumn, ...]:
    read = {c: tuple((safe_name(n), v) for n, v in _PAIR.findall(c)) for c in configs}
    distinct = {tuple(sorted(v)) for v in read.values()}
    if all(read.values()) and len(distinct) == len(configs):
        return tuple(read.items())
    return tuple((c, (("config", c),)) for c in configs)
