from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.ir import leaves
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, chance, fit
from heurgen.trees.build import choices
from heurgen.trees.node import Branch, Cut, Tip
from heurgen.trees.problem import UNIT, problem
from heurgen.trees.regime import regime
from tests.trees.modelled import attention, matmul
from tests.trees.synthetic import Floats, solvers, surface, table


def with_gaps(full: CostTable, gaps: Floats) -> CostTable:
    """The log without the times of some cells; a scenario keeps one at least."""
    gaps[gaps.all(axis=1), 0] = False
    return table(full.columns, full.X, np.where(gaps, np.nan, full.times))


def by_chance(full: CostTable, share: float) -> CostTable:
    return with_gaps(full, np.random.RandomState(0).rand(*full.times.shape) < share)


@pytest.mark.parametrize("share", [0.08, 0.3, 0.7])
def test_gaps_of_a_random_search_are_by_chance(share: float) -> None:
    assert chance.gaps_by_chance(problem(by_chance(surface(200, 30, 3), share)))


@pytest.mark.parametrize(
    "log",
    [matmul(300), attention(300), surface(300, 20, 4, holes=0.5), solvers(400, 20, 5)],
    ids=["tiles that fit", "shared memory", "limits of a size", "listed solvers"],
)
def test_gaps_by_kind_are_not(log: CostTable) -> None:
    assert np.isnan(log.times).mean() > 0.1
    assert not chance.gaps_by_chance(problem(log))


def test_a_kind_that_neighbours_do_not_share() -> None:
    """Vectorised configs need a multiple of 8: beside one lie others that are none."""
    full = surface(400, 12, 2)
    odd = full.X[:, :1] % 8 != 0
    assert not chance.gaps_by_chance(problem(with_gaps(full, odd & (np.arange(12) < 4))))
    # One config alone, too.
    assert not chance.gaps_by_chance(problem(with_gaps(full, odd & (np.arange(12) == 4))))


def test_few_scenarios_with_gaps_tell_nothing() -> None:
    full = surface(200, 20, 3)
    largest = (full.X[:, 0] >= np.sort(full.X[:, 0])[-3])[:, None]
    assert not chance.gaps_by_chance(problem(with_gaps(full, largest & (np.arange(20) < 10))))


def test_failures_are_no_gaps() -> None:
    full = surface(200, 20, 3)
    failed = np.random.RandomState(0).rand(*full.times.shape) < 0.1
    log = table(full.columns, full.X, np.where(failed, np.inf, full.times))
    p = problem(log)
    assert not regime(p, FitOptions()).by_chance
    some = problem(with_gaps(log, np.random.RandomState(1).rand(*failed.shape) < 0.2))
    filled = chance.estimated(some)
    assert (filled.covered == (some.covered | some.untried)).all()
    assert (filled.cost[~filled.covered] == some.cost[~filled.covered]).all()


def test_estimates_are_near_what_was_not_measured() -> None:
    full = surface(400, 20, 2, noise=0.0)
    sampled = by_chance(full, 0.6)
    p = problem(sampled)
    gaps = np.isnan(sampled.times[p.index])[:, p.configs]
    found = chance.estimated(p).cost / UNIT
    true = full.log_slowdown[p.index][:, p.configs]
    # Rows are known up to what their best config takes, which may be one that was not measured.
    apart = (found - true) - (found - true).mean(axis=1, keepdims=True)
    spread = true - true.mean(axis=1, keepdims=True)
    assert np.sqrt((apart[gaps] ** 2).mean()) < 0.35 * np.sqrt((spread[gaps] ** 2).mean())


def test_a_random_search_is_learnt_as_well_as_a_whole_log_nearly() -> None:
    full = surface(400, 24, 3)
    sampled = by_chance(full, 0.6)
    train, test = np.arange(400) % 4 != 0, np.arange(400) % 4 == 0
    part = table(sampled.columns, sampled.X[train], sampled.times[train])
    options = FitOptions(strategy="joint", max_configs=16)

    def lost(log: CostTable) -> float:
        return float(full.log_slowdown[test, choices(fit(log, options), full, np.flatnonzero(test))].mean())

    whole = lost(table(full.columns, full.X[train], full.times[train]))
    # Without the rule it is 0.2 and more: the configs that were drawn most often ship.
    assert lost(part) < whole + 0.04


def test_what_ships_was_measured_in_its_region() -> None:
    sampled = by_chance(surface(150, 40, 3), 0.8)
    selector = fit(sampled, FitOptions(max_configs=4))
    chosen = choices(selector, sampled, np.arange(150))
    assert selector.choice["estimated_cells"] == pytest.approx(np.isnan(sampled.times).mean(), abs=1e-6)
    assert all(leaf.n_ok for leaf in leaves(selector.tree))
    # What was not measured counts as invalid in the figures, as everywhere.
    assert 0.4 < selector.choice["held_out"]["invalid_share"] < 0.95
    assert np.isfinite(sampled.times[np.arange(150), chosen]).mean() > 0.2


def test_an_estimate_alone_ships_nothing() -> None:
    times = np.array([[1.0, 2.0, np.nan], [1.0, 2.0, np.nan], [3.0, 2.0, 1.0], [3.0, np.nan, 1.0]])
    log = table([TableColumn("x", "int")], np.arange(4.0)[:, None], times)
    p = problem(log)
    place = {column: i for i, column in enumerate(p.configs.tolist())}
    filled = chance.estimated(p)
    tree = Branch(Cut(0, 1.0, 2.0), Tip(place[2]), Tip(place[1]))
    assert chance.tried(filled, tree) == Branch(Cut(0, 1.0, 2.0), Tip(place[0]), Tip(place[1]))
    full = replace(filled, untried=np.zeros_like(filled.untried))
    assert chance.tried(full, tree) is tree
