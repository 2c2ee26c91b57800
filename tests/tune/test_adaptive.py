from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heurgen.base.errors import UsageError
from heurgen.logs.costs import TableColumn
from heurgen.trees import quick
from heurgen.tune import adaptive
from heurgen.tune.adaptive import FIRST, SHORTLIST, Planner, gain, narrowed, upper_end
from heurgen.tune.adaptive import _costs as log_slowdowns
from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.run import SweepSummary, TuneOptions, run_tune
from heurgen.tune.sweep import Progress
from heurgen.tune.timing import Method
from heurgen.tune.workloads import make_scenarios
from tests.tune import fakes
from tests.tune.fakes import FakeExecutor

TARGET = "tests.tune.fakes:tunable"
WORKLOAD: Mapping[str, Any] = {
    "grid": [{"M": [2**k for k in range(3, 14)], "N": [16 * k for k in range(1, 8)], "dtype": ["float16"]}]
}


def regions(n: int, cuts: int, configs: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, 2] and times [n, configs]: which of the first `cuts` configs is best depends on the first."""
    random = np.random.RandomState(seed)
    X = random.uniform(0, 1, (n, 2))
    times = 2.0 + random.uniform(0, 0.5, (n, configs))
    times[np.arange(n), np.minimum((X[:, 0] * cuts).astype(int), cuts - 1)] = 1.0
    return X, times * (1 + noise * random.uniform(0, 1, (n, configs)))


def replayed(X: np.ndarray, times: np.ndarray, target: float) -> tuple[np.ndarray, Planner]:
    columns = tuple(TableColumn(f"x{i}", "float") for i in range(X.shape[1]))
    planner = Planner(columns, X, list(range(len(X))), times.shape[1], target)
    known = np.full(times.shape, np.nan)
    while (batch := planner.next(known)) is not None:
        for s, configs in zip(batch.scenarios, batch.configs, strict=True):
            assert np.isnan(known[s]).all()
            known[s, list(configs)] = times[s, list(configs)]
    return known, planner


def test_an_easy_kernel_stops_early_and_a_hard_one_does_not() -> None:
    easy, planner = replayed(*regions(250, 2, 40, 0.0), target=1.01)
    assert planner.estimate is not None
    assert planner.estimate.slowdown <= 1.01
    assert (~np.isnan(easy)).any(axis=1).sum() < 175
    assert (~np.isnan(easy)).mean() < 0.35
    hard, planner = replayed(*regions(90, 40, 40, 0.0), target=1.01)
    assert (~np.isnan(hard)).any(axis=1).all()


def test_one_lucky_look_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([0.0, 1.0, 0.0, 0.0, 1.0])
    monkeypatch.setattr("heurgen.tune.adaptive.gain", lambda *_: next(looks))
    known, _ = replayed(*regions(400, 2, 40, 0.0), target=1.01)
    assert list(looks) == [1.0]  # it ended at the second look in a row
    assert 0 < (~np.isnan(known)).any(axis=1).sum() < 400


def launches(seed: int, scenarios: int = 450, configs: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and times of tiles in waves on 132 processors; large tiles and deep pipelines of short problems fail."""
    random = np.random.RandomState(seed)
    X = np.exp2(random.uniform(0, 13, (scenarios, 3))).round()
    tile_m, tile_n = 2.0 ** random.randint(4, 9, (2, configs))
    stages = random.randint(1, 5, configs)
    waves = np.ceil(np.ceil(X[:, :1] / tile_m) * np.ceil(X[:, 1:2] / tile_n) / 132)
    times = 0.005 + waves * X[:, 2:] * (tile_m * tile_n / 4e7 + (tile_m + tile_n) / 2e6) / 100
    times *= 1 + 0.05 * np.abs(stages - 1 - np.log2(X[:, 2:]) / 5)
    times *= np.exp(random.normal(0, 0.01, times.shape))
    times[:, tile_m * tile_n * stages > 100_000] = np.inf
    times[(X[:, 2:] < 64) & (stages > 3)] = np.inf
    return X, times


@pytest.mark.parametrize("seed", range(2))
def test_three_hundred_configs_with_failures(seed: int) -> None:
    """At most 35 % of the measurements, and a selector from them is nearly as good as one from all."""
    X, times = launches(seed)
    test, train = slice(0, 150), slice(150, None)
    known, _ = replayed(X[train], times[train], 1.01)
    assert (~np.isnan(known)).mean() <= 0.35
    rows = np.isfinite(known).any(axis=1)
    cost = log_slowdowns(times)

    def held_out(some: np.ndarray, costs: np.ndarray) -> float:
        return float(cost[np.arange(150), quick.choose(some, costs, X[test])].mean())

    ratio = math.exp(held_out(X[train][rows], log_slowdowns(known[rows])) - held_out(X[train], cost[train]))
    assert ratio < 1.03


def test_the_estimate_is_an_upper_end() -> None:
    """What is left to gain by all of 800 scenarios is seldom more than said at 60."""
    missed = 0
    for seed in range(10):
        X, times = regions(1600, 6, 12, 0.05, seed)
        cost = np.log(times / times.min(axis=1, keepdims=True))

        def held_out(n: int, X: Any = X, cost: Any = cost) -> float:
            chosen = quick.choose(X[:n], cost[:n], X[800:])
            return float(cost[np.arange(800, 1600), chosen].mean())

        missed += held_out(60) - held_out(800) > gain(X[:60], cost[:60], 800)
    assert missed <= 1


def test_gain_needs_nothing_where_all_is_measured_or_one_config_is_best() -> None:
    X, times = regions(100, 1, 5, 0.0)
    cost = np.log(times / times.min(axis=1, keepdims=True))
    assert gain(X, cost, 1000) == 0.0
    X, times = regions(100, 5, 5, 0.0)
    assert gain(X, np.log(times), 1) == 0.0  # fewer than were measured: no doubling is left


def test_a_shortlisted_config_is_measured_everywhere_and_others_in_a_first_part() -> None:
    X, times = launches(0)
    known, planner = replayed(X, times, 1.01)
    assert planner._short is not None
    counts = (~np.isnan(known)).sum(axis=0)
    short = planner._short.configs
    assert len(short) >= SHORTLIST
    assert (counts[short] == len(X)).all()
    others = np.delete(counts, short)
    assert len(np.unique(others)) == 2  # of the first step, and of the first two
    assert others.max() < 0.4 * len(X)


def test_a_planner_that_is_new_goes_on_as_the_old_one_would_have() -> None:
    X, times = launches(1)
    columns = tuple(TableColumn(f"x{i}", "float") for i in range(X.shape[1]))
    planner, known = (
        Planner(columns, X, list(range(len(X))), times.shape[1], 1.01),
        np.full(times.shape, np.nan),
    )
    while (batch := planner.next(known)) is not None:
        assert Planner(columns, X, list(range(len(X))), times.shape[1], 1.01).next(known) == batch
        for s, configs in zip(batch.scenarios, batch.configs, strict=True):
            known[s, list(configs)] = times[s, list(configs)]


def test_what_a_shortlist_loses_is_seen_where_it_was_not_made() -> None:
    """Each scenario has a config of its own: a list of half of them holds none of a held-out one's."""
    times = np.full((20, 20), 2.0)
    np.fill_diagonal(times, 1.0)
    X = np.arange(20.0)[:, None]
    few, lost = narrowed(X, times, 10)
    assert len(few) == 10
    assert lost.mean() > 0.5 * math.log(2)
    few, lost = narrowed(X, times[:, :1].repeat(3, axis=1), 2)
    assert (len(few), lost.max()) == (2, 0.0)
    times[:5] = np.inf  # scenarios in which nothing runs say nothing
    assert len(narrowed(X, times, 10)[1]) == 15


def test_the_upper_end_of_a_mean() -> None:
    assert upper_end(np.array([0.5])) == 3.0
    assert upper_end(np.full(9, 0.5)) == 0.5
    assert upper_end(np.array([0.0, 1.0] * 50)) == pytest.approx(0.5 + 1.645 * 0.05025, abs=1e-4)


def test_features_that_nothing_varies_in_and_failures() -> None:
    X, times = regions(60, 3, 40, 0.0)
    X[:, 1] = 7.0
    times[:, 5:] = np.inf
    times[::7] = np.inf
    known, _ = replayed(X, times, 1.05)
    assert (~np.isnan(known)).any(axis=1).sum() >= FIRST
    replayed(X, np.full(times.shape, np.inf), 1.05)


def tuned(path: Path, progress: Any = None, **options: Any) -> SweepSummary:
    executor = FakeExecutor(noise=0.002)
    return run_tune(TuneOptions(TARGET, path, **options), progress, executor, executor.clock)


def test_in_a_sweep_that_is_stopped_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes.tunable, "workload", WORKLOAD, raising=False)
    full = tuned(tmp_path / "full.csv")
    summary = tuned(tmp_path / "log.csv", target_slowdown=1.05)
    assert (summary.state, summary.missing, summary.scenarios) == ("finished", 0, 77)
    assert summary.rows < 0.8 * full.rows
    note = summary.notes[-1]
    assert f"of the full matrix's {full.cells} cells measured on Fake, GPU" in note
    assert "times as good, by cross-validation (95 %)" in note
    assert "target_slowdown = 1.05" in summary.cards[0].read_text()

    def interrupt(progress: Progress) -> None:
        if progress.phase == "measure" and progress.done > 600:
            raise KeyboardInterrupt

    first = tuned(tmp_path / "b.csv", interrupt, target_slowdown=1.05)
    assert first.state == "interrupted"
    held = (tmp_path / "b.csv").read_text()
    second = tuned(tmp_path / "b.csv", target_slowdown=1.05, resume=True)
    assert (second.state, second.missing) == ("finished", 0)
    assert (tmp_path / "b.csv").read_text().startswith(held)
    with pytest.raises(UsageError, match="the target slowdown must be above 1, found 1"):
        tuned(tmp_path / "c.csv", target_slowdown=1.0)


@pytest.mark.parametrize("sizes", [[8], [8, 64, 512]])
def test_of_a_matrix_that_was_measured_whole_nothing_is_said_to_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """Of one scenario the estimate is that of no data: a selector from all of it would be 403 times as good."""
    small = {"grid": [{"M": sizes, "N": [64], "dtype": ["float16"]}]}
    monkeypatch.setattr(fakes.tunable, "workload", small, raising=False)
    summary = tuned(tmp_path / "log.csv", target_slowdown=1.05)
    assert (
        summary.notes[-1] == f"all of the full matrix's {summary.cells} cells measured on {fakes.DEVICE.name}"
    )


def test_a_finished_sweep_that_is_resumed_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended at the second look in a row: one that is resumed looks at the same batches, not once at them all."""
    monkeypatch.setattr(fakes.tunable, "workload", WORKLOAD, raising=False)
    first = tuned(tmp_path / "log.csv", target_slowdown=1.2)
    held = (tmp_path / "log.csv").read_text()
    assert len({scenario for scenario, *_ in cells(tmp_path / "log.csv")}) < first.scenarios
    again = tuned(tmp_path / "log.csv", target_slowdown=1.2, resume=True)
    assert (again.state, again.rows, again.notes) == ("finished", 0, first.notes)
    assert (tmp_path / "log.csv").read_text() == held


@pytest.mark.parametrize("stop", [300, 600, 900])
def test_a_sweep_that_was_stopped_ends_where_it_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    monkeypatch.setattr(fakes.tunable, "workload", WORKLOAD, raising=False)
    tuned(tmp_path / "whole.csv", target_slowdown=1.2)

    assert tuned(tmp_path / "log.csv", ctrl_c(stop), target_slowdown=1.2).state == "interrupted"
    assert tuned(tmp_path / "log.csv", target_slowdown=1.2, resume=True).state == "finished"
    assert cells(tmp_path / "log.csv") == cells(tmp_path / "whole.csv")


def ctrl_c(after: int) -> Callable[[Progress], None]:
    def interrupt(progress: Progress) -> None:
        if progress.phase == "measure" and progress.done > after:
            raise KeyboardInterrupt

    return interrupt


def cells(path: Path) -> set[tuple[str, ...]]:
    """(scenario, config) of each row."""
    with path.open(newline="") as file:
        return {(row[0], *row[6:9]) for row in list(csv.reader(file))[1:]}


@pytest.mark.parametrize("stop", [5, 150, 420])
def test_what_a_stopped_sweep_had_begun_is_measured_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """The first steps ask for sets of configs: what is left of a scenario's is not lost, nor measured twice."""
    monkeypatch.setattr(fakes.tunable, "workload", WORKLOAD, raising=False)
    tuned(tmp_path / "whole.csv", target_slowdown=1.0001)

    assert tuned(tmp_path / "log.csv", ctrl_c(stop), target_slowdown=1.0001).state == "interrupted"
    before = (tmp_path / "log.csv").read_text().splitlines()
    assert tuned(tmp_path / "log.csv", target_slowdown=1.0001, resume=True).missing == 0
    after = (tmp_path / "log.csv").read_text().splitlines()
    assert after[: len(before)] == before
    rows = Counter(
        tuple(line.split(",")[i] for i in (0, 7, 8, 9)) for line in after
    )  # its device holds a comma
    assert max(rows.values()) <= Method().most_repeats
    sizes = [
        Counter(Counter(scenario for scenario, *_ in cells(tmp_path / name)).values())
        for name in ("log.csv", "whole.csv")
    ]
    assert sizes[0] == sizes[1]


def test_scenarios_in_which_no_config_applies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has none of the shortlist, but others; one has none at all. Neither keeps the sweep from its end."""
    monkeypatch.setattr(fakes.tunable, "workload", WORKLOAD, raising=False)
    monkeypatch.setattr(adaptive.Planner, "_sizes", lambda self: (8, 4))
    alone = [s.id for s in make_scenarios(WORKLOAD, fakes.tunable.features) if s.features["M"] == 8]

    def applies(config: Settings, scenario: Scenario) -> bool:
        slow = (config["BLOCK_M"], config["BLOCK_N"], config["num_warps"]) == (16, 256, 4)
        return slow if scenario.features["M"] == 8 else not slow and scenario.features["M"] != 4096

    monkeypatch.setattr(fakes.tunable, "applies", applies, raising=False)
    summary = tuned(tmp_path / "log.csv", target_slowdown=1.0001)
    assert (summary.state, summary.missing) == ("finished", 0)
    found = {scenario for scenario, *_ in cells(tmp_path / "log.csv")}
    assert len(alone) == 7
    assert set(alone) <= found


def test_scenarios_that_name_configs_are_refused(tmp_path: Path) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text(
        '[[scenario]]\nid = "x"\nM = 64\nN = 64\ndtype = "f"\n'
        "configs = [{ BLOCK_M = 16, BLOCK_N = 16, num_warps = 1 }]\n"
    )
    with pytest.raises(
        UsageError, match="a target slowdown chooses the configs, and scenario 'x' names its own"
    ):
        tuned(tmp_path / "log.csv", workload=workload, target_slowdown=1.01)
    assert not (tmp_path / "log.csv").exists()
