"""The machine that the sweep runs on: a child process for each GPU, and more to compile in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.tune.child import Child, is_dead
from heurgen.tune.compilers import Compiled, CompileJob, compile_all
from heurgen.tune.conditions import Reading
from heurgen.tune.engines import Aborted
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.timing import Failure

# Seconds before a child is taken for hung. A bad config may launch for seconds.
LAUNCH_LIMIT = 60.0
OPEN_LIMIT = 300.0
# Attempts to build a scenario's inputs again in a new child: memory of the dead one may be returned late.
REOPENINGS = 3


class ProcessLane:
    """A child that measures on one GPU, and its replacement whenever it dies."""

    def __init__(self, target: str, kind: str, environment: Mapping[str, str]) -> None:
        self.start = partial(Child, target, kind, environment)
        self._scenario: Scenario | None = None
        self._aborted = False
        self._child = self.start()

    def ready(self, trouble: str) -> DeviceInfo:
        """Wait for the child's first word. Raise UsageError, which begins with `trouble`, if it is none."""
        answer = self._child.receive(OPEN_LIMIT)
        if isinstance(answer, DeviceInfo):
            return answer
        self._child.finish()
        self._mind_abort()
        raise UsageError(f"{trouble}: {answer.reason if isinstance(answer, Failure) else answer}")

    def open(self, scenario: Scenario) -> Failure | None:
        self._scenario = scenario
        self._child.send("open", scenario)
        answer = self._child.receive(OPEN_LIMIT)
        if is_dead(answer):
            self._restart()
        return answer if isinstance(answer, Failure) else None

    def check(self, configs: Sequence[Settings]) -> Iterable[Failure | None]:
        return self._each("check", configs)

    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
        return self._each("sample", configs)

    def reading(self) -> Reading | None:
        self._child.send("reading")
        answer = self._child.receive(LAUNCH_LIMIT)
        if is_dead(answer):
            self._restart()
        return answer if isinstance(answer, Reading) else None

    def abort(self) -> None:
        self._aborted = True  # before the kill: the thread that sees the child die must know why
        self._child.kill()

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
                if is_dead(answer):
                    self._restart()  # where the device is gone, the config is not to blame
                yield answer
                if is_dead(answer):
                    self._reopen()
                    break

    def _restart(self) -> None:
        self._child.finish()
        self._mind_abort()
        self._child = self.start()
        self._mind_abort()
        self.ready("the device is gone")

    def _reopen(self) -> None:
        """Give a new child the scenario that it goes on with.

        Raises:
            UsageError: it cannot have it. Its inputs could be built before, so that says nothing about the
                configs that are left: they are no failures, and stay to be measured by --resume.
        """
        assert self._scenario is not None
        for _ in range(REOPENINGS):
            self._child.send("open", self._scenario)
            answer = self._child.receive(OPEN_LIMIT)
            if not isinstance(answer, Failure):
                return
            if is_dead(answer):
                self._restart()
        raise UsageError(
            f"cannot open scenario {quoted(self._scenario.id)} again after a crash: {answer.reason}",
            hint="the log is sound; --resume continues it",
        )

    def _mind_abort(self) -> None:
        if self._aborted:
            raise Aborted


class ProcessExecutor:
    """Measures in one child per visible GPU, compiles in several.

    `kind`: "gpu", "interpret", or a session factory's path.

    Raises:
        UsageError: there is no device, or the visible ones differ.
    """

    def __init__(self, target: str, kind: str = "gpu", compilers: int | None = None) -> None:
        self._kind = kind
        self._compilers = compilers or len(os.sched_getaffinity(0))
        self.lanes = [ProcessLane(target, kind, {})]
        try:
            self._device = self.lanes[0].ready("cannot tune here")
            others = range(1, self._device.gpus)
            self.lanes += [ProcessLane(target, kind, only_gpu(i, self._device.vendor)) for i in others]
            for lane in self.lanes[1:]:
                _check_alike(self._device, lane.ready("cannot tune here"))
        except BaseException:
            self.close()
            raise

    def device(self) -> DeviceInfo:
        return self._device

    def compile(self, jobs: Sequence[CompileJob]) -> Compiled:
        if self._kind == "interpret":
            yield from ((job.key, None) for job in jobs)
        else:
            # Compilers hold memory of the GPU that they compile for: each GPU gets its share of them.
            start = [lane.start for lane in self.lanes]
            yield from compile_all(lambda n: start[n % len(start)](), jobs, self._compilers)

    def close(self) -> None:
        for lane in self.lanes:
            lane.abort()
        for lane in self.lanes:
            lane.close()


def only_gpu(index: int, vendor: str) -> dict[str, str]:
    """The environment in which the `index`-th of the GPUs that are visible now is the only one.

    HIP reads its own variable before CUDA's, and the two must not contradict each other.
    """
    names = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if vendor == "amd" else ("CUDA_VISIBLE_DEVICES",)
    given = next((text for name in names if (text := os.environ.get(name))), None)
    wanted = str(index) if given is None else given.split(",")[index].strip()
    return dict.fromkeys(names, wanted)


def _check_alike(first: DeviceInfo, other: DeviceInfo) -> None:
    """Raise UsageError unless times of the two can stand in one log."""
    if other.gpus != 1:
        raise UsageError(f"cannot tune here: a process meant to see one GPU sees {other.gpus}")
    if replace(other, gpus=first.gpus, memory=first.memory) != first:
        raise UsageError(
            f"cannot tune here: the visible GPUs differ: {printable(first.name)}, {printable(other.name)}",
            hint="choose those of one kind with CUDA_VISIBLE_DEVICES",
        )
