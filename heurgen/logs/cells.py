"""Tables -> cells: the one place that reads records of tuning logs.

Accepted: UTF-8 CSV with commas, semicolons or tabs (a byte order mark is dropped; line ends \\n, \\r\\n or \\r; quotes
as in RFC 4180; empty lines after the last record), JSON lines, Parquet, pandas DataFrames; gzip by its magic number;
"-" is the standard input. Cells are taken as they are: nothing is stripped, guessed or defaulted. A column becomes
codes into its distinct texts, so that later checks look at each text once.

Bounds, so that no file takes the machine's memory: 1 GiB of text a file (after decompression), 1 MiB a line or an
object of a JSON list, 131,072 characters a cell, 4,096 columns, of Parquet 2^27 cells. What is beyond is refused, with
the line.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import LogError
from heurgen.base.reading import GZIP, check_lines, decoded, path_of, read_bytes, too_large, unpacked
from heurgen.logs import frame, parquet
from heurgen.logs.delimited import Interners, checked_header, read_csv, record_line, record_lines
from heurgen.logs.jsonl import is_jsonl, read_jsonl
from heurgen.logs.lines import coded, interner

if TYPE_CHECKING:
    from pandas import DataFrame

Source: TypeAlias = "str | os.PathLike[str] | DataFrame"
Codes = NDArray[np.int64]
# The code of a cell in a file that lacks the column.
ABSENT = -1
STDIN = "-"
MAX_BYTES = 2**30
MAX_LINE = 2**20
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")


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
        return index + 1 if self.text is None else record_line(self.text, self.delimiter, index)

    def located(self) -> TableFile:
        """The same with the lines of all rows known."""
        if self.text is None:
            return self
        return replace(self, text=None, lines=record_lines(self.text, self.delimiter)[1:])


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

    def places(self, rows: Sequence[int]) -> list[tuple[str, int]]:
        """`place` of each row; texts are read once."""
        if not rows:
            return []
        located = replace(self, files=tuple(f.located() for f in self.files))
        return [located.place(row) for row in rows]

    def rows_of(self, file: TableFile) -> NDArray[np.bool_]:
        """Which rows come from a file."""
        own = np.arange(self.n) if self.source is None else self.source
        return np.asarray((own >= file.first) & (own < file.first + file.n))


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
        path = path_of(source, LogError)
        if path == STDIN:
            _read_stdin(reader)
        elif path.endswith(".parquet") or _begins(path, parquet.MAGIC):
            reader.add_columns(path, parquet.read_parquet(path))
        else:
            reader.add_text(path, read_text(path))
    return reader.cells()


def listed(sources: Source | Sequence[Source]) -> Sequence[Source]:
    """One path or frame as a list of one; likewise what is neither, of which `read_cells` says so."""
    one = isinstance(sources, str | bytes | os.PathLike | Mapping) or not isinstance(sources, Iterable)
    # Open files are iterables of lines, and frames of columns.
    one = one or frame.is_frame(sources) or hasattr(sources, "read") or hasattr(sources, "to_pandas")
    return [sources] if one else list(sources)  # type: ignore[arg-type]


def parse_cells(texts: Iterable[tuple[str, str]]) -> Cells:
    """`read_cells`, for (name, text) pairs; a name stands for the path in what is said of a text."""
    reader = _Reader()
    for path, text in texts:
        reader.add_text(path, text)
    return reader.cells()


class _Reader:
    """Tables as they are added: one set of codes a column, whatever file it is in."""

    def __init__(self) -> None:
        self._interners: Interners = defaultdict(interner)
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
            found = read_csv(path, text, self._interners)
            header, n = tuple(found.columns), len(next(iter(found.columns.values())))
            self._add(TableFile(path, header, self._n, n, found.text, found.delimiter), found.columns)

    def add_columns(self, path: str, columns: Mapping[str, tuple[list[str], Codes]]) -> None:
        """A frame or Parquet: the "lines" are positions, from 0, as `iloc` counts them."""
        n = len(next(iter(columns.values()))[1])
        digest = hashlib.sha256()
        for name, (texts, codes) in columns.items():
            digest.update(repr((name, texts)).encode() + codes.tobytes())
        if self._is_copy(path, digest.digest()):
            return
        file = TableFile(path, checked_header(path, list(columns)), self._n, n, lines=range(n))
        own: dict[str, Codes] = {}
        for name, (texts, codes) in columns.items():
            own[name] = coded(texts, self._interners[name])[codes]
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
        pairs = zip(self._parts, self._files, strict=True)
        return np.concatenate(
            [p[name] if name in p else np.full(f.n, ABSENT, dtype=np.int64) for p, f in pairs]
        )


def _read_stdin(reader: _Reader) -> None:
    data = _read_bytes(STDIN)
    if data.startswith(parquet.MAGIC):
        reader.add_columns("<stdin>", parquet.read_parquet("<stdin>", data))
    else:
        reader.add_text("<stdin>", _text("<stdin>", data))


def _begins(path: str, magic: bytes) -> bool:
    if not os.path.isfile(path):
        return False  # a pipe loses what it held when it is closed
    try:
        with open(path, "rb") as stream:
            return stream.read(len(magic)) == magic
    except (OSError, ValueError):
        return False  # reading it says why


# --- bytes -> text ----------------------------------------------------------------------------------------


def read_text(path: str) -> str:
    """A log's text, decompressed and without a byte order mark.

    Raises:
        LogError: the file is missing, unreadable, a directory, broken gzip, no UTF-8, or has NUL bytes.
    """
    return _text("<stdin>" if path == STDIN else path, _read_bytes(path))


def _text(name: str, data: bytes) -> str:
    data = unpacked(name, data, LogError, MAX_BYTES)
    if not _LIST.match(data[:65536]):  # which is mostly written as one line
        check_lines(name, data, LogError, MAX_LINE)
    return decoded(name, data, LogError)


def _read_bytes(path: str) -> bytes:
    if path == STDIN:
        if sys.stdin is None:
            raise LogError("the standard input is closed", file="<stdin>")
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


def _read_jsonl(path: str, text: str, first: int, interners: Interners) -> tuple[TableFile, dict[str, Codes]]:
    chunks: dict[str, list[Codes]] = {}
    lines = array("q")
    for columns, own in read_jsonl(path, text, interners.__getitem__):
        for name in dict.fromkeys((*chunks, *columns)):
            if name not in chunks:
                chunks[name] = [_blank(len(lines), interners[name])]
            chunks[name].append(columns[name] if name in columns else _blank(len(own), interners[name]))
        lines.extend(own)
    if not chunks:
        raise LogError("the lines name no column", file=path)
    file = TableFile(path, checked_header(path, list(chunks)), first, len(lines), lines=lines)
    return file, {name: np.concatenate(parts) for name, parts in chunks.items()}


def _blank(n: int, codes: Mapping[str, int]) -> Codes:
    return np.full(n, codes[""] if n else 0, dtype=np.int64)
