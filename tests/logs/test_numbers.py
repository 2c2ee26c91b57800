"""Decimal commas."""

from __future__ import annotations

import pytest

from heurgen.logs.numbers import numbers


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["1", "2.5"], [1.0, 2.5]),
        (["0,125", "3", "OOM"], [0.125, 3.0, None]),
        (["1,5e-3", "-2,25"], [1.5e-3, -2.25]),
        (["1,234", "12,500"], [None, None]),  # thousands as well
        (["1,234", "0,5"], [1.234, 0.5]),
        (["0,5", "1.5"], [None, 1.5]),
        (["1,2,3", "a,b", "1, 5"], [None, None, None]),
        ([], []),
    ],
)
def test_a_comma_is_decimal_where_it_can_be_nothing_else(texts: list[str], found: list[float | None]) -> None:
    assert numbers(texts) == found
