"""Tables -> cells: the one place that reads records of tuning logs.

Accepted: UTF-8 CSV with commas, semicolons or tabs (a byte order mark is dropped; line ends \\n, \\r\\n or \\r; quotes
as in RFC 4180; empty lines after the last record), JSON lines, Parquet, pandas DataFrames; gzip by its magic number;
"-" is the standard input. Cells are taken as they are: nothing is stripped, guessed or defaulted. A column becomes
codes into its distinct texts, so that later checks look at each text once.

Bounds, so that no file takes the machine's memory: 1 GiB of text a file (after decompression), 1 MiB a line,
131,072 characters a cell, 4,096 columns, of Parquet 2^27 cells. What is beyond is refused, with the line.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import LogError
from heurgen.base.reading import GZIP, check_lines, decoded, read_bytes, too_large, unpacked
from heurgen.logs import frame, parquet
from heurgen.logs.jsonl import is_jsonl, read_jsonl

if TYPE_CHECKING:
    from _csv import Reader

    from pandas import DataFrame

Codes = NDArray[np.int64]
Source: TypeAlias = "str | os.PathLike[str] | DataFrame"
# The code of a cell in a file that lacks the column.
ABSENT = -1
STDIN = "-"
# Rows read at a time: enough to amortise a step, few enough that their strings stay in the cache.
_CHUNK = 16384
# And no more cells than this, where a log has many columns.
_CHUNK_CELLS = 2**20
MAX_BYTES = 2**30
MAX_LINE = 2**20
MAX_COLUMNS = 4096
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}
_DELIMITERS = "".join(_NAMES)


@dataclass(frozen=True, slots=True)
class TableFile:
    """Rows first .. first + n - 1 of what was read.

    A CSV's `text` is kept where a record's line is not its number + 1; `lines` are the rows' lines, where known.
    """

    path: str
    header: tuple[str, ...]
    first: int
    n: int
    text: str | None = None
    delimiter: str = ","
    lines: Sequence[int] | None = None

    def line(self, row: int) -> int:
        """The physical line, from 1, on which the record of a row begins; of a frame, the row's position."""
        if self.lines is not None:
            return self.lines[row - self.first]
        index = row - self.first + 1
        return index + 1 if self.text is None else _record_line(self.text, self.delimiter, index)


@dataclass(frozen=True, slots=True)
class Fault:
    """The first bad cell of a column."""

    row: int
    column: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """All cells of all files: the text of a column's row i is `texts[name][codes[name][i]]`.

    Texts are distinct, and they are in order of appearance. `copies` are (path, earlier path) of files whose
    content equals an earlier one's; they are read once. Where a wide table was melted, `source` is the row of the
    files that each row comes from, and `column` the name of its cell's column there.
    """

    files: tuple[TableFile, ...]
    copies: tuple[tuple[str, str], ...]
    texts: dict[str, list[str]]
    codes: dict[str, Codes]
    source: Codes | None = None
    column: tuple[str, ...] | None = None

    @property
    def n(self) -> int:
        return len(next(iter(self.codes.values())))

    def place(self, row: int) -> tuple[str, int]:
        """The path and the line of a row."""
        own = row if self.source is None else int(self.source[row])
        file = next(f for f in self.files if f.first <= own < f.first + f.n)
        return file.path, file.line(own)

    def rows_of(self, file: TableFile) -> NDArray[np.bool_]:
        """Which rows come from a file."""
        own = np.arange(self.n) if self.source is None else self.source
        return np.asarray((own >= file.first) & (own < file.first + file.n))


class _Interner(dict[str, int]):
    """Text -> code, numbered in order of appearance."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


def read_cells(sources: Sequence[Source]) -> Cells:
    """Read tables as one; a column is found by its name, wherever it stands.

    Raises:
        LogError: a file cannot be read, is no UTF-8 or no table, has no header or no rows, names a column twice
            or not at all, or has a row of another width than its header.
    """
    if not sources:
        raise LogError("no log is given", hint="name at least one CSV file")
    reader = _Reader()
    for number, source in enumerate(sources, 1):
        if frame.is_frame(source):
            name = "frame" if len(sources) == 1 else f"frame {number}"
            reader.add_columns(name, frame.columns_of(name, source))
            continue
        path = os.fspath(source)
        if path.endswith(".parquet") or _begins(path, parquet.MAGIC):
            reader.add_columns(path, parquet.read_parquet(path))
        else:
            reader.add_text("<stdin>" if path == STDIN else path, read_text(path))
    return reader.cells()


def listed(sources: Source | Sequence[Source]) -> Sequence[Source]:
    """One path or frame as a list of one."""
    one = isinstance(sources, str | os.PathLike) or frame.is_frame(sources)
    return [sources] if one else sources  # type: ignore[return-value]


def parse_cells(texts: Iterable[tuple[str, str]]) -> Cells:
    """`read_cells`, for (name, text) pairs; a name stands for the path in what is said of a text."""
    reader = _Reader()
    for path, text in texts:
        reader.add_text(path, text)
    return reader.cells()


class _Reader:
    """Tables as they are added: one set of codes a column, whatever file it is in."""

    def __init__(self) -> None:
        self._interners: dict[str, _Interner] = {}
        self._parts: list[dict[str, Codes]] = []
        self._files: list[TableFile] = []
        self._copies: list[tuple[str, str]] = []
        self._seen: dict[bytes, str] = {}
        self._n = 0

    def _is_copy(self, path: str, digest: bytes) -> bool:
        if digest in self._seen:
            self._copies.append((path, self._seen[digest]))
            return True
        self._seen[digest] = path
        return False

    def add_text(self, path: str, text: str) -> None:
        if self._is_copy(path, hashlib.sha256(text.encode()).digest()):
            return
        if is_jsonl(text):
            self._add(*_read_jsonl(path, text, self._n, self._interners))
        else:
            self._add(*_read_csv(path, text, self._n, self._interners))

    def add_columns(self, path: str, columns: Mapping[str, tuple[list[str], Codes]]) -> None:
        """A frame or Parquet: the "lines" are positions, from 0, as `iloc` counts them."""
        n = len(next(iter(columns.values()))[1])
        digest = hashlib.sha256()
        for name, (texts, codes) in columns.items():
            digest.update(repr((name, texts)).encode() + codes.tobytes())
        if self._is_copy(path, digest.digest()):
            return
        file = TableFile(path, _checked_header(path, list(columns)), self._n, n, lines=range(n))
        own: dict[str, Codes] = {}
        for name, (texts, codes) in columns.items():
            interner = self._interners.setdefault(name, _Interner())
            own[name] = np.array([interner[t] for t in texts], dtype=np.int64)[codes]
        self._add(file, own)

    def _add(self, file: TableFile, codes: dict[str, Codes]) -> None:
        self._files.append(file)
        self._parts.append(codes)
        self._n += file.n

    def cells(self) -> Cells:
        codes = {name: self._joined(name) for name in self._interners}
        texts = {name: list(i) for name, i in self._interners.items()}
        return Cells(tuple(self._files), tuple(self._copies), texts, codes)

    def _joined(self, name: str) -> Codes:
        absent = (np.full(f.n, ABSENT, dtype=np.int64) for f in self._files)
        return np.concatenate([p.get(name, a) for p, a in zip(self._parts, absent, strict=True)])


def _begins(path: str, magic: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return os.path.isfile(path) and stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False  # reading it says why


# --- bytes -> text ----------------------------------------------------------------------------------------


def read_text(path: str) -> str:
    """A log's text, decompressed and without a byte order mark.

    Raises:
        LogError: the file is missing, unreadable, a directory, broken gzip, no UTF-8, or has NUL bytes.
    """
    name = "<stdin>" if path == STDIN else path
    data = unpacked(name, _read_bytes(path), LogError, MAX_BYTES)
    check_lines(name, data, LogError, MAX_LINE)
    return decoded(name, data, LogError)


def _read_bytes(path: str) -> bytes:
    if path == STDIN:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise too_large("<stdin>", LogError, MAX_BYTES)
        return data
    if os.path.isdir(path):
        raise LogError("this is a directory, expected a CSV file", file=path)
    data = read_bytes(path, LogError, MAX_BYTES)
    if path.endswith(".gz") and data and not data.startswith(GZIP):
        raise LogError("this is no gzip file", file=path, hint="compress it, or drop the ending .gz")
    return data


# --- text -> codes ----------------------------------------------------------------------------------------


def _read_csv(
    path: str, text: str, first: int, interners: dict[str, _Interner]
) -> tuple[TableFile, dict[str, Codes]]:
    if not text:
        raise LogError("the file is empty, expected a CSV header", file=path)
    delimiter = _delimiter(text)
    reader = _records(text, delimiter)
    chunks: list[list[Codes]] = []
    n = 0
    try:
        header = _checked_header(path, next(reader, []))
        own = [interners.setdefault(name, _Interner()) for name in header]
        step = max(1, min(_CHUNK, _CHUNK_CELLS // len(header)))
        while rows := list(islice(reader, step)):
            if set(map(len, rows)) != {len(header)}:
                rows = _without_empty_tail(path, (text, delimiter), [*rows, *reader], len(header), n)
            if rows:
                chunks.append([_coded(c, i) for c, i in zip(zip(*rows, strict=True), own, strict=True)])
                n += len(rows)
    except csv.Error as error:
        raise _csv_error(path, text, delimiter, str(error)) from error
    if n == 0:
        raise LogError("the file has a header and no measurements", file=path)
    codes = {name: np.concatenate([c[i] for c in chunks]) for i, name in enumerate(header)}
    kept = None if reader.line_num == n + 1 else text
    return TableFile(path, header, first, n, kept, delimiter), codes


def _read_jsonl(
    path: str, text: str, first: int, interners: dict[str, _Interner]
) -> tuple[TableFile, dict[str, Codes]]:
    chunks: dict[str, list[Codes]] = {}
    lines = array("q")
    for columns, own in read_jsonl(path, text):
        for name in dict.fromkeys((*chunks, *columns)):
            interner = interners.setdefault(name, _Interner())
            if name not in chunks:
                chunks[name] = [_blank(len(lines), interner)]
            found = columns.get(name)
            chunks[name].append(_blank(len(own), interner) if found is None else _coded(found, interner))
        lines.extend(own)
    if not chunks:
        raise LogError("the lines name no column", file=path)
    file = TableFile(path, _checked_header(path, list(chunks)), first, len(lines), lines=lines)
    return file, {name: np.concatenate(parts) for name, parts in chunks.items()}


def _records(text: str, delimiter: str) -> Reader:
    """The records of a text. A StringIO would hold it a second time, at four bytes a character."""
    lines = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _delimiter(text: str) -> str:
    """What parts the header into most cells; a comma where others do as well."""
    end = min((i for c in "\r\n" if (i := text.find(c)) >= 0), default=len(text))

    def width(delimiter: str) -> int:
        try:
            return len(next(csv.reader([text[: min(end, 2**20)]], delimiter=delimiter), []))
        except csv.Error:
            return 0

    return max(_DELIMITERS, key=width)  # of equals, the first


def _coded(column: Sequence[str], interner: _Interner) -> Codes:
    return np.fromiter(map(interner.__getitem__, column), dtype=np.int64, count=len(column))


def _blank(n: int, interner: _Interner) -> Codes:
    return np.full(n, interner[""] if n else 0, dtype=np.int64)


def _checked_header(path: str, header: list[str]) -> tuple[str, ...]:
    if not header:
        raise LogError("the first line is empty, expected the names of the columns", file=path, row=1)
    if len(header) > MAX_COLUMNS:
        raise LogError(f"found {len(header)} columns, expected at most {MAX_COLUMNS}", file=path, row=1)
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
    line = _record_line(text, delimiter, before + bad + 1)
    if not rows[bad]:
        raise LogError("the line is empty", file=path, row=line, hint="delete it")
    raise LogError(
        f"found {len(rows[bad])} cell{'s' * (len(rows[bad]) > 1)}, expected {width} as in the header",
        file=path,
        row=line,
        hint=f"a cell that holds a {_NAMES[delimiter]} needs quotes" if len(rows[bad]) > width else None,
    )


def _record_line(text: str, delimiter: str, index: int) -> int:
    """The line on which record `index` (0 is the header) begins."""
    reader = _records(text, delimiter)
    for _ in islice(reader, index):
        pass
    return reader.line_num + 1


def _csv_error(path: str, text: str, delimiter: str, message: str) -> LogError:
    reader = _records(text, delimiter)
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
