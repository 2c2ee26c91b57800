"""JSON lines -> columns of texts: an object a line, its values scalars; null and a missing key are blank cells.

Programs write the same keys in the same order on every line. A pattern made of the first line's keys reads such lines
some four times as fast as a JSON parser; a part of the file that it does not fit is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heurgen.base.errors import LogError, quoted

# Characters that are held as objects at one time.
_PART = 2**18
_CONSTANTS: Mapping[str, str] = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}
_WORDS: Mapping[object, str] = {None: "", True: "true", False: "false"}
# A string without escapes, a number, or a word: what is no such value leaves the line to the parser.
_STRING = r'"[^"\\\x00-\x1f]*+"'
_NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_VALUE = f"({_STRING}|{_NUMBER}|true|false|null|NaN|-?Infinity)"
Columns = Mapping[str, Sequence[str]]


def is_jsonl(text: str) -> bool:
    """Whether the first line begins an object. (A CSV header that begins so would be a strange one.)"""
    return text[:65536].lstrip()[:1] == "{"


def read_jsonl(path: str, text: str) -> Iterator[tuple[Columns, Sequence[int]]]:
    """The file in parts: the columns of some rows, in order of appearance, and the lines of these rows.

    A key that no row of a part has is no column of it. Numbers keep the text that they have in the file.

    Raises:
        LogError: a line is no flat object, or names a key twice.
    """
    start, line = 0, 1
    keys, pattern = _template(text)
    while start < len(text):
        end = text.find("\n", min(start + _PART, len(text)))
        end = len(text) if end < 0 else end + 1
        part, start = text[start:end], end
        n = part.count("\n") + (not part.endswith("\n"))
        rows = pattern.findall(part) if pattern else []
        if rows and len(rows) == n:
            yield _uniform(keys, rows), range(line, line + n)
        else:
            records = list(_records(path, part, line))
            if records:
                yield _mixed(path, records), [own for own, _ in records]
        line += n


def _template(text: str) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """The keys of the first line, and the pattern of a line with these keys; none where it is no plain object."""
    try:
        pairs = _DECODER.decode(text[: text.find("\n") + 1 or len(text)])
    except (ValueError, RecursionError):
        return (), None
    keys = tuple(key for key, _ in pairs) if isinstance(pairs, _Pairs) else ()
    if not keys or len(set(keys)) < len(keys) or not all(k.isascii() and k.isprintable() for k in keys):
        return (), None
    blank = r"[ \t]*+"
    entries = (f"{re.escape(json.dumps(k))}{blank}:{blank}{_VALUE}{blank}" for k in keys)
    body = f",{blank}".join(entries)
    return keys, re.compile(rf"^{blank}\{{{blank}{body}\}}[ \t\r]*+$", re.MULTILINE)


def _uniform(keys: Sequence[str], rows: Sequence[Any]) -> Columns:
    columns = (rows,) if len(keys) == 1 else zip(*rows, strict=True)
    texts = _Texts()
    return {k: list(map(texts.__getitem__, column)) for k, column in zip(keys, columns, strict=True)}


class _Texts(dict[str, str]):
    """A value as it stands in the file -> its text."""

    def __missing__(self, value: str) -> str:
        plain = _CONSTANTS.get(value, {"null": ""}.get(value, value))
        text = self[value] = value[1:-1] if value[0] == '"' else plain
        return text


class _Pairs(list[tuple[str, Any]]):
    """An object's keys and values, as they stand."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=str, parse_int=str, parse_constant=_CONSTANTS.__getitem__
)


def _records(path: str, part: str, first: int) -> Iterator[tuple[int, _Pairs]]:
    """Every line that is not blank, with its number."""
    for line, record in enumerate(part.split("\n"), first):
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


def _mixed(path: str, records: Sequence[tuple[int, _Pairs]]) -> Columns:
    """The columns of any objects; the first line that does not fit is named."""
    columns: dict[str, list[str]] = {}
    for before, (line, pairs) in enumerate(records):
        for name, value in pairs:
            texts = columns.setdefault(name, [])
            if len(texts) > before:
                raise LogError("the key is there twice", file=path, row=line, column=name)
            texts.extend([""] * (before - len(texts)))
            texts.append(_text(value, path, line, name))
    for texts in columns.values():
        texts.extend([""] * (len(records) - len(texts)))
    return columns


def _text(value: Any, path: str, line: int, name: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    found = "an object" if isinstance(value, _Pairs) else "a list"
    raise LogError(
        f"found {found}, expected a number, text, true, false or null", file=path, row=line, column=name
    )


def _hint(record: str, line: int) -> str | None:
    """The usual cause: one JSON document over several lines, as other tools write it."""
    if line == 1 and not record.rstrip().endswith("}"):
        return (
            f"one object a line, as in {quoted('{}')}; what another tool wrote is read by heurgen import auto"
        )
    return None
