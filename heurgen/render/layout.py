"""Black-style layout: what fits on a line stays there, the rest goes one item a line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heurgen.base.errors import EmitError, quoted
from heurgen.render.text import MAX_NESTING, Code, code, literal

WIDTH = 110
INDENT = "    "


def bracketed(head: str, items: Sequence[str], tail: str, level: int = 0) -> Code:
    """`head` ends with an opening bracket, `tail` begins with the closing one."""
    pad = INDENT * level
    line = f"{pad}{head}{', '.join(items)}{tail}"
    if len(line) <= WIDTH or not items:
        return Code(line)
    inner = [f"{pad}{INDENT}{item}," for item in items if item != "*"]
    if "*" in items:
        inner.insert(items.index("*"), f"{pad}{INDENT}*,")
    return Code("\n".join([f"{pad}{head}", *inner, f"{pad}{tail}"]))


def assignment(target: str, value: Any) -> Code:
    """`target = value` for JSON-like data: scalars, lists, tuples and dicts with str keys."""
    return code(f"{target} = ", _laid_out(value, 0, len(target) + 3, 0))


def one_line(value: Any, nesting: int = 0) -> Code:
    """A nested literal on one line.

    Raises:
        EmitError: a value has no literal, a key is no string, or the data nests deeper than 20.
    """
    if nesting > MAX_NESTING:
        raise EmitError(f"data nests deeper than {MAX_NESTING}")
    if isinstance(value, Mapping):
        items = [f"{_key(k)}: {one_line(v, nesting + 1)}" for k, v in value.items()]
        return code("{", ", ".join(items), "}")
    if isinstance(value, list):
        return code("[", ", ".join(one_line(v, nesting + 1) for v in value), "]")
    if isinstance(value, tuple):
        inner = ", ".join(one_line(v, nesting + 1) for v in value)
        return code("(", inner, ",)" if len(value) == 1 else ")")
    return literal(value)


def _laid_out(value: Any, level: int, used: int, nesting: int) -> Code:
    flat = one_line(value, nesting)
    if used + len(flat) + 1 <= WIDTH or not isinstance(value, Mapping | list | tuple) or not value:
        return flat
    pad = INDENT * (level + 1)
    if isinstance(value, Mapping):
        brackets = "{}"
        entries = [
            f"{pad}{_key(k)}: {_laid_out(v, level + 1, len(pad) + len(_key(k)) + 2, nesting + 1)},"
            for k, v in value.items()
        ]
    else:
        brackets = "[]" if isinstance(value, list) else "()"
        entries = [f"{pad}{_laid_out(v, level + 1, len(pad), nesting + 1)}," for v in value]
    return Code("\n".join([brackets[0], *entries, INDENT * level + brackets[1]]))


def _key(key: object) -> Code:
    if type(key) is not str:
        raise EmitError(f"the key {quoted(key)} is no string")
    return literal(key)


def sorted_data(value: Any, nesting: int = 0) -> Any:
    """JSON data with the keys of every object in sorted order, so that the same data gives the same text."""
    if nesting > MAX_NESTING:
        raise EmitError(f"data nests deeper than {MAX_NESTING}")
    if isinstance(value, Mapping):
        for key in value:
            _key(key)
        return {k: sorted_data(value[k], nesting + 1) for k in sorted(value)}
    if isinstance(value, list | tuple):
        return [sorted_data(v, nesting + 1) for v in value]
    return value


def wrapped(text: str, first: str, rest: str) -> list[Code]:
    """`text` (filtered already) broken into lines of at most 110 characters."""
    return [
        Code(line)
        for line in textwrap.wrap(
            text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
    ]


def block(lines: Iterable[str]) -> Code:
    return Code("\n".join(lines))
