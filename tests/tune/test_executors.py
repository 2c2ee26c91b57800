"""The real child processes, with a session that needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune import executors
from heurgen.tune.compilers import CompileJob
from heurgen.tune.engines import Aborted
from heurgen.tune.executors import ProcessExecutor, only_gpu
from heurgen.tune.protocol import Settings
from heurgen.tune.timing import Failure
from heurgen.tune.workloads import make_scenarios
from tests.tune.fakes import DEVICE, latent_ms, tunable

TARGET, FAKES = "tests.tune.fakes:tunable", "tests.tune.fakes"
SCENARIO = make_scenarios(tunable.workload, tunable.features)[0]


def config(warps: int) -> Settings:
    return {"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": warps}


@pytest.fixture(scope="module")
def executor() -> Iterator[ProcessExecutor]:
    made = ProcessExecutor(TARGET, f"{FAKES}:FakeSession", compilers=2)
    yield made
    made.close()


def test_device(executor: ProcessExecutor) -> None:
    assert executor.device() == DEVICE


def test_a_crash_costs_one_config(executor: ProcessExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "LAUNCH_LIMIT", 3.0)
    assert executor.lanes[0].open(SCENARIO) is None
    good = latent_ms(SCENARIO, config(1))
    assert list(executor.lanes[0].sample([config(w) for w in (1, 3, 1, 5, 6, 7, 1)])) == [
        good,
        Failure("crash", "the process ended with signal SIGABRT"),
        good,
        Failure("crash", "RuntimeError: CUDA error: an illegal memory access was encountered"),
        Failure("error", "ValueError: grid too large"),
        Failure("timeout", "no answer within 3 s"),
        good,
    ]


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ProcessExecutor]:
    """Makes an executor over pretend GPUs of these names."""
    monkeypatch.setenv("FAKE_TRACE", str(tmp_path / "trace"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(*names: str, session: str = "FakeGpu") -> ProcessExecutor:
        monkeypatch.setenv("FAKE_GPUS", ",".join(names))
        return ProcessExecutor(TARGET, f"{FAKES}:{session}", compilers=3)

    return make


def traced(tmp_path: Path) -> list[str]:
    return [line.split()[0] for line in (tmp_path / "trace").read_text().splitlines()]


def test_a_lane_for_each_gpu(gpus: Callable[..., ProcessExecutor], tmp_path: Path) -> None:
    with closing(gpus("A", "A", "A")) as executor:
        assert executor.device() == replace(DEVICE, name="A", gpus=3)
        for lane in reversed(executor.lanes):
            assert lane.open(SCENARIO) is None
            assert list(lane.sample([config(1)])) == [latent_ms(SCENARIO, config(1))]
        assert traced(tmp_path) == ["2", "1", "0"]
        jobs = [CompileJob(w, SCENARIO, config(w)) for w in (1, 2, 4, 8)]
        assert dict(executor.compile(jobs)) == {1: None, 2: None, 4: None, 8: None}


def test_the_user_chooses_the_gpus(
    gpus: Callable[..., ProcessExecutor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 1")
    with closing(gpus("other", "A", "other", "A")) as executor:
        assert executor.device().gpus == 2
        for lane in executor.lanes:
            lane.open(SCENARIO)
            list(lane.sample([config(1)]))
    assert traced(tmp_path) == ["3", "1"]


def test_gpus_of_two_kinds(gpus: Callable[..., ProcessExecutor]) -> None:
    with pytest.raises(UsageError) as caught:
        gpus("A", "A", "B")
    assert str(caught.value) == (
        "cannot tune here: the visible GPUs differ: A, B (choose those of one kind with CUDA_VISIBLE_DEVICES)"
    )


def test_a_gpu_that_is_not_alone(gpus: Callable[..., ProcessExecutor]) -> None:
    with pytest.raises(UsageError) as caught:
        gpus("A", "A", session="StubbornGpu")
    assert str(caught.value) == "cannot tune here: a process meant to see one GPU sees 2"


@pytest.mark.parametrize(
    ("vendor", "environment", "wanted"),
    [
        ("nvidia", {}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
        ("nvidia", {"HIP_VISIBLE_DEVICES": "5,6"}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("amd", {}, {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}),
        ("amd", {"CUDA_VISIBLE_DEVICES": "5,6"}, {"CUDA_VISIBLE_DEVICES": "6", "HIP_VISIBLE_DEVICES": "6"}),
        (
            "amd",
            {"CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "5,6"},
            {"CUDA_VISIBLE_DEVICES": "6", "HIP_VISIBLE_DEVICES": "6"},
        ),
    ],
)
def test_only_gpu(
    vendor: str, environment: dict[str, str], wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert only_gpu(1, vendor) == wanted


def test_an_aborted_lane_raises_and_stays_down(gpus: Callable[..., ProcessExecutor]) -> None:
    with closing(gpus("A", "A")) as executor:
        first, second = executor.lanes
        for lane in (first, second):
            lane.open(SCENARIO)
        first.abort()
        with pytest.raises(Aborted):
            list(first.sample([config(1)] * 3))
        assert list(second.sample([config(1)])) == [latent_ms(SCENARIO, config(1))]


def test_check(executor: ProcessExecutor) -> None:
    executor.lanes[0].open(SCENARIO)
    assert list(executor.lanes[0].check([config(1), config(2)])) == [
        None,
        Failure("wrong", "relative error 0.5"),
    ]


def test_no_device() -> None:
    with pytest.raises(UsageError) as caught:
        ProcessExecutor(TARGET, f"{FAKES}:no_device")
    assert str(caught.value) == "cannot tune here: RuntimeError: no GPU here"


def test_a_scenario_that_cannot_be_opened_again_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash in it, its other configs are not failures: they have not been measured."""
    refusals = tmp_path / "refusals"
    monkeypatch.setenv("FAKE_REFUSALS", str(refusals))
    refusals.write_text("0")
    crash = Failure("crash", "the process ended with signal SIGABRT")
    with closing(ProcessExecutor(TARGET, f"{FAKES}:FakeSession", compilers=1)) as executor:
        (lane,) = executor.lanes
        assert lane.open(SCENARIO) is None
        refusals.write_text("2")  # a dead child's memory is given back late
        assert list(lane.sample([config(w) for w in (3, 1)])) == [crash, latent_ms(SCENARIO, config(1))]
        refusals.write_text("3")
        answers = iter(lane.sample([config(w) for w in (3, 1)]))
        assert next(answers) == crash
        with pytest.raises(UsageError) as caught:
            next(answers)
    assert str(caught.value) == (
        f"cannot open scenario '{SCENARIO.id}' again after a crash: RuntimeError: CUDA out of memory"
        " (the log is sound; --resume continues it)"
    )
