"""Both engines, by one set of tests: child processes of this machine, and actors of a Ray cluster."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune.engines import Engine, LocalEngine
from heurgen.tune.executors import ProcessExecutor
from heurgen.tune.run import TuneOptions, run_tune
from heurgen.tune.sweep import Progress
from tests.tune.conftest import rows
from tests.tune.fakes import FakeExecutor

TARGET, FAKES = "tests.tune.fakes:tunable", "tests.tune.fakes"
Start = Callable[[str], Engine]


@pytest.fixture(scope="module")
def connected(cluster: Any) -> Iterator[Any]:
    """One connection for all tests of both engines: each would wait seconds for its own. The nodes have the source."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.cluster)])
def start(request: pytest.FixtureRequest) -> Start:
    """Starts an engine whose machines launch with a session of the fakes."""
    if request.param == "local":
        return lambda session: LocalEngine(ProcessExecutor(TARGET, f"{FAKES}:{session}", compilers=2))
    cluster = request.getfixturevalue("connected")
    from heurgen.tune.ray_engine import RayEngine

    return lambda session: RayEngine(TARGET, f"{FAKES}:{session}", cluster.address)


def test_the_log_is_the_same(start: Start, tmp_path: Path) -> None:
    summary = run_tune(TuneOptions(TARGET, tmp_path / "log.csv"), engine=start("FakeSession"))
    assert (summary.state, summary.missing, summary.devices) == ("finished", 0, ("Fake, GPU",))
    run_tune(TuneOptions(TARGET, tmp_path / "whole.csv"), executor=FakeExecutor(noise=0.0))
    assert rows(tmp_path / "log.csv") == rows(tmp_path / "whole.csv")
    assert not (tmp_path / "log.samples").exists()


def test_a_bad_config_is_a_failure_and_its_scenario_goes_on(start: Start, tmp_path: Path) -> None:
    workload, space = tmp_path / "w.toml", tmp_path / "s.toml"
    workload.write_text('[[grid]]\nM = [64, 128]\nN = [64]\ndtype = "float16"\n')
    space.write_text(
        "[parameters]\nBLOCK_M = [16]\nBLOCK_N = [16]\nnum_warps = [1, 2, 3, 5, 6, 8, 9, 10, 11, 12]\n"
    )
    options = TuneOptions(TARGET, tmp_path / "log.csv", workload, space)
    assert run_tune(options, engine=start("FakeSession")).state == "finished"
    with (tmp_path / "log.csv").open(newline="") as file:
        found = {int(r["num_warps"]): (r["status"], r["reason"]) for r in csv.DictReader(file)}
    aborted = "the process ended with signal SIGABRT"
    illegal = "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert found == {
        1: ("ok", ""),
        2: ("wrong", "relative error 0.5"),
        3: ("crash", aborted),
        5: ("crash", illegal),
        6: ("error", "ValueError: grid too large"),
        8: ("ok", ""),
        9: ("compile_error", aborted),
        10: ("compile_error", "RuntimeError: PassManager::run failed"),
        11: ("unfit", "needs 300000 bytes of shared memory"),
        12: ("compile_error", illegal),
    }


def test_a_budget_and_an_interrupt_end_it_and_it_goes_on(start: Start, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase == "measure" and progress.done > 60:
            raise KeyboardInterrupt

    path = tmp_path / "log.csv"
    summary = run_tune(TuneOptions(TARGET, path), interrupt, engine=start("SlowSession"))
    assert (summary.state, 0 < summary.missing < 216) == ("interrupted", True)
    held = path.read_text()
    options = TuneOptions(TARGET, path, resume=True)
    summary = run_tune(options, engine=start("FakeSession"))
    assert (summary.state, summary.missing) == ("finished", 0)
    assert path.read_text().startswith(held)
    assert run_tune(options, executor=FakeExecutor(noise=0.0)).rows == 0
    run_tune(TuneOptions(TARGET, tmp_path / "whole.csv"), executor=FakeExecutor(noise=0.0))
    assert rows(path) == rows(tmp_path / "whole.csv")
    with pytest.raises(UsageError, match="the budget must be more than 0 seconds"):
        run_tune(TuneOptions(TARGET, path, resume=True, budget=0.0))


def test_no_device(start: Start, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_tune(TuneOptions(TARGET, tmp_path / "log.csv"), engine=start("no_device"))
    assert str(caught.value) == "cannot tune here: RuntimeError: no GPU here"
    assert list(tmp_path.iterdir()) == []
