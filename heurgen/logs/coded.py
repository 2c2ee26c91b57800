"""Columns as codes into their distinct values: how a log of millions of rows stays small and quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heurgen.base.outline import outline
from heurgen.ir import Value
from heurgen.logs.cells import ABSENT, Codes


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of N cells: row i holds `values[codes[i]]`. Values are distinct and sorted, None first."""

    values: tuple[Value, ...]
    codes: Codes

    __repr__ = outline


def sorted_codes(values: list[Value], codes: Codes) -> Coded:
    """Merge texts of one value ("0.5", "0.50") and number the values in sorted order, None first."""
    if (codes == ABSENT).any():
        values = [*values, None]  # which is what the code -1 finds
    present: set[Any] = {v for v in values if v is not None}
    distinct: tuple[Value, ...] = (*((None,) if None in values else ()), *sorted(present))
    rank = {value: index for index, value in enumerate(distinct)}
    return Coded(distinct, np.array([rank[v] for v in values], dtype=np.int64)[codes])


def combine(columns: Sequence[Coded]) -> Codes:
    """A number per row, from 0, equal for rows equal in all columns, in the columns' lexicographic order."""
    key = np.zeros(len(columns[0].codes), dtype=np.int64)
    size = 1
    for column in columns:
        if size * len(column.values) >= 2**62:
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key = key * len(column.values) + column.codes
        size *= len(column.values)
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def first_rows(codes: Codes) -> Codes:
    """The first row of each number 0..max."""
    first = np.empty(int(codes.max()) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first
