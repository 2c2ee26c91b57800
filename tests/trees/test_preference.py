"""What cross-validation prefers among candidates, and what it reports of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees import constants, preference
from heurgen.trees.joint import Settings
from heurgen.trees.options import FitOptions
from heurgen.trees.preference import Candidate, or_usual, pick, smoothed
from heurgen.trees.problem import problem
from heurgen.trees.record import figures, shortlist_record
from heurgen.trees.regime import regime
from tests.trees.synthetic import surface, table


def candidate(mean: float, leaves: float, spread: float = 0.0, n: int = 40) -> Candidate:
    cost = mean + spread * np.where(np.arange(n) % 2, 1.0, -1.0)
    return Candidate("joint", Settings(8, 0.03, 8, 24), mean, leaves, 8.0, cost)


def test_a_smaller_tree_wins_only_within_the_tolerance() -> None:
    best = candidate(0.05, 10)
    for tolerance in (0.002, 0.01):
        assert pick([best, candidate(0.0499 + tolerance, 5)], tolerance, 1).leaves == 5
        assert pick([best, candidate(0.0501 + tolerance, 5)], tolerance, 1).leaves == 10


def test_a_smaller_tree_must_be_surely_within_it() -> None:
    best, lucky = candidate(0.05, 10), candidate(0.051, 5, spread=0.02)
    assert pick([best, lucky], 0.002, 1) is best
    many = [candidate(0.05, 10, n=4000), candidate(0.051, 5, spread=0.02, n=4000)]
    assert pick(many, 0.002, 1).leaves == 5
    assert pick(many, 0.002, 100).leaves == 10  # a hundred repeats of forty scenarios are forty scenarios


def test_fewer_configs_win_before_fewer_leaves_and_a_better_mean() -> None:
    few = replace(candidate(0.051, 20), settings=Settings(2, 0.03, 8, 24))
    assert pick([candidate(0.05, 10), few], 0.002, 1) is few
    # Of equal sizes the better mean; of equal means the fewer leaves, whatever the tolerance.
    assert pick([candidate(0.051, 10), candidate(0.05, 10)], 0.002, 1).mean == 0.05
    assert pick([candidate(0.05, 12), candidate(0.05, 10)], 0.0, 1).leaves == 10


def test_an_invalid_choice_counts_as_twenty_times_in_the_error_not_as_growth_prices_it() -> None:
    best, one_invalid = candidate(0.05, 10), candidate(0.05, 5)
    one_invalid.cost[0] = 10.0
    capped = candidate(0.05, 5)
    capped.cost[0] = 3.0
    assert preference.error(one_invalid.cost, best.cost, 1) == preference.error(capped.cost, best.cost, 1)
    assert preference.error(one_invalid.cost, best.cost, 4) == pytest.approx(
        2 * preference.error(one_invalid.cost, best.cost, 1)
    )
    assert preference.error(best.cost, best.cost, 1) == 0.0


def test_reported_costs_had_no_say_in_the_sizes() -> None:
    """Thirty candidates that differ by luck alone: the luckiest promises 0.41 where each costs 0.5."""
    r = regime(problem(surface(120, 12, 3)), FitOptions())
    rng, rows = np.random.RandomState(0), np.arange(60)
    promised, told = [], []
    for _ in range(20):
        sizes = [
            Candidate("joint", Settings(k, 0.03, 8, 24), 0.0, 8.0, 8.0, rng.rand(60), rows, np.full(60, k))
            for k in range(1, 31)
        ]
        sizes = [replace(c, mean=float(c.cost.mean())) for c in sizes]
        chosen = preference.preferred(sizes, r)
        found = preference.unseen(chosen, chosen, sizes, np.split(rows, 5), r)
        # Every row is what the candidate costs there that is said to have answered it.
        assert (found.cost == [sizes[k - 1].cost[i] for i, k in enumerate(found.chosen.tolist())]).all()
        promised.append(chosen.mean)
        told.append(found.cost.mean())
    assert np.mean(promised) < 0.46
    assert abs(np.mean(told) - 0.5) < 0.02
    one = replace(candidate(0.05, 10), strategy="per-parameter")
    assert preference.unseen(one, one, [one], [rows], r) is one


def test_each_fold_is_answered_by_what_the_others_prefer() -> None:
    r = replace(regime(problem(surface(120, 12, 3)), FitOptions()), few=False, usual=None)
    rows, early = np.arange(60), np.arange(60) < 30
    costs = (np.where(early, 0.0, 0.9), np.where(early, 0.9, 0.0), np.full(60, 0.5))
    sizes = [
        Candidate("joint", Settings(k, 0.03, 8, 24), float(c.mean()), 8.0, 8.0, c, rows, np.full(60, k))
        for k, c in enumerate(costs, 1)
    ]
    found = preference.unseen(sizes[2], sizes[2], sizes, [rows[early], rows[~early]], r)
    assert found.chosen.tolist() == [2] * 30 + [1] * 30
    assert found.cost.tolist() == [0.9] * 60


def test_few_scenarios_ship_the_usual_size_unless_another_is_surely_better() -> None:
    r = replace(regime(problem(surface(120, 12, 3)), FitOptions()), usual=6)
    noise = np.random.RandomState(0).rand(60)

    def sizes(lead: float) -> list[Candidate]:
        found = []
        for k in (1, 2, 3, 6):
            cost = noise if k == 6 else noise[::-1] - lead
            settings = Settings(k, constants.LEARNER.price, 8, 24)
            found.append(
                Candidate(
                    "joint", settings, float(cost.mean()), 8.0, 8.0, cost, np.arange(60), np.full(60, k)
                )
            )
        return found

    assert preference.preferred(sizes(0.01), r).settings.n_configs == 6
    assert preference.preferred(sizes(0.01), replace(r, usual=None)).settings.n_configs < 6
    assert preference.preferred(sizes(0.9), r).settings.n_configs < 6


def test_estimates_of_held_out_costs_give_way_to_measurements() -> None:
    log = table(
        [TableColumn("x", "int")],
        np.arange(3.0)[:, None],
        np.array([[1.0, 2.0], [np.nan, 1.0], [1.0, np.inf]]),
    )
    rows, chosen = np.array([2, 0, 0, 1]), np.array([1, 1, 0, 0])
    found = preference.measured(replace(candidate(0.05, 10), cost=np.ones(4), rows=rows, chosen=chosen), log)
    assert found.cost == pytest.approx(
        [constants.LEARNER.uncovered, np.log(2), 0.0, constants.LEARNER.uncovered], abs=1e-6
    )


def test_a_choice_that_ran_is_never_invalid_however_slow() -> None:
    found = preference.held_out_cost(np.array([0.0, 8.5, 40.0, np.inf, np.nan]))
    assert found.tolist() == [0.0, 8.5, 9.0, 10.0, 10.0]
    assert figures(found)["invalid_share"] == 0.4
    assert shortlist_record(1, np.full(4, 12.0), np.full(4, 12.0), True)["invalid_share"] == 0.0
    x = TableColumn("x", "int")
    log = table([x], np.arange(2.0)[:, None], np.array([[1.0, 1e9], [1e9, 1.0]]))
    slow = preference.measured(
        replace(candidate(0.0, 1.0), rows=np.array([0, 1]), chosen=np.array([1, 0])), log
    )
    assert figures(slow.cost)["invalid_share"] == 0.0


def test_few_scenarios_average_a_number_of_configs_with_its_neighbours() -> None:
    def candidate(count: int, *cost: float) -> Candidate:
        settings = Settings(count, 0.03, 8, 40)
        return Candidate("joint", settings, mean=sum(cost) / len(cost), cost=np.array(cost))

    found = smoothed(
        [candidate(2, 0.4, 0.2), candidate(4, 0.0, 0.0), candidate(8, 0.2, 0.1), candidate(16, 0.0, 0.1)]
    )
    means = [round(c.mean, 6) for c in found]
    # The lucky 4 stands between poor ones; at both ends a number stands in for its missing neighbour.
    assert means == [0.2, 0.15, round(0.4 / 6, 6), round(0.5 / 6, 6)]
    assert found[3].cost.tolist() == pytest.approx([0.2 / 3, 0.1])


def test_few_scenarios_keep_the_usual_configs_unless_others_are_surely_better() -> None:
    def candidate(count: int, lead: float, spread: float) -> Candidate:
        cost = 0.1 - lead + spread * np.where(np.arange(64) % 2, 1.0, -1.0)
        return Candidate("joint", Settings(count, 0.03, 8, 40), float(cost.mean()), cost=cost)

    usual = candidate(8, 0.0, 0.0)
    # The standard error of the difference is spread / sqrt(64); of two repeats sqrt(2) times that.
    for lead, n_repeats, other in ((0.03, 1, True), (0.02, 1, False), (0.03, 2, False), (-0.03, 1, False)):
        better = candidate(12, lead, 0.1)
        scored = [candidate(4, 0.1, 0.0), usual, better]
        assert or_usual(better, scored, 8, n_repeats) is (better if other else usual)
    assert or_usual(usual, [usual], 8, 1) is usual
