"""The pool of compilers, real processes with a session that needs no GPU."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune.child import Child
from heurgen.tune.compilers import CompileJob, compile_all
from heurgen.tune.protocol import Settings
from heurgen.tune.timing import Failure
from heurgen.tune.workloads import make_scenarios
from tests.tune.fakes import tunable

TARGET, FAKES = "tests.tune.fakes:tunable", "tests.tune.fakes"
SCENARIO = make_scenarios(tunable.workload, tunable.features)[0]


def config(warps: int) -> Settings:
    return {"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": warps}


def starter(made: list[Child], session: str = "FakeSession") -> Callable[[int], Child]:
    """Starts compilers and collects them; the n-th it is asked for is the n-th in the list."""

    def start(number: int) -> Child:
        assert number == len(made)
        made.append(Child(TARGET, f"{FAKES}:{session}"))
        return made[-1]

    return start


def gone(child: Child) -> bool:
    return child._process.poll() is not None and child._stderr.closed


def test_parallel_compilation_survives_its_compilers() -> None:
    made: list[Child] = []
    jobs = [CompileJob(w, SCENARIO, config(w)) for w in (1, 9, 2, 12, 10, 11, 4, 8, 15, 14)]
    assert dict(compile_all(starter(made), jobs, 2)) == {
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
    assert len(made) == 4  # two that died were replaced
    assert all(map(gone, made))
    assert list(compile_all(starter([]), [], 2)) == []


def test_no_more_compilers_than_jobs() -> None:
    made: list[Child] = []
    assert list(compile_all(starter(made), [CompileJob("k", SCENARIO, config(1))], 8)) == [("k", None)]
    assert len(made) == 1


def test_closing_ends_the_compilers() -> None:
    made: list[Child] = []
    outcomes = compile_all(starter(made), [CompileJob(w, SCENARIO, config(1)) for w in range(50)], 2)
    assert next(outcomes)[1] is None
    outcomes.close()
    assert all(map(gone, made))
    assert {child._process.returncode for child in made} == {
        -signal.SIGKILL
    }  # they did not end by themselves


def test_a_compiler_that_cannot_start() -> None:
    made: list[Child] = []
    with pytest.raises(UsageError) as caught:
        list(compile_all(starter(made, "no_device"), [CompileJob(1, SCENARIO, config(1))], 1))
    assert str(caught.value) == "cannot compile here: RuntimeError: no GPU here"
    assert all(map(gone, made))
