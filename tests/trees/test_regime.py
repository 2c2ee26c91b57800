"""One regime for folds and fit: logs around every size at which a rule changes train without a crash."""

from __future__ import annotations

import pytest

from heurgen.trees import constants, fit
from heurgen.trees.options import FitOptions
from heurgen.trees.problem import problem
from heurgen.trees.regime import USUAL, regime
from tests.trees.modelled import matmul
from tests.trees.synthetic import surface, winners_only


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


def test_points_are_added_between_up_to_a_number_of_scenarios() -> None:
    limit = constants.LEARNER.interpolated
    some, many = (regime(problem(surface(n, 2, 1)), FitOptions()) for n in (limit, limit + 1))
    assert (some.between, many.between) == (True, False)


def test_light_points_are_compared_where_scenarios_are_few_but_enough_to_say() -> None:
    c = constants.LEARNER
    sizes = (c.trusted - 1, c.trusted, c.small, c.small + 1)
    found = [regime(problem(surface(n, 2, 1)), FitOptions()).compares_points for n in sizes]
    assert found == [False, True, True, False]


def test_more_scenarios_allow_more_leaves_and_depth() -> None:
    small, large = (regime(problem(surface(n, 2, 1)), FitOptions()) for n in (60, 1200))
    assert (small.max_depth, large.max_depth) == (8, 10)
    assert small.max_leaves == large.max_leaves == constants.LEARNER.leaves
    assert small.tolerance > large.tolerance


def test_the_usual_number_of_configs_is_no_more_than_there_are() -> None:
    many, few = (regime(problem(surface(40, n, 2)), FitOptions()) for n in (20, 3))
    assert (many.usual, few.usual) == (USUAL, 3)
    assert regime(problem(surface(40, 20, 2)), FitOptions(max_configs=5)).usual is None


def test_tails_are_compared_where_many_scenarios_have_costs() -> None:
    n = constants.LEARNER.trusted
    assert regime(problem(surface(n, 2, 1)), FitOptions()).compares_tails
    assert not regime(problem(surface(n - 1, 2, 1)), FitOptions()).compares_tails
    assert not regime(problem(winners_only(surface(n, 2, 1))), FitOptions()).compares_tails
