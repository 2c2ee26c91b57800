"""The machines of a Ray cluster: an actor for each GPU, on every node; nodes may join and leave.

An actor has a child process on its GPU (`heurgen.tune.executors`), and Ray brings it what it is asked for: a
crash or a hang of a launch costs a config there as it does here. Where the actor itself is lost, with its node or
killed, its scenario goes on elsewhere. The kernel's source travels as the working directory of the job; torch, Triton
and heurgen of this version must be on the nodes.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from heurgen._version import __version__
from heurgen.base.errors import UsageError, printable
from heurgen.tune.compilers import Compiled, CompileJob, compile_all
from heurgen.tune.conditions import Reading
from heurgen.tune.engines import Aborted, LaneLost
from heurgen.tune.executors import ProcessLane
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.timing import Failure

# Seconds without any machine before a sweep gives up: a node of a cloud takes minutes to come.
PATIENCE = 300.0
# Seconds between two looks at the cluster's nodes, and seconds that the GPUs of a node wait for each other.
LOOK_S, GATHER_S = 1.0, 5.0
# Seconds to reach a cluster's head in.
CONNECT_S = 10.0
# Actors that may fail on one GPU before it is left alone.
MAX_STARTS = 3


class GpuActor:
    """The far side: one GPU of a node, in a process of Ray's. Generators stream their answers."""

    def __init__(self, target: str, kind: str, version: str) -> None:
        if version != __version__:
            raise UsageError(f"the node has heurgen {__version__}, the sweep runs {version}")
        self._kind = kind
        self._lane = ProcessLane(target, kind, {})
        self._device = self._lane.ready("cannot tune here")

    def device(self) -> tuple[DeviceInfo, int]:
        """The GPU, and how many processors there are to compile with."""
        return self._device, len(os.sched_getaffinity(0))

    def open(self, scenario: Scenario) -> Failure | None:
        return self._lane.open(scenario)

    def check(self, configs: Sequence[Settings]) -> Iterator[Failure | None]:
        yield from self._lane.check(configs)

    def sample(self, configs: Sequence[Settings]) -> Iterator[float | Failure]:
        yield from self._lane.sample(configs)

    def reading(self) -> Reading | None:
        return self._lane.reading()

    def compile(self, jobs: Sequence[CompileJob], compilers: int) -> Iterator[tuple[Any, Failure | None]]:
        if self._kind == "interpret":
            yield from ((job.key, None) for job in jobs)
            return
        with closing(compile_all(lambda n: self._lane.start(), jobs, compilers)) as outcomes:
            yield from outcomes


class RayLane:
    """The near side of an actor."""

    def __init__(self, ray: Any, actor: Any, place: str) -> None:
        self._ray, self.actor, self._place = ray, actor, place
        self._aborted = self.lost = False

    def open(self, scenario: Scenario) -> Failure | None:
        found: Failure | None = self._get(self.actor.open.remote(scenario))
        return found

    def check(self, configs: Sequence[Settings]) -> Iterator[Failure | None]:
        return self._stream(self.actor.check, list(configs))

    def sample(self, configs: Sequence[Settings]) -> Iterator[float | Failure]:
        return self._stream(self.actor.sample, list(configs))

    def reading(self) -> Reading | None:
        found: Reading | None = self._get(self.actor.reading.remote())
        return found

    def compile(self, jobs: Sequence[CompileJob], compilers: int) -> Iterator[tuple[Any, Failure | None]]:
        return self._stream(self.actor.compile, list(jobs), compilers)

    def abort(self) -> None:
        self._aborted = True  # before the kill: the thread that sees the actor die must know why
        self._ray.kill(self.actor)

    def _stream(self, method: Any, *arguments: Any) -> Iterator[Any]:
        answers = iter(method.options(num_returns="streaming").remote(*arguments))
        while True:
            try:
                answer = next(answers)
            except StopIteration:
                return
            except self._ray.exceptions.RayError as error:
                raise self._gone(error) from error
            yield self._get(answer)

    def _get(self, answer: Any) -> Any:
        try:
            return self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> Exception:
        """What a lane raises where Ray did: the actor died, or its device is beyond use."""
        if self._aborted:
            return Aborted()
        if not self.lost:
            self.lost = True
            self._ray.kill(self.actor)
        return LaneLost(f"{self._place}: {reason_of(error)}")


@dataclass(frozen=True, slots=True)
class RayExecutor:
    """GPUs of one node that were ready together."""

    lanes: Sequence[RayLane]
    info: DeviceInfo
    processors: int

    def device(self) -> DeviceInfo:
        return self.info

    def compile(self, jobs: Sequence[CompileJob]) -> Compiled:
        """Each GPU's compilers get their share of the jobs, class by class as they come."""
        lanes = [lane for lane in self.lanes if not lane.lost]
        if not lanes:
            raise LaneLost("all GPUs of a node")
        each, compilers = -(-len(jobs) // len(lanes)), max(1, self.processors // len(lanes))
        parts = [jobs[i * each : (i + 1) * each] for i in range(len(lanes))]
        answers: SimpleQueue[Any] = SimpleQueue()

        def work(lane: RayLane, part: Sequence[CompileJob]) -> None:
            try:
                for answer in lane.compile(part, compilers):
                    answers.put(answer)
            except LaneLost:
                pass  # its jobs stay uncompiled, and are asked for again
            except BaseException as error:
                answers.put(error)
            finally:
                answers.put(None)

        with ThreadPoolExecutor(len(lanes)) as threads:
            for lane, part in zip(lanes, parts, strict=True):
                threads.submit(work, lane, part)
            at_work = len(lanes)
            while at_work:
                answer = answers.get()
                if answer is None:
                    at_work -= 1
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    yield answer

    def close(self) -> None:
        for lane in self.lanes:
            lane.abort()


@dataclass(slots=True)
class _Starting:
    """The actors of one node that are being made. `found` holds those that are ready: slot, device, processors."""

    since: float
    waiting: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    found: list[tuple[int, Any, DeviceInfo, int]] = field(default_factory=list)


class RayEngine:
    """All GPUs of a cluster; without an address, of a cluster of this machine that ends with the sweep.

    In the interpreter each node counts as one GPU. A process that is connected to a cluster goes on with it: the
    address, if any, must be that cluster's, and its nodes must have the kernel's source themselves.

    Raises:
        UsageError: Ray is not installed, there is no such cluster, or this process is connected to another one.
    """

    patience = PATIENCE

    def __init__(self, target: str, kind: str, address: str = "") -> None:
        self._ray = ray = _import_ray()
        self._target, self._kind = target, kind
        self._own = not ray.is_initialized()
        self._package = package_of(target) if self._own else None
        if self._own:
            _connect(ray, address, self._package)
        else:
            _check_connected(ray, address)
        self._starting: dict[str, _Starting] = {}
        self._lanes: dict[tuple[str, int], RayLane] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._refusals: list[str] = []
        self._looked = -LOOK_S

    def arrivals(self) -> Sequence[RayExecutor]:
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self._look()
        return [machine for node in list(self._starting) if (machine := self._gathered(node)) is not None]

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.abort()
        if self._own:
            self._ray.shutdown()
        if self._package is not None:
            shutil.rmtree(self._package, ignore_errors=True)

    def _look(self) -> None:
        """Start an actor on every GPU of every node that has none."""
        for node in self._ray.nodes():
            name = node["NodeID"]
            if not node["Alive"] or name in self._starting:
                continue
            count = 1 if self._kind == "interpret" else int(node["Resources"].get("GPU", 0))
            slots = [(name, i) for i in range(count)]
            free = [s for s in slots if s not in self._lanes or self._lanes[s].lost]
            free = [s for s in free if self._starts.get(s, 0) < MAX_STARTS]
            if free:
                self._starting[name] = starting = _Starting(time.monotonic())
                for slot in free:
                    self._starts[slot] = self._starts.get(slot, 0) + 1
                    actor = self._start(name)
                    starting.waiting[actor.device.remote()] = (slot[1], actor)

    def _start(self, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        needs = {"num_cpus": 1} if self._kind == "interpret" else {"num_cpus": 0, "num_gpus": 1}
        actor = self._ray.remote(GpuActor).options(
            **needs,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return actor.remote(self._target, self._kind, __version__)

    def _gathered(self, node: str) -> RayExecutor | None:
        """The node's machine once its actors are ready, or those that are after a while."""
        starting = self._starting[node]
        if starting.waiting:
            ready, _ = self._ray.wait(list(starting.waiting), num_returns=len(starting.waiting), timeout=0)
            for answer in ready:
                slot, actor = starting.waiting.pop(answer)
                try:
                    info, processors = self._ray.get(answer)
                except self._ray.exceptions.RayError as error:
                    self._refusals.append(reason_of(error))
                    if len(self._refusals) >= MAX_STARTS and not self._lanes and not starting.found:
                        raise UsageError(self._refusals[-1]) from error
                else:
                    starting.found.append((slot, actor, info, processors))
        if starting.waiting and not (starting.found and time.monotonic() - starting.since > GATHER_S):
            return None
        del self._starting[node]  # what is not ready by now is started again
        for _, actor in starting.waiting.values():
            self._ray.kill(actor)
        if not starting.found:
            return None
        place = f"node {node[:8]}"
        lanes = []
        for slot, actor, _, _ in starting.found:
            lane = self._lanes[node, slot] = RayLane(self._ray, actor, place)
            lanes.append(lane)
        _, _, info, processors = starting.found[0]
        return RayExecutor(lanes, replace(info, gpus=len(lanes)), processors)


def package_of(target: str) -> str | None:
    """A folder with a copy of the source of `package.module:name`, to travel; None where nodes have it themselves.

    That is the outermost package, or the module alone, unless it is installed: heurgen's own kernels are.
    """
    import importlib.util

    top = target.partition(":")[0].partition(".")[0]
    found = importlib.util.find_spec(top)
    origin = None if found is None else found.origin
    if origin is None or "site-packages" in Path(origin).parts or top in ("heurgen", "heurgen_kernels"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="heurgen-source-"))
    source = Path(origin)
    if found is not None and found.submodule_search_locations:
        ignored = shutil.ignore_patterns("__pycache__", "*.csv", "*.pyc", ".*")
        shutil.copytree(source.parent, folder / top, ignore=ignored)
    else:
        shutil.copy(source, folder / source.name)
    return str(folder)


def reason_of(error: BaseException) -> str:
    """What an error of Ray's says, in one line: the cause on the far side where there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else type(error).__name__
    return printable(last.removeprefix(f"{UsageError.__module__}.{UsageError.__name__}: "))


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UsageError("Ray is not installed", hint="pip install 'heurgen[ray]'") from error
    return ray


def _check_connected(ray: Any, address: str) -> None:
    here = str(ray.get_runtime_context().gcs_address)
    if address not in ("", "auto", here):
        raise UsageError(
            f"this process is connected to the Ray cluster {printable(here)}, not to {printable(address)}",
            hint="call ray.shutdown() first, or give no address",
        )


def _connect(ray: Any, address: str, source: str | None) -> None:
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():  # Ray itself tries for minutes
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot reach the Ray cluster {printable(address)}: {error}") from error
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if source is not None:
        options["runtime_env"] = {"working_dir": source}
    if not address:
        options["include_dashboard"] = False
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"cannot reach the Ray cluster {printable(address)}: {reason_of(error)}") from error
