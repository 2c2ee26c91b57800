"""JSON lines -> columns of codes: an object a line; null and a missing key are blank cells. An object in it gives
columns of its own ({"gpu": {"name": ...}}: `gpu.name`), and so does a short list of scalars (`sizes.0`, `sizes.1`).
A file that is one list of objects is read as well; a row's line is the one on which its object begins.

Programs write the same keys in the same order on every line. Such a line is split at its separators, and a cell that
was there before (`num_warps": 4`) is looked up, not parsed: some six times as fast as a JSON parser. A part of the
file with any other line is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heurgen.base.errors import LogError, quoted
from heurgen.logs.lines import Ints, LineReader, coded, parts

# An object in an object in an object ...
MAX_DEPTH = 6
# Characters of a document that is read as a whole, to say where its rows are.
MAX_DOCUMENT = 2**26
# Elements of a list that become columns.
MAX_LIST = 16
_PANDAS = 'pandas writes such with to_json(..., orient="records", lines=True)'
_OBJECT = re.compile(r"\s*(\[\s*)?\{")
_SPACE = re.compile(r"\s*")
# Characters of an object of a list: what is read at once takes little memory.
MAX_OBJECT = 2**20
# Objects of a list that are taken together.
_TOGETHER = 4096
# Cells of a column that are remembered: nearly every time is another.
_KEPT = 2**16
_CONSTANTS: Mapping[str, str] = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan", "null": ""}
_WORDS: Mapping[object, str] = {None: "", True: "true", False: "false"}
# A string without escapes, a number, or a word: what is no such value leaves the part to the parser.
_STRING = r'"[^"\\\x00-\x1f]*+"'
_NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_VALUE = f"({_STRING}|{_NUMBER}|true|false|null|NaN|-?Infinity)"
_BLANK = r"[ \t]*+"
# Between a value and the next key. A JSON string can only end with one: a quote inside is escaped.
_SEPARATORS = (', "', ',"')
# The codes of a column's texts, by its name; a new text gets the next code.
CodesOf = Callable[[str], Mapping[str, int]]
Columns = Mapping[str, Ints]


def is_jsonl(text: str) -> bool:
    """Whether it begins with an object or a list of them. (A CSV header that begins so would be a strange one.)"""
    return _OBJECT.match(text[:65536]) is not None


def read_jsonl(path: str, text: str, codes_of: CodesOf) -> Iterator[tuple[Columns, Sequence[int]]]:
    """The file in parts: the columns of some rows, in order of appearance, and the lines of these rows.

    A key that no row of a part has is no column of it. Numbers keep the text that they have in the file.

    Raises:
        LogError: a line is no object, names a key twice, or holds what is nested too deeply or too long a list.
    """
    if text.lstrip()[:1] == "[":
        for listed in _listed(path, text):
            mixed = _mixed(path, listed)
            yield {name: coded(t, codes_of(name)) for name, t in mixed.items()}, [own for own, _ in listed]
        return
    if (hint := _document_hint(text)) is not None:
        said = "found one object over several lines, expected one on every line"
        hint += "; a known tuner's file is read by heurgen import auto"
        raise LogError(said, file=path, row=1, hint=hint)
    line = 1
    form = _form(text[: text.find("\n") + 1 or len(text)], codes_of)
    for part in parts(text):
        columns = None if form is None else form.read(part)
        if columns is not None:
            yield columns, range(line, line + len(part))
        elif records := list(_records(path, part, line)):
            mixed = _mixed(path, records)
            yield {name: coded(t, codes_of(name)) for name, t in mixed.items()}, [own for own, _ in records]
        line += len(part)


# --- lines of one form ------------------------------------------------------------------------------------


class _Misfit(Exception):
    """A cell is not of the form."""


class _Cells(dict[str, int]):
    """A cell of one column as it stands between separators -> the code of its text."""

    def __init__(self, pattern: str, codes: Mapping[str, int]) -> None:
        super().__init__()
        self._match, self._codes = re.compile(pattern).fullmatch, codes

    def __missing__(self, cell: str) -> int:
        found = self._match(cell)
        if found is None:
            raise _Misfit
        value = found[1]
        text = value[1:-1] if value[0] == '"' else _CONSTANTS.get(value, value)
        if len(self) >= _KEPT:
            self.clear()
        code = self[cell] = self._codes[text]
        return code


@dataclass(frozen=True, slots=True)
class _Form:
    """The keys of the first line in its order, and the lines' cells."""

    keys: tuple[str, ...]
    table: LineReader

    def read(self, lines: Sequence[str]) -> Columns | None:
        """The columns; None where a line has another form.

        The cells before it have codes then. Since those to their left fit too, each is a key and its value, which
        the parser will find again, or an error in the line.
        """
        try:
            columns = self.table.read(lines)
        except _Misfit:
            return None
        return None if columns is None else dict(zip(self.keys, columns, strict=True))


def _form(line: str, codes_of: CodesOf) -> _Form | None:
    """The form of the first line, an object if it is JSON; none where its cells cannot be told apart."""
    try:
        pairs = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    # The columns of a list or an object have names of their own; the key itself is none.
    if any(isinstance(value, list) for _, value in pairs):
        return None
    keys = [key for key, _ in pairs]
    separator = next((s for s in _SEPARATORS if line.count(s) == len(keys) - 1), None)
    if separator is None or len(set(keys)) < len(keys):
        return None
    cells = []
    for key in keys:
        begin = rf'{_BLANK}\{{{_BLANK}"' if key is keys[0] else ""
        end = r"\}[ \t\r]*+" if key is keys[-1] else ""
        name = re.escape(json.dumps(key)[1:])
        cells.append(_Cells(f"{begin}{name}{_BLANK}:{_BLANK}{_VALUE}{_BLANK}{end}", codes_of(key)))
    return _Form(tuple(keys), LineReader(separator, cells))


# --- any objects ------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """An object's keys and values, as they stand."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=str, parse_int=str, parse_constant=_CONSTANTS.__getitem__
)


def _records(path: str, part: Sequence[str], first: int) -> Iterator[tuple[int, _Pairs]]:
    """Every line that is not blank, with its number."""
    for line, record in enumerate(part, first):
        if not record.strip():
            continue
        try:
            pairs = _DECODER.decode(record)
        except (ValueError, RecursionError) as error:
            message = f"this is no JSON line: {getattr(error, 'msg', error)}"
            raise LogError(message, file=path, row=line, hint=_hint(record, line)) from error
        if not isinstance(pairs, _Pairs):
            raise LogError("found no object, expected one on every line", file=path, row=line)
        yield line, pairs


def _listed(path: str, text: str) -> Iterator[list[tuple[int, _Pairs]]]:
    """The objects of a list, some at a time, each with the line on which it begins."""
    at, line = text.index("[") + 1, 1 + text.count("\n", 0, text.index("["))
    found: list[tuple[int, _Pairs]] = []
    more = True
    start, part = 0, text[: 2 * MAX_OBJECT]
    while more:
        begin = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", at, begin)
        if begin - start > MAX_OBJECT:
            start, part = begin, text[begin : begin + 2 * MAX_OBJECT]
        try:
            value, end = _DECODER.raw_decode(part, begin - start)
        except (ValueError, RecursionError) as error:
            row = line + part.count("\n", begin - start, getattr(error, "pos", 0))
            long = f", or an object is longer than {MAX_OBJECT}" if start + len(part) < len(text) else ""
            message = f"the list is no JSON: {getattr(error, 'msg', error)}{long}"
            raise LogError(message, file=path, row=row) from error
        end += start
        if not isinstance(value, _Pairs):
            raise LogError("found no object, expected one for every row", file=path, row=line)
        found.append((line, value))
        at = _SPACE.match(text, end).end() + 1  # type: ignore[union-attr]
        line += text.count("\n", begin, at)
        more = text[at - 1 : at] == ","
        if not more and text[at - 1 : at] != "]":
            raise LogError("the list is no JSON: expected , or ] behind an object", file=path, row=line)
        if len(found) == _TOGETHER or not more:
            yield found
            found = []
    if text[at:].strip():
        raise LogError("found more behind the list", file=path, row=line)


def _mixed(path: str, records: Sequence[tuple[int, _Pairs]]) -> Mapping[str, Sequence[str]]:
    """The columns of any objects; the first line that does not fit is named."""
    columns: dict[str, list[str]] = {}
    for before, (line, pairs) in enumerate(records):
        if pairs and all(isinstance(v, _Pairs) and [k for k, _ in v[:1]] == ["0"] for _, v in pairs):
            said = "found an object of columns, expected one of a row on every line"
            raise LogError(said, file=path, row=line, hint=_PANDAS)
        for name, value in _flat(pairs, path, line):
            texts = columns.setdefault(name, [])
            if len(texts) > before:
                raise LogError("the key is there twice", file=path, row=line, column=name)
            texts.extend([""] * (before - len(texts)))
            texts.append(_text(value))
    for texts in columns.values():
        texts.extend([""] * (len(records) - len(texts)))
    return columns


def _flat(
    pairs: Iterable[tuple[str, Any]], path: str, line: int, before: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Keys and scalars; those of an object, and the elements of a list, under `key.`."""
    for key, value in pairs:
        name = f"{before}{key}"
        if not isinstance(value, list):
            yield name, value
            continue
        is_object = isinstance(value, _Pairs)
        inner = value if is_object else [(str(i), v) for i, v in enumerate(value)]
        if not is_object and (len(value) > MAX_LIST or any(isinstance(v, list) for v in value)):
            expected = f"a list of at most {MAX_LIST} numbers or texts"
            said = f"found another list, expected {expected}"
            raise LogError(said, file=path, row=line, column=name, hint=_list_hint(name, value))
        if depth >= MAX_DEPTH:
            said = f"found objects in {depth} objects, expected at most {MAX_DEPTH - 1}"
            raise LogError(said, file=path, row=line, column=name)
        yield from _flat(inner, path, line, f"{name}.", depth + 1)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _WORDS[value]


def _list_hint(name: str, value: Sequence[Any]) -> str | None:
    """How rows that stand in a list, or columns that are lists, become rows."""
    if all(isinstance(v, _Pairs) for v in value):
        return f"write its objects a line each: jq -c '.{name}[]'" if re.fullmatch(r"[\w.]+", name) else None
    if any(isinstance(v, list) for v in value):
        return None
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", name):
        return f"if no launch depends on it: jq -c 'del(.{name})'"
    return f"a row is an object: {_PANDAS}"


def _document_hint(text: str) -> str | None:
    """How the rows in an object over several lines become lines, as benchmarks write them behind their context."""
    first = text[: text.find("\n") + 1 or len(text)].rstrip()
    if first.endswith("}") or len(text) > MAX_DOCUMENT:
        return None
    try:
        pairs = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    lists = {k: v for k, v in pairs if type(v) is list and v and all(isinstance(row, _Pairs) for row in v)}
    if len(lists) == len(pairs) > 1:
        return "write its objects a line each: jq -c 'to_entries[] | {problem: .key} + .value[]'"
    key = max(reversed(lists), key=lambda name: len(lists[name]), default="")
    return _list_hint(key, lists[key]) if key else None


def _hint(record: str, line: int) -> str | None:
    """The usual cause: one JSON document over several lines, as other tools write it."""
    if line == 1 and not record.rstrip().endswith("}"):
        return (
            f"one object a line, as in {quoted('{}')}; what another tool wrote is read by heurgen import auto"
        )
    return None
