"""The greedy tree of an adaptive sweep."""

from __future__ import annotations

import numpy as np

from heurgen.trees import quick
from heurgen.trees.quick import choose


def test_each_side_of_a_clear_cut_takes_its_cheapest_column() -> None:
    X = np.arange(8.0)[:, None]
    cost = np.where(X < 4, [[0.0, 1.0]], [[1.0, 0.0]])
    assert choose(X, cost, np.array([[-5.0], [3.0], [4.0], [99.0]])).tolist() == [0, 0, 1, 1]


def test_a_leaf_holds_two_scenarios_so_one_odd_scenario_makes_none() -> None:
    X = np.arange(4.0)[:, None]
    cost = np.array([[0.0, 9.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert choose(X, cost, np.array([[3.0]])).tolist() == [0]


def test_one_scenario_is_enough() -> None:
    assert choose(np.array([[1.0]]), np.array([[2.0, 1.0]]), np.array([[7.0]])).tolist() == [1]


def test_costs_of_regions_sum_to_those_of_all_scenarios_in_each_tree() -> None:
    random = np.random.RandomState(0)
    X, cost = random.uniform(size=(40, 3)), random.uniform(size=(40, 5))
    found = quick.region_costs(X, cost)
    assert len(found) > quick.DRAWS
    np.testing.assert_allclose(found.sum(axis=0), cost.sum(axis=0))
    np.testing.assert_array_equal(found, quick.region_costs(X, cost))
    np.testing.assert_allclose(
        quick.region_costs(X[:1], cost[:1]), cost[:1].repeat(quick.DRAWS, axis=0) / quick.DRAWS
    )
