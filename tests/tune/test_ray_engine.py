"""The engine over a Ray cluster: with a made-up `ray` what it does itself, then what a real cluster does to it."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heurgen._version import __version__
from heurgen.base.errors import UsageError
from heurgen.tune import ray_engine
from heurgen.tune.compilers import CompileJob
from heurgen.tune.engines import Aborted, LaneLost
from heurgen.tune.ray_engine import GpuActor, RayEngine, RayExecutor, RayLane, package_of, reason_of
from heurgen.tune.run import TuneOptions, run_tune
from tests.tune.conftest import NODE, ROOT, rows
from tests.tune.fakes import DEVICE

TARGET, FAKES = "tests.tune.fakes:tunable", "tests.tune.fakes"


class RayError(Exception):
    """As Ray's: what its text ends with is the cause on the far side."""


class Answer:
    """What `remote` returns: an answer, or an error that `get` raises; `ready` is what `wait` says."""

    def __init__(self, value: Any, ready: bool = True) -> None:
        self.value, self.ready = value, ready


class Method:
    """A method of an actor."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def options(self, **_: Any) -> Method:
        return self

    def remote(self, *_: Any) -> Any:
        return self.streamed() if len(self.answers) != 1 else self.answers[0]

    def streamed(self) -> Iterator[Any]:
        for answer in self.answers:
            if isinstance(answer.value, StreamEnds):
                raise answer.value.error
            yield answer


class StreamEnds:
    def __init__(self, error: Exception) -> None:
        self.error = error


class FakeRay(types.ModuleType):
    """A cluster of nodes {name: GPUs}; `devices` answers the actors' first question, node by node."""

    def __init__(self, nodes: dict[str, int], device: Callable[[str], Answer]) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError)
        self.gpus, self.device = nodes, device
        self.connected = False
        self.calls: list[tuple[str, Any]] = []
        self.killed: list[Any] = []

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **options: Any) -> None:
        self.calls.append(("init", options))

    def shutdown(self) -> None:
        self.calls.append(("shutdown", None))

    def get_runtime_context(self) -> Any:
        return types.SimpleNamespace(gcs_address="10.0.0.7:6379")

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": name, "Alive": n >= 0, "Resources": {"GPU": float(n)}} for name, n in self.gpus.items()
        ]

    def remote(self, kind: type) -> Any:
        assert kind is GpuActor
        return types.SimpleNamespace(options=self.options)

    def options(self, **needs: Any) -> Any:
        self.calls.append(("options", needs))
        return types.SimpleNamespace(remote=lambda *arguments: self.actor(needs, arguments))

    def actor(self, needs: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        assert arguments == (TARGET, "gpu", __version__)
        return types.SimpleNamespace(device=Method(self.device(needs["scheduling_strategy"])))

    def wait(self, answers: list[Answer], **_: Any) -> tuple[list[Answer], list[Answer]]:
        return [a for a in answers if a.ready], [a for a in answers if not a.ready]

    def get(self, answer: Answer) -> Any:
        if isinstance(answer.value, Exception):
            raise answer.value
        return answer.value

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Two nodes with two GPUs and one; a third is gone."""
    fake = FakeRay({"aaaaaaaa-a": 2, "bbbbbbbb-b": 1, "c": -1}, lambda node: Answer((DEVICE, 8)))
    strategies: Any = types.ModuleType("strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: node
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.util", types.ModuleType("util"))
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    monkeypatch.setattr(ray_engine, "LOOK_S", 0.0)
    return fake


# --- connecting -----------------------------------------------------------------------------------------------


def test_a_cluster_of_this_machine_ends_with_the_sweep(ray: FakeRay) -> None:
    engine = RayEngine(TARGET, "gpu")
    (name, options) = ray.calls[0]
    assert (name, options["address"], options["include_dashboard"]) == ("init", "local", False)
    source = Path(options["runtime_env"]["working_dir"])
    assert (source / "tests" / "tune" / "fakes.py").exists()
    engine.close()
    assert ray.calls[-1][0] == "shutdown"
    assert not source.exists()


@pytest.mark.parametrize("address", ["", "auto", "10.0.0.7:6379"])
def test_a_connection_that_is_there_is_used_and_left(ray: FakeRay, address: str) -> None:
    ray.connected = True
    RayEngine(TARGET, "gpu", address).close()
    assert ray.calls == []


def test_a_connection_to_another_cluster_is_an_error(ray: FakeRay) -> None:
    ray.connected = True
    with pytest.raises(UsageError) as caught:
        RayEngine(TARGET, "gpu", "10.0.0.8:6379")
    assert str(caught.value) == (
        "this process is connected to the Ray cluster 10.0.0.7:6379, not to 10.0.0.8:6379 (call ray.shutdown() first, "
        "or give no address)"
    )


def test_no_cluster(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^cannot reach the Ray cluster 127.0.0.1:1: "):
        RayEngine(TARGET, "gpu", "127.0.0.1:1")
    assert ray.calls == []  # Ray itself would try for minutes

    def refused(**_: Any) -> None:
        raise ConnectionError("no\nsuch cluster")

    monkeypatch.setattr(ray, "init", refused)
    with pytest.raises(UsageError) as caught:
        RayEngine(TARGET, "gpu", "auto")
    assert str(caught.value) == "cannot reach the Ray cluster auto: such cluster"


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as caught:
        RayEngine(TARGET, "gpu")
    assert str(caught.value) == "Ray is not installed (pip install 'heurgen[ray]')"


def test_a_node_with_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match=f"^the node has heurgen {__version__}, the sweep runs 0.0.0$"):
        GpuActor(TARGET, "gpu", "0.0.0")


def test_what_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outermost package or the module alone; not what nodes have anyway."""
    assert package_of("heurgen_kernels.tools.tunable:tunable") is None
    assert package_of("numpy.linalg:norm") is None
    assert package_of("nowhere_at_all:tunable") is None
    (tmp_path / "alone_here.py").write_text("tunable = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = package_of("alone_here:tunable")
    assert folder is not None
    assert [p.name for p in Path(folder).iterdir()] == ["alone_here.py"]


def test_reasons_in_one_line() -> None:
    assert reason_of(RayError("trace\n\n  heurgen.base.errors.UsageError: no GPU here\n")) == "no GPU here"
    assert reason_of(RayError("a\x1b")) == "a\\x1b"
    assert reason_of(RayError()) == "RayError"


# --- machines -------------------------------------------------------------------------------------------------


def test_a_machine_for_each_node_with_all_of_its_gpus(ray: FakeRay) -> None:
    engine = RayEngine(TARGET, "gpu")
    machines = engine.arrivals()
    assert [(m.device().gpus, len(m.lanes), m.processors) for m in machines] == [(2, 2, 8), (1, 1, 8)]
    needs = [n for name, n in ray.calls if name == "options"]
    assert [n["num_gpus"] for n in needs] == [1, 1, 1]
    assert engine.arrivals() == []
    ray.gpus["d"] = 1
    assert len(engine.arrivals()) == 1
    machines[1].close()
    machines[1].lanes[0].lost = True
    assert len(engine.arrivals()) == 1  # another actor on the same GPU


def test_a_gpu_that_keeps_failing_is_left_alone(ray: FakeRay) -> None:
    ray.gpus = {"a": 1, "b": 1}
    ray.device = lambda node: Answer(RayError("no GPU here") if node == "b" else (DEVICE, 8))
    engine = RayEngine(TARGET, "gpu")
    assert len(engine.arrivals()) == 1
    for _ in range(5):
        assert engine.arrivals() == []
    assert sum(name == "options" for name, _ in ray.calls) == 1 + ray_engine.MAX_STARTS


def test_where_no_gpu_ever_comes_the_reason_is_told(ray: FakeRay) -> None:
    ray.gpus = {"a": 3}
    ray.device = lambda node: Answer(RayError("cannot tune here: no GPU"))
    with pytest.raises(UsageError, match=r"^cannot tune here: no GPU$"):
        RayEngine(TARGET, "gpu").arrivals()


def test_those_that_are_ready_do_not_wait_for_ever(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    ray.gpus = {"a": 2}
    answers = iter([Answer((DEVICE, 8)), Answer(None, ready=False)])
    ray.device = lambda node: next(answers)
    engine = RayEngine(TARGET, "gpu")
    assert engine.arrivals() == []
    monkeypatch.setattr(ray_engine, "GATHER_S", -1.0)
    (machine,) = engine.arrivals()
    assert machine.device().gpus == 1
    assert len(ray.killed) == 1


# --- lanes ----------------------------------------------------------------------------------------------------


def lane(ray: FakeRay, **methods: Method) -> RayLane:
    return RayLane(ray, types.SimpleNamespace(**methods), "node a")


def test_answers_as_they_come(ray: FakeRay) -> None:
    made = lane(
        ray, open=Method(Answer(None)), sample=Method(Answer(1.0), Answer(2.0)), reading=Method(Answer(None))
    )
    assert made.open({}) is None  # type: ignore[arg-type]
    assert list(made.sample([{}, {}])) == [1.0, 2.0]
    assert made.reading() is None


def test_a_lane_is_lost_once_and_an_aborted_one_says_so(ray: FakeRay) -> None:
    ends = Answer(StreamEnds(RayError("the node died")))
    made = lane(ray, open=Method(Answer(RayError("the actor died"))), check=Method(Answer(None), ends))
    answers = made.check([{}, {}])
    assert next(answers) is None
    with pytest.raises(LaneLost, match=r"^node a: the node died$"):
        next(answers)
    with pytest.raises(LaneLost, match=r"^node a: the actor died$"):
        made.open({})  # type: ignore[arg-type]
    assert (made.lost, len(ray.killed)) == (True, 1)
    made.abort()
    with pytest.raises(Aborted):
        made.open({})  # type: ignore[arg-type]


def test_the_jobs_of_a_lost_compiler_are_left_out(ray: FakeRay) -> None:
    """Each lane gets its share; an error of another kind is raised."""
    jobs = [CompileJob(i, None, {}) for i in range(4)]  # type: ignore[arg-type]
    good = lane(ray, compile=Method(Answer((0, None)), Answer((1, None))))
    lost = lane(ray, compile=Method(Answer((2, None)), Answer(StreamEnds(RayError("gone")))))
    machine = RayExecutor([good, lost], DEVICE, 4)
    assert sorted(machine.compile(jobs)) == [(0, None), (1, None), (2, None)]
    good.lost = True
    with pytest.raises(LaneLost, match="all GPUs of a node"):
        list(machine.compile(jobs))
    wrong = lane(ray, compile=Method(Answer(StreamEnds(ValueError("a bug"))), Answer(None)))
    with pytest.raises(ValueError, match="a bug"):
        list(RayExecutor([wrong], DEVICE, 4).compile(jobs))


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
