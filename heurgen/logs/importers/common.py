"""What the importers share: column types guessed from text, names made safe, and the result they return."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from heurgen import ir
from heurgen.base.errors import HeurgenError, LogError, ModelError, printable, quoted
from heurgen.base.text import counted
from heurgen.ir import ColumnType
from heurgen.spec.draft_toml import Draft, Entry, to_toml
from heurgen.spec.kernel_spec import BOOLS as WRITTEN_BOOLS
from heurgen.spec.kernel_spec import MAX_EXACT_INT, Column

INT = re.compile(r"-?[0-9]{1,16}")
FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")
# A column of 0 and 1 alone holds integers.
BOOLS = frozenset(WRITTEN_BOOLS) - {"0", "1"}
# Columns of an imported log that are neither feature nor parameter.
BOOKKEEPING = ("scenario", "vendor", "device", "status", "time_ms")
# Characters of a row that an error shows.
_MOST_SHOWN = 300
_OPERATORS = (("*", "_times_"), ("/", "_over_"), ("+", "_plus_"))


@dataclass(frozen=True, slots=True)
class Imported:
    """A foreign log as a tuning log: text cells in canonical row order, a spec draft, remarks for stderr.

    `kind` is the importer that read it, "" for a recording.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    draft: Draft
    notes: tuple[str, ...] = ()
    kind: str = ""

    def csv_text(self) -> str:
        """The log as CSV, UTF-8 safe, lines ending in \\n."""
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()

    def spec_text(self) -> str:
        """The spec draft as TOML."""
        return to_toml(self.draft)


def column_type(values: Collection[str]) -> ColumnType:
    """The narrowest type that holds every value; blanks do not count. No values: category."""
    present = [v for v in values if v]
    if not present:
        return "category"
    if all(INT.fullmatch(v) and abs(int(v)) <= MAX_EXACT_INT for v in present):
        return "int"
    if all(FLOAT.fullmatch(v) and math.isfinite(float(v)) for v in present):
        return "float"
    return "bool" if WRITTEN_BOOLS.keys() >= set(present) else "category"


def sorted_values(values: Iterable[str], type_: ColumnType) -> list[str]:
    """Values in the order of their type: numbers by size, text by code point, blanks first."""
    if type_ in ("int", "float"):
        return sorted(values, key=lambda v: (v != "", float(v or 0) if type_ == "float" else int(v or 0), v))
    return sorted(values)


def described(name: str, values: Collection[str], *, optional: bool = False) -> Column:
    """A spec column with the type that the log shows.

    Categories come without `values`: those are enforced on every log, and the next one may hold others.
    """
    return Column(name, column_type(values), optional=optional)


def feature_entries(values: Sequence[tuple[str, Collection[str]]]) -> tuple[Entry, ...]:
    """Features for a draft; those that never vary become comments (all stay where none varies)."""
    any_varies = any(len(found) > 1 for _, found in values)
    return tuple(
        Entry(described(name, found))
        if len(found) > 1
        else Entry(described(name, found), f"constant here: {only(found)}", active=not any_varies)
        for name, found in values
    )


def only(values: Collection[str]) -> str:
    """The one value of a constant column, short enough for a comment."""
    text = printable(next(iter(values), ""))
    return text if len(text) <= 40 else f"{text[:37]}..."


def usable_name(name: str) -> bool:
    """Whether a name can be a feature or a parameter in generated code."""
    try:
        ir.check_name(name, "column")
    except ModelError:
        return False
    return name not in ir.RESERVED_NAMES and name not in BOOKKEEPING


def safe_name(name: str, taken: Collection[str] = ()) -> str:
    """The name itself where it is usable and free, else the ASCII identifier that reads most like it."""
    result = name[: ir.MAX_NAME // 2]
    if not ir.NAME.fullmatch(result) or result.startswith("__") or not result.strip("_"):
        for operator, word in _OPERATORS:
            result = result.replace(operator, word)
        result = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_]", "_", result)).strip("_")
        if not result or result[0].isdigit():
            result = f"f_{result}".rstrip("_")
    if not usable_name(result):  # a keyword, or a name that heurgen uses itself
        result += "_"
    free, number = result, 1
    while free in taken:
        number += 1
        free = f"{result.rstrip('_')}_{number}"
    return free


def check_text(value: str, what: str, *, file: object = None, row: int | None = None) -> str:
    """The value, if a CSV cell and a spec can show it.

    Raises:
        LogError: it is blank or holds control, invisible or broken characters.
    """
    if not value:
        raise LogError(f"{what} is blank", file=file, row=row)
    if printable(value) != value:
        raise LogError(f"{what} {quoted(value)} holds control or invisible characters", file=file, row=row)
    if value != value.strip():
        raise LogError(f"{what} {quoted(value)} has spaces around it", file=file, row=row)
    return value


def sorted_rows(table: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows by every column in turn, numbers by size: the same rows give the same bytes."""
    import numpy as np

    ranks = []
    for column in zip(*table, strict=True):
        values = set(column)
        rank = {v: i for i, v in enumerate(sorted_values(values, column_type(values)))}
        ranks.append(np.fromiter(map(rank.__getitem__, column), dtype=np.int64, count=len(column)))
    return [table[i] for i in np.lexsort(ranks[::-1]).tolist()]


def parted(
    columns: list[str], table: list[tuple[str, ...]], n_head: int
) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    """Two winners of one situation (the first `n_head` cells) come from two tunings: they are no rivals.

    A scenario column parts them then, and a note says so.
    """
    more = len(table) - len({row[:n_head] for row in table})
    if not more:
        return columns, table, []
    share = "shares" if more == 1 else "share"
    note = f"{counted(more, 'scenario')} {share} all features with another: a scenario column parts them"
    return ["scenario", *columns], [(str(i), *row) for i, row in enumerate(table)], [note]


def check_readable(csv_text: str, spec_text: str) -> None:
    """What an import is about to write must be what heurgen reads: the log, by the spec drafted for it.

    Raises:
        LogError: it is not; says which cell, of a row that it shows: the log is not there to look at.
    """
    from heurgen.logs.tuning_log import parse_log
    from heurgen.spec.kernel_spec import parse_spec

    try:
        parse_log("the imported log", csv_text, parse_spec(spec_text))
    except HeurgenError as error:
        said = (
            "cannot be imported" if error.row is None else f"{_shown(csv_text, error.row)} cannot be imported"
        )
        raise LogError(f"{said}: {error.message}", column=error.column, hint=error.hint) from error


def _shown(csv_text: str, line: int) -> str:
    """The row of a log that begins on a line of it, a few hundred characters of it."""
    reader, start = csv.reader(io.StringIO(csv_text, newline="")), 1
    header: list[str] = []
    for cells in reader:
        header = header or cells
        if start == line:
            break
        start = reader.line_num + 1
    pairs = (f"{n}={v}" for n, v in zip(header, cells, strict=False) if v)
    return f"the row {quoted(', '.join(pairs), _MOST_SHOWN)}"


def formula_note(imported: Imported) -> list[str]:
    """A remark where a spreadsheet would take cells for formulas. They stay as they are: a log holds values."""
    texts = set(itertools.chain.from_iterable(imported.rows))
    found = sorted(t for t in texts if t[:1] in tuple("=+@-\t\r") and not FLOAT.fullmatch(t))
    if not found:
        return []
    shown = f"{counted(len(found), 'text')}, such as {quoted(found[0], 30)},"
    return [f"{shown} begin like a formula: do not open the log in a spreadsheet that runs formulas"]
