"""Columns as codes into their distinct values."""

from __future__ import annotations

import numpy as np

from heurgen.logs.coded import Coded, combine, first_rows, sorted_codes


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_equal_values_of_other_texts_are_one_and_codes_follow_the_sorted_order() -> None:
    found = sorted_codes([0.5, 2.0, 0.5, -1.0], ints(0, 1, 2, 3, 1))
    assert found.values == (-1.0, 0.5, 2.0)
    assert found.codes.tolist() == [1, 2, 1, 0, 2]


def test_an_absent_cell_is_none_and_comes_first() -> None:
    found = sorted_codes([7, 3], ints(0, -1, 1))
    assert (found.values, found.codes.tolist()) == ((None, 3, 7), [2, 0, 1])
    same = sorted_codes([None, 3], ints(0, -1, 1))
    assert (same.values, same.codes.tolist()) == ((None, 3), [0, 0, 1])


def test_rows_equal_in_all_columns_share_a_number_in_lexicographic_order() -> None:
    a, b = Coded(("x", "y"), ints(1, 0, 1, 0)), Coded((1, 2, 3), ints(0, 2, 0, 1))
    assert combine([a, b]).tolist() == [2, 1, 2, 0]
    assert combine([b, a]).tolist() == [0, 2, 0, 1]
    assert combine([a]).tolist() == [1, 0, 1, 0]


def test_columns_of_many_values_do_not_overflow() -> None:
    wide = [Coded(tuple(range(2**13)), ints(0, 2**13 - 1, 0, 5)) for _ in range(9)]
    assert combine(wide).tolist() == [0, 2, 0, 1]


def test_the_first_row_of_each_number() -> None:
    assert first_rows(ints(1, 0, 1, 2, 0)).tolist() == [1, 0, 3]
