"""The sweep: from scenarios x configs to rows, in an order in which every prefix is a useful log.

Scenarios come in an order spread by hash, so that a sweep cut short by a budget has seen all kinds of them. Within
a scenario the configs that did well before come first: a good best-so-far is what ends the losers early.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from heurgen.tune.executors import CompileJob, Executor
from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.resume import Journal
from heurgen.tune.space import ConfigSpace, config_key
from heurgen.tune.target import Target, bounded
from heurgen.tune.timing import Failure, Method, best_few, chunks, measure

State: TypeAlias = Literal["finished", "out of time", "interrupted"]


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


@dataclass(slots=True)
class _Seen:
    """What the log holds of one scenario: the first time of each config, and how many rows it has."""

    first: dict[str, float | None] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, key: str, time: float | None) -> None:
        self.first.setdefault(key, time)
        self.rows[key] += 1

    @property
    def best(self) -> float:
        return min((t for t in self.first.values() if t is not None), default=math.inf)


class Sweep:
    """One run of the tuner over a log that may hold rows already."""

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
        self._scenarios = sorted(scenarios, key=lambda s: hashlib.sha256(s.id.encode()).hexdigest())
        self._class = {s.id: target.scenario_class(s) for s in scenarios}
        self._cells = {s.id: self._configs_of(s) for s in scenarios}
        self._verdict: dict[tuple[str, str], Failure | None] = {}
        self._checked: set[tuple[str, str]] = set()
        self._scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._seen = self._rows_before()
        self.measured = 0
        self.failures: dict[str, int] = defaultdict(int)

    @property
    def total(self) -> int:
        """Cells of the whole matrix: pairs of a scenario and a config that applies there."""
        return sum(len(c) for c in self._cells.values())

    @property
    def remaining(self) -> int:
        """Cells without a row."""
        return sum(len(self._pending(s)) for s in self._scenarios)

    def run(self) -> None:
        """Measure what the log lacks.

        Raises:
            OutOfTime: the deadline has passed; the log is sound and can be continued.
        """
        self._compile()
        self._measuring_since, self._before = self._clock(), self.remaining
        for scenario in self._scenarios:
            if self._pending(scenario) or self._lacks_repeats(scenario):
                self._measure(scenario)
        self._tell("measure", self.total, self.total, 0.0)

    def _configs_of(self, scenario: Scenario) -> list[Settings]:
        wanted = {config_key(c) for c in scenario.configs}
        return [
            c
            for c in self._space.configs
            if (not wanted or config_key(c) in wanted)
            and self._space.applies(c, scenario.features)
            and self._target.applies(c, scenario)
        ]

    def _rows_before(self) -> dict[str, _Seen]:
        by_cells = {self._journal.layout.key(c): config_key(c) for c in self._space.configs}
        seen: dict[str, _Seen] = {s.id: _Seen() for s in self._scenarios}
        for row in self._journal.rows:
            if row.scenario in seen and row.config in by_cells:
                seen[row.scenario].add(by_cells[row.config], row.time)
        for scenario in self._scenarios:
            self._learn(scenario, seen[scenario.id])
        return seen

    def _pending(self, scenario: Scenario) -> list[Settings]:
        seen = self._seen[scenario.id].first
        return [c for c in self._cells[scenario.id] if config_key(c) not in seen]

    def _compile(self) -> None:
        """Compile each config once per class, on the class's smallest scenario."""
        jobs, self._smallest = [], self._smallest_of_class()
        for name, scenario in self._smallest.items():
            mine = [s for s in self._scenarios if self._class[s.id] == name]
            needed = {config_key(c): c for s in mine for c in self._pending(s)}
            for key, config in needed.items():
                reason = self._target.fits(config, scenario, self._executor.device())
                if reason is None:
                    jobs.append(CompileJob((name, key), scenario, config))
                else:
                    self._verdict[name, key] = Failure("unfit", bounded(reason))
        since = self._clock()
        for done, (key, failure) in enumerate(self._executor.compile(jobs), start=1):
            self._verdict[key] = failure
            spent = self._clock() - since
            self._tell("compile", done, len(jobs), spent / done * (len(jobs) - done))
            self._mind_the_time()

    def _smallest_of_class(self) -> dict[str, Scenario]:
        smallest: dict[str, Scenario] = {}
        for scenario in self._scenarios:
            best = smallest.setdefault(self._class[scenario.id], scenario)
            if self._target.work(scenario) < self._target.work(best):
                smallest[self._class[scenario.id]] = scenario
        return smallest

    def _check(self, scenario: Scenario, configs: Sequence[Settings]) -> None:
        """Compare configs with the reference, once per class; a wrong config is timed nowhere in the class."""
        name = self._class[scenario.id]
        asked = [
            c for c in configs if (name, config_key(c)) not in self._checked and not self._failed(scenario, c)
        ]
        if not asked:
            return
        failure = self._executor.open(self._smallest[name])
        for chunk in chunks(asked, self._method.chunk):
            outcomes = [failure] * len(chunk) if failure else list(self._executor.check(chunk))
            for config, outcome in zip(chunk, outcomes, strict=True):
                self._verdict[name, config_key(config)] = outcome
                self._checked.add((name, config_key(config)))
            self._mind_the_time()

    def _failed(self, scenario: Scenario, config: Settings) -> Failure | None:
        known = self._verdict.get((self._class[scenario.id], config_key(config)))
        if known is not None:
            return known
        reason = self._target.fits(config, scenario, self._executor.device())
        return None if reason is None else Failure("unfit", bounded(reason))

    def _measure(self, scenario: Scenario) -> None:
        pending, seen = self._pending(scenario), self._seen[scenario.id]
        self._check(scenario, pending)
        failed = {config_key(c): f for c in pending if (f := self._failed(scenario, c)) is not None}
        self._record(scenario, [(c, failed[config_key(c)]) for c in pending if config_key(c) in failed])
        alive = self._ranked(scenario, [c for c in pending if config_key(c) not in failed])
        failure = self._executor.open(scenario) if alive or self._lacks_repeats(scenario) else None
        for chunk in chunks(alive, self._method.chunk):
            outcomes = [failure] * len(chunk) if failure else self._times(chunk, seen.best)
            self._record(scenario, list(zip(chunk, outcomes, strict=True)))
            self._mind_the_time()
        if failure is None:
            for few in self._repeats(scenario):
                self._record(scenario, list(zip(few, self._times(few, math.inf), strict=True)))
                self._mind_the_time()
        self._learn(scenario, seen)

    def _times(self, configs: Sequence[Settings], best: float) -> list[float | Failure]:
        return measure(self._executor.sample, configs, best, self._method)

    def _ranked(self, scenario: Scenario, configs: list[Settings]) -> list[Settings]:
        """Configs that did best so far first: in the scenario's class, or anywhere if it is the class's first."""
        scores = self._scores.get(self._class[scenario.id]) or self._scores[""]
        means = {key: sum(s) / len(s) for key, s in scores.items()}
        order = sorted(configs, key=lambda c: hashlib.sha256(config_key(c).encode()).hexdigest())
        return sorted(order, key=lambda c: means.get(config_key(c), math.inf))

    def _learn(self, scenario: Scenario, seen: _Seen) -> None:
        for key, time in seen.first.items():
            if time is not None:
                for name in (self._class[scenario.id], ""):
                    self._scores[name][key].append(math.log(time / seen.best))

    def _few(self, scenario: Scenario) -> list[Settings]:
        first = self._seen[scenario.id].first
        timed = [(c, t) for c in self._cells[scenario.id] if (t := first.get(config_key(c))) is not None]
        return [timed[i][0] for i in best_few([t for _, t in timed], self._method)]

    def _lacks_repeats(self, scenario: Scenario) -> bool:
        rows = self._seen[scenario.id].rows
        return any(rows[config_key(c)] < self._method.repeats for c in self._few(scenario))

    def _repeats(self, scenario: Scenario) -> Iterator[list[Settings]]:
        """Rounds of the best few until each has its repeats. A config that fails now is given up."""
        few, rows = self._few(scenario), self._seen[scenario.id].rows
        for wanted in range(2, self._method.repeats + 1):
            round_ = [c for c in few if rows[config_key(c)] < wanted]
            if round_:
                yield round_

    def _record(self, scenario: Scenario, outcomes: Sequence[tuple[Settings, float | Failure]]) -> None:
        if not outcomes:
            return
        layout, seen = self._journal.layout, self._seen[scenario.id]
        self._journal.append([layout.row(scenario, config, outcome) for config, outcome in outcomes])
        for config, outcome in outcomes:
            failed = isinstance(outcome, Failure)
            seen.add(config_key(config), None if isinstance(outcome, Failure) else outcome)
            self.measured += not failed
            if isinstance(outcome, Failure):
                self.failures[outcome.status] += 1
        left = self.remaining
        done, spent = self._before - left, self._clock() - self._measuring_since
        self._tell("measure", self.total - left, self.total, spent / done * left if done else None)

    def _tell(self, phase: Literal["compile", "measure"], done: int, total: int, left: float | None) -> None:
        self._report(Progress(phase, done, total, self._clock() - self._started, left))

    def _mind_the_time(self) -> None:
        if self._clock() >= self._deadline:
            raise OutOfTime


def failures_text(failures: Mapping[str, int]) -> str:
    """`{"unfit": 3, "wrong": 1}` -> "3 unfit, 1 wrong"."""
    return ", ".join(f"{n} {status}" for status, n in sorted(failures.items()))
