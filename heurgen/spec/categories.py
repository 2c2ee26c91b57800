"""`aliases` and `unknown` of a category feature in a kernel spec."""

from __future__ import annotations

from heurgen.base.errors import ModelError, quoted
from heurgen.base.text import did_you_mean
from heurgen.base.toml import Table
from heurgen.ir import UNKNOWN, Aliases, Unknown, check_categories


def read_categories(entry: Table, name: str, type_: str, values: tuple[str, ...]) -> tuple[Unknown, Aliases]:
    """What becomes of an unknown category of a feature, and the other spellings of known ones.

    Raises:
        SpecError: the feature is no category, `unknown` is no word for it, or an alias stands for no category.
    """
    unknown, aliases = _unknown(entry), _aliases(entry, values)
    try:
        check_categories(name, type_ == "category", values, unknown, aliases)
    except ModelError as error:
        raise entry.error(error.message, "aliases" if "aliases" in entry else "unknown") from error
    return unknown, aliases


def _unknown(entry: Table) -> Unknown:
    expected = " or ".join(f'"{word}"' for word in UNKNOWN)
    found = entry.text("unknown", "fallback", expected=expected)
    for word in UNKNOWN:
        if found == word:
            return word
    raise entry.wrong("unknown", expected)


def _aliases(entry: Table, values: tuple[str, ...]) -> Aliases:
    """`aliases = { "torch.float16" = "float16" }`, or a table `[features.NAME.aliases]`."""
    if "aliases" not in entry:
        return ()
    table = entry.table("aliases", hint='write { "torch.float16" = "float16" }')
    pairs = tuple((alias, table.text(alias, expected="a category")) for alias in sorted(table))
    for alias, value in pairs:
        if not alias or not value or alias != alias.strip():
            raise table.error("expected text without spaces around it on both sides", alias)
        if values and value not in values:
            hint = did_you_mean(value, values)
            raise table.error(f"{quoted(value)} is none of the feature's values", alias, hint)
    return pairs
