"""One AutoHeuristic log, read strictly and column by column, so that half a million rows take seconds."""

from __future__ import annotations

import csv
import io
import json
import math
from array import array
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

from heurgen.base.errors import LogError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.common import BOOLS, FLOAT
from heurgen.logs.importers.foreign import Foreign
from heurgen.spec.kernel_spec import is_time

CHOICE, FEEDBACK = "choice", "feedback"
_CHUNK = 8192
# What stands for a time where a choice failed.
FAILED = ("inf", "nan")


class Codes(dict[str, int]):
    """Distinct texts of a column, numbered as they come, and `rows`: each row's number."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = array("q")

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


@dataclass(frozen=True, slots=True)
class Header:
    """What the first two lines say (`device`: unless one is given), and the digest of the whole file."""

    file: str
    digest: str
    name: str
    device: str
    numerical: tuple[str, ...]
    categorical: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return (*self.numerical, *self.categorical)


def read_log(
    file: Foreign, columns: dict[str, Codes], files: Codes, device: str | None, *, seen: Collection[str]
) -> Header:
    """Append a log's rows to `columns`, and its digest to `files`; nothing is read of a file whose digest was seen.

    Raises:
        LogError: the file is no AutoHeuristic log; says where.
    """
    text = _lines(file)
    header = _header(file, text, device)
    if header.digest not in seen:
        before = len(files.rows)
        _read_rows(header, file, text, columns)
        n = len(columns[CHOICE].rows) - before
        if not n:
            raise LogError("has no measurement", file=file.file)
        files.rows.extend([files[header.digest]] * n)
    return header


def _lines(file: Foreign) -> TextIO:
    """The text as a stream. A StringIO would hold it a second time, at four bytes a character."""
    return io.TextIOWrapper(io.BytesIO(file.text.encode()), encoding="utf-8", newline="")


# --- the two first lines ----------------------------------------------------------------------------------


def _header(source: Foreign, text: TextIO, device: str | None) -> Header:
    file = source.file
    metadata = _metadata(file, text.readline(1 << 20))
    numerical = _feature_list(file, metadata, "numerical_features")
    categorical = _feature_list(file, metadata, "categorical_features")
    if both := sorted(set(numerical) & set(categorical)):
        raise LogError(f"{quoted(both[0])} is a numerical and a categorical feature", file=file, row=1)
    if not isinstance(metadata["name"], str) or not metadata["name"]:
        raise LogError(f"'name' is {quoted(metadata['name'])}, expected text", file=file, row=1)
    try:
        columns = next(csv.reader([text.readline(1 << 20)], strict=True), [])
    except csv.Error as error:
        raise LogError(f"is no CSV: {error}", file=file, row=2) from error
    _check_columns(file, columns, {*numerical, *categorical, CHOICE, FEEDBACK})
    found = device or _device(file, metadata)
    return Header(file, source.digest, metadata["name"], found, numerical, categorical, tuple(columns))


def _metadata(file: str, line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LogError(
            "the first line is no JSON object", file=file, row=1, hint="expected AutoHeuristic's metadata"
        ) from error
    if not isinstance(data, dict):
        raise LogError(
            f"the first line is a JSON {type(data).__name__}, expected an object", file=file, row=1
        )
    for name in ("shared_memory", "device_capa", "name", "numerical_features", "categorical_features"):
        if name not in data:
            raise LogError(f"the metadata lacks {quoted(name)}", file=file, row=1)
    return data


def _feature_list(file: str, metadata: dict[str, Any], key: str) -> tuple[str, ...]:
    value = metadata[key]
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise LogError(f"{quoted(key)} is {quoted(value)}, expected a list of names", file=file, row=1)
    if len(set(value)) < len(value):
        raise LogError(f"{quoted(key)} names a feature twice", file=file, row=1)
    return tuple(value)


def _device(file: str, metadata: dict[str, Any]) -> str:
    """device_capa [8, 0], shared_memory 166912 -> "sm_80 166912 B"."""
    capability, memory = metadata["device_capa"], metadata["shared_memory"]
    fits = isinstance(capability, list) and len(capability) == 2 and all(type(x) is int for x in capability)
    if not fits or type(memory) is not int:
        raise LogError(
            f"device_capa {quoted(capability)} and shared_memory {quoted(memory)} name no device",
            file=file,
            row=1,
            hint="expected [major, minor] and bytes, or say which: --device NAME",
        )
    return f"sm_{capability[0]}{capability[1]} {memory} B"


def _check_columns(file: str, columns: list[str], expected: set[str]) -> None:
    for name in columns:
        if columns.count(name) > 1:
            raise LogError("is there twice", file=file, row=2, column=name)
        if name not in expected:
            raise LogError("is no feature of the metadata", file=file, row=2, column=name)
    if missing := sorted(expected.difference(columns)):
        raise LogError("is missing", file=file, row=2, column=missing[0])


# --- the rows ---------------------------------------------------------------------------------------------


def _read_rows(header: Header, file: Foreign, text: TextIO, columns: dict[str, Codes]) -> None:
    reader, width = csv.reader(text, strict=True), len(header.columns)
    targets = [columns.setdefault(name, Codes()) for name in header.columns]
    known = [len(t) for t in targets]
    for rows in _chunks(header, reader):
        if any(len(row) != width for row in rows):
            raise _first_bad(
                header, file, lambda row: len(row) != width, None, f"expected {counted(width, 'cell')}"
            )
        for target, cells in zip(targets, zip(*rows, strict=True), strict=True):
            target.rows.extend(map(target.__getitem__, cells))
    for name, target, n in zip(header.columns, targets, known, strict=True):
        _check_new_values(header, file, name, list(target)[n:])


def _chunks(header: Header, reader: Any) -> Iterator[list[list[str]]]:
    """Rows in chunks, blank lines left out."""
    while True:
        try:
            chunk = list(islice(reader, _CHUNK))
        except csv.Error as error:
            raise LogError(f"is no CSV: {error}", file=header.file, row=reader.line_num + 2) from error
        if not chunk:
            return
        if rows := [row for row in chunk if row]:
            yield rows


def _check_new_values(header: Header, file: Foreign, name: str, values: list[str]) -> None:
    """Every distinct value of a column once: cheap, however many rows there are."""
    if name == FEEDBACK:
        good, expected = _is_feedback, "expected a time above 0 in ms, inf or nan"
    elif name in header.numerical and not BOOLS.issuperset(values):
        good, expected = _is_number, "expected a number"
    else:
        good, expected = _is_text, "expected printable text without spaces around it"
    at = header.columns.index(name)
    if not all(map(good, values)):
        raise _first_bad(header, file, lambda row: not good(row[at]), name, expected)


def _is_number(value: str) -> bool:
    return FLOAT.fullmatch(value) is not None and math.isfinite(float(value))


def _is_feedback(value: str) -> bool:
    return value in FAILED or (_is_number(value) and is_time(float(value)))


def _is_text(value: str) -> bool:
    return value != "" and printable(value) == value and value.strip() == value


def _first_bad(
    header: Header, file: Foreign, bad: Callable[[list[str]], bool], column: str | None, expected: str
) -> LogError:
    """The error that names the first line with a fault, found by reading the text once more."""
    text = _lines(file)
    text.readline()
    text.readline()
    reader = csv.reader(text, strict=True)
    row = next(row for row in reader if row and bad(row))
    found = counted(len(row), "cell") if column is None else quoted(row[header.columns.index(column)])
    line = reader.line_num + 2
    return LogError(f"found {found}, {expected}", file=header.file, row=line, column=column)
