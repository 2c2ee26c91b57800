"""The joint strategy: sets of configs, the cut that settles coverage, and the best single config as a floor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import TableColumn
from heurgen.trees.joint import (
    Fitted,
    Pool,
    Settings,
    finish,
    fit_joint,
    grown,
    leaf_of,
    or_single,
    pool,
    prepared,
    price_units,
)
from heurgen.trees.node import Branch, Cut, Tip, n_leaves, real_cost
from heurgen.trees.options import FitOptions
from heurgen.trees.problem import UNIT, priced, problem, with_configs
from heurgen.trees.regime import regime
from tests.trees.modelled import matmul
from tests.trees.synthetic import covered_apart, surface, table

SETTINGS = Settings(n_configs=4, price=0.01, depth=4, max_leaves=8)


def test_a_price_grows_with_the_square_root_of_the_scenarios() -> None:
    assert price_units(0.5, 64) == 0.5 * UNIT
    assert price_units(0.5, 256) == UNIT
    assert price_units(0.0, 9) == 0.0


def test_regions_choose_the_configs_or_single_rows_where_they_are_a_second_opinion() -> None:
    regions = np.array([[0.0, 5.0, 9.0], [9.0, 5.0, 0.0]])
    # Columns of `rows` are all configs of the problem, those of `regions` the pool's.
    rows = np.array([[1.0, 0.0, 1.0, 9.0], [1.0, 0.0, 1.0, 9.0], [0.0, 9.0, 9.0, 9.0]])
    two = Pool(np.array([1, 2, 3]), regions, rows)
    assert two.best(replace(SETTINGS, n_configs=2)).tolist() == [1, 3]
    assert two.best(replace(SETTINGS, n_configs=2, by_rows=True)).tolist() == [0, 1]
    assert Pool(two.configs, regions, None).best(replace(SETTINGS, n_configs=2, by_rows=True)).tolist() == [
        1,
        3,
    ]


def test_the_pool_sums_the_costs_of_the_problems_configs_region_by_region() -> None:
    p = problem(surface(40, 5, 2))
    found = pool(p, regime(p, FitOptions()))
    assert found.configs.tolist() == sorted(found.configs.tolist())
    assert found.costs.sum(axis=0).tolist() == p.cost[:, found.configs].sum(axis=0).tolist()
    assert found.rows is p.cost


def test_leaves_are_numbered_from_left_to_right() -> None:
    p = problem(table([TableColumn("x", "int")], np.arange(4.0)[:, None], np.ones((4, 2))))
    tree = Branch(Cut(0, 1.0, 2.0), Tip(0), Branch(Cut(0, 2.0, 3.0), Tip(1), Tip(0)))
    assert leaf_of(p, tree).tolist() == [0, 0, 1, 2]


def test_the_settling_cut_comes_first_and_counts_as_a_test() -> None:
    p = problem(covered_apart([0.0, 1.0, 2.0, 7.0, 8.0, 9.0]))
    small = with_configs(p, np.arange(3))
    settled = grown(small, SETTINGS)
    assert settled.settled is not None
    assert settled.settled[0] == Cut(0, 2.0, 7.0)
    tree = finish(small, settled, SETTINGS, [])
    assert isinstance(tree, Branch)
    assert tree.cut == Cut(0, 2.0, 7.0)
    assert n_leaves(finish(small, settled, replace(SETTINGS, max_leaves=1), [])) == 1
    # Two levels are too few to spend one on coverage.
    assert grown(small, replace(SETTINGS, depth=2)).settled is None


def test_the_best_single_config_ships_where_the_chosen_ones_lose_to_it() -> None:
    p = problem(surface(30, 5, 2, seed=3))
    best = int(p.cost.sum(axis=0).argmin())
    worst = with_configs(p, np.array([int(p.cost.sum(axis=0).argmax())]))
    found = or_single(p, Fitted(worst, Tip(0)))
    assert (found.p.configs.tolist(), found.tree) == ([int(p.configs[best])], Tip(0))
    equal = Fitted(with_configs(p, np.array([best])), Tip(0))
    assert or_single(p, equal).p is equal.p


def test_more_depth_never_costs_more_where_every_depth_is_fitted() -> None:
    p = problem(surface(40, 6, 3, holes=0.3, seed=5))
    r = regime(p, FitOptions())
    assert r.every_depth
    costs = [real_cost(f.p, f.tree) for f in (fit_joint(p, r, replace(SETTINGS, depth=d)) for d in (1, 2, 4))]
    assert costs == sorted(costs, reverse=True)


def test_points_between_are_added_where_the_regime_says_so_and_fewer_lightly() -> None:
    p = problem(surface(40, 5, 2))
    r = regime(p, FitOptions())
    chosen = np.array([0, 1])
    usual, light = prepared(p, chosen, r, SETTINGS), prepared(p, chosen, r, replace(SETTINGS, lightly=True))
    assert len(p.X) < len(light.X) < len(usual.X)
    assert 0 < light.weight[~light.real].sum() < usual.weight[~usual.real].sum()
    assert prepared(p, chosen, replace(r, between=False), SETTINGS).real.all()


def test_settings_give_a_sparse_table_full_doubt_or_the_rules_of_others() -> None:
    p = problem(matmul(80))
    r, chosen = regime(p, FitOptions()), np.arange(8)
    usual, doubtful, dense = (
        prepared(p, chosen, r, replace(SETTINGS, **also))
        for also in ({}, {"doubtful": True}, {"dense": True})
    )
    assert [(q.sparse, q.careful, q.doubtful) for q in (usual, doubtful, dense)] == [
        (True, True, False),
        (True, True, True),
        (False, False, False),
    ]
    prices = [priced(q).leaf_price.sum() for q in (usual, doubtful, dense)]
    assert prices[0] < prices[1] == prices[2]
    assert usual.real.all()
    assert doubtful.real.all()
    assert not dense.real.all()
