"""Columns of any size brought to one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from heurgen.trees.spread import Floats, nearest, scaled_down, unit_spread, within_float32

COLUMNS = np.column_stack([[1, 64, 4096, 65536], [-0.5, 0.0, 1 / 3, 1e9], [7.0, 7.0, 7.0, 7.0]])


def directly(Z: Floats) -> Floats:
    spread = Z.std(axis=0)
    return np.asarray((Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def test_scaling_changes_no_digit() -> None:
    assert unit_spread(COLUMNS).tobytes() == directly(COLUMNS).tobytes()


@pytest.mark.parametrize("size", [2.0**100, 2.0**990, 2.0**-600, 2.0**-1000])
def test_large_and_tiny_columns_are_spread_as_others(size: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unit_spread(COLUMNS * size).tobytes() == unit_spread(COLUMNS).tobytes()


def test_no_column_is_an_empty_table() -> None:
    assert unit_spread(np.empty((4, 0))).shape == (4, 0)


def test_what_is_within_the_bits_stays() -> None:
    x = np.array([2.0**100, -(2.0**127), 1.7e308])
    assert scaled_down(x[:1], 101).tolist() == [2.0**100]
    assert scaled_down(x[:2], 101).tolist() == [2.0**73, -(2.0**100)]
    assert np.abs(within_float32(x)).max() < 2.0**100


@pytest.mark.parametrize("count", [0, 1, 5, 40, 119])
def test_of_equally_near_rows_the_first_are_the_nearest(count: int) -> None:
    """Whatever a partition does on this processor."""
    Z = np.random.RandomState(0).randint(0, 4, (120, 3)).astype(np.float64)
    distance = ((Z[:, None] - Z) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    assert np.array_equal(nearest(distance, count), np.argsort(distance, axis=1, kind="stable")[:, :count])
