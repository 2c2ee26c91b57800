"""Pruning: prices, noise, the weakest link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import TableColumn
from heurgen.trees.bins import binned
from heurgen.trees.grow import grow
from heurgen.trees.node import Branch, Cut, Tip, n_leaves
from heurgen.trees.problem import UNIT, Problem, problem
from heurgen.trees.refine import (
    _best_cut,
    beyond_noise,
    move,
    prune,
    relabel,
    total,
    weighed,
    with_max_leaves,
)
from tests.trees.synthetic import surface, table


def steps(*leads: float, noise: float = 0.001) -> Problem:
    """Blocks of ten scenarios; in block i config i leads all others by leads[i] (log)."""
    x = np.arange(10.0 * len(leads))[:, None]
    times = np.ones((len(x), len(leads)))
    for i, lead in enumerate(leads):
        times[10 * i : 10 * i + 10, i] = np.exp(-lead)
    return problem(table([TableColumn("x", "int")], x, times, noise=noise))


def test_a_branch_stays_while_it_pays_its_price_to_the_unit() -> None:
    p = steps(0.2, 0.4)
    tree = weighed(p, grow(p, binned(p), 8, 40))
    saved = float(p.cost.sum(axis=0).min())
    assert n_leaves(prune(p, tree, saved - 1, 40)) == 2
    assert n_leaves(prune(p, tree, saved, 40)) == 1


def test_the_weakest_link_goes_first() -> None:
    p = steps(0.5, 0.1, 0.6)
    tree = weighed(p, grow(p, binned(p), 8, 40))
    assert n_leaves(prune(p, tree, 0.0, 40)) == 3
    two = prune(p, tree, 0.0, 2)
    assert n_leaves(two) == 2
    # Block 1, of least lead, is what is given up.
    assert total(p, np.arange(30), two) == 10 * round(0.1 * UNIT)
    assert n_leaves(with_max_leaves(p, prune(p, tree, 0.0, 40), 1)) == 1


def test_a_lead_at_the_noise_speaks_for_nothing_and_points_between_are_not_heard() -> None:
    real, noise, lead = np.array([True, True]), np.array([UNIT / 2, 0.0]), np.array([UNIT, 0.0])
    assert beyond_noise(lead, real, noise)
    assert not beyond_noise(lead, real, 2 * noise)
    assert not beyond_noise(lead, np.array([False, True]), noise)
    assert not beyond_noise(-lead, real, noise)


def test_moving_tests_never_costs_more() -> None:
    for seed in range(4):
        p = problem(surface(80, 6, 3, seed=seed, categories=3))
        bins, rows = binned(p), np.arange(80)
        tree = prune(p, weighed(p, grow(p, bins, 4, 8)), 0.0, 6)
        assert total(p, rows, move(p, bins, rows, tree)) <= total(p, rows, tree)


def test_of_equally_weak_links_the_shallowest_then_the_leftmost_goes() -> None:
    p = steps(0.4, 0.5, 0.5, 0.4)
    left, right = Branch(Cut(0, 9.0, 10.0), Tip(0), Tip(1)), Branch(Cut(0, 29.0, 30.0), Tip(2), Tip(3))
    root = Cut(0, 19.0, 20.0)
    # Each branch saves 4 over one leaf, the root 13 over three.
    assert with_max_leaves(p, Branch(root, left, right), 3) == Branch(root, Tip(1), right)
    assert with_max_leaves(p, Branch(root, left, right), 2) == Branch(root, Tip(1), Tip(2))
    chain = Branch(Cut(0, 9.0, 10.0), Tip(0), Branch(Cut(0, 19.0, 20.0), Tip(1), Tip(2)))
    # Both links save as much per leaf: the root goes, not the branch below it.
    assert with_max_leaves(steps(0.4, 0.4, 0.4), chain, 2) == Tip(0)


def test_leaves_pay_for_their_doubt_before_they_pay_their_price() -> None:
    p = steps(0.2, 0.4)
    saved = float(p.cost.sum(axis=0).min())
    tree = grow(p, binned(p), 8, 40)
    for doubts, price, n in ((0.0, saved - 1, 2), (1.0, saved - 1, 1), (1.0, saved - 2, 2)):
        own = replace(p, leaf_price=np.full(2, doubts))
        assert n_leaves(prune(own, weighed(own, tree), price, 40)) == n
        assert total(own, np.arange(20), tree) == 2 * doubts


def test_sides_that_ship_one_config_are_one_leaf_at_no_price() -> None:
    p = steps(0.4, 0.0)
    tree = Branch(Cut(0, 4.0, 5.0), Tip(0), Tip(0))
    assert prune(p, weighed(p, tree), 0.0, 40) == Tip(0)


def test_a_leaf_without_scenarios_gives_way_to_its_sibling() -> None:
    p = steps(0.4, 0.4)
    rows = np.arange(20)
    tree = Branch(Cut(0, 9.0, 10.0), Tip(1), Branch(Cut(0, 99.0, 100.0), Tip(0), Tip(1)))
    assert relabel(p, rows, tree) == Branch(Cut(0, 9.0, 10.0), Tip(0), Tip(1))
    assert relabel(p, rows, Branch(Cut(0, -1.0, 0.0), Tip(1), Tip(0))) == relabel(p, rows, Tip(5))
    # A point between scenarios keeps no leaf.
    points = replace(p, real=rows >= 10)
    assert relabel(points, rows, tree) == relabel(points, rows, Tip(0))
    # A gap is drawn between the rows that are there.
    assert relabel(p, rows[::5], tree) == Branch(Cut(0, 5.0, 10.0), Tip(0), Tip(1))


def test_a_test_moves_to_where_its_two_subtrees_cost_least() -> None:
    p = steps(0.4, 0.4)
    wrong = Branch(Cut(0, 3.0, 4.0), Tip(0), Tip(1))
    assert move(p, binned(p), np.arange(20), wrong) == Branch(Cut(0, 9.0, 10.0), Tip(0), Tip(1))
    right = Branch(Cut(0, 9.0, 10.0), Tip(0), Tip(1))
    assert move(p, binned(p), np.arange(20), right) is not None
    assert move(p, binned(p), np.arange(20), right) == right


def test_a_membership_moves_to_the_categories_that_gain() -> None:
    kinds = np.repeat(np.arange(4.0), 5)[:, None]
    lead = np.where(kinds % 2 == np.arange(2), 1.0, 2.0)
    column = TableColumn("kind", "category", values=("a", "b", "c", "d"))
    p = problem(table([column], kinds, lead))
    moved = move(p, binned(p), np.arange(20), Branch(Cut(0, left=(0,)), Tip(0), Tip(1)))
    assert moved == Branch(Cut(0, left=(0, 2)), Tip(0), Tip(1))


def test_a_test_that_sends_all_to_one_side_is_none() -> None:
    """Every row would cost less on the left; a test must leave one on the right, the one that gains least there."""
    p = steps(0.1)
    gain = np.array([-5.0, -4.0, -9.0, -2.0, -3.0, -6.0, -7.0, -8.0, -3.0, -1.0])
    found = _best_cut(p, binned(p), np.arange(10), gain, np.arange(10) < 5)
    assert found == Cut(0, 8.0, 9.0)
    assert _best_cut(p, binned(p), np.arange(10), gain, np.arange(10) < 9) is None
