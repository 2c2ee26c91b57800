"""One tree per parameter, laid over each other and repaired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees.joint import Settings
from heurgen.trees.node import Branch, Cut, Tip, assign, goes_left, n_leaves
from heurgen.trees.per_parameter import (
    _labelled,
    _nearest,
    _repair_cost,
    fit_per_parameter,
    parameter_trees,
)
from heurgen.trees.problem import UNIT, problem
from tests.trees.synthetic import table

NAN = np.nan
CONFIGS = [(1, 1), (1, 2), (2, 1), (2, 2)]
COLUMNS = [TableColumn("x", "int"), TableColumn("y", "int")]
# x decides A (1 below 4), y decides B (1 below 4).
GRID = np.array([[x, y] for x in (0.0, 2.0, 4.0, 6.0) for y in (0.0, 2.0, 4.0, 6.0)])
BEST = (GRID[:, 0] >= 4) * 2 + (GRID[:, 1] >= 4)
SETTINGS = Settings(n_configs=8, price=0.0, depth=2, max_leaves=8)
ALL = np.arange(16)


def grid(missing: int | None = None) -> CostTable:
    """Each scenario's best config leads all others twofold; `missing` was measured in no scenario."""
    times = np.where(BEST[:, None] == np.arange(4), 1.0, 2.0)
    if missing is not None:
        times[:, missing] = NAN
    return table(COLUMNS, GRID, times, CONFIGS, ("A", "B"))


def test_each_parameter_has_a_tree_of_its_own_values() -> None:
    t = grid()
    trees, domains = parameter_trees(problem(t), t, SETTINGS, np.arange(4))
    assert domains == [[1, 2], [1, 2]]
    assert [tree.cut for tree in trees if isinstance(tree, Branch)] == [Cut(0, 2.0, 4.0), Cut(1, 2.0, 4.0)]


def test_a_parameter_with_one_value_has_one_leaf_and_none_comes_before_numbers() -> None:
    t = table(
        COLUMNS[:1],
        GRID[::4, :1],
        np.array([[1.0, 2.0]] * 2 + [[2.0, 1.0]] * 2),
        [(7, 4), (7, None)],
        ("A", "B"),
    )
    trees, domains = parameter_trees(problem(t), t, SETTINGS, np.arange(2))
    assert (trees[0], domains) == (Tip(0), [[7], [None, 4]])


def test_laid_over_each_other_they_give_every_scenario_its_best_config() -> None:
    t = grid()
    found, repair = fit_per_parameter(problem(t), t, SETTINGS, np.arange(4), 8)
    chosen = found.p.configs[assign(found.p, ALL, found.tree)]
    assert chosen.tolist() == BEST[found.p.index].tolist()
    assert repair == {"repaired_share": 0.0, "repair_mean_log_slowdown": None}


def test_the_depth_of_the_overlay_is_a_limit_of_both_sides() -> None:
    t = grid()
    found, _ = fit_per_parameter(problem(t), t, SETTINGS, np.arange(4), 1)
    sides = (found.tree.left, found.tree.right) if isinstance(found.tree, Branch) else (found.tree,)
    assert all(isinstance(side, Tip) for side in sides)


def test_values_that_form_no_config_take_the_nearest_that_was_measured_and_the_most_configs_hold() -> None:
    t = grid(missing=3)
    p = problem(t)
    found, _ = fit_per_parameter(p, t, SETTINGS, np.arange(4), 8)
    chosen = found.p.configs[assign(found.p, ALL, found.tree)]
    assert 3 not in chosen
    few, _ = fit_per_parameter(p, t, Settings(2, 0.0, 2, 8), np.arange(4), 8)
    assert len(set(assign(few.p, ALL, few.tree).tolist())) <= 2


def test_nearest_means_covered_then_few_changes_then_cheap() -> None:
    t = grid(missing=3)
    p = problem(t)
    among, low = np.arange(4), np.flatnonzero(~goes_left(p, ALL, Cut(0, 2.0, 4.0)))
    # (2, 2) was never measured; (1, 2) and (2, 1) differ from it in one value, and (2, 1) is the cheaper at large x.
    assert _nearest(p, t, low, (2, 2), among) == 2
    assert _nearest(p, t, ALL, (1, 1), among) == 0
    assert _nearest(p, t, ALL, (2, 2), np.array([0, 1])) == 1


def test_equal_leaves_below_a_test_are_one() -> None:
    cut = Cut(0, 2.0, 4.0)
    assert _labelled(Branch(cut, Tip(0), Tip(1)), [5, 5]) == Tip(5)
    assert _labelled(Branch(cut, Tip(0), Tip(1)), [5, 6]) == Branch(cut, Tip(5), Tip(6))
    two = Branch(cut, Branch(cut, Tip(0), Tip(1)), Branch(cut, Tip(0), Tip(1)))
    assert isinstance(_labelled(two, [5, 6]), Branch)


def test_what_repair_cost_counts_scenarios_that_both_configs_cover() -> None:
    p = problem(grid())
    cells = [(ALL[:4], (1, 1)), (ALL[4:6], (1, 2))]
    # Row 0 is best with config 0: config 1 costs ln 2 there.
    assert _repair_cost(p, cells, [0, 1], [0, 1]) == {"repaired_share": 0.0, "repair_mean_log_slowdown": None}
    told = _repair_cost(p, cells, [0, 1], [1, 1])
    extra = (p.cost[:4, 1] - p.cost[:4, 0]) / UNIT
    assert told == {"repaired_share": 0.25, "repair_mean_log_slowdown": round(float(extra.mean()), 6)}
    assert _repair_cost(p, cells, [-1, 1], [1, 1]) == {
        "repaired_share": 0.25,
        "repair_mean_log_slowdown": None,
    }


def test_a_test_that_a_test_above_it_decides_is_left_out_on_either_side() -> None:
    """Both parameters follow x: A changes at 4, B at 6, so B's test is decided on the left of A's."""
    x = np.arange(8.0)[:, None]
    best = (x[:, 0] >= 4) * 2 + (x[:, 0] >= 6)
    t = table(COLUMNS[:1], x, np.where(best[:, None] == np.arange(4), 1.0, 2.0), CONFIGS, ("A", "B"))
    for columns in (("A", "B"), ("B", "A")):
        order = [("A", "B").index(c) for c in columns]
        turned = replace(t, parameters=columns, configs=tuple(tuple(c[i] for i in order) for c in t.configs))
        p = problem(turned)
        found, repair = fit_per_parameter(p, turned, SETTINGS, np.arange(4), 8)
        assert found.p.configs[assign(found.p, np.arange(8), found.tree)].tolist() == best.tolist()
        assert n_leaves(found.tree) == 3
        assert repair["repaired_share"] == 0.0


def test_repaired_scenarios_add_up_over_cells() -> None:
    p = problem(grid())
    cells = [(ALL[:4], (1, 1)), (ALL[4:6], (1, 2)), (ALL[6:7], (2, 2))]
    assert _repair_cost(p, cells, [0, -1, 3], [1, 1, 3])["repaired_share"] == 0.375
