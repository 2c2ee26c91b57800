from __future__ import annotations

import csv
import itertools
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune.compilers import CompileJob
from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.run import SweepSummary, TuneOptions, run_tune
from heurgen.tune.sweep import Progress
from heurgen.tune.timing import Failure, Method
from tests.tune import fakes
from tests.tune.fakes import FakeExecutor, FakeGpus, latent_ms

TARGET = "tests.tune.fakes:tunable"


def tuned(path: Path, executor: FakeExecutor, progress: Any = None, **options: Any) -> SweepSummary:
    options = {"target": TARGET, "output": path, **options}
    return run_tune(TuneOptions(**options), progress, executor, executor.clock)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def config_of(row: dict[str, str]) -> dict[str, int]:
    return {k: int(row[k]) for k in ("BLOCK_M", "BLOCK_N", "num_warps")}


def test_a_full_matrix(tmp_path: Path) -> None:
    executor = FakeExecutor()
    summary = tuned(tmp_path / "log.csv", executor)
    rows = rows_of(tmp_path / "log.csv")
    assert executor.closed
    assert (summary.state, summary.scenarios, summary.configs) == ("finished", 8, 33)
    assert (summary.cells, summary.missing, summary.rows) == (216, 0, len(rows))
    assert summary.failures == {"unfit": 20}
    assert len({(r["scenario"], *config_of(r).values()) for r in rows}) == 216
    assert all(
        config_of(r)["BLOCK_M"] <= 2 * int(r["M"]) for r in rows
    )  # the space's condition on the scenario
    assert {r["waves_per_eu"] for r in rows} == {""}
    assert {r["device"] for r in rows} == {"Fake, GPU"}


def test_a_session_that_gives_no_time_ends_the_sweep_in_a_line(tmp_path: Path) -> None:
    class Silent(FakeExecutor):
        def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
            return (None for _ in super().sample(configs))  # type: ignore[misc]

    with pytest.raises(
        UsageError, match=r"^sample of the session of 'fake_matmul' gave 'None' \(NoneType\), expected"
    ):
        tuned(tmp_path / "log.csv", Silent())


def test_times_are_true_and_the_best_are_repeated(tmp_path: Path) -> None:
    executor = FakeExecutor(noise=0.0)
    tuned(tmp_path / "log.csv", executor)
    times: dict[str, dict[tuple[int, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows_of(tmp_path / "log.csv"):
        if row["status"] == "ok":
            scenario = Scenario(row["scenario"], {"M": int(row["M"]), "N": int(row["N"])})
            assert float(row["time_ms"]) == pytest.approx(latent_ms(scenario, config_of(row)), abs=1e-6)
            times[row["scenario"]][tuple(config_of(row).values())].append(float(row["time_ms"]))
    for found in times.values():
        best = min(statistics.median(t) for t in found.values())
        assert sum(len(t) >= 3 for t in found.values()) >= 3
        close = [t for t in found.values() if statistics.median(t) <= best * 1.02]
        assert all(len(t) == 3 for t in sorted(close)[:8]) or len(close) > 8


def test_losers_are_launched_once(tmp_path: Path) -> None:
    executor = FakeExecutor()
    tuned(tmp_path / "log.csv", executor)
    launches = Counter((name, tuple(c.values())) for name, c in executor.launches)
    assert min(launches.values()) == 1
    assert sum(n == 1 for n in launches.values()) > 0.1 * len(launches)
    assert 15 <= max(launches.values()) <= 30  # five samples, three times; ties up to six times


def test_each_class_compiles_and_checks_each_config_once(tmp_path: Path) -> None:
    executor = FakeExecutor()
    tuned(tmp_path / "log.csv", executor)
    compiled = Counter((j.key[0], tuple(j.config.values())) for j in executor.compiled)
    assert set(compiled.values()) == {1}
    assert len({name for name, _ in executor.checked}) == 2  # M is 8, or a multiple of 16
    checked = Counter((name, tuple(c.values())) for name, c in executor.checked)
    assert set(checked.values()) == {1}
    smallest = {(j.scenario.features["M"], j.scenario.features["N"]) for j in executor.compiled}
    assert smallest == {(8, 64), (64, 64)}


@pytest.mark.parametrize(
    ("stage", "failure", "launched"),
    [
        ("compile", Failure("compile_error", "no such layout"), False),
        ("check", Failure("wrong", "relative error 0.7, allowed 0.01"), False),
        ("check", Failure("crash", "the process ended with signal SIGSEGV"), False),
        ("sample", Failure("timeout", "no answer within 60 s"), True),
    ],
)
def test_failures_are_rows(tmp_path: Path, stage: str, failure: Failure, launched: bool) -> None:
    executor = FakeExecutor(bad={f"{stage} 16 64 4": failure})
    summary = tuned(tmp_path / "log.csv", executor)
    rows = [r for r in rows_of(tmp_path / "log.csv") if tuple(config_of(r).values()) == (16, 64, 4)]
    assert len(rows) == 8
    assert {(r["status"], r["time_ms"], r["reason"]) for r in rows} == {(failure.status, "", failure.reason)}
    assert summary.failures == {"unfit": 20, failure.status: 8}
    assert any(tuple(c.values()) == (16, 64, 4) for _, c in executor.launches) == launched


def test_a_scenario_that_cannot_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = FakeExecutor()
    refusal = Failure("unfit", "OutOfMemoryError: 3 TB")
    monkeypatch.setattr(executor, "open", _refuse_large(executor, refusal))
    summary = tuned(tmp_path / "log.csv", executor)
    rows = [r for r in rows_of(tmp_path / "log.csv") if r["M"] == "4096" and r["N"] == "1024"]
    assert {(r["status"], r["reason"]) for r in rows if config_of(r)["BLOCK_N"] != 256} == {
        ("unfit", "OutOfMemoryError: 3 TB")
    }
    assert (summary.state, summary.missing) == ("finished", 0)


def _refuse_large(executor: FakeExecutor, refusal: Failure) -> Any:
    def open_(scenario: Scenario) -> Failure | None:
        executor.opened = scenario
        return refusal if scenario.features["M"] == 4096 and scenario.features["N"] == 1024 else None

    return open_


def test_budget_and_resume(tmp_path: Path) -> None:
    path, executor = tmp_path / "log.csv", FakeExecutor()
    summary = tuned(path, executor, budget=4.1)  # compiling takes some 3.7 s of its clock
    assert summary.state == "out of time"
    assert 0 < summary.missing < summary.cells
    held = path.read_text()
    second = FakeExecutor()
    summary = tuned(path, second, resume=True)
    assert (summary.state, summary.missing) == ("finished", 0)
    assert path.read_text().startswith(held)
    launched = {(name, tuple(c.values())) for name, c in second.launches}
    cells = Counter(tuple(r.values())[:9] for r in rows_of(path))
    assert {1, 3} <= set(cells.values()) <= {1, 3, 4, 5, 6}  # ties are measured more often
    assert len(launched) < 216
    third = FakeExecutor()
    assert tuned(path, third, resume=True).rows == 0
    assert (third.launches, third.compiled) == ([], [])


def test_out_of_time_while_compiling(tmp_path: Path) -> None:
    summary = tuned(tmp_path / "log.csv", FakeExecutor(), budget=1.0)
    assert (summary.state, summary.rows) == ("out of time", 0)


def scenarios_of(executor: FakeExecutor) -> list[str]:
    """In the order in which they were timed."""
    return list(dict.fromkeys(name for name, _ in executor.launches))


class InOrder(FakeExecutor):
    """One compiler."""

    def compile(self, jobs: Sequence[CompileJob]) -> Generator[tuple[Any, Failure | None], None, None]:
        return super().compile(list(reversed(jobs)))


def test_a_short_budget_measures_what_it_compiled(tmp_path: Path) -> None:
    """A kernel takes 0.1 s: compiling all 33 would take longer than the budget."""
    path, executor = tmp_path / "log.csv", InOrder()
    summary = tuned(path, executor, budget=3.2)
    assert summary.state == "out of time"
    assert summary.rows > 0
    assert len({j.key for j in executor.compiled}) == len(executor.compiled) < 33
    again = InOrder()
    assert tuned(path, again, resume=True).state == "finished"
    whole = FakeExecutor()
    assert tuned(tmp_path / "whole.csv", whole).cells == len({tuple(r.values())[:9] for r in rows_of(path)})
    assert scenarios_of(executor) == scenarios_of(whole)[: len(scenarios_of(executor))]


class Together(FakeExecutor):
    """One of several GPUs that wait for each other before their first launch, and launch nothing while `held` is set
    unless they are aborted: what the test says of them does not depend on how fast they are.
    """

    def __init__(self, start: Barrier, held: Event) -> None:
        super().__init__()
        self._start, self._held = start, held

    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
        if not self.launches:
            self._start.wait(60)
        while self._held.is_set() and not self.aborted:
            time.sleep(0.001)
        yield from super().sample(configs)


def together(count: int) -> tuple[FakeGpus, Event]:
    gpus, start, held = FakeGpus(count), Barrier(count), Event()
    gpus.lanes = [Together(start, held) for _ in range(count)]
    return gpus, held


def test_gpus_share_the_scenarios(tmp_path: Path) -> None:
    gpus, _ = together(3)
    summary = run_tune(TuneOptions(TARGET, tmp_path / "log.csv"), executor=gpus)
    assert (summary.state, summary.cells, summary.missing, summary.gpus) == ("finished", 216, 0, 3)
    rows = rows_of(tmp_path / "log.csv")
    assert summary.rows == len(rows)
    measured = [{name for name, _ in lane.launches} for lane in gpus.lanes]
    assert all(measured)
    assert sum(map(len, measured)) == len(set().union(*measured)) == 8
    checked = Counter((name, *c.values()) for lane in gpus.lanes for name, c in lane.checked)
    assert set(checked.values()) == {1}
    assert len({name for name, *_ in checked}) == 2


def test_each_gpu_takes_the_next_scenario(tmp_path: Path) -> None:
    """Whichever takes which: on each they come in the order in which one GPU would take them."""
    alone, (gpus, _) = FakeExecutor(), together(3)
    tuned(tmp_path / "alone.csv", alone)
    run_tune(TuneOptions(TARGET, tmp_path / "log.csv"), executor=gpus)
    order = scenarios_of(alone)
    for lane in gpus.lanes:
        assert scenarios_of(lane) == sorted(scenarios_of(lane), key=order.index)
    assert {scenarios_of(lane)[0] for lane in gpus.lanes} == set(order[:3])


def test_an_interrupt_stops_all_gpus(tmp_path: Path) -> None:
    path, (gpus, held) = tmp_path / "log.csv", together(3)

    def interrupt(progress: Progress) -> None:
        if progress.phase == "measure" and progress.done > 50:
            held.set()
            raise KeyboardInterrupt

    summary = run_tune(TuneOptions(TARGET, path), interrupt, gpus)
    assert summary.state == "interrupted"
    assert all(lane.aborted and lane.closed for lane in gpus.lanes)
    assert 50 < len(rows_of(path)) == summary.rows < 216
    assert run_tune(TuneOptions(TARGET, path, resume=True), executor=FakeGpus(2)).missing == 0


def test_an_error_of_one_gpu_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, gpus = tmp_path / "log.csv", FakeGpus(3)

    def gone(scenario: Scenario) -> None:
        raise UsageError("the device is gone: no such GPU")

    monkeypatch.setattr(gpus.lanes[1], "open", gone)
    with pytest.raises(UsageError, match="the device is gone: no such GPU"):
        run_tune(TuneOptions(TARGET, path), executor=gpus)
    assert all(lane.aborted and lane.closed for lane in gpus.lanes)
    assert run_tune(TuneOptions(TARGET, path, resume=True), executor=FakeGpus(2)).state == "finished"


def test_the_budget_ends_all_gpus(tmp_path: Path) -> None:
    path, gpus = tmp_path / "log.csv", FakeGpus(2)
    options = TuneOptions(TARGET, path, budget=4.1)  # compiling takes some 3.7 s of their clocks
    summary = run_tune(options, executor=gpus, clock=lambda: sum(lane.now for lane in gpus.lanes))
    assert summary.state == "out of time"
    assert not any(lane.aborted for lane in gpus.lanes)  # what they were at is in the log
    assert 0 < summary.rows == len(rows_of(path))


def test_interrupt_keeps_the_log(tmp_path: Path) -> None:
    path, executor = tmp_path / "log.csv", FakeExecutor()

    def interrupt(progress: Progress) -> None:
        if progress.phase == "measure" and progress.done > 50:
            raise KeyboardInterrupt

    summary = tuned(path, executor, interrupt)
    assert summary.state == "interrupted"
    assert executor.closed
    assert 50 < len(rows_of(path)) == summary.rows
    assert tuned(path, FakeExecutor(), resume=True).state == "finished"


def test_progress_counts_up_and_estimates(tmp_path: Path) -> None:
    seen: list[Progress] = []
    at: list[float] = []
    executor = FakeExecutor()

    def show(progress: Progress) -> None:
        seen.append(progress)
        at.append(executor.now)

    tuned(tmp_path / "log.csv", executor, show)
    compiles, measures = ([p for p in seen if p.phase == phase] for phase in ("compile", "measure"))
    assert [p.done for p in compiles] == list(range(1, len(compiles) + 1))
    assert compiles[-1].remaining_s == 0
    assert all(a.done <= b.done for a, b in itertools.pairwise(measures))
    assert (measures[-1].done, measures[-1].total, measures[-1].remaining_s) == (216, 216, 0)
    halfway = next(p for p in measures if p.done >= 108)
    assert halfway.remaining_s is not None
    assert halfway.remaining_s == pytest.approx(at[-1] - at[seen.index(halfway)], rel=1.0)


def test_every_prefix_has_seen_all_kinds(tmp_path: Path) -> None:
    tuned(tmp_path / "log.csv", FakeExecutor())
    order = list(dict.fromkeys(int(r["M"]) for r in rows_of(tmp_path / "log.csv")))
    assert order != sorted(order)
    assert order != sorted(order, reverse=True)


def test_scenarios_may_name_their_configs(tmp_path: Path) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text(
        """
        [[scenario]]
        M = 64
        N = 64
        dtype = "float16"
        [[scenario.configs]]
        BLOCK_M = 16
        BLOCK_N = 16
        num_warps = 8
        [[scenario.configs]]
        BLOCK_M = 64
        BLOCK_N = 64
        num_warps = 1
        """
    )
    summary = tuned(tmp_path / "log.csv", FakeExecutor(), workload=workload)
    assert (summary.cells, summary.missing) == (2, 0)


def test_a_space_file_replaces_the_space(tmp_path: Path) -> None:
    space = tmp_path / "s.toml"
    space.write_text("[parameters]\nBLOCK_M = [16]\nBLOCK_N = [16, 64]\nnum_warps = [4]\n")
    summary = tuned(tmp_path / "log.csv", FakeExecutor(), space=space)
    assert (summary.configs, summary.cells) == (2, 16)


def test_twenty_five_scenarios_by_three_hundred_configs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a full matrix asks of the device is bounded: of 300 configs most are launched once."""
    sizes = [2**k for k in range(3, 13, 2)]
    values = {
        "BLOCK_M": (16, 32, 64, 128),
        "BLOCK_N": (16, 32, 64, 128, 256),
        "num_warps": tuple(range(1, 16)),
    }
    monkeypatch.setattr(
        fakes.tunable,
        "space",
        replace(fakes.tunable.space, parameters=values, vendors={}, constraints=()),
        False,
    )
    monkeypatch.setattr(
        fakes.tunable, "workload", {"grid": [{"M": sizes, "N": sizes, "dtype": "float16"}]}, raising=False
    )
    executor = FakeExecutor()
    summary = tuned(tmp_path / "log.csv", executor)
    assert (summary.scenarios, summary.configs, summary.missing) == (25, 300, 0)
    assert len(executor.launches) / summary.cells < 4.5


def test_method_is_honoured(tmp_path: Path) -> None:
    executor = FakeExecutor()
    tuned(tmp_path / "log.csv", executor, method=Method(samples=1, repeats=1))
    assert set(Counter((n, tuple(c.values())) for n, c in executor.launches).values()) == {1}


def test_near_ties_are_measured_until_they_are_told_apart(tmp_path: Path) -> None:
    """Up to six times where the noise hides the difference, three times where it does not."""
    for noise, wanted in ((0.0, {1, 3}), (0.05, {1, 3, 6})):
        path = tmp_path / f"{noise}.csv"
        tuned(path, FakeExecutor(noise=noise))
        counts = set(Counter(tuple(r.values())[:10] for r in rows_of(path)).values())
        assert wanted <= counts <= wanted | ({4, 5} if noise else set())
        assert tuned(path, FakeExecutor(noise=noise), resume=True).rows == 0
