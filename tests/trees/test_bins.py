"""Histograms and the promise of tests."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees.bins import best_tests, binned, cut_of, histograms, promise
from heurgen.trees.problem import UNIT, problem
from tests.trees.synthetic import surface, table


def test_a_sibling_is_what_is_left_of_the_parent_to_the_bit() -> None:
    p = problem(surface(60, 5, 3, holes=0.3, categories=4))
    bins, every = binned(p), np.arange(60)
    (whole,) = histograms(bins, [every])
    below, above = histograms(bins, [every[:17], every[17:]])
    assert (whole - below == above).all()
    assert (whole[: bins.start[1]].sum(axis=0) == bins.weight.sum(axis=0)).all()


def test_the_most_promising_test_is_the_clear_one() -> None:
    x = np.arange(1.0, 21.0)[:, None]
    times = np.where(x <= 7, [[1.0, 2.0]], [[2.0, 1.0]])
    p = problem(table([TableColumn("x", "int")], x, times))
    bins = binned(p)
    found = best_tests(bins, histograms(bins, [np.arange(20)]))[0]
    assert found is not None
    cut, left = cut_of(p, bins, np.arange(20), found)
    assert (cut.low, cut.high, int(left.sum())) == (7.0, 8.0, 7)


def test_a_test_that_only_brings_another_config_nearer_has_promise() -> None:
    """Config 0 wins on both sides, but config 1 catches up on the left: the cost alone sees no difference."""
    left, total = np.array([[1.0, 1.5, 4.0, 4.0]]) * [UNIT, UNIT, 1, 1], np.array([2.0, 12.0, 8.0, 8.0])
    total = total * [UNIT, UNIT, 1, 1]
    blind = np.array([[1.0, 6.0, 4.0, 4.0]]) * [UNIT, UNIT, 1, 1]
    assert promise(left, total, 0.01)[0] < promise(blind, total, 0.01)[0]


def test_a_side_without_a_scenario_divides_nothing() -> None:
    total = np.array([2.0 * UNIT, UNIT, 3.0, 2.0])
    assert np.isinf(promise(np.array([[UNIT, 0.0, 1.0, 0.0]]), total, 0.01)).all()


def test_ten_thousand_categories_stay_within_memory() -> None:
    rng = np.random.RandomState(0)
    kind = np.arange(10_000)
    times = np.exp(rng.rand(10_000, 20))
    columns = [TableColumn("kind", "category", values=tuple(f"k{i:05d}" for i in range(10_000)))]
    p = problem(table(columns, kind[:, None].astype(float), times))
    tracemalloc.start()
    bins = binned(p)
    found = best_tests(bins, histograms(bins, [np.arange(10_000)]))[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert 0 < found.left.sum() < 10_000
    assert peak < 200 * 2**20


def test_every_scenario_on_one_side_divides_nothing() -> None:
    total = np.array([2.0 * UNIT, UNIT, 3.0, 2.0])
    assert np.isinf(promise(total[None], total, 0.01)).all()


def test_a_side_of_little_weight_counts_its_weight() -> None:
    """Where no config costs anything, a side promises its floor x its weight, below 1 too."""
    left, total = np.array([[0.0, 0.0, 0.25, 1.0]]), np.array([0.0, 0.0, 0.75, 2.0])
    assert promise(left, total, 0.01)[0] == pytest.approx(UNIT * 0.01 * (0.25 + 0.5) / np.sqrt(2))


def test_the_second_column_of_categories_is_divided_by_its_own() -> None:
    columns = [
        TableColumn(n, "category", values=tuple(f"{n}{i}" for i in range(k))) for n, k in (("a", 2), ("b", 3))
    ]
    X = np.array([[a, b] for a in range(2) for b in range(3) for _ in range(4)], dtype=float)
    p = problem(table(columns, X, np.where(X[:, 1:] == 1, [[1.0, 2.0]], [[2.0, 1.0]])))
    bins = binned(p)
    found = best_tests(bins, histograms(bins, [np.arange(24)]))[0]
    assert found is not None
    assert p.columns[found.column].name == "b"
    assert found.left.tolist() in ([False, True, False], [True, False, True])
