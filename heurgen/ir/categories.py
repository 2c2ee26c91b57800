"""Categories of a feature: their other spellings, and what becomes of one that nobody knows."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from heurgen.base.errors import ModelError, quoted

Unknown: TypeAlias = Literal["fallback", "error"]
UNKNOWN: tuple[Unknown, ...] = ("fallback", "error")
Aliases: TypeAlias = tuple[tuple[str, str], ...]
# No category, device, unit or remark has so many characters; they stand in modules, in pages and on terminals.
MAX_TEXT = 1000


def known(value: Any, name: str, values: tuple[str, ...], unknown: Unknown, aliases: Aliases) -> Any:
    """The category that `value` is or stands for; an unknown one as it is, where the feature does not refuse it.

    Raises:
        ModelError: the category is unknown, and the feature refuses such.
    """
    value = dict(aliases).get(value, value)
    if unknown == "error" and value not in values:
        raise ModelError(f"unknown {name} {quoted(value)}, known: {', '.join(map(quoted, values))}")
    return value


def check_categories(
    name: str, is_category: bool, values: tuple[str, ...], unknown: str, aliases: Aliases
) -> None:
    """Raise ModelError where aliases or `unknown` of a feature make no sense."""
    if unknown not in UNKNOWN:
        raise ModelError(f"unknown of {name} is {quoted(unknown)}, expected one of {', '.join(UNKNOWN)}")
    if not is_category:
        if aliases or unknown != "fallback":
            raise ModelError(f"aliases and unknown do not apply to {name}, which is no category")
        return
    others = tuple(alias for alias, _ in aliases)
    check_distinct(others, f"aliases of {name}")
    stand_for = tuple(dict.fromkeys(value for _, value in aliases))
    check_distinct(stand_for, f"what the aliases of {name} stand for")
    if both := sorted({*others} & {*stand_for, *values}):
        raise ModelError(f"{quoted(both[0])} is an alias and a category of {name}")


def check_distinct(values: tuple[str, ...], what: str) -> None:
    if any(type(v) is not str for v in values) or len(set(values)) != len(values):
        raise ModelError(f"{what} must be distinct strings")
    check_lengths(values, what)


def check_lengths(texts: tuple[str, ...], what: str) -> None:
    if any(len(text) > MAX_TEXT for text in texts):
        raise ModelError(f"{what} must have at most {MAX_TEXT} characters")
