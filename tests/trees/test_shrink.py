"""Costs of few scenarios, drawn towards what the scenarios around say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, auto, constants, fit
from heurgen.trees.build import choices
from heurgen.trees.problem import UNIT, problem
from heurgen.trees.regime import regime, ruled
from heurgen.trees.shrink import GRAIN, shrunk
from tests.trees.synthetic import surface, table, winners_only


def line(late: float = 1.0) -> CostTable:
    """Two configs that cross on a line of 40 sizes; in one scenario of the first it took `late` times."""
    x = np.linspace(-2, 2, 40)
    times = np.column_stack([np.exp(0.3 * x), np.exp(-0.3 * x)])
    times[8, 0] *= late
    return table([TableColumn("x", "float")], np.exp(x)[:, None], times)


def test_what_follows_from_the_sizes_stays() -> None:
    p = problem(line())
    assert np.abs(shrunk(p).cost - p.cost).max() < 0.01 * UNIT


def test_a_cell_that_stands_alone_is_drawn_towards_its_neighbours_by_its_share() -> None:
    """The first config leads by 0.7 around there, and lost by 1.6."""
    p = problem(line(late=10.0))
    found = shrunk(p).cost[8] - p.cost[8]
    lead = (found[0] - found[1]) / UNIT
    assert -constants.LEARNER.shrunk * 2.4 < lead < -constants.LEARNER.shrunk * 1.5


def test_the_best_of_a_scenario_costs_nothing_and_no_processor_rounds_otherwise() -> None:
    found = shrunk(problem(surface(50, noise=0.05))).cost
    assert (found.min(axis=1) == 0).all()
    assert (found % GRAIN == 0).all()


def test_a_category_and_equal_scenarios_are_no_trouble() -> None:
    t = surface(30, 5, 1, categories=3)
    twice = table(t.columns, np.vstack([t.X, t.X]), np.vstack([t.times, 1.1 * t.times]), t.configs)
    assert np.isfinite(shrunk(problem(twice)).cost).all()
    kinds = [TableColumn("kind", "category", values=("a", "b"))]
    alone = table(kinds, (np.arange(20.0) % 2)[:, None], 1 + np.random.RandomState(0).rand(20, 3))
    assert np.isfinite(shrunk(problem(alone)).cost).all()


def test_a_cell_that_failed_stays_and_the_others_are_drawn_as_without_it() -> None:
    log = surface(60, 8, 2, noise=0.1)
    whole, failed = problem(log), problem(with_cell(log, np.inf))
    was, found = shrunk(whole).cost - whole.cost, shrunk(failed).cost - failed.cost
    gone = ~failed.covered
    assert gone.sum() == 1
    assert (found[gone] == 0).all()
    assert (shrunk(failed).cost.min(axis=1) == 0).all()
    others = ~gone & (was != 0)
    assert np.corrcoef(was[others], found[others])[0, 1] > 0.9


def with_cell(t: CostTable, time: float) -> CostTable:
    times = t.times.copy()
    times[3, 2] = time
    return table(t.columns, t.X, times, t.configs)


def mostly_failed() -> CostTable:
    """One config runs for all, each of the others from a size of its own on."""
    t = surface(60, 40, 2)
    limit = np.quantile(t.X[:, 0], np.append(0.0, np.linspace(0.3, 0.98, 39)))
    return table(t.columns, t.X, np.where(t.X[:, :1] >= limit, t.times, np.inf), t.configs)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (surface(99, 4, 2), True),
        (surface(100, 4, 2), False),  # many enough
        (surface(5, 4, 2), False),  # too few to hold out
        (with_cell(surface(60, 4, 2), np.inf), True),  # tried, and failed
        (with_cell(surface(60, 4, 2), np.nan), False),  # a gap, which may be of a kind
        (mostly_failed(), False),
        (winners_only(surface(60, 4, 2)), False),
    ],
)
def test_few_scenarios_in_which_every_config_was_tried(log: CostTable, expected: bool) -> None:
    p = problem(log)
    r = regime(p, FitOptions())
    assert r.shrinks is expected
    assert np.array_equal(ruled(log, p.index, r).cost, shrunk(p).cost if expected else p.cost)


def test_held_out_figures_are_of_what_was_measured() -> None:
    log = surface(40, 6, 2, noise=0.2)
    p = problem(log)
    r = regime(p, FitOptions())
    found = auto.choose(log, FitOptions(), ruled(log, p.index, r), r).chosen
    measured = np.rint(log.log_slowdown[found.rows, found.chosen] * UNIT) / UNIT
    assert np.array_equal(found.cost, measured)


@pytest.mark.slow
def test_unseen_launches_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their times without noise, of surfaces that were measured with 5 %."""
    usual, lost = constants.LEARNER, []
    for share in (0.0, usual.shrunk):
        monkeypatch.setattr(constants, "LEARNER", replace(usual, shrunk=share))
        costs = []
        for seed in range(8):
            noisy, true = (surface(660, 12, 3, noise=noise, seed=seed) for noise in (0.05, 0.0))
            assert np.array_equal(noisy.X, true.X)
            part = table(noisy.columns, noisy.X[::11], noisy.times[::11], noisy.configs)
            rest = np.setdiff1d(np.arange(660), np.arange(0, 660, 11))
            chosen = choices(fit(part, FitOptions(strategy="joint")), true, rest)
            costs.append(true.log_slowdown[rest, chosen].mean())
        lost.append(float(np.mean(costs)))
    assert lost[1] < lost[0] - 0.002
