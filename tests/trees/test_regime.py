"""One regime for folds and fit: logs around every size at which a rule changes train without a crash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees import constants, fit
from heurgen.trees.configs import USUAL
from heurgen.trees.options import MAX_CONFIGS, FitOptions
from heurgen.trees.problem import problem
from heurgen.trees.regime import regime, ruled
from tests.trees.modelled import matmul
from tests.trees.synthetic import surface, table, winners_only


@pytest.mark.slow
@pytest.mark.parametrize("n", [499, 501, 620])
def test_logs_whose_folds_lie_on_both_sides_of_a_rule_train(n: int) -> None:
    """610 to 640 scenarios crashed: their folds had other candidates than the whole."""
    found = fit(surface(n, 3, 2), FitOptions(max_configs=2))
    assert found.choice["held_out"]["n_scenarios"] % n == 0


def test_care_near_limits_is_for_sparse_logs_of_any_size_but_small_ones_of_a_named_strategy() -> None:
    small, large = problem(matmul(150)), problem(matmul(600))
    joint = FitOptions(strategy="joint")
    assert regime(small, FitOptions()).careful
    assert [regime(p, joint).careful for p in (small, large)] == [False, True]
    assert not regime(problem(surface(150, 3, 2)), FitOptions()).careful


def test_limits_are_the_callers_where_given() -> None:
    p = problem(surface(40, 5, 2))
    r = regime(p, FitOptions(max_depth=3, max_leaves=5, max_configs=2))
    assert (r.max_depth, r.max_leaves, r.counts) == (3, 5, (1, 2))


@pytest.mark.parametrize(("configs", "shipped"), [(70, None), (70, 50), (50, 70)])
def test_points_are_added_between_up_to_a_number_of_scenarios_times_configs(
    configs: int, shipped: int | None
) -> None:
    limit = constants.LEARNER.interpolated // min(configs, shipped or configs, constants.LEARNER.pool)
    options = FitOptions(max_configs=shipped and min(shipped, MAX_CONFIGS))
    some, many = (regime(problem(surface(n, configs, 1)), options) for n in (limit, limit + 1))
    assert (some.between, many.between) == (True, False)


def test_no_points_are_added_where_neighbours_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few configs may ship."""
    monkeypatch.setattr(constants, "LEARNER", replace(constants.LEARNER, abundant=600))
    some, many = (regime(problem(surface(n, 5, 1)), FitOptions(max_configs=2)) for n in (600, 601))
    assert (some.between, many.between) == (True, False)


def test_light_points_are_compared_where_scenarios_are_few_but_enough_to_say() -> None:
    c = constants.LEARNER
    sizes = (c.trusted - 1, c.trusted, c.small, c.small + 1)
    found = [regime(problem(surface(n, 2, 2)), FitOptions()).compares_points for n in sizes]
    assert found == [False, True, True, False]


def test_rules_are_compared_where_a_sparse_table_has_few_scenarios() -> None:
    few, many = problem(matmul(150)), problem(matmul(600))
    assert [regime(p, FitOptions()).compares_rules for p in (few, many)] == [True, False]
    assert not regime(problem(surface(150, 3, 2)), FitOptions()).compares_rules


def test_more_scenarios_allow_more_leaves_and_depth() -> None:
    small, large = (regime(problem(surface(n, 2, 1)), FitOptions()) for n in (60, 1200))
    assert (small.max_depth, large.max_depth) == (8, 10)
    assert small.max_leaves == large.max_leaves == constants.LEARNER.leaves
    assert small.tolerance > large.tolerance


def test_the_usual_number_of_configs_is_no_more_than_there_are() -> None:
    many, few = (regime(problem(surface(40, n, 2)), FitOptions()) for n in (20, 3))
    assert (many.usual, few.usual) == (USUAL, 3)
    assert regime(problem(surface(40, 20, 2)), FitOptions(max_configs=5)).usual is None


def test_the_usual_number_of_configs_is_no_less_than_the_largest_category_has_values() -> None:
    for values, usual in ((3, USUAL), (9, 12), (30, 20)):
        p = problem(surface(60, 20, 2, categories=values))
        assert regime(p, FitOptions()).usual == usual


def test_tails_are_compared_where_many_scenarios_have_costs() -> None:
    n = constants.LEARNER.trusted
    assert regime(problem(surface(n, 2, 2)), FitOptions()).compares_tails
    assert not regime(problem(surface(n - 1, 2, 2)), FitOptions()).compares_tails
    assert not regime(problem(winners_only(surface(n, 2, 2))), FitOptions()).compares_tails


def test_a_small_log_compares_few_prices_and_every_number_of_configs() -> None:
    c = constants.LEARNER
    few, many = (problem(surface(n, 12, 1)) for n in (c.small, c.small + 1))
    told = [(r.few, r.prices, r.patience) for r in (regime(p, FitOptions()) for p in (few, many))]
    assert told == [
        (True, c.few_prices, len(regime(few, FitOptions()).counts)),
        (False, c.prices, c.patience),
    ]
    assert [regime(p, FitOptions(prefer="small")).prices for p in (few, many)] == [c.prices] * 2
    assert regime(many, FitOptions()).usual is None


def test_limits_are_widened_only_where_the_caller_left_them_open() -> None:
    p = problem(surface(60, 3, 1))
    options = (FitOptions(), FitOptions(prefer="small"), FitOptions(max_depth=3), FitOptions(max_leaves=5))
    assert [regime(p, o).widens for o in options] == [True, False, False, False]


def test_scenarios_are_held_out_again_while_that_takes_few_fits() -> None:
    c = constants.LEARNER
    small, large = (regime(problem(surface(n, 2, 3)), FitOptions()) for n in (40, c.scenarios_to_fit + 1))
    assert (small.n_scenarios, small.n_groups) == (40, 40)
    assert (small.repeats, large.repeats) == (min(c.max_repeats, c.scenarios_to_fit // 40), 1)


def test_gaps_by_chance_are_no_sparse_log() -> None:
    full = surface(200, 30, 3)
    gaps = np.random.RandomState(0).rand(*full.times.shape) < 0.6
    log = table(full.columns, full.X, np.where(gaps, np.nan, full.times))
    p = problem(log)
    r = regime(p, FitOptions())
    assert (r.by_chance, r.sparse) == (True, False)
    assert ruled(log, np.arange(200), r).covered.all()
    plain = replace(r, by_chance=False)
    assert (ruled(log, np.arange(200), plain).covered == p.covered).all()


def test_variants_of_few_shapes_are_no_more_than_the_shapes() -> None:
    """Twice as many scenarios of the same 60 shapes: held-out figures are of 60 groups still."""
    one = surface(60, 12)
    X = np.vstack([np.column_stack([one.X, np.full(60, kind)]) for kind in (0.0, 1.0)])
    columns = [*one.columns, TableColumn("kind", "category", values=("a", "b"))]
    two = replace(
        table(columns, X, np.vstack([one.times, 1.01 * one.times])), grouped=("x0", "x1", "x2", "x3")
    )
    found = [regime(problem(t), FitOptions()) for t in (one, two)]
    assert [r.n_groups for r in found] == [60, 60]
    for r in found:
        assert r.shrinks
        assert r.usual == USUAL
        assert not r.compares_points
        assert not r.compares_tails
