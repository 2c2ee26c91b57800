"""Texts -> numbers, where a table may have been written with decimal commas."""

from __future__ import annotations

import re
from collections.abc import Sequence

from heurgen.spec.kernel_spec import NUMBER, number
from heurgen.spec.log_columns import MS, UNIT_WORDS

_COMMA = re.compile(r"-?[0-9]+,[0-9]+(?:[eE][-+]?[0-9]+)?")
# What may be a number with a comma between thousands as well.
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
# A number with commas between thousands, which is no other one.
THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?")
_WITH_UNIT = re.compile(rf"({NUMBER.pattern})\s*([A-Za-zµμ]+)")


def ms_in(text: str) -> float | None:
    """A time with its unit ("12.3 us") in ms; None where the text is none."""
    found = _WITH_UNIT.fullmatch(text)
    unit = UNIT_WORDS.get(found[2].lower()) if found else None
    value = number(found[1]) if found else None
    return None if unit is None or value is None else value * MS[unit]


def numbers(texts: Sequence[str]) -> list[float | None]:
    """Each text as a finite float, None where it is none.

    A comma is read as a decimal one where no text has a point and one at least cannot be of thousands ("0,125").
    """
    found = [number(text) for text in texts]
    if None not in found:
        return found
    commas = [text for text in texts if _COMMA.fullmatch(text)]
    if not commas or all(map(_THOUSANDS.fullmatch, commas)) or any(_point(t) for t in texts):
        return found
    return [
        number(t.replace(",", ".")) if _COMMA.fullmatch(t) else n for t, n in zip(texts, found, strict=True)
    ]


def _point(text: str) -> bool:
    return "." in text and number(text) is not None
