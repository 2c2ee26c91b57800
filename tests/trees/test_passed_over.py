"""Configs that a sweep passed over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import fit
from heurgen.trees.passed_over import _shares, measured_throughout
from heurgen.trees.problem import problem


def table(measured: np.ndarray, X: np.ndarray, device: tuple[str, ...] = ()) -> CostTable:
    """A table with these cells [S, C], all of them equally good."""
    n, count = measured.shape
    logs = np.where(measured, 0.0, np.nan)
    return CostTable(
        kernel="k",
        vendor="nvidia",
        columns=tuple(TableColumn(f"x{i}", "int") for i in range(X.shape[1])),
        parameters=("B",),
        configs=tuple((i,) for i in range(count)),
        X=X,
        times=np.exp(logs),
        log_slowdown=logs,
        noise=np.zeros(n),
        group=np.arange(n),
        scenario=("",) * n,
        device=device or ("d",) * n,
        n_measurements=int(measured.sum()),
        costs_known=True,
    )


def shapes(n: int = 200) -> np.ndarray:
    return np.exp2(np.random.RandomState(0).uniform(0, 12, (n, 2))).round()


def adaptive(n: int = 200, configs: int = 40, few: int = 8) -> np.ndarray:
    """All configs in every seventh scenario, a few in the others."""
    measured = np.zeros((n, configs), dtype=bool)
    measured[::7] = True
    measured[:, :few] = True
    return measured


def test_of_an_adaptive_sweep_the_shortlist_is_left() -> None:
    found = table(adaptive(), shapes())
    assert measured_throughout(found).tolist() == list(range(8))
    assert sorted(problem(found).configs.tolist()) == list(range(8))
    assert measured_throughout(replace(found, costs_known=False)).tolist() == list(range(40))


def test_configs_that_failed_wherever_they_were_tried_cost_nothing_to_leave_out() -> None:
    found = table(adaptive(), shapes())
    logs = found.log_slowdown.copy()
    logs[::7, 8:] = np.inf
    failing = replace(found, log_slowdown=logs, times=np.exp(logs))
    with np.errstate(all="raise"):
        assert measured_throughout(failing).tolist() == list(range(8))


def test_configs_of_another_kind_of_scenario_were_not_passed_over() -> None:
    X = shapes()
    measured = adaptive()
    decode = X[:, 0] < 100
    measured[:, 4:8] = decode[:, None]  # some of the shortlist apply to decode alone
    measured[~measured.any(axis=1), 0] = True
    assert measured_throughout(table(measured, X)).tolist() == list(range(8))
    blocks = np.zeros(
        (200, 40), dtype=bool
    )  # each eighth of the configs applies to one eighth of the scenarios
    order = np.argsort(X[:, 0])
    for k in range(8):
        blocks[np.ix_(order[25 * k : 25 * k + 25], range(5 * k, 5 * k + 5))] = True
    assert len(measured_throughout(table(blocks, X))) == 40


def test_random_samples_pass_over_nothing() -> None:
    for share in (0.1, 0.3, 0.45):
        measured = np.random.RandomState(1).uniform(size=(200, 40)) < share
        measured[:, 0] = True
        assert len(measured_throughout(table(measured, shapes()))) == 40


def test_what_is_best_where_it_was_measured_was_not_passed_over() -> None:
    """Solvers of one category: its scenarios have neighbours of the other categories."""
    found = table(adaptive(), shapes())
    for lead, kept in ((0.02, 8), (0.05, 40)):
        better = found.log_slowdown.copy()
        better[::7, :8] = lead
        assert len(measured_throughout(replace(found, log_slowdown=better))) == kept


def test_a_scenario_keeps_a_config() -> None:
    measured = adaptive()
    measured[0, :8] = False
    assert len(measured_throughout(table(measured, shapes()))) == 40


def test_neighbours_are_of_the_same_device() -> None:
    """Swept adaptively on one of two devices, in equal scenarios."""
    measured = np.vstack([adaptive(), adaptive()])
    measured[:200, 30:] = True
    device = ("a",) * 200 + ("b",) * 200
    kept = measured_throughout(table(measured, np.vstack([shapes(), shapes()]), device))
    assert set(range(8)) <= set(kept.tolist())
    assert not set(range(8, 30)) & set(kept.tolist())


def test_devices_of_few_scenarios_are_asked_of_their_own_alone() -> None:
    """Of a hundred devices each was swept over in two scenarios, a seventh of them with all configs."""
    measured = np.repeat(adaptive(), 2, axis=0)
    device = tuple(f"d{i // 2}" for i in range(400))
    assert _shares(table(measured, shapes(400), device)).tolist() == [1.0] * 40
    alone = _shares(table(adaptive(), shapes(), tuple(f"d{i}" for i in range(200))))
    assert alone.tolist() == [1.0] * 40


def test_a_fit_asks_once_what_was_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CostTable] = []

    def throughout(table: CostTable) -> np.ndarray:
        asked.append(table)
        return measured_throughout(table)

    monkeypatch.setattr("heurgen.trees.problem.measured_throughout", throughout)
    fit(table(adaptive(60), shapes(60)))
    assert len(asked) == 1
