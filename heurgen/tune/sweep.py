"""The sweep: from scenarios x configs to rows, in an order in which every prefix is a useful log.

Scenarios come in an order spread by hash, so that a sweep cut short by a budget has seen all kinds of
them; each GPU that is free takes the next one, whole. Within a scenario the configs that did well before
come first: a good best-so-far is what ends the losers early.

Nothing is compiled while GPUs measure: compilers build their inputs on the same GPUs. Under a budget,
compiling stops after a share of the time that is left, so that what has been compiled is measured too.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from threading import Lock
from typing import Literal, TypeAlias

from heurgen.tune.compilers import CompileJob
from heurgen.tune.executors import Executor, Lane
from heurgen.tune.launches import Cells, launches_of
from heurgen.tune.protocol import Scenario
from heurgen.tune.resume import Journal
from heurgen.tune.space import ConfigSpace, config_key
from heurgen.tune.target import Target, bounded
from heurgen.tune.timing import Failure, Method, best_few, chunks, measure

State: TypeAlias = Literal["finished", "out of time", "interrupted"]

# Of the time that a budget leaves. Compiling took 390 s of a sweep of 592 s (210 scenarios x 226 configs,
# 16 cores, one H200): a budget that is just enough is not cut into several rounds.
COMPILE_SHARE = 2 / 3


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is. `remaining_s` is None while there is nothing to estimate it from."""

    phase: Literal["compile", "measure"]
    done: int
    total: int
    elapsed_s: float
    remaining_s: float | None


class OutOfTime(Exception):
    """The budget is spent. Nothing is lost: the log can be continued."""


class Sweep:
    """One run of the tuner over a log that may hold rows already.

    A thread serves each lane. Log, counters and scores are shared, under one lock; under the lock of its
    class a scenario's configs are checked, so that lanes with scenarios of one class check none twice.
    """

    def __init__(
        self,
        target: Target,
        space: ConfigSpace,
        scenarios: Sequence[Scenario],
        executor: Executor,
        journal: Journal,
        method: Method,
        clock: Callable[[], float],
        deadline: float,
        report: Callable[[Progress], None],
    ) -> None:
        self._target, self._space, self._executor, self._journal = target, space, executor, journal
        self._method, self._clock, self._deadline, self._report = method, clock, deadline, report
        self._started = clock()
        self._scenarios = sorted(scenarios, key=lambda s: _spread(s.id))
        self._configs = {config_key(c): c for c in space.configs}
        self._class = {s.id: target.scenario_class(s) for s in scenarios}
        device = executor.device()
        self._cells = {s.id: Cells(launches_of(self._configs, space, target, s, device)) for s in scenarios}
        self._verdict: dict[tuple[str, str], Failure | None] = {}
        self._checked: set[tuple[str, str]] = set()
        self._lock, self._class_locks = Lock(), {name: Lock() for name in self._class.values()}
        self._stopped = False
        self._scores: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
        self._smallest = self._smallest_of_class()
        self._count_rows_before()
        self._measuring_since, self._before = self._started, 0
        # Cells: pairs of a scenario and a config that applies there; all, and those without a row. Rows
        # written by this run, and those of them that are failures, by status.
        self.total = sum(c.total for c in self._cells.values())
        self.missing = sum(c.missing for c in self._cells.values())
        self.rows = 0
        self.failures: dict[str, int] = defaultdict(int)

    def run(self) -> None:
        """Measure what the log lacks.

        Raises:
            OutOfTime: the deadline has passed; the log is sound and can be continued.
        """
        left = [s for s in self._scenarios if self._cells[s.id].pending() or self._lacks_repeats(s)]
        while left:
            self._compile(left)
            ready = [s for s in left if self._compiled(s)]
            left = [s for s in left if not self._compiled(s)]
            self._measuring_since, self._before = self._clock(), self.missing
            self._share(ready)

    def _share(self, scenarios: Sequence[Scenario]) -> None:
        """Measure scenarios, each on the lane that is free first."""
        queue, late, lanes = iter(scenarios), False, self._executor.lanes
        with ThreadPoolExecutor(len(lanes)) as threads:
            try:
                for served in as_completed([threads.submit(self._serve, lane, queue) for lane in lanes]):
                    error = served.exception()
                    late |= isinstance(error, OutOfTime)  # which the other lanes find out by themselves
                    if error is not None and not isinstance(error, OutOfTime):
                        raise error
            except BaseException:
                self._stopped = True
                for lane in lanes:
                    lane.abort()
                raise
        if late:
            raise OutOfTime

    def _serve(self, lane: Lane, queue: Iterator[Scenario]) -> None:
        while True:
            with self._lock:
                scenario = next(queue, None)
            if scenario is None:
                return
            self._measure(lane, scenario)

    def _count_rows_before(self) -> None:
        keys = {self._journal.layout.key(c): key for key, c in self._configs.items()}
        for row in self._journal.rows:
            if row.scenario in self._cells and row.config in keys:
                self._cells[row.scenario].add(keys[row.config], row.time)
        for scenario in self._scenarios:
            self._learn(scenario)

    def _compile(self, scenarios: Sequence[Scenario]) -> None:
        """Compile what scenarios need, the first one's class first; all of it if there is no budget."""
        jobs, since = self._jobs(scenarios), self._clock()
        until = since + COMPILE_SHARE * (self._deadline - since)
        with closing(self._executor.compile(jobs)) as outcomes:
            for done, (job_key, failure) in enumerate(outcomes, start=1):
                self._verdict[job_key] = failure
                spent = self._clock() - since
                self._tell("compile", done, len(jobs), spent / done * (len(jobs) - done))
                self._mind_the_time()
                if since + spent >= until and self._compiled(scenarios[0]):
                    break

    def _jobs(self, scenarios: Sequence[Scenario]) -> list[CompileJob]:
        """Each launch once per class, on the class's smallest scenario; what does not fit is left out.

        A compiler builds inputs whenever the scenario changes: the jobs of a class come together.
        """
        jobs: dict[tuple[str, str], CompileJob] = {}
        names = dict.fromkeys(self._class[s.id] for s in scenarios)
        turns = {name: turn for turn, name in enumerate(names)}
        for scenario in sorted(scenarios, key=lambda s: turns[self._class[s.id]]):
            name, cells = self._class[scenario.id], self._cells[scenario.id]
            for key in cells.pending():
                if (name, key) in self._verdict or (name, key) in jobs:
                    continue
                settings, smallest = cells.launches[key].settings, self._smallest[name]
                reason = self._target.fits(settings, smallest, self._executor.device())
                if reason is None:
                    jobs[name, key] = CompileJob((name, key), smallest, settings)
                else:
                    self._verdict[name, key] = Failure("unfit", bounded(reason))
        return list(jobs.values())

    def _compiled(self, scenario: Scenario) -> bool:
        name = self._class[scenario.id]
        return all((name, key) in self._verdict for key in self._cells[scenario.id].pending())

    def _smallest_of_class(self) -> dict[str, Scenario]:
        smallest: dict[str, Scenario] = {}
        for scenario in self._scenarios:
            best = smallest.setdefault(self._class[scenario.id], scenario)
            if self._target.work(scenario) < self._target.work(best):
                smallest[self._class[scenario.id]] = scenario
        return smallest

    def _check(self, lane: Lane, name: str, cells: Cells) -> None:
        """Compare launches with the reference, once per class; a wrong one is timed nowhere in it."""
        keys = cells.pending()
        asked = [k for k in keys if (name, k) not in self._checked and self._verdict.get((name, k)) is None]
        failure = lane.open(self._smallest[name]) if asked else None
        for chunk in chunks(asked, self._method.chunk):
            settings = [cells.launches[k].settings for k in chunk]
            outcomes = [failure] * len(chunk) if failure else lane.check(settings)
            for key, outcome in zip(chunk, outcomes, strict=True):
                self._verdict[name, key] = outcome
                self._checked.add((name, key))
            self._mind_the_time()

    def _measure(self, lane: Lane, scenario: Scenario) -> None:
        name, cells = self._class[scenario.id], self._cells[scenario.id]
        with self._class_locks[name]:
            self._check(lane, name, cells)
        failed = [(k, f) for k in cells.pending() if (f := self._verdict.get((name, k))) is not None]
        self._record(scenario, failed)
        alive = self._ranked(name, cells.pending())
        failure = lane.open(scenario) if alive or self._lacks_repeats(scenario) else None
        for chunk in chunks(alive, self._method.chunk):
            outcomes = [failure] * len(chunk) if failure else self._times(lane, cells, chunk, cells.best)
            self._record(scenario, list(zip(chunk, outcomes, strict=True)))
            self._mind_the_time()
        for few in [] if failure else self._rounds(scenario):
            self._record(scenario, list(zip(few, self._times(lane, cells, few, math.inf), strict=True)))
            self._mind_the_time()
        with self._lock:
            self._learn(scenario)

    def _times(self, lane: Lane, cells: Cells, keys: Sequence[str], best: float) -> Sequence[float | Failure]:
        return measure(lane.sample, [cells.launches[k].settings for k in keys], best, self._method)

    def _ranked(self, name: str, keys: Sequence[str]) -> list[str]:
        """Launches that did best so far first: in the class, or anywhere for the class's first scenario."""
        with self._lock:
            scores = self._scores[name] or self._scores[""]
            means = {key: total / count for key, (total, count) in scores.items()}
        return sorted(keys, key=lambda k: (means.get(k, math.inf), _spread(k)))

    def _learn(self, scenario: Scenario) -> None:
        best = self._cells[scenario.id].best
        for key, time in self._cells[scenario.id].timed():
            for scores in (self._scores[self._class[scenario.id]], self._scores[""]):
                total, count = scores.get(key, (0.0, 0))
                scores[key] = (total + math.log(time / best), count + 1)

    def _few(self, scenario: Scenario) -> list[str]:
        timed = self._cells[scenario.id].timed()
        return [timed[i][0] for i in best_few([t for _, t in timed], self._method)]

    def _lacks_repeats(self, scenario: Scenario) -> bool:
        count = self._cells[scenario.id].count
        return any(count(key) < self._method.repeats for key in self._few(scenario))

    def _rounds(self, scenario: Scenario) -> Iterator[list[str]]:
        """Rounds of the best few until each has its repeats; a failed repeat counts as one."""
        few, count = self._few(scenario), self._cells[scenario.id].count
        for wanted in range(2, self._method.repeats + 1):
            short = [key for key in few if count(key) < wanted]
            if short:
                yield short

    def _record(self, scenario: Scenario, outcomes: Sequence[tuple[str, float | Failure]]) -> None:
        if not outcomes:
            return
        layout, cells = self._journal.layout, self._cells[scenario.id]
        rows = [(config, outcome) for key, outcome in outcomes for config in cells.due(key)]
        with self._lock:
            self._journal.append([layout.row(scenario, self._configs[c], outcome) for c, outcome in rows])
            for config, outcome in rows:
                self.missing -= config not in cells.first
                self.rows += 1
                cells.add(config, None if isinstance(outcome, Failure) else outcome)
                if isinstance(outcome, Failure):
                    self.failures[outcome.status] += 1
            done, spent = self._before - self.missing, self._clock() - self._measuring_since
            left = spent / done * self.missing if done else None
            self._tell("measure", self.total - self.missing, self.total, left)

    def _tell(self, phase: Literal["compile", "measure"], done: int, total: int, left: float | None) -> None:
        self._report(Progress(phase, done, total, self._clock() - self._started, left))

    def _mind_the_time(self) -> None:
        if self._stopped or self._clock() >= self._deadline:
            raise OutOfTime


def _spread(text: str) -> str:
    """A sort key that has nothing to do with the order of the text."""
    return hashlib.sha256(text.encode()).hexdigest()
