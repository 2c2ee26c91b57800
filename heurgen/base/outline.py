"""What results show of themselves in a notebook: their short fields, since a `repr` of all is 100 KB of a log."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from typing import Any

# Characters of a field that is shown; of one that holds several things, such as scenarios, and their number.
_LONGEST, _LONGEST_OF_SEVERAL, _MOST = 250, 80, 12


def outline(result: Any) -> str:
    """A `__repr__` for dataclasses: fields that are long by their counts (`scenarios=<70>`, `X=<70 x 9>`)."""
    shown = (f"{f.name}={_field(getattr(result, f.name))}" for f in fields(result) if f.repr)
    return f"{type(result).__name__}({', '.join(shown)})"


def _field(value: Any) -> str:
    if (shape := getattr(value, "shape", None)) is not None:
        return f"<{' x '.join(map(str, shape))}>"
    several = isinstance(value, Sized) and not isinstance(value, str)
    text = repr(value) if not several or len(value) <= _MOST else None
    if text is not None and len(text) <= (_LONGEST_OF_SEVERAL if several else _LONGEST):
        return text
    return f"<{len(value)}>" if several else f"<{type(value).__name__}>"
