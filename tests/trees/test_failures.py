"""Cells that failed by chance among those that failed by a limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import CostTable
from heurgen.trees import FitOptions, failures, fit
from heurgen.trees.problem import problem
from heurgen.trees.regime import regime
from tests.trees.modelled import attention, matmul
from tests.trees.synthetic import Floats, solvers, surface, table, winners_only


def failing(full: CostTable, cells: Floats) -> CostTable:
    """The log in which some cells failed; what a scenario has alone stays."""
    times = np.where(cells & np.isfinite(full.times), np.inf, full.times)
    alone = ~np.isfinite(times).any(axis=1)
    times[alone] = full.times[alone]
    return table(full.columns, full.X, times, full.configs, full.parameters)


def by_chance(full: CostTable, share: float, seed: int = 0) -> CostTable:
    return failing(full, np.random.RandomState(seed).rand(*full.times.shape) < share)


def limits_failed(log: CostTable) -> CostTable:
    times = np.where(np.isnan(log.times), np.inf, log.times)
    return table(log.columns, log.X, times, log.configs, log.parameters)


@pytest.mark.parametrize("share", [0.01, 0.05])
@pytest.mark.parametrize("full", [attention(400), surface(300, 20, 3)], ids=["attention", "surface"])
def test_failures_by_chance_are_told_from_limits(full: CostTable, share: float) -> None:
    limit = np.isnan(full.times)
    log = by_chance(limits_failed(full), share)
    true = (np.isinf(log.times) & ~limit).sum()
    assert 0.8 * true < failures.failed_by_chance(problem(log)) < 1.02 * true


@pytest.mark.parametrize(
    "log",
    [
        limits_failed(attention(400)),
        limits_failed(matmul(800)),
        surface(600, 40, 4, holes=0.5),
        solvers(400, 20, 5),
        by_chance(surface(90, 20, 3), 0.02),
        by_chance(surface(300, 20, 3), 0.003),
        winners_only(surface(300, 20, 3)),
    ],
    ids=["shared memory", "tiles", "limits of a size", "none", "few scenarios", "few failures", "winners"],
)
def test_failures_of_a_kind_are_not(log: CostTable) -> None:
    assert not failures.failed_by_chance(problem(log))


@pytest.mark.parametrize("configs", [range(0, 21, 2), [3], [3, 9]], ids=["half", "one", "two"])
def test_a_stride_that_no_test_of_a_size_finds(configs: list[int]) -> None:
    full = matmul(800)
    stride = full.X[:, [1]] % 16 != 0
    assert not failures.failed_by_chance(problem(failing(full, stride & np.isin(np.arange(21), configs))))


def test_scenarios_in_which_many_configs_failed() -> None:
    """A device that was lost for a while: half of the configs of one scenario of twenty."""
    rng = np.random.RandomState(0)
    lost = (rng.rand(400, 1) < 0.05) & (rng.rand(400, 24) < 0.5)
    assert not failures.failed_by_chance(problem(failing(surface(400, 24, 3), lost)))


def test_a_config_that_fails_more_than_others() -> None:
    rng = np.random.RandomState(0)
    often = rng.rand(400, 24) < np.where(np.arange(24) < 2, 0.08, 0.002)
    assert not failures.failed_by_chance(problem(failing(surface(400, 24, 3), often)))


def test_features_beyond_float32_tell_it_as_well() -> None:
    """scikit-learn takes none."""
    p = problem(by_chance(limits_failed(attention(400)), 0.03))
    large = replace(p, X=p.X * 2.0**900)
    assert failures.failed_by_chance(large) == failures.failed_by_chance(p) > 0


def test_of_many_scenarios_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    p = problem(by_chance(surface(600, 20, 3), 0.03))
    all_cells = failures.failed_by_chance(p)
    monkeypatch.setattr(failures, "TOGETHER", 300)
    assert failures.failed_by_chance(p) == pytest.approx(all_cells / 2, rel=0.2)


def test_the_regime_knows_them_and_training_says_so() -> None:
    log = by_chance(limits_failed(attention(400)), 0.03)
    r = regime(problem(log), FitOptions())
    assert r.flaky
    assert not r.crosses
    assert fit(log, FitOptions(strategy="joint")).choice["flaky_cells"] == r.flaky
    assert "flaky_cells" not in fit(surface(120, 8, 3), FitOptions(strategy="joint")).choice
