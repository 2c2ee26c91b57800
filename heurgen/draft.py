"""`heurgen init`: a first spec for a tuning log, every guess marked for a person to confirm.

Names speak first (`column_names`). Where they do not, the data decide: a column that varies inside a
scenario is a launch parameter, one that does not is a feature (without a scenario id: inside groups of
equal other columns). A launch parameter counts things or names them; a float that varies like that is a
result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, TypeAlias

from heurgen import column_names
from heurgen.errors import LogError, printable
from heurgen.importers.common import (
    column_type,
    counted,
    described,
    only,
    safe_name,
    usable_name,
)
from heurgen.spec import Column, LogColumns
from heurgen.spec_toml import Draft, Entry, to_toml

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from heurgen.cells import Cells

Role: TypeAlias = Literal["feature", "parameter", "none"]
# A float column of a log with fewer distinct values than this may be an input; results hardly ever repeat.
_FEW = 16
# A category with more values than this is an id or free text.
_MAX_CATEGORIES = 100


@dataclass(frozen=True, slots=True)
class _Guess:
    role: Role
    why: str


def draft_spec(path: str | os.PathLike[str]) -> str:
    """The text of a spec (TOML) for the log at `path`.

    Raises:
        LogError: the file is no CSV, or no column can be the time, a parameter or a feature.
    """
    from heurgen.cells import read_cells

    table = read_cells([path])
    log, log_remarks = _bookkeeping(table, path)
    guesses = _guesses(table, log)
    features = [c for c, g in guesses.items() if g.role == "feature"]
    parameters = [c for c, g in guesses.items() if g.role == "parameter"]
    for what, found in (("launch parameter", parameters), ("feature", features)):
        if not found:
            raise LogError(
                f"no column looks like a {what}",
                file=path,
                hint="write the spec by hand: [kernel], [features], [parameters]",
            )
    any_varies = any(len(table.texts[f]) > 1 for f in features)
    kernel, kernel_remark = _kernel(table, path)
    return to_toml(
        Draft(
            name=kernel,
            name_remark=kernel_remark,
            features=tuple(_feature(table, f, guesses[f].why, keep=not any_varies) for f in features),
            parameters=tuple(_parameter(table, p, guesses[p].why, log) for p in parameters),
            log=log,
            log_remarks=log_remarks,
            header=(
                f"Drafted by heurgen init from {counted(table.n, 'row')}.",
                "Every guess is marked: confirm it, then delete the remark.",
            ),
            left_out=tuple((c, g.why) for c, g in guesses.items() if g.role == "none"),
        )
    )


# --- columns that are neither feature nor parameter -------------------------------------------------------


def _bookkeeping(
    table: Cells, path: str | os.PathLike[str]
) -> tuple[LogColumns, tuple[tuple[str, str], ...]]:
    found: dict[str, str] = {}
    for key, names in column_names.BOOKKEEPING.items():
        fitting = [n for n in table.texts if n.lower() in names and n not in found.values()]
        if fitting:
            found[key] = min(fitting, key=lambda n: (names.index(n.lower()), n))
    if "time" not in found:
        raise LogError(
            "no column looks like the time of a measurement",
            file=path,
            row=1,
            hint="name it time_ms, or write the spec by hand with [log] time = ...",
        )
    remarks = [(key, _bookkeeping_remark(table, key, name)) for key, name in found.items()]
    remarks += [
        (key, "guess: the log has no such column, and needs one; add it")
        for key in ("vendor", "device")
        if key not in found
    ]
    return replace(LogColumns(), **found), tuple(remarks)  # type: ignore[arg-type]


def _bookkeeping_remark(table: Cells, key: str, name: str) -> str:
    if key == "time" and not name.lower().endswith("ms"):
        return "guess: by its name; heurgen reads it as ms, and any unit gives the same slowdowns. confirm"
    if key == "status" and "ok" not in table.texts[name]:
        return "guess: by its name; yet no row says 'ok', and any other text is a failure. confirm"
    return "guess: by its name; confirm"


def _kernel(table: Cells, path: str | os.PathLike[str]) -> tuple[str, str]:
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
        decided |= _by_groups(table, undecided, inputs)
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


def _by_groups(table: Cells, undecided: list[str], inputs: list[str]) -> dict[str, _Guess]:
    """Without scenario ids: what varies while the other inputs stay equal is no input.

    Ids and results differ in nearly every row and would leave no two rows equal, so they go first.
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
    for column in left:
        if not _varies(table, column, inputs + left):
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
