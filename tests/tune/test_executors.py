"""The real child processes, with a session that needs no GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from heurgen.errors import UsageError
from heurgen.tune import executors
from heurgen.tune.compilers import CompileJob
from heurgen.tune.executors import ProcessExecutor
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
    monkeypatch.setattr(executors, "LAUNCH_LIMIT", 1.0)
    assert executor.lanes[0].open(SCENARIO) is None
    good = latent_ms(SCENARIO, config(1))
    assert list(executor.lanes[0].sample([config(w) for w in (1, 3, 1, 5, 6, 7, 1)])) == [
        good,
        Failure("crash", "the process ended with signal SIGABRT"),
        good,
        Failure("crash", "RuntimeError: CUDA error: an illegal memory access was encountered"),
        Failure("error", "ValueError: grid too large"),
        Failure("timeout", "no answer within 1 s"),
        good,
    ]


def test_check(executor: ProcessExecutor) -> None:
    executor.lanes[0].open(SCENARIO)
    assert list(executor.lanes[0].check([config(1), config(2)])) == [None, Failure("wrong", "relative error 0.5")]


def test_parallel_compilation_survives_its_compilers(executor: ProcessExecutor) -> None:
    jobs = [CompileJob(w, SCENARIO, config(w)) for w in (1, 9, 2, 12, 10, 11, 4, 8, 15, 14)]
    assert dict(executor.compile(jobs)) == {
        1: None,
        9: Failure("compile_error", "the process ended with signal SIGABRT"),
        2: None,
        12: Failure("compile_error", "RuntimeError: CUDA error: an illegal memory access was encountered"),
        8: None,
        14: None,
        15: None,
        10: Failure("compile_error", "RuntimeError: PassManager::run failed"),
        11: Failure("unfit", "needs 300000 bytes of shared memory"),
        4: None,
    }
    assert list(executor.compile([])) == []


def test_no_device() -> None:
    with pytest.raises(UsageError) as caught:
        ProcessExecutor(TARGET, f"{FAKES}:no_device")
    assert str(caught.value) == "cannot tune here: RuntimeError: no GPU here"


def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import sys, time; from heurgen.tune.child import Child;"
        f"c = Child({TARGET!r}, '{FAKES}:FakeSession'); c.receive(60);"
        "print(c._process.pid, flush=True); time.sleep(60)"
    )
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    give_up = time.monotonic() + 10
    while _alive(child) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
