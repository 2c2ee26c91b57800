"""Costs as whole numbers, coverage first, groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees.bins import binned
from heurgen.trees.problem import (
    TAIL_FROM,
    UNIT,
    Shared,
    between,
    groups,
    problem,
    steep,
    subset,
    tailed,
    with_configs,
)
from tests.trees.synthetic import surface, table


def test_costs_are_whole_numbers_and_sums_exact() -> None:
    p = between(problem(surface(50, 6, 3, holes=0.4)), 12, 1.0)
    assert (p.cost == np.rint(p.cost)).all()
    assert p.cost.max() * len(p.cost) < 2.0**53


def test_one_uncovered_scenario_outweighs_all_slowdowns_together() -> None:
    p = problem(surface(50, 6, 3, holes=0.4))
    covered = np.where(p.covered, p.cost, 0.0)
    assert p.cost[~p.covered].min() > covered.max(axis=1).sum()
    assert p.soft.max() == 10 * UNIT


def test_a_pruned_gap_is_a_loser_and_a_failure_stays_one() -> None:
    times = np.array([[1.0, 1.2, np.nan, np.inf], [np.nan, 1.0, 2.0, 1.5]])
    t = table([TableColumn("x", "int")], np.arange(2.0)[:, None], times)
    before, after = problem(t), problem(replace(t, pruned=True))
    assert before.covered.tolist() == [[True, True, False, False], [False, True, True, True]]
    assert after.covered.tolist() == [[True, True, True, False], [True] * 4]
    assert (after.untried == before.untried).all()
    assert np.allclose(after.cost[[0, 1], [2, 0]] / UNIT, 0.4)
    assert after.cost[0, 3] > after.cost[after.covered].sum()
    assert (after.cost[before.covered] == before.cost[before.covered]).all()


def test_a_tail_counts_what_lies_beyond_a_tenth_twice() -> None:
    p = problem(table([TableColumn("x", "int")], np.array([[1.0]]), np.array([[1.0, 1.05, 2.0]])))
    before, after = p.cost[0] / UNIT, tailed(p, 1.0).cost[0] / UNIT
    assert np.allclose(after[:2], before[:2])
    assert np.isclose(after[2], 2 * before[2] - TAIL_FROM)
    assert tailed(p, 0.0) is p


def test_a_hopeless_config_counts_more_and_an_uncovered_one_more_than_all_of_them() -> None:
    times = np.array([[1.0, 19.0, 21.0, 5000.0, np.nan], [1.0, 2.0, 3.0, 4.0, 5.0]])
    p = problem(table([TableColumn("x", "int")], np.arange(2.0)[:, None], times))
    before, after = p.cost / UNIT, steep(p).cost / UNIT
    assert np.allclose(after[1], before[1])
    assert np.allclose((after - before)[0, :4], [0.0, 0.0, 10.0, 10.0])
    assert after[0, 4] > np.where(p.covered, after, 0.0).sum()


def test_a_spec_may_name_what_makes_a_group() -> None:
    t = surface(40, 3, 2, categories=3)
    all_equal = len(np.unique(groups(problem(t))))
    by_kind = replace(t, grouped=("kind",))
    found = groups(problem(by_kind))
    assert len(np.unique(found)) == len(np.unique(t.X[:, 2])) < all_equal


def test_points_between_are_found_once_for_sets_of_configs_that_are_covered_alike() -> None:
    t = surface(40, 5, 2, holes=0.4)
    p = problem(t)
    ranked = np.argsort(-p.covered.sum(axis=0), kind="stable")
    one, two, partial = (between(with_configs(p, ranked[list(i)]), 3, 0.5) for i in ((0,), (0, 0), (0, 4)))
    assert one.X is two.X
    assert one.shared is two.shared
    assert partial.X is not one.X
    for found, configs in ((one, ranked[[0]]), (partial, ranked[[0, 4]])):
        afresh = between(with_configs(problem(t), configs), 3, 0.5)
        assert (found.X == afresh.X).all()
        assert (found.cost == afresh.cost).all()


def test_parts_of_the_same_rows_share_what_follows_from_their_features() -> None:
    p = problem(surface(40, 5, 2))
    left = p.X[:, 0] <= np.median(p.X[:, 0])
    below, again = subset(with_configs(p, np.array([1])), left), subset(p, left)
    assert below.shared is again.shared
    assert subset(p, ~left).shared is not below.shared
    assert (binned(below).code == binned(problem(surface(40, 5, 2), p.index[left])).code).all()


def test_points_between_weigh_their_share_of_the_scenarios() -> None:
    """Config 1 is twice as slow everywhere, so that every point costs the same: their sum is share x the scenarios'."""
    x = np.arange(1.0, 31.0)[:, None]
    p = problem(table([TableColumn("x", "int")], x, np.tile([1.0, 2.0], (30, 1))))
    found = between(p, 3, 0.5)
    points = found.cost[~found.real]
    assert points[:, 1].sum() == pytest.approx(0.5 * p.cost[:, 1].sum(), rel=1e-4)
    assert (points[:, 0] == 0).all()


def test_fading_points_weigh_by_the_inverse_square_of_their_lines_length_and_together_as_much() -> None:
    x = np.array([0.0, 1.0, 4.0])[:, None]
    p = problem(table([TableColumn("x", "int")], x, np.tile([1.0, 2.0], (3, 1))))
    alike, fading = between(p, 2, 1.0), between(p, 2, 1.0, fading=True)
    assert (fading.X == alike.X).all()
    assert fading.weight.sum() == pytest.approx(alike.weight.sum()) == pytest.approx(6.0)
    short, whole, long = fading.weight[3:6]  # of the pairs 0-1, 0-4 and 1-4
    assert short == pytest.approx(16 * whole) == pytest.approx(9 * long)


def test_the_nearest_rows_are_others_that_differ() -> None:
    found = Shared().nearest(np.array([[0.0], [1.0], [3.0], [0.0]]))
    assert found[0].tolist() == [1, 2, -1, -1]
    assert found[2].tolist() == [1, 0, 3, -1]
