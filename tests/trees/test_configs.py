"""Sets of configs: greedy, then swaps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from heurgen.trees.configs import _swap, choose, region_costs


def best_sum(cost: np.ndarray, count: int) -> float:
    return min(cost[:, list(c)].min(axis=1).sum() for c in combinations(range(cost.shape[1]), count))


def test_a_swap_mends_what_greed_took_first() -> None:
    """The best single config is the middle one; the best pair has it not."""
    cost = np.array([[0.0, 9.0, 4.0], [0.0, 9.0, 4.0], [9.0, 0.0, 4.0], [9.0, 0.0, 4.0]])
    assert choose(cost, 1).tolist() == [2]
    assert choose(cost, 2).tolist() == [0, 1]
    assert choose(cost, 2, rounds=0).tolist() == [0, 2]


@pytest.mark.parametrize("seed", range(5))
def test_small_sets_are_nearly_the_best(seed: int) -> None:
    cost = np.random.RandomState(seed).rand(30, 8)
    assert cost[:, choose(cost, 3)].min(axis=1).sum() <= 1.15 * best_sum(cost, 3)


def test_ties_go_to_the_first_column_and_what_adds_nothing_is_left_out() -> None:
    assert choose(np.zeros((4, 3)), 2).tolist() == [0]
    assert choose(np.ones((2, 2)), 5).tolist() == [0]


def test_a_swap_that_only_ties_changes_nothing() -> None:
    cost = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    twins = cost[:, [2, 0, 2]]
    assert not _swap(twins, chosen := [2, 1])
    assert chosen == [2, 1]
    assert _swap(cost, chosen := [2])
    assert chosen == [1]


def test_as_many_as_there_are_need_no_swap_and_none_is_made_without_rounds() -> None:
    cost = np.array([[0.0, 9.0, 4.0], [0.0, 9.0, 4.0], [9.0, 0.0, 4.0], [9.0, 0.0, 4.0]])
    assert choose(cost[:, :2], 2).tolist() == [0, 1]
    assert choose(cost, 3).tolist() == [0, 1, 2]


def test_region_costs_are_sums_over_rows() -> None:
    found = region_costs(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([1, 0, 1]))
    assert found.tolist() == [[3.0, 4.0], [6.0, 8.0]]
