"""CSV -> columns of codes: commas, semicolons or tabs; quotes as in RFC 4180; line ends \\n, \\r\\n or \\r.

Where every name of the header but the first begins with a space, spaces after separators are none of the cells'.

A table in which no cell needs quotes, and none or all have them, is split; any other is read record by record. Both
give the same cells and the same errors.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from heurgen.base.errors import LogError
from heurgen.logs.column_names import is_beside_time
from heurgen.logs.lines import Ints, LineReader, coded, parts

if TYPE_CHECKING:
    from _csv import Reader

# A column's name -> the codes of its texts; a new text gets the next code.
Interners: TypeAlias = defaultdict[str, defaultdict[str, int]]
# Rows read at a time: enough to amortise a step, few enough that their strings stay in the cache.
_CHUNK = 16384
# And no more cells than this, where a log has many columns.
_CHUNK_CELLS = 2**20
MAX_COLUMNS = 4096
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}
_DELIMITERS = "".join(_NAMES)


@dataclass(frozen=True, slots=True)
class Delimited:
    """A table as it was read. `text` is kept where a record's line is not its number + 1.

    `delimiter` has a space at its end where cells begin after one.
    """

    columns: dict[str, Ints]
    delimiter: str
    text: str | None


def read_csv(path: str, text: str, interners: Interners) -> Delimited:
    """The table of a CSV text.

    Raises:
        LogError: it is no table, has no header or no rows, names a column twice or not at all, has a row of
            another width than its header, or its header twice.
    """
    if not text:
        raise LogError("the file is empty, expected a CSV header", file=path)
    delimiter = delimiter_of(text)
    plain = None if delimiter.endswith(" ") else _read_plain(path, text, delimiter, interners)
    table = plain or _read_records(path, text, delimiter, interners)
    _refuse_second_header(path, table, interners)
    return table


def _refuse_second_header(path: str, table: Delimited, interners: Interners) -> None:
    """A LogError where a row is the header again, as `cat` of two logs and pandas' `mode="a"` write it: read as a
    measurement, its names would be texts of every column.
    """
    rows = np.arange(len(next(iter(table.columns.values()))))
    for name, codes in table.columns.items():
        rows = rows[codes[rows] == interners[name].get(name, -1)]
    if not len(rows):
        return
    index = int(rows[0]) + 1
    line = index + 1 if table.text is None else record_line(table.text, table.delimiter, index)
    hint = "delete it; logs of the same columns need not be joined: a command takes several"
    raise LogError("the header is there a second time", file=path, row=line, hint=hint)


def _read_plain(path: str, text: str, delimiter: str, interners: Interners) -> Delimited | None:
    """A table in which no cell needs quotes, in half the time; None where it is not so, or not sound."""
    text = text.replace("\r\n", "\n")
    if '"' in text and '"' in (text := _unquoted(text, delimiter)):
        return None
    start, end = text.find("\n") + 1, len(text.rstrip("\n"))
    if "\r" in text or not 1 < start < end or start > csv.field_size_limit():
        return None
    header = checked_header(path, text[: start - 1].split(delimiter))
    table = LineReader(delimiter, [interners[name] for name in header])
    chunks: list[list[Ints]] = []
    for lines in parts(text, start, end):
        longest = max(map(len, lines))
        columns = None if "" in lines or longest > csv.field_size_limit() else table.read(lines)
        if columns is None:
            return None
        chunks.append(columns)
    return Delimited(_joined(header, chunks), delimiter, None)


def _unquoted(text: str, delimiter: str) -> str:
    """The text without its quotes where all cells have them and none needs them; some are left where it is not so."""
    body = text.rstrip("\n")
    inner = body[1:-1]
    for end in (delimiter, "\n"):
        if inner.count(end) != inner.count(f'"{end}"'):
            return text
        inner = inner.replace(f'"{end}"', end)
    return inner if body[0] == body[-1] == '"' else text


def _read_records(path: str, text: str, delimiter: str, interners: Interners) -> Delimited:
    reader = records_of(text, delimiter)
    chunks: list[list[Ints]] = []
    n = 0
    try:
        header = checked_header(path, next(reader, []))
        own = [interners[name] for name in header]
        step = max(1, min(_CHUNK, _CHUNK_CELLS // len(header)))
        while rows := list(islice(reader, step)):
            if set(map(len, rows)) != {len(header)}:
                rows = _without_empty_tail(path, (text, delimiter), [*rows, *reader], len(header), n)
            if rows:
                chunks.append([coded(c, i) for c, i in zip(zip(*rows, strict=True), own, strict=True)])
                n += len(rows)
    except csv.Error as error:
        raise _csv_error(path, text, delimiter, str(error)) from error
    if n == 0:
        raise LogError("the file has a header and no measurements", file=path)
    kept = None if reader.line_num == n + 1 else text
    return Delimited(_joined(header, chunks), delimiter, kept)


def _joined(header: Sequence[str], chunks: Sequence[Sequence[Ints]]) -> dict[str, Ints]:
    return {name: np.concatenate([c[i] for c in chunks]) for i, name in enumerate(header)}


def records_of(text: str, delimiter: str, strict: bool = True) -> Reader:
    """The records of a text. A StringIO would hold it a second time, at four bytes a character.

    strict: whether a quote out of place, or one that is left open as where a file is torn, is a csv.Error.
    """
    lines = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")
    return csv.reader(lines, delimiter=delimiter[0], skipinitialspace=delimiter.endswith(" "), strict=strict)


def delimiter_of(text: str) -> str:
    """What parts the header into most cells, and the first record into as many; a comma where others do as well."""
    head = text[: 2**20]

    def begun(delimiter: str) -> tuple[list[str], list[str]]:
        """The header and the first record; empty from where they are no CSV."""
        records = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
        header: list[str] = []
        try:
            header = next(records, [])
            return header, next(records, [])
        except csv.Error:
            return header, []

    def fit(delimiter: str) -> tuple[bool, int]:
        header, first = begun(delimiter)
        return len(header) == len(first) > 1, len(header)

    found = max(_DELIMITERS, key=fit)  # of equals, the first
    names = begun(found)[0][1:]
    return found + " " if names and all(name.startswith(" ") for name in names) else found


def checked_header(path: str, header: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns. Of figures beside a time the second of one name is numbered, as pandas does it: nvbench
    writes `Noise` behind the CPU's time and behind the GPU's.

    Raises:
        LogError: there is none, there are too many, or one is blank or there twice.
    """
    if not header:
        raise LogError("the first line is empty, expected the names of the columns", file=path, row=1)
    if len(header) > MAX_COLUMNS:
        raise LogError(f"found {len(header)} columns, expected at most {MAX_COLUMNS}", file=path, row=1)
    header = [
        f"{name}.{header[:i].count(name)}" if name in header[:i] and is_beside_time(name) else name
        for i, name in enumerate(header)
    ]
    for index, name in enumerate(header, 1):
        if not name.strip():
            hint = (
                "a pandas index? write with index=False" if index == 1 else "is there a separator too many?"
            )
            raise LogError(f"cell {index} of the header is empty", file=path, row=1, hint=hint)
        if (earlier := header.index(name) + 1) < index:
            message = f"cells {earlier} and {index} of the header have the same name"
            raise LogError(message, file=path, row=1, column=name, hint="rename or remove one")
    return tuple(header)


def _without_empty_tail(
    path: str, source: tuple[str, str], rows: list[list[str]], width: int, before: int
) -> list[list[str]]:
    """The rest of a file, less the empty lines at its end; a row of another width is an error."""
    while rows and not rows[-1]:
        rows.pop()
    bad = next((index for index, row in enumerate(rows) if len(row) != width), None)
    if bad is None:
        return rows
    text, delimiter = source
    line = record_line(text, delimiter, before + bad + 1)
    if not rows[bad]:
        raise LogError("the line is empty", file=path, row=line, hint="delete it")
    hint = f"a cell that holds a {_NAMES[delimiter[0]]} needs quotes" if len(rows[bad]) > width else None
    if len(rows[bad]) < width and "error_occurred" in text.partition("\n")[0]:
        hint = "Google Benchmark leaves out the counters of what failed: add a comma for each"
    if width == 1 and len(rows[bad]) > 1:
        hint = "the first line is read as the header: delete what stands above the table"
    if text.startswith("#"):
        hint = "the first line is read as the header: delete comments above it"
    said = f"found {len(rows[bad])} cell{'s' * (len(rows[bad]) > 1)}, expected {width} as in the header"
    raise LogError(said, file=path, row=line, hint=hint)


def record_lines(text: str, delimiter: str) -> list[int]:
    """`record_line` of every record, and the line after the last."""
    reader = records_of(text, delimiter)
    return [1, *(reader.line_num + 1 for _ in reader)]


def record_line(text: str, delimiter: str, index: int) -> int:
    """The line on which record `index` (0 is the header) begins."""
    reader = records_of(text, delimiter)
    for _ in islice(reader, index):
        pass
    return reader.line_num + 1


def _csv_error(path: str, text: str, delimiter: str, message: str) -> LogError:
    reader = records_of(text, delimiter)
    line = 1
    try:
        for _ in reader:
            line = reader.line_num + 1
    except csv.Error:
        pass
    if message == "unexpected end of data":
        return LogError("a quote that opens in this record is never closed", file=path, row=line)
    if message.startswith("field larger"):
        limit = csv.field_size_limit()
        return LogError(
            f"a cell is longer than {limit} characters", file=path, row=line, hint="is a quote left open?"
        )
    return LogError(
        f"this is no CSV: {message}", file=path, row=line, hint='inside quotes, a quote is written twice: ""'
    )
