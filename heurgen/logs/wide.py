"""`heurgen init --wide`: a spec for a table with a column a config, each cell a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from heurgen.base.errors import LogError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs import column_names
from heurgen.logs.cells import Cells
from heurgen.logs.importers.common import column_type, described, safe_name
from heurgen.logs.naming import names_for, plain, spellings, unit_in
from heurgen.logs.numbers import ms_in, numbers
from heurgen.logs.objective import names_unit, throughput_beside, unsaid
from heurgen.logs.vendors import VendorGuess, guessed_vendor
from heurgen.spec.draft_toml import Draft, Entry
from heurgen.spec.log_columns import (
    LogColumns,
    WideColumn,
    is_flop_count,
    is_throughput,
    names_config,
    names_time,
    snake_case,
    unit_of,
)

_LESS = (
    'guess: the cells are times, less is better; write "max" and time = "throughput" for TFLOPS and the like'
)
_MAX = 'objective = "max" and time = "throughput"'
_THROUGHPUT: dict[str, Any] = {"time": "throughput", "objective": "max"}
# What a table says of all its configs.
_OF_ALL = re.compile(
    r"(winner|best|fastest|oracle)(_([gt]?flops|time|latency|[mun]?s|idx|index|id|name|config|choice|kernel|solution|"
    r"impl|provider|variant|backend))*|(.*_)?(speedup|slowdown)(_.*)?"
)
_PAIR = re.compile(r"([A-Za-z_][A-Za-z_0-9-]*?)\s*[=:]\s*([A-Za-z0-9_.+-]+)")


def wide_draft(table: Cells, path: str, features: tuple[str, ...], vendor: str | None) -> Draft:
    """Columns that are features (or bookkeeping) by name, or as said; each other column of numbers is a config.

    A config column's name is read as its parameters (`BLOCK_M=64,num_warps=4`); any other name is the value of one
    parameter, `config` (`config_2` where the table has such a column).

    Raises:
        LogError: fewer than two columns can be configs, or none a feature.
        UsageError: `vendor` is neither a column nor a vendor.
    """
    place = _places(table, vendor)
    name = safe_name(re.sub(r"\..*", "", re.split(r"[/\\]", path)[-1]))
    configs, inputs, left_out = _roles(table, features, place)
    if len(configs) < 2 or not inputs:
        what = "fewer than two columns look like configs" if inputs else "no column looks like a feature"
        raise LogError(what, file=path, hint="say which columns are the features: --features NAME,...")
    names_of = names_for(inputs, table.texts)
    wide = _columns(configs, safe_name("config", {*names_of.values(), *table.texts}))
    parameters = list(dict.fromkeys(name for _, values in wide for name, _ in values))
    values = {p: {dict(v).get(p, "") for _, v in wide} for p in parameters}
    words = sorted({t for c in configs for t in _words(table.texts[c])})
    guess = (
        None if "vendor" in place else guessed_vendor(table.texts.get(place.get("device", ""), []), vendor)
    )
    log, remarks = _vendor_and_device(guess, has_device="device" in place)
    read, remark = _cells(configs, left_out, throughput_beside(table, path))
    if any(ms_in(text) is not None for c in configs for text in table.texts[c]):
        read, remark = {}, ""  # the cells name their unit: they are times
    return Draft(
        name=name,
        features=tuple(_feature(table, c, names_of[c]) for c in inputs),
        parameters=tuple(
            Entry(described(p, v, optional="" in v), "guess; confirm") for p, v in values.items()
        ),
        log=replace(log, failures=tuple(words), wide=wide, **place, **read),
        log_remarks=(*remarks, ("objective", remark)) if remark else remarks,
        header=(f"Drafted by heurgen init --wide from {counted(len(wide), 'config')}.",),
        left_out=tuple(left_out.items()),
        notes=(unsaid("the cells are", _MAX),) if remark == _LESS else (),
    )


def _roles(
    table: Cells, features: tuple[str, ...], place: dict[str, Any]
) -> tuple[list[str], list[str], dict[str, str]]:
    """The columns that are configs, those that are features, and why each other one is neither."""
    rest = [c for c in table.texts if c not in place.values()]
    named = (c for c in rest if not names_config(c))
    results = (c for c in named if _is_result(c))
    left_out = {c: "guess: a result, and of no config; confirm" for c in results if c not in features}
    candidates = [c for c in rest if c not in features and c not in left_out]
    configs = [
        c
        for c in candidates
        if (features or not _is_input(table, c)) and (_times(table, c) or _failed(table, c))
    ]
    configs = configs if features else _without_sizes(table, configs)
    left_out |= (other := _of_another_kind(configs))
    configs = [c for c in configs if c not in other]
    inputs = list(features) or [
        c
        for c in rest
        if c not in configs and c not in left_out and "" not in table.texts[c] and printable(c) == c
    ]
    if not features:  # "run", "best"
        told = [c for c in inputs if column_names.is_result(plain(c))]
        inputs = [c for c in inputs if c not in told]
        left_out |= dict.fromkeys(told, "guess: a result, not known at launch; confirm")
    nothing = (c for c in rest if c not in (*configs, *inputs, *left_out))
    why = left_out | dict.fromkeys(nothing, "no number and no feature")
    return configs, inputs, {c: why[c] for c in rest if c in why}


def _is_result(column: str) -> bool:
    name = plain(column)
    of_all = is_flop_count(name) or _OF_ALL.fullmatch(snake_case(name)) is not None
    return of_all or column_names.is_metric(column)


def _without_sizes(table: Cells, configs: list[str]) -> list[str]:
    """Where columns are called times or throughputs ("hip_us", "old_us"), other whole numbers ("tp") are no configs."""
    told = [c for c in configs if names_time(c) or is_throughput(c)]
    if len(told) < 2:
        return configs
    whole = {c for c in configs if column_type(table.texts[c]) == "int" and not names_config(c)}
    return [c for c in configs if c in told or c not in whole]


def _of_another_kind(configs: list[str]) -> dict[str, str]:
    """Of times and throughputs the fewer are no configs; nor are few throughputs among names that say nothing.

    Tensile's first column is called GFlops, counts the problems, and says what the cells of the configs are.
    """
    times, rates = [c for c in configs if names_time(c)], [c for c in configs if is_throughput(c)]
    if times and rates:
        fewer = rates if len(times) >= len(rates) else times
        return dict.fromkeys(fewer, "guess: times and throughputs are no configs of one table; confirm")
    if 0 < 2 * len(rates) < len(configs) and not any(map(unit_in, rates)):
        return dict.fromkeys(rates, "guess: a throughput by its name, and no config; confirm")
    return {}


def _places(table: Cells, vendor: str | None) -> dict[str, Any]:
    """The columns of "vendor", "device" and "scenario", of those that the table has."""
    found = {
        key: next((c for c in table.texts if set(spellings(c)) & set(column_names.BOOKKEEPING[key])), None)
        for key in ("vendor", "device", "scenario")
    }
    if vendor in table.texts:
        found["vendor"] = vendor
    return {key: column for key, column in found.items() if column is not None}


def _cells(configs: list[str], others: Iterable[str], beside: str | None) -> tuple[dict[str, Any], str]:
    """What [log] says of the cells, and a remark on its objective.

    The configs' names say it ("Triton (TFLOPS)", one unit of all); else the names of `others`, which are no configs,
    or what stands `beside` says that they are throughputs.
    """
    if all(map(is_throughput, configs)):
        return _THROUGHPUT, ""
    units = {unit_of(c) for c in configs} - {None}
    if any(map(names_time, configs)):
        return ({"unit": units.pop()} if len(units) == 1 else {}), ""
    said = next((c for c in (*configs, *others) if names_unit(c)), beside)
    if said is None:
        return {}, _LESS
    return _THROUGHPUT, f"guess: {quoted(said)} says that the cells are throughputs; confirm"


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
    if names_config(column):
        return False
    name = plain(column)
    named = column_type(table.texts[column]) != "float" or name.lower().endswith("version")
    label = column_names.is_label(name) and named and not unit_in(column)
    return column_names.is_feature(name) or label


def _times(table: Cells, column: str) -> bool:
    """Whether more of its values are times than not, or all that are not say that a config failed, as it mostly did.

    Such times are fractions, and each is in one row: other numbers above 0 among zeros are of problems.
    """
    texts = [t for t in table.texts[column] if t]
    found = _numbers(texts)
    good = [v for v in found if v is not None and v > 0]
    if not good or 2 * len(good) > len(found):
        return bool(good)
    failed = {"", *_words(texts)}
    at = [i for i, t in enumerate(table.texts[column]) if t not in failed]
    n = sum(int((table.codes[column] == i).sum()) for i in at)
    return n == len(at) == len(good) and not all(map(float.is_integer, good))


def _failed(table: Cells, column: str) -> bool:
    """Whether a config failed in every row where it was tried."""
    words = [t.strip().lower() for t in table.texts[column] if t]
    return names_config(column) and any(words) and all(map(column_names.is_failure, words))


def _words(texts: list[str]) -> list[str]:
    """What stands in a column of times that is no time: words, 0 and -1."""
    return [t for t, n in zip(texts, _numbers(texts), strict=True) if t and (n is None or n in (0.0, -1.0))]


def _numbers(texts: list[str]) -> list[float | None]:
    """Each text as a number, with its unit or without ("12.3 us"); None where it is none."""
    return [ms_in(t) if n is None else n for t, n in zip(texts, numbers(texts), strict=True)]


def _columns(configs: list[str], parameter: str) -> tuple[WideColumn, ...]:
    """What each config column stands for: the parameters in its name, else its name as a value of `parameter`."""
    read = {c: tuple((safe_name(n), v) for n, v in _PAIR.findall(c)) for c in configs}
    distinct = {tuple(sorted(v)) for v in read.values()}
    if all(read.values()) and len(distinct) == len(configs):
        return tuple(read.items())
    return tuple((c, ((parameter, c),)) for c in configs)
