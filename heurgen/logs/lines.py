"""Lines of cells -> codes of columns, where a separator tells the cells apart without parsing.

Logs are written scenario by scenario: the first cells of a line are those of the line before. They are cut off as one
text and coded once, which halves the texts that have to be made and looked up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
# Characters that are held as lines and cells at one time: few enough to stay in the cache.
_PART = 2**18
# Lines that decide how many cells count as the first ones, and how many lines must share them.
_SAMPLE, _SHARED = 512, 8


def interner() -> defaultdict[str, int]:
    """Text -> code, numbered from 0 in order of appearance; without a step through Python."""
    return defaultdict(count().__next__)


def coded(texts: Sequence[str], codes: Mapping[str, int]) -> Ints:
    """The code of each text."""
    return np.fromiter(map(codes.__getitem__, texts), dtype=np.int64, count=len(texts))


def parts(text: str, start: int = 0, end: int | None = None) -> Iterator[list[str]]:
    """The lines of text[start:end], part by part, without their line ends (\n)."""
    end = len(text) if end is None else end
    while start < end:
        found = text.find("\n", min(start + _PART, end), end)
        stop = end if found < 0 else found + 1
        yield text[start:stop].removesuffix("\n").split("\n")
        start = stop


class LineReader:
    """Columns, each with the codes of its cells as they stand between separators."""

    def __init__(self, separator: str, columns: Sequence[Mapping[str, int]]) -> None:
        self._separator, self._columns = separator, columns
        self._first = 0

    def read(self, lines: Sequence[str]) -> list[Ints] | None:
        """The codes of each column, from the left; None where a line has more or fewer cells."""
        self._first = self._first or self._repeated(lines[:_SAMPLE])
        rest = len(self._columns) - self._first
        rows = [line.rsplit(self._separator, rest) for line in lines]
        if set(map(len, rows)) != {rest + 1}:
            return None
        heads, *tails = zip(*rows, strict=True)
        place = {head: i for i, head in enumerate(dict.fromkeys(heads))}
        first = [head.split(self._separator) for head in place]
        if set(map(len, first)) != {self._first}:
            return None
        own = coded(heads, place)
        left = zip(zip(*first, strict=True), self._columns, strict=False)
        right = zip(tails, self._columns[self._first :], strict=True)
        return [coded(c, codes)[own] for c, codes in left] + [coded(c, codes) for c, codes in right]

    def _repeated(self, lines: Sequence[str]) -> int:
        """How many cells at the beginning of a line _SHARED lines have in common on average; at least 1."""
        rows = [line.split(self._separator) for line in lines]
        return next(
            n
            for n in range(len(self._columns), 0, -1)
            if n == 1 or len({tuple(row[:n]) for row in rows}) * _SHARED <= len(rows)
        )
