"""Where measurements happen: the interfaces between a sweep and the machines that it runs on.

An `Engine` brings machines: this one alone (`LocalEngine`), or those of a cluster, which come and go
(`heurgen.tune.ray_engine`). A machine is an `Executor`: a `Lane` for each of its GPUs, and compilers that all of
them share. What launches is a `Session` (`heurgen.tune.gpu` has the real ones); it lives in a child process
(`heurgen.tune.executors`), so that an illegal memory access, a hang or a segmentation fault costs one config and
not the sweep. Tests use executors without processes; both engines pass one set of tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from heurgen.base.errors import UsageError, quoted
from heurgen.tune.compilers import Compiled, CompileJob
from heurgen.tune.conditions import Reading
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.timing import Failure


class Session(Protocol):
    """The side that launches. Any method may raise.

    `device` tells in `gpus` how many GPUs the process sees; it launches on the first. `check` and `compile`
    give None or what is wrong, `sample` the milliseconds of one launch, `broken` whether the process must
    be replaced after a failure. One with a method `reading` (-> Reading | None) tells the GPU's condition.
    """

    def device(self) -> DeviceInfo: ...
    def open(self, scenario: Scenario) -> None: ...
    def check(self, config: Settings) -> str | None: ...
    def sample(self, config: Settings) -> float: ...
    def compile(self, config: Settings) -> str | None: ...
    def broken(self) -> bool: ...


class LaneLost(Exception):
    """The lane is gone with its machine. What it was at is measured elsewhere."""


class Aborted(Exception):
    """The sweep has ended, by Ctrl-C or an error, while the lane was at work."""


class Lane(Protocol):
    """One GPU, used from one thread. Failures are values here, not exceptions.

    Any method may raise LaneLost. `abort` comes from another thread: what the lane is asked for, now or later,
    may raise from then on.
    """

    def open(self, scenario: Scenario) -> Failure | None: ...
    def check(self, configs: Sequence[Settings]) -> Iterable[Failure | None]: ...
    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]: ...
    def reading(self) -> Reading | None: ...
    def abort(self) -> None: ...


class Executor(Protocol):
    """One machine: GPUs of one kind, a lane each. `device` is any of them.

    `compile` leaves out jobs whose compiler was lost; it raises LaneLost where no lane is left.
    """

    @property
    def lanes(self) -> Sequence[Lane]: ...
    def device(self) -> DeviceInfo: ...
    def compile(self, jobs: Sequence[CompileJob]) -> Compiled: ...
    def close(self) -> None: ...


class Engine(Protocol):
    """Brings machines. `arrivals` gives those that have joined since it was asked last.

    `patience` is how long to wait, in seconds, for another machine where work is left and none is at it; 0 where
    no other can come.
    """

    @property
    def patience(self) -> float: ...
    def arrivals(self) -> Sequence[Executor]: ...
    def close(self) -> None: ...


class LocalEngine:
    """This machine, which is there from the start."""

    patience = 0.0

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._waiting = [executor]

    def arrivals(self) -> Sequence[Executor]:
        arrived, self._waiting = self._waiting, []
        return arrived

    def close(self) -> None:
        self._executor.close()


def engine_named(name: str, target: str, kind: str) -> Engine:
    """The engine that `--engine` asks for: "local", "ray" or "ray://ADDRESS".

    Raises:
        UsageError: it is none of these, or it has no device.
    """
    if name != "local" and name != "ray" and not (name.startswith("ray://") and len(name) > len("ray://")):
        raise UsageError(f"{quoted(name)} is no engine", hint="expected local, ray or ray://ADDRESS")
    if name == "local":
        from heurgen.tune.executors import ProcessExecutor

        return LocalEngine(ProcessExecutor(target, kind))
    from heurgen.tune.ray_engine import RayEngine

    return RayEngine(target, kind, name.removeprefix("ray").removeprefix("://"))
