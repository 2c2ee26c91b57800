"""Numbers and texts of the page in few characters, as its script (`core.js`) reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# Ints beyond this go as text: JSON numbers are doubles to a browser.
SAFE_INT = 2**53


def to_script(data: object) -> str:
    """JSON that can stand inside a <script> element: no "<" ends it early."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def coded(values: Sequence[Any]) -> list[Any] | dict[str, Any]:
    """Scalars as a plain list, or as distinct values `v` and letters `c` that count into them: what is shorter.

    Up to 64 distinct values take a letter each, up to 4,096 two: [7, 7, 9] is {"v": [7, 9], "c": "AAB"}.
    """
    distinct = list(dict.fromkeys(values))
    plain = list(values)
    if len(distinct) > len(LETTERS) ** 2:
        return plain
    place = {value: i for i, value in enumerate(distinct)}
    wide = len(distinct) > len(LETTERS)
    text = "".join((LETTERS[place[v] // 64] if wide else "") + LETTERS[place[v] % 64] for v in values)
    found = {"v": distinct, "c": text}
    return found if len(to_script(found)) < len(to_script(plain)) else plain


def packed(levels: Sequence[int]) -> str:
    """Numbers from 0 to 7 as letters, two a letter; a row of odd length ends with a 7."""
    row = [*levels, *[7] * (len(levels) % 2)]
    return "".join(LETTERS[8 * a + b] for a, b in zip(row[::2], row[1::2], strict=True))
