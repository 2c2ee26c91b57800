"""Costs as whole numbers, coverage first, groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import TableColumn
from heurgen.trees.bins import binned
from heurgen.trees.points import between
from heurgen.trees.problem import (
    TAIL_FROM,
    UNIT,
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


def test_parts_of_the_same_rows_share_what_follows_from_their_features() -> None:
    p = problem(surface(40, 5, 2))
    left = p.X[:, 0] <= np.median(p.X[:, 0])
    below, again = subset(with_configs(p, np.array([1])), left), subset(p, left)
    assert below.shared is again.shared
    assert subset(p, ~left).shared is not below.shared
    assert (binned(below).code == binned(problem(surface(40, 5, 2), p.index[left])).code).all()
