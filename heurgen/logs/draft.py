"""`heurgen init`: a first spec for a tuning log, every guess marked for a person to confirm.

Names speak first (`column_names`). Where they do not, the data decide: a column that varies inside a
scenario is a launch parameter, one that does not is a feature (without a scenario id: inside groups of
equal other columns). A launch parameter counts things or names them; a float that varies like that is a
result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, TypeAlias

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted, did_you_mean
from heurgen.logs import column_names
from heurgen.logs.cells import Cells, Source, listed, read_cells
from heurgen.logs.frame import is_frame
from heurgen.logs.importers.common import column_type, described, only, safe_name, usable_name
from heurgen.logs.importers.devices import vendor_of
from heurgen.logs.wide import NO_VENDOR, wide_draft
from heurgen.spec.draft_toml import Draft, Entry, to_toml
from heurgen.spec.kernel_spec import Column, KernelSpec, number, parse_spec, vendor_problem
from heurgen.spec.log_columns import LogColumns, is_throughput, names_time, unit_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role: TypeAlias = Literal["feature", "parameter", "none"]
# A float column of a log with fewer distinct values than this may be an input; results hardly ever repeat.
_FEW = 16
# A category with more values than this is an id or free text.
_MAX_CATEGORIES = 100
_OTHER_TIMES = re.compile(r"compil|warm|timestamp|overhead|verif|total|framework|baseline|reference|ref_")


@dataclass(frozen=True, slots=True)
class _Guess:
    role: Role
    why: str


@dataclass(frozen=True, slots=True)
class Said:
    """What the user says instead of guesses: column names; `vendor` is a column, or the vendor of every row.

    `wide` says that the table has a column a config.
    """

    time: str | None = None
    vendor: str | None = None
    features: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    wide: bool = False


def draft_spec(paths: Source | Sequence[Source], said: Said | None = None) -> str:
    """The text of a spec (TOML) for the log at `paths`.

    Raises:
        LogError: a file is no table, or no column can be the time, a parameter or a feature.
        UsageError: a column that was named is not there.
    """
    sources = listed(paths)
    name = "frame" if is_frame(sources[0]) else os.fspath(sources[0])
    return to_toml(_draft(read_cells(sources), name, said or Said()))


def drafted_spec(table: Cells) -> KernelSpec:
    """The guesses themselves, for a log without a spec. Raises as `draft_spec`."""
    return parse_spec(to_toml(_draft(table, table.files[0].path, Said())), "the guessed spec")


def _draft(table: Cells, path: str, said: Said) -> Draft:
    for name in (said.time, *said.features, *said.parameters):
        if name is not None and name not in table.texts:
            raise UsageError(f"no column is named {quoted(name)}", hint=did_you_mean(name, table.texts))
    if said.wide:
        return wide_draft(table, path, said.features, said.vendor)
    log, log_remarks = _bookkeeping(table, path, said)
    guesses = _guesses(table, log)
    for role, names in (("feature", said.features), ("parameter", said.parameters)):
        if names:
            left = (c for c, g in guesses.items() if g.role == role)
            others = dict.fromkeys(left, _Guess("none", "not among those that were named"))
            guesses |= others | {n: _Guess(role, "as said") for n in names}  # type: ignore[arg-type]
    features = list(said.features) or [c for c, g in guesses.items() if g.role == "feature"]
    parameters = list(said.parameters) or [c for c, g in guesses.items() if g.role == "parameter"]
    if both := sorted(set(features) & {*parameters, *log.names}):
        raise UsageError(
            f"the column {quoted(both[0])} has two roles", hint="say which: --features, --parameters"
        )
    for what, found in (("launch parameter", parameters), ("feature", features)):
        if not found:
            hint = "say which: --features NAME,..."
            if what == "launch parameter":
                hint = (
                    "say which: --parameters NAME,...; or --wide, where every config has a column of its own"
                )
            raise LogError(f"no column looks like a {what}", file=path, hint=hint)
    any_varies = bool(said.features) or not any(len(table.texts[f]) > 1 for f in features)
    kernel, kernel_remark = _kernel(table, path)
    return Draft(
        name=kernel,
        name_remark=kernel_remark,
        features=tuple(_feature(table, f, guesses[f].why, keep=any_varies) for f in features),
        parameters=tuple(_parameter(table, p, guesses[p].why, log) for p in parameters),
        log=log,
        log_remarks=log_remarks,
        header=(
            f"Drafted by heurgen init from {counted(table.n, 'row')}.",
            "Every guess is marked: confirm it, then delete the remark.",
        ),
        left_out=tuple((c, g.why) for c, g in guesses.items() if g.role == "none"),
    )


# --- columns that are neither feature nor parameter -------------------------------------------------------


def _bookkeeping(table: Cells, path: str, said: Said) -> tuple[LogColumns, tuple[tuple[str, str], ...]]:
    found: dict[str, str] = {}
    if said.time is not None:
        found["time"] = said.time
    if said.vendor in table.texts:
        found["vendor"] = str(said.vendor)
    for key, names in column_names.BOOKKEEPING.items():
        fitting = [n for n in table.texts if n.lower() in names and n not in found.values()]
        if fitting and key not in found:
            found[key] = min(fitting, key=lambda n: (names.index(n.lower()), n))
    if "time" not in found:
        found["time"] = _time_column(table, path)
    others = [c for c in table.texts if c not in found.values()]
    if "status" not in found and (fits := [c for c in others if column_names.is_status(c, table.texts[c])]):
        found["status"] = fits[0]
    constants, by_name, remarks = vendor_without_column(table, found, said.vendor)
    log = replace(LogColumns(), **found, constants=constants, vendor_by_name=by_name)  # type: ignore[arg-type]
    if is_throughput(log.time):
        log = replace(log, objective="max")
    success = column_names.success_words(log.status, table.texts.get(log.status, ()))
    if {word.lower() for word in success} - {"ok"}:
        log = replace(log, success=success)
        remarks["success"] = "guess: texts of the status column; any other is a failure. confirm"
    if words := _failure_words(table, log):
        log = replace(log, failures=words)
        remarks["failures"] = "guess: texts of the time column that are no times; confirm"
    remarks |= {key: _bookkeeping_remark(table, key, name) for key, name in found.items()}
    if "device" not in found:
        remarks["device"] = (
            'guess: the log has no such column, and needs one; add it, or write { const = "..." }'
        )
    return log, tuple(remarks.items())


def vendor_without_column(
    table: Cells, found: dict[str, str], said: str | None
) -> tuple[tuple[tuple[str, str], ...], bool, dict[str, str]]:
    """(constants, whether the devices' names tell, remarks) where no column holds the vendor."""
    if "vendor" in found:
        return (), False, {}
    if said is not None:
        if (problem := vendor_problem(said)) is not None:
            raise UsageError(f"found --vendor {quoted(said)}, expected a column, or {problem}")
        return (("vendor", said),), False, {"vendor": "as said"}
    devices = table.texts.get(found.get("device", ""), [])
    vendors = {vendor_of(d) for d in devices}
    if len(vendors) == 1 and (vendor := vendors.pop()) is not None:
        return (("vendor", vendor),), False, {"vendor": f"guess: {devices[0]} is of {vendor}; confirm"}
    if len(vendors) > 1 and None not in vendors:
        return (), True, {"vendor": "guess: the names of the devices tell it; confirm"}
    return (), False, {"vendor": NO_VENDOR}


def _time_column(table: Cells, path: str) -> str:
    """A column of numbers that is a time by its name, else one that is a throughput."""
    numbers = [
        c
        for c in table.texts
        if sum(number(t) is not None for t in table.texts[c]) * 2 >= len(table.texts[c])
    ]
    times = [c for c in numbers if names_time(c) and not _OTHER_TIMES.search(c.lower())]
    found = times or [c for c in numbers if is_throughput(c)]
    if not found:
        hint = "say which: --time NAME"
        raise LogError("no column looks like the time of a measurement", file=path, row=1, hint=hint)
    return min(
        found, key=lambda c: (not re.search("median|p50", c.lower()), not re.search("mean|avg", c.lower()))
    )


def _failure_words(table: Cells, log: LogColumns) -> tuple[str, ...]:
    texts = {t.strip().lower() for t in table.texts[log.time] if t and number(t) is None} | (
        {"-1"} & set(table.texts[log.time])
    )
    return tuple(sorted(t for t in texts if t in column_names.FAILURES))


def _bookkeeping_remark(table: Cells, key: str, name: str) -> str:
    if key == "time" and is_throughput(name):
        return "guess: a throughput, by its name; 1 / it is read as a time. confirm"
    if key == "time" and not name.lower().endswith("ms"):
        unit = unit_of(name)
        read = (
            f"in {unit}, by its name"
            if unit
            else "as ms (or say unit = ...), and any unit gives the same slowdowns"
        )
        return f"guess: by its name; heurgen reads it {read}. confirm"
    if key == "status" and not column_names.success_words(name, table.texts[name]):
        return "guess: by its name; yet no row says 'ok', and any other text is a failure. confirm"
    if key == "status" and name.lower() not in column_names.BOOKKEEPING["status"]:
        return "guess: by its texts; confirm"
    return "guess: by its name; confirm"


def _kernel(table: Cells, path: str) -> tuple[str, str]:
    for name in ("kernel", "kernel_name"):
        if len(table.texts.get(name, [])) == 1 and table.texts[name][0]:
            return safe_name(table.texts[name][0]), f"guess: the column {name}; confirm"
    stem = PurePath(os.path.abspath(path)).name.partition(".")[0]
    return safe_name(stem), "guess: the file's name; confirm"


# --- roles ------------------------------------------------------------------------------------------------


def _guesses(table: Cells, log: LogColumns) -> dict[str, _Guess]:
    """What every other column is, in the order of the file."""
    guesses = {c: _by_name(table, c) for c in table.texts if c not in log.names}
    undecided = [c for c, g in guesses.items() if g is None]
    decided = {c: g for c, g in guesses.items() if g is not None}
    if log.scenario in table.texts:
        keys = [n for n in (log.vendor, log.device, log.scenario) if n in table.texts]
        group = _groups([table.codes[k] for k in keys])
        for column in (c for c in guesses if c not in decided or decided[c].role == "feature"):
            decided[column] = _by_scenario(table, column, group, decided.get(column))
    else:
        inputs = [c for c, g in decided.items() if g.role == "feature"]
        inputs += [n for n in (log.vendor, log.device) if n in table.texts]
        decided |= _by_groups(
            table, undecided, inputs, [c for c, g in decided.items() if g.role == "parameter"]
        )
    return {c: decided[c] for c in guesses}


def _by_name(table: Cells, column: str) -> _Guess | None:
    """A guess from the name (and from what no feature or parameter can hold); None: let the data decide."""
    values = table.texts[column]
    type_ = column_type(values)
    if not usable_name(column):
        return _Guess("none", "left out: no name for generated code; rename the column to use it")
    if column_names.is_label(column):
        return _Guess("none", "guess: a label or an id, not known at launch; confirm")
    if column_names.is_result(column):
        return _Guess("none", "guess: a result, not known at launch; confirm")
    if type_ == "category" and any(printable(v) != v or v != v.strip() for v in values):
        return _Guess("none", "left out: it holds control characters or spaces around values")
    if type_ == "category" and len(values) > _MAX_CATEGORIES:
        return _Guess("none", f"left out: text with {len(values)} different values")
    if column_names.is_parameter(column):
        return _parameter_guess(column, "guess: a known parameter; confirm")
    if len(values) == 1:
        blank = not values[0]
        return _Guess("none", "left out: always blank") if blank else _Guess("feature", "guess: constant")
    if column_names.is_feature(column):
        return _feature_guess(values, "guess: a known feature; confirm")
    if column_names.looks_like_parameter(column):
        return _parameter_guess(column, "guess: named like a parameter; confirm")
    return None


def _feature_guess(values: list[str], why: str) -> _Guess:
    if "" in values:
        return _Guess("none", "left out: it has blank cells, which a feature cannot have")
    return _Guess("feature", why)


def _by_scenario(table: Cells, column: str, group: NDArray[np.int64], named: _Guess | None) -> _Guess:
    values = table.texts[column]
    if not _varies_inside(table.codes[column], group):
        return named or _feature_guess(values, "guess: constant inside each scenario; confirm")
    if column_type(values) == "float":
        return _Guess("none", "guess: a float that varies inside a scenario is a result; confirm")
    if len(values) == table.n:
        return _Guess("none", "guess: different in every row: an id; confirm")
    return _parameter_guess(column, "guess: varies inside a scenario; confirm")


def _by_groups(
    table: Cells, undecided: list[str], inputs: list[str], parameters: list[str]
) -> dict[str, _Guess]:
    """Without scenario ids: what varies while the other inputs stay equal is no input.

    Ids and results differ in nearly every row and would leave no two rows equal, so they go first. Where every
    value was measured with every other nothing varies alone: then what changes seldom from row to row, like the
    features that names tell, and stands before the known parameters, is of an outer loop, which problems are.
    """
    types = {c: column_type(table.texts[c]) for c in undecided}
    found: dict[str, _Guess] = {}
    for column in undecided:
        n_values = len(table.texts[column])
        if types[column] != "float" and n_values == table.n and n_values > _FEW:
            found[column] = _Guess("none", "guess: different in every row: an id; confirm")
    floats = [c for c in undecided if types[c] == "float" and len(table.texts[c]) > _FEW]
    others = [c for c in undecided if c not in found and c not in floats]
    for column in floats:
        if _varies(table, column, inputs + others):
            found[column] = _Guess("none", "guess: a float that varies like a result; confirm")
    left = [c for c in undecided if c not in found]
    outer = _outer(table, left, parameters)
    for column in left:
        if column in outer:
            why = "guess: an outer loop of the sweep; confirm"
        elif not _varies(table, column, inputs + left):
            why = "guess: the other columns determine it; confirm"
        elif types[column] == "float":
            why = "guess: a float with few values; confirm"
        else:
            found[column] = _parameter_guess(
                column, "guess: varies while the other columns stay equal; confirm"
            )
            continue
        found[column] = _feature_guess(table.texts[column], why)
    return found


# Inner loops change at least this many times as often as outer ones.
_OFTENER = 1.5
# No block, tile or count of a launch is as large, sizes of problems are.
_LARGE = 16384


def _outer(table: Cells, columns: list[str], parameters: list[str]) -> set[str]:
    """Columns that are problems by the order of rows and columns, or by their size."""
    import numpy as np

    place = {name: i for i, name in enumerate(table.texts)}
    changes = {c: int((np.diff(table.codes[c]) != 0).sum()) for c in (*columns, *parameters)}
    slowest = min((changes[p] for p in parameters), default=0)
    first = min((place[p] for p in parameters), default=-1)
    large = {
        c
        for c in columns
        if column_type(table.texts[c]) == "int" and max(int(t or 0) for t in table.texts[c]) > _LARGE
    }
    return large | {c for c in columns if place[c] < first and changes[c] * _OFTENER <= slowest}


def _varies(table: Cells, column: str, inputs: list[str]) -> bool:
    group = _groups([table.codes[c] for c in inputs if c != column])
    return _varies_inside(table.codes[column], group)


def _parameter_guess(column: str, why: str) -> _Guess:
    if column.startswith("_"):
        return _Guess("none", "left out: no parameter's name starts with an underscore; rename the column")
    return _Guess("parameter", why)


def _groups(columns: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Rows equal in all columns share a number."""
    import numpy as np

    group: NDArray[np.int64] | None = None
    for codes in columns:
        joined = codes if group is None else group * (int(codes.max()) + 1) + codes
        group = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return np.zeros(1, dtype=np.int64) if group is None else group


def _varies_inside(codes: NDArray[np.int64], group: NDArray[np.int64]) -> bool:
    import numpy as np

    pairs = group * (int(codes.max()) + 1) + codes
    return len(np.unique(pairs)) > len(np.unique(group))


# --- the lines of the draft -------------------------------------------------------------------------------


def _feature(table: Cells, name: str, why: str, *, keep: bool) -> Entry:
    values = table.texts[name]
    column = _with_limits(_described(name, values), values)
    if len(values) == 1:
        return Entry(column, f"guess: constant here ({only(values)}), so left out; confirm", active=keep)
    return Entry(column, why)


def _described(name: str, values: list[str]) -> Column:
    column = described(name, values)
    return (
        replace(column, values=tuple(sorted(v for v in values if v))) if column.type == "category" else column
    )


def _with_limits(column: Column, values: list[str]) -> Column:
    """Units and limits that the name of a well-known feature implies, where the data agree."""
    unit = column_names.unit(column.name)
    if column.type in ("int", "float") and column_names.is_share(column.name):
        numbers = [float(v) for v in values]
        if min(numbers) >= 0 and max(numbers) <= 1:
            return replace(column, type="float", min=0, max=1)
    if column.type == "int" and unit and min(map(int, values)) >= 1:
        return replace(column, min=1, unit=unit)
    return replace(column, unit=unit)


def _parameter(table: Cells, name: str, why: str, log: LogColumns) -> Entry:
    """A parameter that is blank in every row of a vendor does not exist there."""
    column = _described(name, table.texts[name])
    if "" not in table.texts[name]:
        return Entry(column, why)
    blank = table.codes[name] == table.texts[name].index("")
    vendors: tuple[str, ...] = ()
    if log.vendor in table.texts:
        vendor_codes = table.codes[log.vendor]
        having = {v: not blank[vendor_codes == i].all() for i, v in enumerate(table.texts[log.vendor])}
        if not all(having.values()) and any(having.values()):
            vendors = tuple(sorted(v for v, has in having.items() if has))
            blank = blank[[having[table.texts[log.vendor][i]] for i in vendor_codes]]
    return Entry(replace(column, vendors=vendors, optional=bool(blank.any())), why)
