"""Both engines, by one set of tests: child processes of this machine, and actors of a Ray cluster."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune.engines import Engine, LocalEngine
from heurgen.tune.executors import ProcessExecutor
from heurgen.tune.run import TuneOptions, run_tune
from heurgen.tune.sweep import Progress
from tests.tune.fakes import FakeExecutor

TARGET, FAKES = "tests.tune.fakes:tunable", "tests.tune.fakes"
ROOT = Path(__file__).parents[2]
Start = Callable[[str], Engine]
NODE = {"object_store_memory": 80_000_000, "num_cpus": 1, "num_gpus": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a pretended GPU each; tests may add more."""
    pytest.importorskip("ray", reason="the Ray engine needs Ray: pip install 'heurgen[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "kernels")]))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        made.add_node(**NODE)
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def connected(cluster: Any) -> Iterator[Any]:
    """One connection for all tests of both engines: each would wait seconds for its own. The nodes have the source."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def start(request: pytest.FixtureRequest) -> Start:
    """Starts an engine whose machines launch with a session of the fakes."""
    if request.param == "local":
        return lambda session: LocalEngine(ProcessExecutor(TARGET, f"{FAKES}:{session}", compilers=2))
    cluster = request.getfixturevalue("connected")
    from heurgen.tune.ray_engine import RayEngine

    return lambda session: RayEngine(TARGET, f"{FAKES}:{session}", cluster.address)


def rows(path: Path) -> list[tuple[str, ...]]:
    with path.open(newline="") as file:
        return sorted(map(tuple, csv.reader(file)))


def test_the_log_is_the_same(start: Start, tmp_path: Path) -> None:
    summary = run_tune(TuneOptions(TARGET, tmp_path / "log.csv"), engine=start("FakeSession"))
    assert (summary.state, summary.missing, summary.devices) == ("finished", 0, ("Fake, GPU",))
    run_tune(TuneOptions(TARGET, tmp_path / "whole.csv"), executor=FakeExecutor(noise=0.0))
    assert rows(tmp_path / "log.csv") == rows(tmp_path / "whole.csv")
    assert not (tmp_path / "log.samples").exists()


def test_a_bad_config_is_a_failure_and_its_scenario_goes_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heurgen.tune.executors.LAUNCH_LIMIT", 1.0)
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


# --- what only a cluster does ---------------------------------------------------------------------------------

DRIVER = """
import sys
from pathlib import Path
from heurgen.tune.ray_engine import RayEngine
from heurgen.tune.run import TuneOptions, run_tune
target, kind, address, log, workload, space = sys.argv[1:]
options = TuneOptions(target, Path(log), Path(workload), Path(space), resume=True, interpret=kind == "interpret")
print(run_tune(options, engine=RayEngine(target, kind, address)).state)
"""


def grown(path: Path, process: subprocess.Popen[str], lines: int, limit_s: float = 120.0) -> None:
    """Wait until the log has so many lines."""
    give_up = time.monotonic() + limit_s
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.mark.cluster
def test_nodes_leave_and_join_and_the_driver_is_killed(cluster: Any, tmp_path: Path) -> None:
    """Three nodes in Triton's interpreter: the log is that of an undisturbed sweep but for its times."""
    pytest.importorskip(
        "triton", reason="the interpreter needs torch and triton: pip install 'heurgen[kernels]'"
    )
    workload, space, path = tmp_path / "w.toml", tmp_path / "s.toml", tmp_path / "log.csv"
    workload.write_text("[[grid]]\nM = [16, 40, 64, 100]\nN = [32, 48]\nK = [48, 96]\n")
    space.write_text(
        "[parameters]\nBLOCK_M = [16, 32, 64]\nBLOCK_N = [32, 64]\nBLOCK_K = [32]\nnum_warps = [4, 8]\n"
        "num_stages = [2]\n"
    )
    leaving = cluster.add_node(**NODE)

    def driver() -> subprocess.Popen[str]:
        arguments = ["matmul:tunable", "interpret", cluster.address, path, workload, space]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, *map(str, arguments)],
            cwd=ROOT / "examples",  # the nodes do not have it: the source travels
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    first = driver()
    grown(path, first, 25)
    cluster.remove_node(leaving, allow_graceful=False)
    grown(path, first, 60)
    cluster.add_node(**NODE)
    grown(path, first, 80)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    held = path.read_text()
    assert 80 <= held.count("\n") < 193
    output, errors = driver().communicate(timeout=120)
    assert output.endswith("finished\n"), (output, errors)  # Ray may tell of lost nodes before
    assert path.read_text().startswith(held[: held.rfind("\n") + 1])
    undisturbed = [r[:-2] for r in rows(path)]
    assert len(undisturbed) == len(set(undisturbed)) == 1 + 16 * 12  # no cell is missing, or there twice
    assert {r[-1] for r in undisturbed} == {"status", "ok"}


@pytest.mark.cluster
def test_a_launch_that_loses_its_node_twice_is_a_failure(cluster: Any, tmp_path: Path) -> None:
    """Its actor is killed under it; any other launch of the scenario is measured all the same."""
    from heurgen.tune.ray_engine import RayEngine

    workload, space = tmp_path / "w.toml", tmp_path / "s.toml"
    workload.write_text('[[grid]]\nM = [64]\nN = [64]\ndtype = "float16"\n')
    space.write_text("[parameters]\nBLOCK_M = [16]\nBLOCK_N = [16]\nnum_warps = [1, 4, 8, 13]\n")
    options = TuneOptions(TARGET, tmp_path / "log.csv", workload, space)
    summary = run_tune(options, engine=RayEngine(TARGET, f"{FAKES}:KillerSession", cluster.address))
    assert (summary.state, summary.missing) == ("finished", 0)
    with (tmp_path / "log.csv").open(newline="") as file:
        found = {int(r["num_warps"]): (r["status"], r["reason"][:41]) for r in csv.DictReader(file)}
    lost = ("crash", "its GPU was lost twice in this launch: no")
    assert found == {1: ("ok", ""), 4: ("ok", ""), 8: ("ok", ""), 13: lost}
    assert len(summary.notes) == 2
    assert all(n.startswith("a GPU was lost: node ") for n in summary.notes)


@pytest.mark.slow
def test_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    from heurgen.tune.ray_engine import RayEngine

    ray = pytest.importorskip("ray", reason="the Ray engine needs Ray: pip install 'heurgen[ray]'")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # whatever the other tests are connected to
    with pytest.raises(UsageError, match=r"cannot reach the Ray cluster 127.0.0.1:1: "):
        RayEngine(TARGET, f"{FAKES}:FakeSession", "127.0.0.1:1")
