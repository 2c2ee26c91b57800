"""What cross-validation records: every held-out scenario, and the worst choices with what they chose."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from heurgen.audit import recorded
from heurgen.ir import Selector
from heurgen.logs.costs import CostTable
from heurgen.ship.remarks import held_out
from heurgen.trees import FitOptions, constants, fit
from heurgen.trees.joint import Settings
from heurgen.trees.preference import Candidate
from heurgen.trees.problem import problem
from heurgen.trees.record import RULES, WORST, _described, scenarios, worst
from tests.trees.synthetic import surface


@pytest.fixture(scope="module")
def costs() -> CostTable:
    return surface(n_scenarios=60, n_configs=6, noise=0.05)


@pytest.fixture(scope="module")
def selector(costs: CostTable) -> Selector:
    return fit(costs)


def candidate(cost: list[float], rows: list[int], chosen: list[int]) -> Candidate:
    return Candidate(
        "joint", Settings(1, 0.0, 1, 2), cost=np.array(cost), rows=np.array(rows), chosen=np.array(chosen)
    )


def test_repeats_give_their_geometric_mean_and_one_invalid_choice_gives_null(costs: CostTable) -> None:
    p = problem(costs, np.array([7, 3, 5]))
    bad = constants.LEARNER.uncovered
    found = candidate([math.log(2), 0.0, 0.5, math.log(8), bad, 0.25], [3, 5, 7, 3, 5, 7], [0, 1, 2, 4, 3, 5])
    assert scenarios(found, p) == [4.0, None, round(math.exp(0.375), 4)]
    assert worst(found, costs, p) == [
        {"scenario": 1, "slowdown": None, "chosen": list(costs.configs[3])},
        {"scenario": 0, "slowdown": 8.0, "chosen": list(costs.configs[4])},
        {"scenario": 2, "slowdown": round(math.exp(0.5), 4), "chosen": list(costs.configs[2])},
    ]


def test_the_record_of_a_fit_is_what_the_report_reads(costs: CostTable, selector: Selector) -> None:
    slow, records = recorded.held_out_scenarios(selector), recorded.held_out_worst(selector)
    figures, _ = recorded.held_out(selector)
    assert slow is not None
    assert figures is not None
    assert len(slow) == costs.n_scenarios
    mean = sum(map(math.log, slow)) / len(slow)
    assert math.exp(mean) == pytest.approx(figures.geomean_slowdown, abs=1e-4)
    assert len(records) == WORST == len({r.row for r in records})
    assert records[0].slowdown == pytest.approx(figures.max_slowdown, abs=1e-4)
    for r in records:
        column = costs.configs.index(r.chosen)
        assert r.slowdown == pytest.approx(math.exp(costs.log_slowdown[r.row, column]), abs=1e-4)
    assert "held out scenarios" not in {
        name for block in recorded.blocks(selector) for name, *_ in block.rows
    }


def test_winners_alone_are_recorded_as_agreement(costs: CostTable) -> None:
    best = costs.log_slowdown == 0
    won = replace(
        costs,
        costs_known=False,
        times=np.where(best, costs.times, np.nan),
        log_slowdown=np.where(best, 0.0, np.nan),
    )
    record = fit(won).choice["held_out"]
    assert 0 < record["agreement"] <= 1
    assert not {"scenarios", "worst"} & set(record)


def test_train_names_the_worst_held_out_scenario(costs: CostTable, selector: Selector) -> None:
    (line,) = held_out(selector, costs)
    row = recorded.held_out_worst(selector)[0].row
    assert f"worst: scenario {row} (" in line
    assert line.startswith("  held out: geomean 1.")
    assert ", p95 " in line
    nameless = replace(costs, scenario=("",) * costs.n_scenarios)
    assert "worst: f" in held_out(selector, nameless)[0] or "worst: x" in held_out(selector, nameless)[0]
    assert held_out(fit(costs, FitOptions(strategy="joint")), costs) == []


def test_every_rule_of_the_settings_is_told() -> None:
    rules = {f.name for f in fields(Settings) if f.type == "bool"}
    assert set(RULES) == rules
    for name in rules:
        assert _described(replace(candidate([], [], []), settings=Settings(1, 0.0, 1, 2, **{name: True})))[
            name
        ]


def test_every_size_that_was_compared_is_described(selector: Selector) -> None:
    for told in (*selector.choice["curve"], *selector.choice["alternatives"], selector.choice["held_out"]):
        assert {"strategy", "max_configs", "price", "leaves", "configs", "mean_log_slowdown"} <= set(told)
