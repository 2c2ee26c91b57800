"""What every column of a log is that is no bookkeeping: a feature, a parameter, or neither, as far as one can guess.

Names speak first (`column_names`). Where they do not, the data decide: a column that varies inside a
scenario is a launch parameter, one that does not is a feature (without a scenario id: inside groups of
equal other columns). A launch parameter counts things or names them; a float that varies like that is a
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import printable
from heurgen.logs import column_names
from heurgen.logs.cells import Cells
from heurgen.logs.importers.common import column_type
from heurgen.logs.naming import parents, plain
from heurgen.spec.log_columns import LogColumns, names_time

Role: TypeAlias = Literal["feature", "parameter", "none"]
# A float column of a log with fewer distinct values than this may be an input; results hardly ever repeat.
_FEW = 16
# "2026-11-30", "2026-11-30T10:00:00Z", "2026/11/30 10:00".
_DATE = re.compile(r"[0-9]{4}([-/.])[0-9]{2}\1[0-9]{2}([T ][0-9]{2}:.*)?")
# A category with more values than this is an id or free text.
_MAX_CATEGORIES = 100


@dataclass(frozen=True, slots=True)
class Guess:
    role: Role
    why: str


def guesses_of(table: Cells, log: LogColumns) -> dict[str, Guess]:
    """What every other column is, in the order of the file."""
    others = [c for c in table.texts if c not in log.names]
    guesses = {c: _beside_time(table, c, log.time) or _by_name(table, c) for c in others}
    undecided = [c for c, g in guesses.items() if g is None]
    decided = {c: g for c, g in guesses.items() if g is not None}
    if any(table.texts.get(log.scenario, ())):  # one that is blank throughout names none
        group = _scenarios(table, log)
        for column in (c for c in guesses if c not in decided or decided[c].role == "feature"):
            decided[column] = _by_scenario(table, column, group, decided.get(column))
    else:
        inputs = [c for c, g in decided.items() if g.role == "feature"]
        inputs += [n for n in (log.vendor, log.device) if n in table.texts]
        parameters = [c for c, g in decided.items() if g.role == "parameter"]
        if not parameters and (whole := _told_knobs(table, guesses)) is not None:
            parameters = [whole]
            decided[whole] = Guess("parameter", "guess: the text of a whole config; confirm")
            beside = _beside_config(table, undecided, whole)
            decided |= beside
            inputs += beside
            undecided = [c for c in undecided if c not in beside and c != whole]
        decided |= _by_groups(table, undecided, inputs, parameters)
    return {c: decided[c] for c in guesses}


# Columns that name a config as a whole, best first.
_WHOLE = "config configuration config_name choice params config_id kernel_name kernel name".split()
# The text of several knobs: '{"BLOCK": 64, "num_warps": 4}', "BLOCK: 64, num_warps: 4", "BLOCK=64 num_warps=4".
_KNOBS = re.compile(r"[^:=]*\w[\"']?\s?[:=]\s?[^:=]+[\s,;][\"']?\w+[\"']?\s?[:=].+")


def _told_knobs(table: Cells, guesses: Mapping[str, Guess | None]) -> str | None:
    """The column that is called a config and whose texts tell all knobs of one with their values."""
    free = (c for c, g in guesses.items() if g is None or g.role == "none")
    called = (c for c in free if column_names.role_of_object(plain(c).lower()) == "parameter")
    return next(
        (c for c in called if len(table.texts[c]) > 1 and all(map(_KNOBS.fullmatch, table.texts[c]))), None
    )


def _beside_config(table: Cells, columns: Iterable[str], whole: str) -> dict[str, Guess]:
    """Whole numbers and categories that vary while the whole config stays equal: of the launch, as no knob is left.

    Results and ids differ in most rows.
    """
    return {
        c: _feature_guess(table.texts[c], f"guess: {printable(whole)} does not tell it; confirm")
        for c in columns
        if column_type(table.texts[c]) != "float" and 2 * len(table.texts[c]) <= table.n
        if _varies_inside(table.codes[c], table.codes[whole])
    }


def whole_config(table: Cells, guesses: Mapping[str, Guess], log: LogColumns) -> str | None:
    """A column of labels that varies while the features stay equal, where nothing else is a parameter."""
    keys = [c for c, g in guesses.items() if g.role == "feature"]
    group = _groups([table.codes[c] for c in (*keys, log.vendor, log.device) if c in table.texts])
    if len(group) < table.n:
        return None
    labels = [c for c, g in guesses.items() if g.role == "none" and plain(c).lower() in _WHOLE]
    found = [c for c in labels if "" not in table.texts[c] and _varies_inside(table.codes[c], group)]
    return min(found, key=lambda c: _WHOLE.index(plain(c).lower()), default=None)


def _by_name(table: Cells, column: str) -> Guess | None:
    """A guess from the name (and from what no feature or parameter can hold); None: let the data decide."""
    values = table.texts[column]
    type_ = column_type(values)
    if printable(column) != column:
        return Guess("none", "left out: its name holds control characters")
    if (number := _written_out(table, column)) is not None:
        return Guess("none", f"left out: {printable(number)} is the same as a number")
    if values == [""]:
        return Guess("none", "left out: always blank")
    if all(_DATE.fullmatch(v) for v in values if v):
        return Guess("none", "guess: when something was done, not known at launch; confirm")
    if column_names.is_default(column, values):
        return Guess("none", "guess: today's defaults, which `heurgen audit` compares with; confirm")
    own, column = column, plain(column)
    if column_names.is_label(column):
        return Guess("none", "guess: a label or an id, not known at launch; confirm")
    if type_ == "int" and column_names.is_problem(column) and _counts(values):
        return Guess("none", "guess: the number of a problem or a trial, not known at launch; confirm")
    result = column_names.is_result(column) or column_names.is_metric(own)
    if result or (type_ == "float" and names_time(own)):
        return Guess("none", "guess: a result, not known at launch; confirm")
    if type_ == "category" and any(printable(v) != v or v != v.strip() for v in values):
        return Guess("none", "left out: it holds control characters or spaces around values")
    if type_ == "category" and len(values) > _MAX_CATEGORIES:
        return Guess("none", f"left out: text with {len(values)} different values")
    if (guess := _by_parents(own, values)) is not None:
        return guess
    if column_names.is_parameter(column):
        return _parameter_guess(own, "guess: a known parameter; confirm")
    if len(values) == 1:
        return Guess("feature", "guess: constant")
    if column_names.is_feature(column):
        return _feature_guess(values, "guess: a known feature; confirm")
    if column_names.looks_like_parameter(column):
        return _parameter_guess(own, "guess: named like a parameter; confirm")
    return None


def _beside_time(table: Cells, column: str, time: str) -> Guess | None:
    """ "y_value_20" beside "y_value_50", whatever these are called: another figure of the same times."""
    if not column_names.differ_in_numbers(column, time) or column_type(table.texts[column]) != "float":
        return None
    return Guess("none", f"guess: another figure of {printable(time)}; confirm")


# A power as nvbench writes it: "2^10".
POWER = re.compile(r"2\^([0-9]{1,2})")


def _written_out(table: Cells, column: str) -> str | None:
    """The column that holds the powers of a column as numbers, as nvbench writes "N (pow2)" beside "N"."""
    powers = [POWER.fullmatch(text) for text in table.texts[column]]
    if not all(powers):
        return None
    numbers = [str(2 ** int(power[1])) for power in powers if power]
    for other, texts in table.texts.items():
        if set(texts) == set(numbers) and plain(other) == plain(column):
            pairs = set(zip(table.codes[column].tolist(), table.codes[other].tolist(), strict=True))
            if all(numbers[own] == texts[place] for own, place in pairs):
                return other
    return None


def _counts(values: list[str]) -> bool:
    """Whether the values are 0, 1, 2, ... or 1, 2, ..., as numbers of rows are, and sizes hardly."""
    found = {int(v or -1) for v in values}
    return len(found) > 1 and min(found) in (0, 1) and max(found) - min(found) == len(found) - 1


def _by_parents(column: str, values: list[str]) -> Guess | None:
    """A guess from the object that a key lies in: {"config": {"x": 1}}.

    The nearest speaks first; but below an object of parameters a list's own name says nothing: in
    {"config": {"block_sizes": [16, 32]}} it stands where a member's name does.
    """
    above = parents(column)
    listed = bool(above) and column.rpartition(".")[2].isdigit()
    if listed and any(column_names.role_of_object(p) == "parameter" for p in above[:-1]):
        above = above[:-1]
    told = ((p, r) for p in reversed(above) if (r := column_names.role_of_object(p)) is not None)
    parent, role = next(told, ("", None))
    if role is None:
        return None
    why = f"guess: it stands in {parent}; confirm"
    if role == "parameter":
        return _parameter_guess(column, why)
    return _feature_guess(values, why) if role == "feature" else Guess("none", why)


def _feature_guess(values: list[str], why: str) -> Guess:
    if "" in values:
        return Guess("none", "left out: it has blank cells, which a feature cannot have")
    return Guess("feature", why)


def _scenarios(table: Cells, log: LogColumns) -> NDArray[np.int64]:
    """Rows of one scenario share a number; one of a file without scenario ids is alone, and says nothing."""
    keys = [n for n in (log.vendor, log.device, log.scenario) if n in table.texts]
    group = _groups([table.codes[k] for k in keys])
    named = [i for i, text in enumerate(table.texts[log.scenario]) if text]
    alone = ~np.isin(table.codes[log.scenario], named)
    group[alone] = group.max() + 1 + np.arange(int(alone.sum()))
    return group


def _by_scenario(table: Cells, column: str, group: NDArray[np.int64], named: Guess | None) -> Guess:
    values = table.texts[column]
    if not _varies_inside(table.codes[column], group):
        return named or _feature_guess(values, "guess: constant inside each scenario; confirm")
    if column_type(values) == "float":
        return Guess("none", "guess: a float that varies inside a scenario is a result; confirm")
    if len(values) == table.n:
        return Guess("none", "guess: different in every row: an id; confirm")
    return _parameter_guess(column, "guess: varies inside a scenario; confirm")


def _by_groups(
    table: Cells, undecided: list[str], inputs: list[str], parameters: list[str]
) -> dict[str, Guess]:
    """Without scenario ids: what varies while the other inputs stay equal is no input.

    Ids and results differ in nearly every row and would leave no two rows equal, so they go first. Where every
    value was measured with every other nothing varies alone: then what changes seldom from row to row, like the
    features that names tell, and stands before the known parameters, is of an outer loop, which problems are.
    """
    types = {c: column_type(table.texts[c]) for c in undecided}
    found: dict[str, Guess] = {}
    for column in undecided:
        n_values = len(table.texts[column])
        if types[column] != "float" and n_values == table.n and n_values > _FEW:
            found[column] = Guess("none", "guess: different in every row: an id; confirm")
    floats = [c for c in undecided if types[c] == "float" and len(table.texts[c]) > _FEW]
    others = [c for c in undecided if c not in found and c not in floats]
    for column in floats:
        if _varies(table, column, inputs + others):
            found[column] = Guess("none", "guess: a float that varies like a result; confirm")
    left = [c for c in undecided if c not in found]
    outer = _outer(table, left, parameters, inputs)
    for column in left:
        if column in outer:
            why = "guess: an outer loop of the sweep; confirm"
        elif _of_configs(table, column, inputs, parameters):
            found[column] = _parameter_guess(column, "guess: the parameters determine it; confirm")
            continue
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


def _of_configs(table: Cells, column: str, inputs: list[str], parameters: list[str]) -> bool:
    """Whether the known parameters determine a column that the known features do not: it says more of a config.

    Configs in one row each determine every column.
    """
    config = _groups([table.codes[p] for p in parameters])
    if len(config) < table.n or 2 * (int(config.max()) + 1) > table.n:
        return False
    return not _varies_inside(table.codes[column], config) and _varies(table, column, inputs)


# Inner loops change at least this many times as often as outer ones.
_OFTENER = 1.5
# No block, tile or count of a launch is as large, sizes of problems are.
_LARGE = 16384


def _outer(table: Cells, columns: list[str], parameters: list[str], inputs: list[str]) -> set[str]:
    """Columns that are problems by the order of rows and columns, or by their size.

    A parameter of one value, or of one on each device, is of no loop.
    """
    place = {name: i for i, name in enumerate(table.texts)}
    changes = {c: int((np.diff(table.codes[c]) != 0).sum()) for c in (*columns, *parameters)}
    loops = [p for p in parameters if _varies(table, p, inputs)] or parameters
    slowest = min((changes[p] for p in loops), default=0)
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


def _parameter_guess(column: str, why: str) -> Guess:
    if column.startswith("_"):
        return Guess("none", "left out: no parameter's name starts with an underscore; rename the column")
    return Guess("parameter", why)


def _groups(columns: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Rows equal in all columns share a number."""
    group: NDArray[np.int64] | None = None
    for codes in columns:
        joined = codes if group is None else group * (int(codes.max()) + 1) + codes
        group = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return np.zeros(1, dtype=np.int64) if group is None else group


def _varies_inside(codes: NDArray[np.int64], group: NDArray[np.int64]) -> bool:
    pairs = group * (int(codes.max()) + 1) + codes
    return len(np.unique(pairs)) > len(np.unique(group))
