"""The provably optimal strategy, and how far the default is from it."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.base.errors import UsageError
from heurgen.logs.costs import CostTable
from heurgen.trees import FitOptions, fit, optimal
from heurgen.trees.candidates import candidates
from heurgen.trees.joint import Settings, fit_joint, pool
from heurgen.trees.node import real_cost
from heurgen.trees.problem import UNIT, Problem, problem, with_configs
from heurgen.trees.regime import Regime, regime
from tests.trees.synthetic import surface

needs_pystreed = pytest.mark.skipif(
    importlib.util.find_spec("pystreed") is None, reason="pystreed (extra heurgen[optimal]) is not installed"
)


def test_without_the_solver_it_says_what_to_install(
    small: CostTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimal, "available", lambda: False)
    with pytest.raises(UsageError) as caught:
        fit(small, FitOptions(strategy="optimal"))
    assert str(caught.value) == (
        "strategy optimal needs the package pystreed (pip install 'heurgen[optimal]')"
    )


def settings(configs: int, depth: int = 3, price: float = 0.03) -> Settings:
    return Settings(configs, price, depth, 24)


def regime_of(p: Problem) -> Regime:
    return regime(p, FitOptions())


def stump(p: Problem, left: np.ndarray, rows: np.ndarray) -> float:
    """The least cost of the rows with one test or none, by trying every test."""
    cost = p.cost[rows]
    tried = [cost[side].sum(axis=0).min() + cost[~side].sum(axis=0).min() for side in left[rows].T > 0]
    return float(min([cost.sum(axis=0).min(), *tried]))


@needs_pystreed
@pytest.mark.parametrize("seed", [0, 1])
def test_a_depth_two_optimum_is_that_of_the_exhaustive_search(seed: int) -> None:
    p = problem(surface(40, 6, 2, seed=seed))
    fitted, told = optimal.fit_optimal(p, regime_of(p), settings(4, depth=2))
    small = with_configs(p, pool(p, regime_of(p)).best(settings(4)))
    _, B = candidates(small, np.arange(40))
    roots = [stump(small, B, np.flatnonzero(b > 0)) + stump(small, B, np.flatnonzero(b == 0)) for b in B.T]
    assert told == {"candidate_cuts": B.shape[1], "proved_optimal": True}
    assert real_cost(fitted.p, fitted.tree) == min(roots)


@needs_pystreed
@pytest.mark.parametrize("depth", [2, 3])
def test_the_default_is_near_the_optimum_of_its_depth(h200: CostTable, depth: int) -> None:
    """Mean log-slowdown on the log itself with light points between, beside the optimum over the same configs."""
    p = problem(h200)
    best, told = optimal.fit_optimal(p, regime_of(p), settings(8, depth))
    ours = fit_joint(p, regime_of(p), replace(settings(8, depth, price=0.0), lightly=True))
    assert told["proved_optimal"]
    gap = (real_cost(ours.p, ours.tree) - real_cost(best.p, best.tree)) / UNIT / 70
    assert gap < 0.03


@needs_pystreed
def test_limits_hold_and_the_same_bytes_come_back(small: CostTable) -> None:
    options = FitOptions(strategy="optimal", max_depth=3, max_leaves=4)
    selector = fit(small, options)
    # a leaf without scenarios answers unknown categories
    assert sum(leaf.n_scenarios > 0 for leaf in ir.leaves(selector.tree)) <= 4
    assert ir.depth(selector.tree) <= 3
    assert fit(small, options) == selector


@needs_pystreed
def test_one_scenario_or_config_needs_no_solver(small: CostTable) -> None:
    p = problem(small, np.array([0]))
    assert isinstance(optimal.fit_optimal(p, regime_of(p), settings(8))[0].tree.config, int)  # type: ignore[union-attr]
