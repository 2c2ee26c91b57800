"""Compiling ahead of time: one pool of worker processes for all GPUs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from heurgen.base.errors import UsageError
from heurgen.tune.child import Child, is_dead
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.timing import Failure

# Seconds without a word from any compiler before all are taken for hung.
COMPILE_LIMIT = 300.0


class CompileJob(NamedTuple):
    """One kernel to compile: `key` is handed back with the outcome."""

    key: Any
    scenario: Scenario
    config: Settings


# Each job's key, with None or its failure, as the jobs finish. Closing it ends the compilers.
Compiled = Generator[tuple[Any, Failure | None], None, None]


def compile_all(start: Callable[[int], Child], jobs: Sequence[CompileJob], count: int) -> Compiled:
    """Keep `count` compilers busy; `start` makes the n-th.

    A compiler without work is killed at once and waited for at the very end: leaving a CUDA context takes
    a process up to a second, and dozens of them would do so one after the other.

    Raises:
        UsageError: a compiler cannot start.
    """
    waiting = list(reversed(jobs))
    busy: dict[Any, tuple[Child, CompileJob | None]] = {}
    made: list[Child] = []

    def add() -> None:
        child = start(len(made))
        made.append(child)
        busy[child.connection] = (child, None)  # its first message says that it is ready

    try:
        for _ in range(min(count, len(jobs))):
            add()
        while busy:
            for connection in wait(list(busy), COMPILE_LIMIT) or list(busy):
                child, job = busy.pop(connection)
                answer = child.receive(0.0)
                dead = is_dead(answer)
                if job is None and not isinstance(answer, DeviceInfo):
                    raise UsageError(f"cannot compile here: {getattr(answer, 'reason', answer)}")
                if job is not None:
                    yield job.key, Failure("compile_error", answer.reason) if dead else answer
                if dead:
                    child.finish()
                if dead and waiting:
                    add()
                elif not waiting:
                    child.kill()
                else:
                    job = waiting.pop()
                    child.send("compile", job.scenario, job.config)
                    busy[connection] = (child, job)
    finally:
        for child in made:
            child.kill()
        for child in made:
            child.finish()
