"""Winners alone: agreement is recorded, never a slowdown."""

from __future__ import annotations

import numpy as np

from heurgen.ir import Leaf, Selector
from heurgen.trees import FitOptions
from heurgen.trees.build import choices
from heurgen.trees.labels import without_slowdowns
from heurgen.trees.learn import fit_rows
from tests.trees.modelled import mixed_matmul
from tests.trees.synthetic import surface, winners_only

CHOICE = {
    "strategy": "joint",
    "mean_log_slowdown": 0.25,
    "held_out": {"geomean_slowdown": 1.3, "p95_slowdown": 2.0, "mean_log_slowdown": 0.0},
    "alternatives": [{"configs": 2, "mean_log_slowdown": 1.0}, {"configs": 4, "mean_log_slowdown": None}],
}


def selector(costs_known: bool) -> Selector:
    return Selector("nvidia", ("BLOCK",), ((16,),), Leaf(0), costs_known=costs_known, choice=CHOICE)


def test_the_mean_cost_becomes_the_share_of_winners_chosen_at_every_level() -> None:
    assert without_slowdowns(selector(False)).choice == {
        "strategy": "joint",
        "agreement": 0.75,
        "held_out": {"agreement": 1.0},
        "alternatives": [{"configs": 2, "agreement": 0.0}, {"configs": 4}],
    }


def test_where_costs_are_known_nothing_changes() -> None:
    known = selector(True)
    assert without_slowdowns(known) is known


def test_winners_alone_lead_to_configs_that_are_nearly_best() -> None:
    """150 winners of 30 configs on smooth surfaces, by the times of 600 other launches."""
    costs = []
    for seed in range(3):
        whole = surface(750, 30, 4, noise=0.03, seed=seed)
        rows = np.random.RandomState(seed).permutation(750)
        train, test = np.sort(rows[:150]), np.sort(rows[150:])
        found = fit_rows(winners_only(whole), train, FitOptions())
        costs.append(whole.log_slowdown[test, choices(found, whole, test)].mean())
    assert np.exp(np.mean(costs)) < 1.08


def test_a_tail_means_nothing_where_winners_alone_are_known() -> None:
    log = winners_only(mixed_matmul(150))
    trees = [
        fit_rows(log, np.arange(150), FitOptions(strategy="joint", tail=tail)).tree for tail in (0.0, 1.0)
    ]
    assert trees[0] == trees[1]
