"""Several configs of the space that come to one launch: `fakes.policy` caps warps by the rows of C."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from heurgen.tune.launches import Launch, Tally, launches_of
from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.run import SweepSummary, TuneOptions, run_tune
from heurgen.tune.space import ConfigSpace
from heurgen.tune.sweep import Progress
from heurgen.tune.target import load_target
from heurgen.tune.timing import Failure, Method
from tests.tune import fakes
from tests.tune.fakes import FakeExecutor, FakeGpus
from tests.tune.test_sweep import rows_of

TARGET = "tests.tune.fakes:policy"
ONCE = Method(samples=1, repeats=1)
TWO_SCENARIOS = '[[grid]]\nM = [64, 512]\nN = 64\ndtype = "float16"\n'


def tuned(path: Path, executor: Any, progress: Any = None, **options: Any) -> SweepSummary:
    clock = executor.clock if isinstance(executor, FakeExecutor) else lambda: 0.0
    return run_tune(TuneOptions(TARGET, path, **options), progress, executor, clock)


def scenario_of(row: dict[str, str]) -> Scenario:
    return Scenario(row["scenario"], {"M": int(row["M"]), "N": int(row["N"]), "dtype": row["dtype"]})


def launch_of(row: dict[str, str]) -> tuple[Any, ...]:
    """The scenario and the settings that a row's config comes to, told from the row alone."""
    config = {name: int(row[name]) for name in fakes.policy.space.parameters}
    return (row["scenario"], *fakes.policy.launched(config, scenario_of(row), fakes.DEVICE).values())


def launched(pairs: list[tuple[str, Settings]]) -> Counter[tuple[Any, ...]]:
    return Counter((name, *settings.values()) for name, settings in pairs)


def test_what_is_the_same_is_measured_once_and_logged_for_each_config(tmp_path: Path) -> None:
    executor, path = FakeExecutor(), tmp_path / "log.csv"
    summary = tuned(path, executor, method=ONCE)
    rows = rows_of(path)
    assert (summary.state, summary.configs, summary.missing) == ("finished", 16, 0)
    assert summary.rows == summary.cells == len(rows) == 94
    assert len({tuple(r.values())[:-3] for r in rows}) == 94
    timed = {launch_of(r) for r in rows if r["status"] == "ok"}
    assert len({launch_of(r) for r in rows}) == 60
    assert launched(executor.launches) == dict.fromkeys(timed, 1)
    outcomes = defaultdict(set)
    for row in rows:
        outcomes[launch_of(row)].add((row["status"], row["time_ms"], row["reason"]))
    assert {len(found) for found in outcomes.values()} == {1}


def test_the_best_are_repeated_for_each_config(tmp_path: Path) -> None:
    executor, path = FakeExecutor(), tmp_path / "log.csv"
    tuned(path, executor)
    times: dict[Any, dict[Any, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows_of(path):
        times[launch_of(row)][row["most_warps"]].append(row["time_ms"])
    assert all(len({tuple(t) for t in aliases.values()}) == 1 for aliases in times.values())
    assert {len(t) for aliases in times.values() for t in aliases.values()} == {1, 3}
    assert max(launched(executor.launches).values()) == 15


def test_each_launch_of_a_class_is_compiled_and_checked_once(tmp_path: Path) -> None:
    """On the class's smallest scenario, where the space's configs come to one warp."""
    executor, path = FakeExecutor(), tmp_path / "log.csv"
    tuned(path, executor)
    jobs = Counter((job.scenario.features["M"], *job.config.values()) for job in executor.compiled)
    sixteens = {(64, m, n, w) for m in (16, 64) for n in (64, 256) for w in (1, 2, 4, 8)}
    unfit = {(64, m, 256, 1) for m in (16, 64)}
    assert jobs == dict.fromkeys((sixteens - unfit) | {(8, 16, 64, 1)}, 1)
    checked = launched(executor.checked)
    assert set(checked.values()) == {1}
    assert len(checked) == len(jobs)
    assert len({name for name, *_ in checked}) == 2


@pytest.mark.parametrize(
    ("stage", "failure"),
    [
        ("compile", Failure("compile_error", "no such layout")),
        ("check", Failure("wrong", "relative error 0.7, allowed 0.01")),
        ("sample", Failure("timeout", "no answer within 60 s")),
    ],
)
def test_failures_are_rows_of_each_config(tmp_path: Path, stage: str, failure: Failure) -> None:
    executor, path = FakeExecutor(bad={f"{stage} 16 64 4": failure}), tmp_path / "log.csv"
    summary = tuned(path, executor)
    rows = [r for r in rows_of(path) if launch_of(r)[1:] == (16, 64, 4)]
    assert {(r["status"], r["time_ms"], r["reason"]) for r in rows} == {(failure.status, "", failure.reason)}
    assert Counter(r["most_warps"] for r in rows if r["M"] == "512") == {"4": 2, "8": 2}
    assert Counter(r["most_warps"] for r in rows if r["M"] == "4096") == {"4": 2}
    unfit = [r for r in rows_of(path) if launch_of(r)[2:] == (256, 1)]
    assert {(r["status"], r["reason"]) for r in unfit} == {("unfit", 'too wide\\nfor this, "device"')}
    assert summary.failures == {failure.status: len(rows), "unfit": len(unfit)}


def test_a_log_cut_anywhere_is_completed(tmp_path: Path) -> None:
    """To the rows of the log that was not cut: without noise a launch takes as long at every time."""
    path, workload = tmp_path / "log.csv", tmp_path / "w.toml"
    workload.write_text(TWO_SCENARIOS)
    bad = {"sample 16 64 4": Failure("timeout", "no answer within 60 s")}
    tuned(path, FakeExecutor(0.0, bad=bad), workload=workload)
    lines = path.read_text().splitlines(keepends=True)
    for kept in range(1, len(lines) + 1):
        path.write_text("".join(lines[:kept]) + (lines[kept][:20] if kept < len(lines) else ""))
        executor = FakeExecutor(0.0, bad=bad)
        summary = tuned(path, executor, workload=workload, resume=True)
        assert (summary.state, summary.missing) == ("finished", 0)
        assert sorted(path.read_text().splitlines(keepends=True)) == sorted(lines)
        assert summary.rows == len(lines) - kept
    assert (executor.launches, executor.compiled, executor.checked) == ([], [], [])


def test_after_a_cut_the_next_measurement_counts(tmp_path: Path) -> None:
    """The log keeps the time of one config; what the others come to is checked anew, and found wrong."""
    path, workload = tmp_path / "log.csv", tmp_path / "w.toml"
    workload.write_text(TWO_SCENARIOS)
    tuned(path, FakeExecutor(), workload=workload)
    lines = path.read_text().splitlines(keepends=True)
    same = [i for i, r in enumerate(rows_of(path), start=1) if launch_of(r) == (r["scenario"], 16, 64, 4)]
    path.write_text("".join(lines[: same[0] + 1]))
    executor = FakeExecutor(bad={"check 16 64 4": Failure("wrong", "relative error 1")})
    summary = tuned(path, executor, workload=workload, resume=True)
    rows = [r for r in rows_of(path) if launch_of(r) == (r["scenario"], 16, 64, 4)]
    assert [(r["most_warps"], r["status"]) for r in rows] == [("4", "ok"), ("8", "wrong")]
    assert (summary.state, summary.missing) == ("finished", 0)
    assert not any(tuple(s.values()) == (16, 64, 4) for _, s in executor.launches)


def test_an_interrupt_and_the_progress_count_configs(tmp_path: Path) -> None:
    path, seen = tmp_path / "log.csv", list[Progress]()

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if progress.phase == "measure" and progress.done > 40:
            raise KeyboardInterrupt

    summary = tuned(path, FakeExecutor(), interrupt, method=ONCE)
    assert (summary.state, summary.cells) == ("interrupted", 94)
    assert 40 < summary.rows == len(rows_of(path)) == seen[-1].done == 94 - summary.missing
    assert seen[-1].total == 94
    again = tuned(path, FakeExecutor(), method=ONCE, resume=True)
    assert (again.missing, again.rows) == (0, summary.missing)


def test_several_gpus(tmp_path: Path) -> None:
    gpus, path = FakeGpus(3, pace=1e-4), tmp_path / "log.csv"
    summary = tuned(path, gpus, method=ONCE)
    assert (summary.rows, summary.missing) == (94, 0)
    for asked in ("checked", "launches"):
        assert set(launched([p for lane in gpus.lanes for p in getattr(lane, asked)]).values()) == {1}


def test_a_limit_names_configs_of_the_space(tmp_path: Path) -> None:
    workload, executor = tmp_path / "w.toml", FakeExecutor()
    configs = [
        "{ most_warps = 4, BLOCK_M = 16, BLOCK_N = 64 }",
        "{ most_warps = 8, BLOCK_M = 16, BLOCK_N = 64 }",
    ]
    workload.write_text(
        f'[[scenario]]\nM = 512\nN = 64\ndtype = "float16"\nconfigs = [{", ".join(configs)}]\n'
    )
    summary = tuned(tmp_path / "log.csv", executor, workload=workload, method=ONCE)
    assert (summary.cells, summary.rows, len(executor.launches)) == (2, 2, 1)


def test_a_config_that_comes_to_itself_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = []
    for name in ("before.csv", "after.csv"):
        executor = FakeExecutor()
        run_tune(TuneOptions("tests.tune.fakes:tunable", tmp_path / name), None, executor, executor.clock)
        logs.append((tmp_path / name).read_bytes())
        monkeypatch.setattr(fakes.tunable, "launched", lambda config, *_: dict(config), raising=False)
    assert logs[0] == logs[1]


def test_launches_are_told_apart_by_their_settings() -> None:
    configs = {str(n): {"most_warps": n, "BLOCK_M": 16, "BLOCK_N": 64} for n in (8, 1, 4)}
    scenario = Scenario("s", {"M": 512, "N": 64, "dtype": "float16"})
    found = launches_of(configs, ConfigSpace((), (), ()), load_target(TARGET), scenario, fakes.DEVICE)
    assert list(found.values()) == [
        Launch({"BLOCK_M": 16, "BLOCK_N": 64, "num_warps": 4}, ["8", "4"]),
        Launch({"BLOCK_M": 16, "BLOCK_N": 64, "num_warps": 1}, ["1"]),
    ]


def test_a_config_left_behind_is_the_one_that_is_due() -> None:
    cells = Tally({"x": Launch({}, ["a", "b", "c"]), "y": Launch({}, ["d"])})
    assert (cells.total, cells.missing, cells.pending()) == (4, 4, ["x", "y"])
    cells.add("a", 2.0)
    assert (cells.missing, cells.pending(), cells.timed(), cells.best) == (3, ["x", "y"], [], 2.0)
    assert cells.due("x") == ["b", "c"]
    for config in ("b", "c"):
        cells.add(config, 3.0)
    assert (cells.pending(), cells.timed(), cells.count("x")) == (["y"], [("x", 3.0)], 1)
    assert cells.due("x") == ["a", "b", "c"]
    cells.add("d", None)
    assert (cells.missing, cells.pending(), cells.timed()) == (0, [], [("x", 3.0)])
