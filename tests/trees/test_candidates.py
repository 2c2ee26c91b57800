"""Candidate cuts: gaps, thinned by quantiles, and sets of categories."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees.candidates import _all_sets, _distinct, _number_cuts, _ordered_sets, candidates
from heurgen.trees.node import Cut
from heurgen.trees.problem import Problem, problem
from tests.trees.synthetic import table


def categories(n: int, leads: int = 2) -> Problem:
    """n categories, one scenario each; config i leads in the i-th of every `leads` categories."""
    times = np.where(np.arange(n)[:, None] % leads == np.arange(leads), 1.0, 2.0)
    column = TableColumn("kind", "category", values=tuple(f"k{i:03}" for i in range(n)))
    return problem(table([column], np.arange(float(n))[:, None], times))


def test_few_values_give_every_gap_between_neighbours() -> None:
    cuts, block = _number_cuts(np.array([5.0, 1.0, 5.0, 9.0]), 3, 8)
    assert cuts == [Cut(3, 1.0, 5.0), Cut(3, 5.0, 9.0)]
    assert block.tolist() == [[False, True], [True, True], [False, True], [False, False]]


def test_as_many_gaps_as_allowed_are_all_kept() -> None:
    assert len(_number_cuts(np.arange(9.0), 0, 8)[0]) == 8


def test_many_gaps_are_thinned_by_quantiles_of_the_rows() -> None:
    cuts, block = _number_cuts(np.arange(100.0), 0, 3)
    assert [(c.low, c.high) for c in cuts] == [(24.0, 25.0), (49.0, 50.0), (74.0, 75.0)]
    assert block.sum(axis=0).tolist() == [25, 50, 75]
    # Nine in ten rows share a value: the quantiles fall together on it.
    heavy = np.concatenate([np.zeros(90), np.arange(1.0, 11.0)])
    assert [c.low for c in _number_cuts(heavy, 0, 3)[0]] == [0.0]
    # The last value ends no gap.
    assert [c.low for c in _number_cuts(np.array([0.0, 1.0, 2.0, *[3.0] * 50]), 0, 2)[0]] == [2.0]


def test_up_to_six_categories_every_division_in_two_is_tried_once() -> None:
    assert _all_sets([0, 1, 2]) == [(0,), (1,), (0, 1)]
    p = categories(6)
    cuts, block = candidates(p, np.arange(6))
    assert len(cuts) == 2**5 - 1
    assert sorted({c.left for c in cuts}) == sorted(c.left for c in cuts)
    assert all(block[:, i].tolist() == [float(v in c.left) for v in range(6)] for i, c in enumerate(cuts))


def test_more_categories_are_tried_alone_and_as_prefixes_of_orders_by_effect() -> None:
    lefts = [c.left for c in candidates(categories(8), np.arange(8))[0]]
    assert lefts[:7] == [(v,) for v in range(7)]
    # Config 0 leads in the even categories: the set that divides them from the odd is among the prefixes.
    assert (0, 2, 4, 6) in lefts or (1, 3, 5, 7) in lefts
    assert len(lefts) < 30


def test_one_category_or_value_divides_nothing() -> None:
    p = categories(8)
    cuts, block = candidates(p, np.array([3]))
    assert (cuts, block.shape) == ([], (1, 0))


def test_of_cuts_that_divide_the_rows_alike_the_first_stays() -> None:
    B = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 1, 0], [0, 1, 1, 1, 0]], dtype=bool)
    # 1 is 0 turned over; 3 and 4 divide nothing.
    assert _distinct(B) == [0, 2]


@pytest.mark.parametrize(("limit", "expected"), [(8, 8), (16, 16), (None, 99)])
def test_the_limit_is_shared_by_the_columns(limit: int | None, expected: int) -> None:
    x = np.arange(100.0)[:, None]
    p = problem(table([TableColumn("x", "int")], x, np.ones((100, 2))))
    assert len(candidates(p, np.arange(100), limit)[0]) == expected


def test_of_many_sets_of_categories_the_best_stay_within_the_limit_and_memory() -> None:
    """5,000 categories gave 5,000 prefixes a config, 2,500 long on average."""
    p = categories(5000)
    tracemalloc.start()
    cuts, block = candidates(p, np.arange(5000), 24)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(cuts) == block.shape[1] == 24
    assert peak < 30 * 2**20
    # Config 0 leads in the even categories: the division that makes every scenario fast is among them.
    even = tuple(range(0, 5000, 2))
    assert any(c.left == even or c.left == tuple(range(1, 5000, 2)) for c in cuts)


def test_orders_of_categories_are_by_the_lead_of_a_config_not_by_their_cost() -> None:
    """Config 1 leads in k001, k004 and k007 of nine, which cost most and least of all: they are one prefix."""
    slow = np.array([1.0, 900.0, 2.0, 5.0, 1.5, 40.0, 7.0, 3.0, 800.0])
    ahead = np.isin(np.arange(9), (1, 4, 7))
    cost = np.column_stack([slow + 3.0 * ahead, slow + 2.0 * ~ahead, slow + 50.0])
    sets = _ordered_sets(cost, np.arange(9), np.arange(9), 12)
    assert (1, 4, 7) in sets or (0, 2, 3, 5, 6, 8) in sets
