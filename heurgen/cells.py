"""CSV files -> cells: the one place that reads records of tuning logs.

Accepted: UTF-8 (a byte order mark is dropped), gzip by its magic number, line ends \\n, \\r\\n or \\r, quotes
as in RFC 4180, empty lines after the last record. Cells are taken as they are: nothing is stripped, guessed
or defaulted. A column becomes codes into its distinct texts, so that later checks look at each text once.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heurgen.errors import LogError

Codes = NDArray[np.int64]
# The code of a cell in a file that lacks the column.
ABSENT = -1
# Rows read at a time: enough to amortise a step, few enough that their strings stay in the cache.
_CHUNK = 16384
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CsvFile:
    """Rows first .. first + n - 1 of the log. `text` is kept where a record's line is not its number + 1."""

    path: str
    header: tuple[str, ...]
    first: int
    n: int
    text: str | None

    def line(self, row: int) -> int:
        """The physical line, from 1, on which the record of a row begins."""
        index = row - self.first + 1
        return index + 1 if self.text is None else _record_line(self.text, index)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """All cells of all files: the text of a column's row i is `texts[name][codes[name][i]]`.

    Texts are distinct, each occurs, and they are in order of appearance. `copies` are (path, earlier path) of
    files whose text equals an earlier one's; they are read once.
    """

    files: tuple[CsvFile, ...]
    copies: tuple[tuple[str, str], ...]
    texts: dict[str, list[str]]
    codes: dict[str, Codes]

    @property
    def n(self) -> int:
        return sum(f.n for f in self.files)

    def place(self, row: int) -> tuple[str, int]:
        """The path and the line of a row."""
        file = next(f for f in self.files if f.first <= row < f.first + f.n)
        return file.path, file.line(row)


class _Interner(dict[str, int]):
    """Text -> code, numbered in order of appearance."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


def read_cells(paths: Sequence[str | os.PathLike[str]]) -> Cells:
    """Read CSV files as one table; a column is found by its name, wherever it stands.

    Raises:
        LogError: a file cannot be read, is no UTF-8 or no CSV, has no header or no rows, names a column twice
            or not at all, or has a row of another width than its header.
    """
    if not paths:
        raise LogError("no log is given", hint="name at least one CSV file")
    return parse_cells((name, read_text(name)) for name in [os.fspath(p) for p in paths])


def parse_cells(texts: Iterable[tuple[str, str]]) -> Cells:
    """`read_cells`, for (name, CSV text) pairs; a name stands for the path in what is said of a text."""
    interners: dict[str, _Interner] = {}
    parts: list[dict[str, Codes]] = []
    files: list[CsvFile] = []
    copies: list[tuple[str, str]] = []
    seen: dict[bytes, str] = {}
    for path, text in texts:
        digest = hashlib.sha256(text.encode()).digest()
        if digest in seen:
            copies.append((path, seen[digest]))
            continue
        seen[digest] = path
        file, codes = _read_csv(path, text, sum(f.n for f in files), interners)
        files.append(file)
        parts.append(codes)
    codes = {name: _joined(name, files, parts) for name in interners}
    return Cells(tuple(files), tuple(copies), {name: list(i) for name, i in interners.items()}, codes)


def _joined(name: str, files: list[CsvFile], parts: list[dict[str, Codes]]) -> Codes:
    absent = (np.full(f.n, ABSENT, dtype=np.int64) for f in files)
    return np.concatenate([p.get(name, a) for p, a in zip(parts, absent, strict=True)])


# --- bytes -> text ----------------------------------------------------------------------------------------


def read_text(path: str) -> str:
    """A log's text, decompressed and without a byte order mark.

    Raises:
        LogError: the file is missing, unreadable, a directory, broken gzip, no UTF-8, or has NUL bytes.
    """
    data = _read_bytes(path)
    start = len(_BOM) if data.startswith(_BOM) else 0
    # UTF-16 is full of NUL bytes; its first two bytes tell it better.
    if not data.startswith((b"\xff\xfe", b"\xfe\xff")) and (nul := data.find(b"\0")) >= 0:
        hint = "save the file as UTF-8"
        raise LogError(f"byte {nul} is NUL, expected text", file=path, row=_line_at(data, nul), hint=hint)
    try:
        return data[start:].decode()
    except UnicodeDecodeError as error:
        at = start + error.start
        raise LogError(
            f"byte {at} (0x{data[at]:02x}) is no UTF-8",
            file=path,
            row=_line_at(data, at),
            hint="save the file as UTF-8",
        ) from error


def _read_bytes(path: str) -> bytes:
    try:
        data = Path(path).read_bytes()
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogError(f"broken gzip data: {error}", file=path, hint="is the file complete?") from error
    except IsADirectoryError as error:
        raise LogError("this is a directory, expected a CSV file", file=path) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LogError(f"cannot be read: {reason}", file=path) from error
    if path.endswith(".gz") and data:
        raise LogError("this is no gzip file", file=path, hint="compress it, or drop the ending .gz")
    return data


def _line_at(data: bytes, offset: int) -> int:
    head = data[:offset].replace(b"\r\n", b"\n")
    return head.count(b"\n") + head.count(b"\r") + 1


# --- text -> codes ----------------------------------------------------------------------------------------


def _read_csv(
    path: str, text: str, first: int, interners: dict[str, _Interner]
) -> tuple[CsvFile, dict[str, Codes]]:
    if not text:
        raise LogError("the file is empty, expected a CSV header", file=path)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    chunks: list[list[Codes]] = []
    n = 0
    try:
        header = _checked_header(path, next(reader, []))
        own = [interners.setdefault(name, _Interner()) for name in header]
        while rows := list(islice(reader, _CHUNK)):
            if set(map(len, rows)) != {len(header)}:
                rows = _without_empty_tail(path, text, [*rows, *reader], len(header), n)
            if rows:
                chunks.append([_coded(c, i) for c, i in zip(zip(*rows, strict=True), own, strict=True)])
                n += len(rows)
    except csv.Error as error:
        raise _csv_error(path, text, str(error)) from error
    if n == 0:
        raise LogError("the file has a header and no measurements", file=path)
    codes = {name: np.concatenate([c[i] for c in chunks]) for i, name in enumerate(header)}
    return CsvFile(path, header, first, n, None if reader.line_num == n + 1 else text), codes


def _coded(column: tuple[str, ...], interner: _Interner) -> Codes:
    return np.fromiter(map(interner.__getitem__, column), dtype=np.int64, count=len(column))


def _checked_header(path: str, header: list[str]) -> tuple[str, ...]:
    if not header:
        raise LogError("the first line is empty, expected the names of the columns", file=path, row=1)
    for index, name in enumerate(header, 1):
        if not name.strip():
            hint = "a pandas index? write with index=False" if index == 1 else "is there a comma too many?"
            raise LogError(f"cell {index} of the header is empty", file=path, row=1, hint=hint)
        if (earlier := header.index(name) + 1) < index:
            message = f"cells {earlier} and {index} of the header have the same name"
            raise LogError(message, file=path, row=1, column=name, hint="rename or remove one")
    return tuple(header)


def _without_empty_tail(
    path: str, text: str, rows: list[list[str]], width: int, before: int
) -> list[list[str]]:
    """The rest of a file, less the empty lines at its end; a row of another width is an error."""
    while rows and not rows[-1]:
        rows.pop()
    bad = next((index for index, row in enumerate(rows) if len(row) != width), None)
    if bad is None:
        return rows
    line = _record_line(text, before + bad + 1)
    if not rows[bad]:
        raise LogError("the line is empty", file=path, row=line, hint="delete it")
    raise LogError(
        f"found {len(rows[bad])} cell{'s' * (len(rows[bad]) > 1)}, expected {width} as in the header",
        file=path,
        row=line,
        hint="a cell that holds a comma needs quotes" if len(rows[bad]) > width else None,
    )


def _record_line(text: str, index: int) -> int:
    """The line on which record `index` (0 is the header) begins."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    for _ in islice(reader, index):
        pass
    return reader.line_num + 1


def _csv_error(path: str, text: str, message: str) -> LogError:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
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
