"""The one reader of TOML, and the literals of the one writer.

    table = read_toml("kernel.toml")
    table.only("kernel", "features")
    name = table.table("kernel").text("name")

Every getter checks the type, and what it raises names the file, the line (as far as a plain search finds it),
the key, what was found and what was expected. Readers never see a value that they did not ask the type of.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from heurgen.base.errors import SpecError, printable, quoted
from heurgen.base.reading import path_of, read_text
from heurgen.base.text import did_you_mean

MAX_BYTES = 64 * 2**20
# TOML's own range. Python reads more digits, and a float of them overflows later and elsewhere.
MAX_INT = 2**63 - 1

# A part of a place: a key, or the number (from 0) of one of several [[tables]].
Part = str | int
T = TypeVar("T")


class _Missing:
    """No default: the key must be there."""


_MISSING = _Missing()


def read_toml(path: str | os.PathLike[str]) -> Table:
    """The top table of a TOML file of at most 64 MiB.

    Raises:
        SpecError: the file cannot be read, is too large, or is no TOML; names the file, and the line if known.
    """
    return parse_toml(read_text(path, SpecError, MAX_BYTES), path_of(path, SpecError))


def parse_toml(text: str, file: str | None = None) -> Table:
    """`read_toml`, for text; `file` is what errors call it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(file, str(error)) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of brackets
        raise SpecError(f"this is no TOML: {error}", file=file) from error
    return Table(data, (), Source(file, text))


def _syntax(file: str | None, message: str) -> SpecError:
    found = re.search(r" \(at line ([0-9]+), column ([0-9]+)\)$", message)
    if found is None:
        return SpecError(f"this is no TOML: {message}", file=file)
    text = f"this is no TOML: {message[: found.start()]}, at character {found[2]}"
    return SpecError(text, file=file, row=int(found[1]))


@dataclass(frozen=True, slots=True)
class Source:
    """A TOML file's name and text, to say where an error is. Tables made in code have neither."""

    file: str | None = None
    text: str = ""

    def line_of(self, place: tuple[Part, ...]) -> int | None:
        """The line of the longest prefix of a place that a plain search finds."""
        lines: dict[tuple[Part, ...], int] = {}
        for where, line in _places(self.text):
            lines.setdefault(where, line)
        prefixes = (place[:length] for length in range(len(place), 0, -1))
        return next((lines[prefix] for prefix in prefixes if prefix in lines), None)


@dataclass(frozen=True, slots=True)
class Table:
    """One table, read key by key. `place` is where it stands: ("features", "n"), ("batch", 0)."""

    data: Mapping[str, Any]
    place: tuple[Part, ...] = ()
    source: Source = field(default_factory=Source)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    # --- errors

    def error(self, message: str, key: Part | None = None, hint: str | None = None) -> SpecError:
        """An error at a key of this table, or (None) at the table itself."""
        place = self.place if key is None else (*self.place, key)
        return SpecError(
            message,
            file=self.source.file,
            row=self.source.line_of(place),
            column=_dotted(place) or None,
            hint=hint,
        )

    def wrong(self, key: str, expected: str, hint: str | None = None) -> SpecError:
        """The error of a value that is not what was expected, or that is missing."""
        if key not in self.data:
            return self.error(f"is missing, expected {expected}", key, hint)
        return self.error(f"found {shown(self.data[key])}, expected {expected}", key, hint)

    def only(self, *known: str, what: str = "key") -> None:
        """Raise where the table has another key."""
        for key in self.data:
            if key not in known:
                hint = did_you_mean(key, known) or f"known: {', '.join(known)}"
                raise self.error(f"unknown {what} {quoted(key)}", key, hint)

    # --- values

    @overload
    def text(self, key: str, *, expected: str = ...) -> str: ...
    @overload
    def text(self, key: str, default: T, *, expected: str = ...) -> str | T: ...
    def text(self, key: str, default: Any = _MISSING, *, expected: str = "a string") -> Any:
        """A string."""
        return self._typed(key, default, str, expected)

    @overload
    def flag(self, key: str) -> bool: ...
    @overload
    def flag(self, key: str, default: T) -> bool | T: ...
    def flag(self, key: str, default: Any = _MISSING) -> Any:
        """A bool."""
        return self._typed(key, default, bool, "true or false")

    @overload
    def integer(self, key: str, *, low: int = ..., high: int = ..., expected: str = ...) -> int: ...
    @overload
    def integer(
        self, key: str, default: T, *, low: int = ..., high: int = ..., expected: str = ...
    ) -> int | T: ...
    def integer(
        self,
        key: str,
        default: Any = _MISSING,
        *,
        low: int = -MAX_INT,
        high: int = MAX_INT,
        expected: str = "a whole number",
    ) -> Any:
        """A whole number from `low` to `high`."""
        value = self._typed(key, default, int, expected)
        if key in self.data and not low <= value <= high:
            raise self.wrong(key, expected)
        return value

    @overload
    def number(self, key: str, *, low: float = ..., high: float = ..., expected: str = ...) -> float: ...
    @overload
    def number(
        self, key: str, default: T, *, low: float = ..., high: float = ..., expected: str = ...
    ) -> float | T: ...
    def number(
        self,
        key: str,
        default: Any = _MISSING,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        expected: str = "a finite number",
    ) -> Any:
        """A finite number from `low` to `high`: an int as it is, a float as it is."""
        if key not in self.data:
            return self._typed(key, default, float, expected)
        value = self.data[key]
        if not is_finite(value) or not low <= value <= high:
            raise self.wrong(key, expected)
        return value

    @overload
    def texts(self, key: str, *, expected: str = ...) -> tuple[str, ...]: ...
    @overload
    def texts(self, key: str, default: T, *, expected: str = ...) -> tuple[str, ...] | T: ...
    def texts(self, key: str, default: Any = _MISSING, *, expected: str = "a list of strings") -> Any:
        """A list of strings, each once."""
        found = self._typed(key, default, list, expected)
        if key not in self.data:
            return found
        if any(type(v) is not str for v in found):
            raise self.wrong(key, expected)
        seen: set[str] = set()
        for value in found:
            if value in seen:
                raise self.error(f"{quoted(value)} is listed twice", key)
            seen.add(value)
        return tuple(found)

    def table(self, key: str, *, hint: str | None = None) -> Table:
        """A table; an empty one where the key is missing."""
        value = self.data.get(key, {})
        if not isinstance(value, Mapping):
            raise self.wrong(key, "a table", hint)
        return Table(value, (*self.place, key), self.source)

    def tables(self, key: str) -> tuple[Table, ...]:
        """All [[key]] tables; none where the key is missing."""
        value = self.data.get(key, [])
        if not isinstance(value, list | tuple) or not all(isinstance(v, Mapping) for v in value):
            raise self.wrong(key, f"[[{key}]] tables")
        return tuple(Table(v, (*self.place, key, i), self.source) for i, v in enumerate(value))

    def _typed(self, key: str, default: Any, kind: type, expected: str) -> Any:
        if key not in self.data and default is not _MISSING:
            return default
        if type(self.data.get(key, _MISSING)) is not kind:
            raise self.wrong(key, expected)
        return self.data[key]


def shown(value: object) -> str:
    """A found value as an error shows it; a string in quotes."""
    return quoted(value) if isinstance(value, str) else quoted(value).strip("'\"")


def is_finite(value: object) -> bool:
    """An int of TOML's range, or a finite float; no bool."""
    if type(value) is int:
        return abs(value) <= MAX_INT
    return type(value) is float and math.isfinite(value)


# --- where a key stands -----------------------------------------------------------------------------------


def _dotted(place: Iterable[Part]) -> str:
    """("batch", 0, "tokens") as `batch 1.tokens`."""
    text = ""
    for part in place:
        text += f" {part + 1}" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def _places(text: str) -> Iterator[tuple[tuple[Part, ...], int]]:
    """(place, line) of every header and assignment at the start of a line, outside strings of several lines."""
    section: tuple[Part, ...] = ()
    counts: dict[tuple[Part, ...], int] = {}
    inside = False
    for number_, line in enumerate(text.split("\n"), 1):
        if (line.count('"""') + line.count("'''")) % 2:
            inside = not inside
            if not inside:
                continue
        elif inside:
            continue
        if header := re.match(r"\s*(\[{1,2})([^\[\]]+)\]", line):
            section = _indexed(_keys(header[2]), counts)
            if header[1] == "[[":
                yield section, number_
                counts[section] = counts.get(section, -1) + 1
                section = (*section, counts[section])
            yield section, number_
        elif assignment := re.match(r"\s*([^=#\s][^=#]*)=", line):
            yield section + _keys(assignment[1]), number_


def _indexed(keys: tuple[Part, ...], counts: Mapping[tuple[Part, ...], int]) -> tuple[Part, ...]:
    """A header's keys, with the number of the [[table]] that they stand in: [heuristic.dejavu] is of the last."""
    place: tuple[Part, ...] = ()
    for i, key_ in enumerate(keys):
        place = (*place, key_)
        if i + 1 < len(keys) and place in counts:
            place = (*place, counts[place])
    return place


def _keys(text: str) -> tuple[Part, ...]:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


# --- writing ----------------------------------------------------------------------------------------------

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def string(text: str) -> str:
    """A TOML basic string. What a terminal would not show as it is becomes an escape.

    Raises:
        SpecError: the text holds a lone surrogate, which TOML cannot write.
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(c: str) -> str:
    if c in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[c]
    if "\ud800" <= c <= "\udfff":
        raise SpecError(
            f"{quoted(c)} is half a character, which TOML cannot write", hint="rename it in the log"
        )
    if c == " " or printable(c) == c:
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def key(name: str) -> str:
    """A key, in quotes where it must."""
    return name if _BARE_KEY.fullmatch(name) else string(name)


def number(value: float) -> str:
    """An int where the value is one of 64 bits, else the shortest float that reads back the same."""
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 2**63)
    return repr(int(value)) if whole else repr(float(value))


def value(data: Any) -> str:
    """A value on one line: strings, bools, numbers as they are, lists, tables without their None."""
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int | float):
        return repr(data)
    if isinstance(data, Mapping):
        pairs = ", ".join(f"{key(k)} = {value(v)}" for k, v in data.items() if v is not None)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(data, list | tuple):
        return f"[{', '.join(map(value, data))}]"
    return string(str(data))


def comment(text: str) -> str:
    """A comment line, printable."""
    return f"# {printable(text)}".rstrip()
