"""Files that another tool wrote: read within bounds, parsed strictly, every complaint with its place.

Compressed files (gzip, bzip2, by their magic numbers) are read as what they hold. Bounds: 256 MiB of text a file
(after decompression), 8,000,000 values of JSON (some 100 bytes each when parsed), 4,096 characters a cell.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.reading import decoded, read_bytes, unpacked
from heurgen.base.text import counted

# Decompressed bytes of one file: more than twice the largest log known (MIOpen's for gfx90a, 97 MB).
MAX_BYTES = 2**28
# A Kernel Tuner cache of 4,362 configs holds 260,000.
MAX_VALUES = 8_000_000
_TEXT_LIMIT = 4096
_LITERAL_LIMIT = 100_000
# As render/config_files.py names it.
_MANIFEST = "heurgen.manifest.json"
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True)
class Foreign:
    """One file: its path as given, and its text."""

    file: str
    text: str

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """The file's name without its folder and the ending of a compressed file."""
        return re.sub(r"\.(gz|bz2)$", "", os.path.basename(self.file))

    def error(
        self, message: str, *, at: str = "", row: int | None = None, path: str = "", hint: str | None = None
    ) -> LogError:
        """A complaint about `row`, or about the first line that holds the JSON key `at`; `path` is a JSON path."""
        if row is None and at and (place := self.text.find(json.dumps(at))) >= 0:
            row = self.text.count("\n", 0, place) + 1
        return LogError(message, file=self.file, row=row, column=path or None, hint=hint)


def lines(file: Foreign) -> Iterator[tuple[int, str]]:
    """(number, line) of every line that is not blank, without its end; the text is not held a second time."""
    start, row = 0, 1
    while start < len(file.text):
        end = file.text.find("\n", start)
        line = file.text[start : end if end >= 0 else None]
        if line.strip():
            yield row, line.rstrip("\r")
        start, row = (end + 1 if end >= 0 else len(file.text)), row + 1


def read_foreign(file: str | os.PathLike[str]) -> Foreign:
    """Read one file.

    Raises:
        LogError: it cannot be read, is no UTF-8 text, is broken or too long.
    """
    name = os.fspath(file)
    if os.path.isdir(name):
        raise LogError("this is a directory, expected a file", file=name)
    data = unpacked(name, read_bytes(name, LogError, MAX_BYTES), LogError, MAX_BYTES)
    if not data or data.isspace():
        raise LogError("the file is empty", file=name)
    return Foreign(name, decoded(name, data, LogError))


def distinct(
    files: Sequence[Foreign], identity: Callable[[Foreign], Hashable] = lambda _: ""
) -> tuple[list[Foreign], list[str]]:
    """Each content once, in an order that does not depend on the order of the files; notes on copies.

    `identity` is what a file's name and folders say: only a file of which they say the same is a copy.
    """
    kept: dict[tuple[str, Hashable], Foreign] = {}
    notes = []
    for file in sorted(files, key=lambda f: (f.digest, f.file)):
        first = kept.setdefault((file.digest, identity(file)), file)
        if first is not file:
            notes.append(f"{printable(file.file)} has the content of {printable(first.file)}: taken once")
    return list(kept.values()), notes


def expanded(files: Sequence[str], pattern: str) -> list[str]:
    """Paths, a folder replaced by the files under it whose names fit `pattern` ("*.autotune.json"), but for the empty
    files by which tools lock theirs ("mm.lock") and the manifest of a folder that heurgen wrote.

    Raises:
        UsageError: no path is given, or a folder holds no such file.
    """
    found: list[str] = []
    for file in files:
        if not os.path.isdir(file):
            found.append(file)
            continue
        found_there = (p for p in Path(file).rglob(pattern) if p.suffix != ".lock" and p.name != _MANIFEST)
        inside = sorted(str(p) for p in found_there if p.is_file())
        if not inside:
            raise UsageError(f"the folder {quoted(file)} holds no {pattern}")
        found += inside
    if not found:
        raise UsageError("no file to import", hint="name at least one")
    return found


# --- JSON -------------------------------------------------------------------------------------------------


def parse_json(file: Foreign, text: str | None = None, *, row: int = 1) -> Any:
    """The file's JSON, or that of a line of it (`text`, which begins at `row`); Infinity and NaN are read.

    Raises:
        LogError: it is no JSON, holds too much, is nested too deeply, or an object has a key twice.
    """
    text = file.text if text is None else text
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise file.error(f"holds more than {MAX_VALUES} values", row=row, hint="split the file")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = row + error.lineno - 1
        raise file.error(f"is no JSON: {error.msg}, at character {error.colno}", row=line) from error
    except _TwiceError as error:
        raise file.error(f"the key {quoted(error)} is there twice in one object", at=str(error)) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of brackets
        raise file.error(f"is no JSON: {error}", row=row) from error


class _TwiceError(Exception):
    """An object's key that occurs twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _TwiceError(next(k for k, _ in pairs if k in seen or seen.add(k)))  # type: ignore[func-returns-value]
    return found


def python_value(text: str) -> Any:
    """What a Python literal says; None where the text is none, or too long to be read."""
    try:
        return ast.literal_eval(text) if len(text) < _LITERAL_LIMIT else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
    int: "a number",
    float: "a number",
}


def a(file: Foreign, value: Any, kind: type, path: str, at: str = "") -> Any:
    """`value`, which must be an object (dict), a list or a string (str).

    Raises:
        LogError: it is another.
    """
    if not isinstance(value, kind):
        found = _KINDS.get(type(value), type(value).__name__)
        raise file.error(f"found {found}, expected {_KINDS[kind]}", at=at, path=path)
    return value


def cell(file: Foreign, value: Any, path: str, at: str = "") -> str:
    """A JSON scalar as the text of a log's cell; null is blank.

    Raises:
        LogError: it is no scalar, not finite, blank text, too long, or text that a log cannot show.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if not isinstance(value, str):
        raise file.error(f"found {quoted(value)}, expected a number or text", at=at, path=path)
    if not value or value != value.strip() or printable(value) != value or len(value) > _TEXT_LIMIT:
        expected = f"text of 1 to {_TEXT_LIMIT} printable characters, without spaces around it"
        raise file.error(f"found {quoted(value)}, expected {expected}", at=at, path=path)
    return value


def setting(file: Foreign, value: Any, path: str, at: str = "") -> str:
    """What a config sets a parameter to: a scalar as `cell`, a list of plain values as JSON text; "" is blank, as null.

    Raises:
        LogError: as `cell`, or the list holds objects.
    """
    if value == "":
        return ""
    plain = isinstance(value, list | tuple) and not any(isinstance(v, dict) for v in value)
    return cell(file, json.dumps(value, separators=(",", ":")) if plain else value, path, at)


def time_of(file: Foreign, value: Any, path: str, *, factor: float = 1.0, at: str = "") -> float | None:
    """A time in ms (`value` times `factor`); None for what tools write where they have none: infinity, NaN, null.

    Raises:
        LogError: it is no number, or not above 0.
    """
    if value is None:
        return None
    if type(value) in (int, float):
        if value == math.inf or value != value:
            return None
        try:
            time = float(value) * factor
        except OverflowError:
            time = math.inf
        if math.isfinite(time) and time > 0:
            return time
    raise file.error(f"found {quoted(value)}, expected a finite time above 0, or Infinity", at=at, path=path)


def time_in(
    file: Foreign, row: Mapping[str, Any], key: str, path: str, *, factor: float = 1.0, at: str = ""
) -> float | None:
    """`time_of` what the object at `path` holds under `key`.

    Raises:
        LogError: as `time_of`, or the key is missing: a table without times is no log.
    """
    if key not in row:
        raise file.error(f"the key {quoted(key)} is missing", at=at, path=path)
    return time_of(file, row[key], f"{path}.{key}", factor=factor, at=at)


# --- CSV --------------------------------------------------------------------------------------------------


def csv_rows(
    file: Foreign, needed: Collection[str] = ()
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header, and (line, cells) of every row that is not blank, less columns without a name (a frame's index).

    Where columns are `needed`, rows may lack the last one if it is none of them: they are older than it, and it is
    blank there. Not more than that: a row that two writers tore lacks what it was measured with. Nor may a last line
    without its end.

    Raises:
        LogError: it is no CSV, or a row has another width than the header (while iterating).
    """
    # A StringIO would hold the text a second time, at four bytes a character.
    lines = io.TextIOWrapper(io.BytesIO(file.text.encode()), encoding="utf-8", newline="")
    reader = csv.reader(lines, strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        line = reader.line_num + 1
        try:
            for row in reader:
                missing = len(header) - len(row)
                blank = not any(map(str.strip, row))
                if not blank and missing and not (missing == spare and reader.line_num != torn):
                    raise file.error(f"found {counted(len(row), 'cell')}, expected {len(header)}", row=line)
                if not blank:
                    cells = row + [""] * missing
                    yield line, cells if len(named) == len(header) else [cells[i] for i in named]
                line = reader.line_num + 1
        except csv.Error as error:
            raise file.error(f"is no CSV: {error}", row=line) from error

    header = _header(file, reader)
    named = [i for i, h in enumerate(header) if h]
    spare = 1 if needed and header and header[-1] not in needed else 0
    torn = 0 if file.text.endswith(("\n", "\r")) else file.text.count("\n") + 1
    return [header[i] for i in named], rows()


def _header(file: Foreign, reader: Iterator[list[str]]) -> list[str]:
    try:
        header = [h.strip() for h in next(filter(None, reader), [])]
    except csv.Error as error:
        raise file.error(f"is no CSV: {error}", row=1) from error
    _check_named_once(file, [h for h in header if h], 1)
    return header


def _check_named_once(file: Foreign, names: Sequence[str], row: int) -> None:
    if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
        raise file.error(f"two columns are named {quoted(twice)}", row=row)


def header_line(file: Foreign, text: str, row: int) -> list[str]:
    """The names of a header that stands somewhere in a file.

    Raises:
        LogError: two are equal.
    """
    names = [name.strip() for name in text.split(",")]
    _check_named_once(file, names, row)
    return names


def cells_line(file: Foreign, text: str, row: int, header: Sequence[str]) -> dict[str, str]:
    """The cells of a line under such a header, by its names.

    Raises:
        LogError: they are more or fewer than the names.
    """
    cells = [c.strip() for c in text.split(",")]
    if len(cells) != len(header):
        raise file.error(f"found {counted(len(cells), 'cell')}, expected {len(header)}", row=row)
    return dict(zip(header, cells, strict=True))


def csv_number(file: Foreign, text: str, row: int, column: str) -> float:
    """A number of a CSV cell; `inf` is infinity, `nan` NaN.

    Raises:
        LogError: it is none.
    """
    if text.strip().lower() in ("inf", "infinity"):
        return math.inf
    if text.strip().lower() == "nan":
        return math.nan
    if not _FLOAT.fullmatch(text):
        raise file.error(f"found {quoted(text)}, expected a number", row=row, path=column)
    return float(text)


def csv_time(file: Foreign, text: str, row: int, column: str, *, factor: float = 1.0) -> float | None:
    """`time_of` a CSV cell; raises as `csv_number` too."""
    return time_of(file, csv_number(file, text, row, column), f"line {row}: {column}", factor=factor)
