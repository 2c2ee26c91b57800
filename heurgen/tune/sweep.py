"""The sweep: machines come, compile and measure, until no scenario is left.

Every machine has a thread, and while it measures one for each of its lanes. What they share (log, counters, the
matrix of their kind of device) is under one lock. A lane that is lost gives its scenario back; what it had
measured of it is in the log, or beside it.

On a machine nothing is compiled while its GPUs measure: compilers build their inputs on the same GPUs. Under a
budget, compiling stops after a share of the time that is left, so that what has been compiled is measured too.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Condition
from typing import Literal, TypeAlias

from heurgen.base.errors import UsageError
from heurgen.base.text import counted
from heurgen.tune.engines import Engine, Executor, Lane, LaneLost
from heurgen.tune.launches import Tally
from heurgen.tune.matrix import Kernel, Matrix
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.resume import Journal, why
from heurgen.tune.samples import Measurement, Samples
from heurgen.tune.target import bounded
from heurgen.tune.timing import Failure, Method, chunks, measure, taken

State: TypeAlias = Literal["finished", "out of time", "interrupted"]

# Of the time that a budget leaves. Compiling took 390 s of a sweep of 592 s (210 scenarios x 226 configs,
# 16 cores, one H200): a budget that is just enough is not cut into several rounds.
COMPILE_SHARE = 2 / 3
# Threads that serve machines; one is started for each that comes.
MAX_MACHINES = 4096
# Seconds between two looks at who has joined.
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is. `remaining_s` is None while there is nothing to estimate it from."""

    phase: Literal["compile", "measure"]
    done: int
    total: int
    remaining_s: float | None


class OutOfTime(Exception):
    """The budget is spent. Nothing is lost: the log can be continued."""


class Sweep:
    """One run of the tuner over a log that may hold rows already.

    `admit` gives the matrix of a kind of device, the same one each time, with the device's card written or
    compared; it raises UsageError where the device cannot take part. `rows` are those written by this run, and
    `failures` those of them that are failures, by status.
    """

    def __init__(
        self,
        engine: Engine,
        admit: Callable[[DeviceInfo], Matrix],
        journal: Journal,
        samples: Samples,
        method: Method,
        clock: Callable[[], float],
        deadline: float,
        report: Callable[[Progress], None],
    ) -> None:
        self._engine, self._admit, self._journal, self._samples = engine, admit, journal, samples
        self._method, self._clock, self._deadline, self._report = method, clock, deadline, report
        self._measuring_since = clock()
        self._written = 0
        self._changed = Condition()  # its lock is the sweep's
        self._stopped = False
        self.matrices: list[Matrix] = []
        self.lanes = 0
        self.rows = 0
        self.failures: dict[str, int] = defaultdict(int)
        self.notes: list[str] = []
        # Of all rows in the log: whether one holds a time, and why the others have none.
        self.succeeded = any(row.time is not None for row in journal.rows)
        self._reasons = Counter(row.reason for row in journal.rows if row.time is None)

    @property
    def total(self) -> int:
        """Cells (scenarios x configs that apply there) of all kinds of devices."""
        return sum(m.total for m in self.matrices)

    @property
    def missing(self) -> int:
        """Cells without a row."""
        return sum(m.missing for m in self.matrices)

    @property
    def commonest_reason(self) -> str:
        """Of the failures in the log; the first of the alphabet among equals."""
        return min(self._reasons, key=lambda r: (-self._reasons[r], r), default="")

    def run(self) -> None:
        """Measure what the log lacks.

        Raises:
            OutOfTime: the deadline has passed; the log is sound and can be continued.
            UsageError: no machine can take part, or none is left and none comes; likewise.
        """
        machines: list[Executor] = []
        with ThreadPoolExecutor(MAX_MACHINES) as threads:
            try:
                self._employ(machines, threads)
            except OutOfTime:
                raise
            except BaseException:
                self._stop(lane for machine in machines for lane in machine.lanes)
                raise

    def _stop(self, lanes: Iterable[Lane]) -> None:
        """An error or Ctrl-C: no lane goes on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for lane in lanes:
            lane.abort()

    # --- machines

    def _employ(self, machines: list[Executor], threads: ThreadPoolExecutor) -> None:
        """Give every machine that comes a thread, until all is measured."""
        at_work: set[Future[None]] = set()
        late, idle_since = False, time.monotonic()
        refusal: UsageError | None = None
        while True:
            for machine in self._engine.arrivals():
                try:
                    matrix = self._welcome(machine)
                except UsageError as error:
                    if not self._engine.patience:
                        raise
                    refusal = error
                    self.notes.append(f"a machine was left out: {error}")
                    machine.close()
                    continue
                machines.append(machine)
                at_work.add(threads.submit(self._tend, machine, matrix))
            timeout = POLL_S if self._engine.patience else None
            done, at_work = wait(at_work, timeout, FIRST_COMPLETED) if at_work else (set(), at_work)
            for ended in done:
                problem = ended.exception()
                late |= isinstance(problem, OutOfTime)  # which the other machines find out by themselves
                if problem is not None and not isinstance(problem, OutOfTime):
                    raise problem
            if at_work:
                idle_since = time.monotonic()
                continue
            if late:
                raise OutOfTime
            if self.matrices and not any(m.left() for m in self.matrices):
                return
            self._mind_the_time()
            if time.monotonic() - idle_since >= self._engine.patience:
                raise refusal or UsageError(self._deserted(), hint="the log is sound; --resume continues it")
            time.sleep(POLL_S)

    def _deserted(self) -> str:
        names = sorted({m.device.name for m in self.matrices if m.left()})
        left = f", {counted(self.missing, 'cell')} still missing" if names else ""
        return f"no {' and no '.join(names) or 'GPU'} is there to measure on{left}"

    def _welcome(self, machine: Executor) -> Matrix:
        device = machine.device()
        with self._changed:
            alike = [
                m for m in self.matrices if (m.device.vendor, m.device.name) == (device.vendor, device.name)
            ]
            there = sum(m.lanes for m in alike)
        matrix = self._admit(replace(device, gpus=there + len(machine.lanes)))
        with self._changed:
            if matrix not in self.matrices:
                self.matrices.append(matrix)
            matrix.lanes += len(machine.lanes)
            self.lanes = max(self.lanes, sum(m.lanes for m in self.matrices))
        return matrix

    def _tend(self, machine: Executor, matrix: Matrix) -> None:
        """Compile and measure on one machine until nothing is left, or its lanes are lost."""
        compiled: set[Kernel] = set()
        lanes = list(machine.lanes)
        try:
            while lanes and (scenarios := self._await_work(matrix)):
                self._compile(machine, matrix, scenarios, compiled)
                lanes = self._share(lanes, matrix, compiled)
        except LaneLost as error:
            self._mourn(error)
        finally:
            with self._changed:
                matrix.lanes -= len(machine.lanes)
                self._changed.notify_all()

    def _await_work(self, matrix: Matrix) -> list[Scenario]:
        """Scenarios to measure; none only when all are done: one that a lane is at may come back."""
        with self._changed:
            while not (left := matrix.left()):
                self._mind_the_time()
                if matrix.busy:
                    self._changed.wait(POLL_S)
                elif not matrix.extend():
                    break
            return left

    def _compile(
        self, machine: Executor, matrix: Matrix, scenarios: Sequence[Scenario], compiled: set[Kernel]
    ) -> None:
        """Compile what scenarios need, the first one's class first; all of it if there is no budget."""
        with self._changed:
            jobs = matrix.jobs(scenarios, compiled)
        since = self._clock()
        until = since + COMPILE_SHARE * (self._deadline - since)
        with closing(machine.compile(jobs)) as outcomes:
            for done, (kernel, failure) in enumerate(outcomes, start=1):
                spent = self._clock() - since
                with self._changed:
                    compiled.add(kernel)
                    if failure is not None:
                        matrix.verdict[kernel] = failure
                    self._tell("compile", done, len(jobs), spent / done * (len(jobs) - done))
                    first = matrix.is_compiled(scenarios[0], compiled)
                self._mind_the_time()
                if since + spent >= until and first:
                    break
        with self._changed:
            self._measuring_since, self._written = self._clock(), 0

    def _share(self, lanes: Sequence[Lane], matrix: Matrix, compiled: set[Kernel]) -> list[Lane]:
        """Measure what is compiled, each scenario on the lane that is free first; gives the lanes that are left."""
        late = False
        alive: list[Lane] = []
        with ThreadPoolExecutor(len(lanes)) as threads:
            served = {threads.submit(self._serve, lane, matrix, compiled): lane for lane in lanes}
            try:
                for ended in as_completed(served):
                    error = ended.exception()
                    if isinstance(error, OutOfTime):  # which the other lanes find out by themselves
                        late = True
                    elif isinstance(error, LaneLost):
                        self._mourn(error)
                    elif error is not None:
                        raise error
                    else:
                        alive.append(served[ended])
            except BaseException:
                self._stop(lanes)
                raise
        if late:
            raise OutOfTime
        return alive

    def _mourn(self, error: LaneLost) -> None:
        with self._changed:
            self.notes.append(f"a GPU was lost: {error}")

    def _serve(self, lane: Lane, matrix: Matrix, compiled: set[Kernel]) -> None:
        while True:
            with self._changed:
                scenario = matrix.take(lambda s: matrix.is_compiled(s, compiled))
            if scenario is None:
                return
            done = False
            try:
                self._measure(lane, matrix, scenario)
                done = True
            finally:
                with self._changed:
                    matrix.give_back(scenario, done)
                    self._changed.notify_all()

    # --- one scenario on one lane

    def _measure(self, lane: Lane, matrix: Matrix, scenario: Scenario) -> None:
        tally = matrix.tallies[scenario.id]
        with matrix.class_locks[matrix.class_of[scenario.id]]:
            self._check(lane, matrix, scenario)
        with self._changed:
            failed, alive = matrix.failed(scenario), matrix.ranked(scenario)
            repeats = matrix.lacks_repeats(scenario)
        self._record(matrix, scenario, failed)
        failure = self._open(lane, matrix, scenario, scenario) if alive or repeats else None
        for chunk in chunks(alive, self._method.chunk):
            if failure:
                self._record(matrix, scenario, [(key, failure) for key in chunk])
            else:
                self._time(lane, matrix, scenario, chunk, tally.best)
            self._mind_the_time()
        for few in [] if failure else matrix.rounds(scenario):
            self._time(lane, matrix, scenario, few, math.inf)
            self._mind_the_time()
        reading = lane.reading()
        with self._changed:
            matrix.learn(scenario)
            if reading is not None:
                matrix.conditions.readings.append(reading)

    def _open(self, lane: Lane, matrix: Matrix, scenario: Scenario, opened: Scenario) -> Failure | None:
        """Build the inputs of `opened`, which may be the scenario's class's smallest."""
        try:
            return lane.open(opened)
        except LaneLost as error:
            with self._changed:
                cause = matrix.strike(opened, "open")
            if cause:
                failure = _fatal(error)
                pending = matrix.tallies[scenario.id].pending()
                self._record(matrix, scenario, [(key, failure) for key in pending])
            raise

    def _check(self, lane: Lane, matrix: Matrix, scenario: Scenario) -> None:
        """Compare launches with the reference, once per class; a wrong one is timed nowhere in it."""
        name, tally = matrix.class_of[scenario.id], matrix.tallies[scenario.id]
        pending = [(name, key) for key in tally.pending()]
        asked = [k for k in pending if k not in matrix.checked and matrix.verdict.get(k) is None]
        failure = self._open(lane, matrix, scenario, matrix.smallest[name]) if asked else None
        for chunk in chunks(asked, self._method.chunk):
            settings = [tally.launches[key].settings for _, key in chunk]
            outcomes = iter([failure] * len(chunk) if failure else lane.check(settings))
            for kernel in chunk:
                try:
                    outcome = next(outcomes)
                except LaneLost as error:
                    with self._changed:
                        if matrix.strike(matrix.smallest[name], kernel[1]):
                            matrix.verdict[kernel] = _fatal(error)
                    raise
                with self._changed:
                    matrix.verdict[kernel] = outcome
                    matrix.checked.add(kernel)
            self._mind_the_time()

    def _time(self, lane: Lane, matrix: Matrix, scenario: Scenario, keys: Sequence[str], best: float) -> None:
        """Measure launches once more each, going on where an interrupted sweep left off, and write the rows."""
        tally, device = matrix.tallies[scenario.id], matrix.device
        names = [Measurement(device.vendor, device.name, scenario.id, key, tally.count(key)) for key in keys]

        def sample(configs: Sequence[Settings]) -> Iterator[float | Failure]:
            launched = 0
            try:
                for outcome in lane.sample(configs):
                    launched += 1
                    yield taken(outcome, matrix.tunable)
            except LaneLost as error:
                self._lost(matrix, scenario, tally, configs[launched], error)
                raise

        def keep(number: int, outcome: float | Failure) -> None:
            with self._changed:
                self._samples.add(names[number], outcome)

        with self._changed:
            earlier = [self._samples.taken(name) for name in names]
        settings = [tally.launches[key].settings for key in keys]
        outcomes = measure(sample, settings, best, self._method, earlier, keep)
        self._record(matrix, scenario, list(zip(keys, outcomes, strict=True)))
        with self._changed:
            self._samples.forget(names)

    def _lost(
        self, matrix: Matrix, scenario: Scenario, tally: Tally, config: Settings, error: LaneLost
    ) -> None:
        """A lane was lost in a launch. It is tried again elsewhere; the second time it is a failure."""
        key = next(k for k, launch in tally.launches.items() if launch.settings is config)
        with self._changed:
            cause = matrix.strike(scenario, key)
        if cause:
            self._record(matrix, scenario, [(key, _fatal(error))])

    def _record(
        self, matrix: Matrix, scenario: Scenario, outcomes: Sequence[tuple[str, float | Failure]]
    ) -> None:
        if not outcomes:
            return
        tally, format_ = matrix.tallies[scenario.id], self._journal.format
        with self._changed:
            rows = [(config, outcome) for key, outcome in outcomes for config in tally.due(key)]
            self._journal.append(
                [format_.row(matrix.device, scenario, matrix.configs[c], outcome) for c, outcome in rows]
            )
            before = self.missing
            for config, outcome in rows:
                matrix.add(scenario, config, outcome)
                self.rows += 1
                if isinstance(outcome, Failure):
                    self.failures[outcome.status] += 1
                    self._reasons[why(outcome.status, outcome.reason)] += 1
                else:
                    self.succeeded = True
            self._written += before - self.missing
            spent = self._clock() - self._measuring_since
            left = spent / self._written * self.missing if self._written else None
            self._tell("measure", self.total - self.missing, self.total, left)

    def _tell(self, phase: Literal["compile", "measure"], done: int, total: int, left: float | None) -> None:
        self._report(Progress(phase, done, total, left))

    def _mind_the_time(self) -> None:
        if self._stopped or self._clock() >= self._deadline:
            raise OutOfTime


def _fatal(error: LaneLost) -> Failure:
    return Failure("crash", bounded(f"its GPU was lost twice in this launch: {error}"))
