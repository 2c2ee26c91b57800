"""Columns that generated code cannot name ("Seq length (tokens)", "problem.M", "größe") -> names that it can."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

from heurgen.logs.importers.common import safe_name, usable_name

_UNIT = re.compile(r"\s*[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*$")
# A key of a nested object, as JSON lines are flattened: "problem.M", "block_sizes.0".
_NESTED = re.compile(r"[^\W\d]\w*(\.\w+)+")
# The same in a frame of Optuna's trials: "params_BLOCK", "user_attrs_M", "system_attrs_tpe:relative_params:0".
_OF_TRIALS = re.compile(r"(params|user_attrs|system_attrs)_([\w:]+)")
# And of Ray Tune's ("config/BLOCK"), and in a CSV of pytest-benchmark's ("param:BLOCK").
_OF_CONFIG = re.compile(r"config(/\w+)+|param:\w+")


def _keys(column: str) -> list[str]:
    """A flattened key in its parts; a name that is none is one part."""
    if found := _OF_TRIALS.fullmatch(column):
        return [found[1], found[2]]
    if _OF_CONFIG.fullmatch(column):
        return re.split("[/:]", column)
    return column.split(".") if _NESTED.fullmatch(column) else [column]


def parents(column: str) -> list[str]:
    """The objects that a flattened key lies in, in lower case."""
    return [part.lower() for part in _keys(column)[:-1]]


def unit_in(column: str) -> str:
    """The unit that stands in brackets at the end of a column's name, or ""."""
    found = _UNIT.search(column)
    return found[1] if found else ""


def plain(column: str) -> str:
    """What a column's name says: without a unit in brackets, of a nested key the last part ("M", "block_sizes_0")."""
    text = _UNIT.sub("", column) or column
    if parents(text):
        *_, before, leaf = _keys(text)
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

    Of a nested key it is the last part ("problem.M": M, "params_M": M), more of it where another has that but for its
    case.
    """
    used, known = set(taken), {name.lower() for name in taken}
    found: dict[str, str] = {}
    for column in columns:
        found[column] = column
        if not usable_name(column) or parents(column):
            parts = _keys(column) if parents(column) else column.split(".")
            longer = (plain(column), "_".join(parts[-2:]), "_".join(parts))
            free = [name for name in longer if name.lower() not in known]
            if free or not usable_name(column):
                found[column] = safe_name((free or longer[-1:])[0], used)
            used.add(found[column])
            known.add(found[column].lower())
    return found
