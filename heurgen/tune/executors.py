"""Where measurements happen: the interface, and the child processes that keep a crash away from the log.

A `Session` knows how to launch (`heurgen.tune.gpu` has the real one); it lives in a child process, so
that an illegal memory access, a hang or a segmentation fault costs one config and not the sweep. An
`Executor` is what the sweep talks to; tests use one without processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from heurgen.errors import UsageError
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.target import bounded
from heurgen.tune.timing import Failure

# Seconds before a child is taken for hung. A bad config may launch for seconds, or compile for a minute.
LAUNCH_LIMIT = 60.0
OPEN_LIMIT = 300.0
COMPILE_LIMIT = 300.0


class CompileJob(NamedTuple):
    """One kernel to compile: `key` is handed back with the outcome."""

    key: Any
    scenario: Scenario
    config: Settings


class Session(Protocol):
    """The side that launches. Any method may raise.

    `check` and `compile` give None or what is wrong, `sample` the milliseconds of one launch, `broken`
    whether the process must be replaced after a failure.
    """

    def device(self) -> DeviceInfo: ...
    def open(self, scenario: Scenario) -> None: ...
    def check(self, config: Settings) -> str | None: ...
    def sample(self, config: Settings) -> float: ...
    def compile(self, config: Settings) -> str | None: ...
    def broken(self) -> bool: ...


class Executor(Protocol):
    """The side that the sweep talks to. Failures are values here, not exceptions."""

    def device(self) -> DeviceInfo: ...
    def compile(self, jobs: Sequence[CompileJob]) -> Iterator[tuple[Any, Failure | None]]: ...
    def open(self, scenario: Scenario) -> Failure | None: ...
    def check(self, configs: Sequence[Settings]) -> Iterable[Failure | None]: ...
    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]: ...
    def close(self) -> None: ...


class Child:
    """A worker process (`python -m heurgen.tune.worker`) and the pipe to it.

    It has its own process session, so that Ctrl-C reaches the parent alone, and ends when the pipe
    closes, so that it does not outlive a parent that was killed.
    """

    def __init__(self, target: str, kind: str) -> None:
        ours, theirs = Pipe(duplex=True)
        self.connection: Connection[Any, Any] = ours
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
        if kind == "interpret":
            environment["TRITON_INTERPRET"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "heurgen.tune.worker", str(theirs.fileno()), kind, target],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            env=environment,
            start_new_session=True,
        )
        theirs.close()

    def send(self, *message: Any) -> None:
        """Send a request; a child that is gone shows itself when its answer is received."""
        with suppress(OSError):
            self.connection.send(message)

    def receive(self, limit: float) -> Any:
        """The next answer, or a Failure ("timeout" or "crash") after which the child is gone."""
        try:
            if self.connection.poll(limit):
                return self.connection.recv()
        except (EOFError, OSError):
            return Failure("crash", self.last_words())
        self.stop()
        return Failure("timeout", f"no answer within {limit:g} s")

    def last_words(self) -> str:
        """Why the process ended, with the last line that it printed."""
        code = self.stop(wait_s=5.0)
        self._stderr.seek(0)
        lines = self._stderr.read()[-4000:].decode(errors="replace").strip().splitlines()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return bounded(f"the process ended with {how}" + (f": {lines[-1]}" if lines else ""))

    def stop(self, wait_s: float = 0.0) -> int:
        """End the process, after `wait_s` seconds to do so by itself; gives its exit status."""
        self.connection.close()
        try:
            return self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def finish(self) -> None:
        """End the process and let go of its files."""
        self.stop(wait_s=2.0)
        self._stderr.close()


class ProcessExecutor:
    """Measures in one child, compiles in several. `kind`: "gpu", "interpret", or a session factory's path."""

    def __init__(self, target: str, kind: str = "gpu", compilers: int | None = None) -> None:
        self._target, self._kind = target, kind
        self._compilers = compilers or len(os.sched_getaffinity(0))
        self._scenario: Scenario | None = None
        self._child = Child(target, kind)
        answer = self._child.receive(OPEN_LIMIT)
        if not isinstance(answer, DeviceInfo):
            self._child.finish()
            reason = answer.reason if isinstance(answer, Failure) else str(answer)
            raise UsageError(f"cannot tune here: {reason}")
        self._device = answer

    def device(self) -> DeviceInfo:
        return self._device

    def compile(self, jobs: Sequence[CompileJob]) -> Iterator[tuple[Any, Failure | None]]:
        if self._kind == "interpret":
            return iter([(job.key, None) for job in jobs])
        return _compile_all(self._target, self._kind, jobs, min(self._compilers, len(jobs)))

    def open(self, scenario: Scenario) -> Failure | None:
        self._scenario = scenario
        self._child.send("open", scenario)
        answer = self._child.receive(OPEN_LIMIT)
        if isinstance(answer, Failure) and answer.status in ("crash", "timeout"):
            self._restart(reopen=False)
        return answer if isinstance(answer, Failure) else None

    def check(self, configs: Sequence[Settings]) -> Iterable[Failure | None]:
        return self._each("check", configs)

    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
        return self._each("sample", configs)

    def close(self) -> None:
        self._child.finish()

    def _each(self, request: str, configs: Sequence[Settings]) -> Iterator[Any]:
        """Answers one by one; the config that kills the child is the first without one."""
        start = 0
        while start < len(configs):
            self._child.send(request, configs[start:])
            for position in range(start, len(configs)):
                answer = self._child.receive(LAUNCH_LIMIT)
                start = position + 1
                dead = isinstance(answer, Failure) and answer.status in ("crash", "timeout")
                if dead:
                    self._restart()
                yield answer
                if dead:
                    break

    def _restart(self, reopen: bool = True) -> None:
        self._child.finish()
        self._child = Child(self._target, self._kind)
        answer = self._child.receive(OPEN_LIMIT)
        if not isinstance(answer, DeviceInfo):
            raise UsageError(f"the device is gone: {getattr(answer, 'reason', answer)}")
        if reopen and self._scenario is not None:
            self._child.send("open", self._scenario)
            self._child.receive(OPEN_LIMIT)


def _compile_all(
    target: str, kind: str, jobs: Sequence[CompileJob], count: int
) -> Iterator[tuple[Any, Failure | None]]:
    """Keep `count` compilers busy; gives each job's key with None or its failure, as they finish."""
    waiting = list(reversed(jobs))
    busy: dict[Any, tuple[Child, CompileJob | None]] = {}

    def start() -> None:
        child = Child(target, kind)
        busy[child.connection] = (child, None)  # its first message says that it is ready

    try:
        for _ in range(count):
            start()
        while busy:
            for connection in wait(list(busy), COMPILE_LIMIT) or list(busy):
                child, job = busy.pop(connection)
                answer = child.receive(0.0)
                dead = isinstance(answer, Failure) and answer.status in ("crash", "timeout")
                if job is None and not isinstance(answer, DeviceInfo):
                    child.finish()
                    raise UsageError(f"cannot compile here: {getattr(answer, 'reason', answer)}")
                if job is not None:
                    yield job.key, Failure("compile_error", answer.reason) if dead else answer
                if dead or not waiting:
                    child.finish()
                    if waiting:
                        start()
                    continue
                job = waiting.pop()
                child.send("compile", job.scenario, job.config)
                busy[connection] = (child, job)
    finally:
        for child, _ in busy.values():
            child.finish()
