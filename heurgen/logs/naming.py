"""Columns that generated code cannot name ("Seq length (tokens)", "problem.M", "größe") -> names that it can."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

from heurgen.logs.importers.common import safe_name, usable_name

_UNIT = re.compile(r"\s*[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*$")
# A key of a nested object, as JSON lines are flattened: "problem.M", "block_sizes.0".
_NESTED = re.compile(r"[^\W\d]\w*(\.\w+)+")


def parents(column: str) -> list[str]:
    """The objects that a flattened key lies in, in lower case."""
    return column.lower().split(".")[:-1] if _NESTED.fullmatch(column) else []


def unit_in(column: str) -> str:
    """The unit that stands in brackets at the end of a column's name, or ""."""
    found = _UNIT.search(column)
    return found[1] if found else ""


def plain(column: str) -> str:
    """What a column's name says: without a unit in brackets, of a nested key the last part ("M", "block_sizes_0")."""
    text = _UNIT.sub("", column) or column
    if parents(text):
        *_, before, leaf = text.split(".")
        text = f"{before}_{leaf}" if leaf.isdigit() else leaf
    ascii_ = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "_", ascii_).strip("_") or text


def spellings(column: str) -> list[str]:
    """A column's name in lower case, as it stands, with its objects ("gpu.name": gpu_name), and alone."""
    return [
        column.lower(),
        re.sub(r"\W+", "_", _UNIT.sub("", column).lower()).strip("_"),
        plain(column).lower(),
    ]


def names_for(columns: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A name for each column: its own where it is usable; else one that no other column (`taken`) has.

    Of a nested key it is the last part ("problem.M": M), more of it where another has that but for its case.
    """
    used, known = set(taken), {name.lower() for name in taken}
    found: dict[str, str] = {}
    for column in columns:
        found[column] = column
        if not usable_name(column):
            parts = column.split(".")
            longer = (plain(column), "_".join(parts[-2:]), "_".join(parts))
            found[column] = safe_name(next((n for n in longer if n.lower() not in known), longer[-1]), used)
            used.add(found[column])
            known.add(found[column].lower())
    return found
