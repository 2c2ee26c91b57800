"""The sweep: from scenarios x configs to rows, in an order in which every prefix is a useful log.

Scenarios come in an order spread by hash, so that a sweep cut short by a budget has seen all kinds of
them. Within a scenario the configs that did well before come first: a good best-so-far is what ends the
losers early.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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
        self._scenarios = sorted(scenarios, key=lambda s: _spread(s.id))
        self._configs = {config_key(c): c for c in space.configs}
        self._class = {s.id: target.scenario_class(s) for s in scenarios}
        self._cells = {s.id: self._configs_of(s) for s in scenarios}
        self._verdict: dict[tuple[str, str], Failure | None] = {}
        self._checked: set[tuple[str, str]] = set()
        self._scores: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
        self._smallest = self._smallest_of_class()
        self._seen = self._rows_before()
        self._measuring_since, self._before = self._started, 0
        # Cells without a row, rows written by this run, and those of them that are failures, by status.
        self.missing = sum(len(self._pending(s)) for s in self._scenarios)
        self.rows = 0
        self.failures: dict[str, int] = defaultdict(int)

    @property
    def total(self) -> int:
        """Cells of the whole matrix: pairs of a scenario and a config that applies there."""
        return sum(len(c) for c in self._cells.values())

    def run(self) -> None:
        """Measure what the log lacks.

        Raises:
            OutOfTime: the deadline has passed; the log is sound and can be continued.
        """
        self._compile()
        self._measuring_since, self._before = self._clock(), self.missing
        for scenario in self._scenarios:
            if self._pending(scenario) or self._lacks_repeats(scenario):
                self._measure(scenario)

    def _configs_of(self, scenario: Scenario) -> dict[str, Settings]:
        wanted = {config_key(c) for c in scenario.configs}
        return {
            key: config
            for key, config in self._configs.items()
            if (not wanted or key in wanted)
            and self._space.applies(config, scenario.features)
            and self._target.applies(config, scenario)
        }

    def _rows_before(self) -> dict[str, _Seen]:
        keys = {self._journal.layout.key(c): key for key, c in self._configs.items()}
        seen: dict[str, _Seen] = {s.id: _Seen() for s in self._scenarios}
        for row in self._journal.rows:
            if row.scenario in seen and row.config in keys:
                seen[row.scenario].add(keys[row.config], row.time)
        for scenario in self._scenarios:
            self._learn(scenario, seen[scenario.id])
        return seen

    def _pending(self, scenario: Scenario) -> list[str]:
        first = self._seen[scenario.id].first
        return [key for key in self._cells[scenario.id] if key not in first]

    def _compile(self) -> None:
        """Compile each config once per class, on the class's smallest scenario."""
        jobs: list[CompileJob] = []
        for name, scenario in self._smallest.items():
            needed = {
                key: None for s in self._scenarios if self._class[s.id] == name for key in self._pending(s)
            }
            for key in needed:
                config = self._configs[key]
                reason = self._target.fits(config, scenario, self._executor.device())
                if reason is None:
                    jobs.append(CompileJob((name, key), scenario, config))
                else:
                    self._verdict[name, key] = Failure("unfit", bounded(reason))
        since = self._clock()
        for done, (job_key, failure) in enumerate(self._executor.compile(jobs), start=1):
            self._verdict[job_key] = failure
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

    def _check(self, name: str, keys: Sequence[str]) -> None:
        """Compare configs with the reference, once per class; a wrong one is timed nowhere in it."""
        asked = [k for k in keys if (name, k) not in self._checked and self._verdict.get((name, k)) is None]
        failure = self._executor.open(self._smallest[name]) if asked else None
        for chunk in chunks(asked, self._method.chunk):
            configs = [self._configs[k] for k in chunk]
            outcomes = [failure] * len(chunk) if failure else self._executor.check(configs)
            for key, outcome in zip(chunk, outcomes, strict=True):
                self._verdict[name, key] = outcome
                self._checked.add((name, key))
            self._mind_the_time()

    def _measure(self, scenario: Scenario) -> None:
        name, seen, pending = self._class[scenario.id], self._seen[scenario.id], self._pending(scenario)
        self._check(name, pending)
        failed = [(k, f) for k in pending if (f := self._verdict.get((name, k))) is not None]
        self._record(scenario, failed)
        alive = self._ranked(name, [k for k in pending if k not in seen.first])
        failure = self._executor.open(scenario) if alive or self._lacks_repeats(scenario) else None
        for chunk in chunks(alive, self._method.chunk):
            outcomes = [failure] * len(chunk) if failure else self._times(chunk, seen.best)
            self._record(scenario, list(zip(chunk, outcomes, strict=True)))
            self._mind_the_time()
        for few in [] if failure else self._rounds(scenario):
            self._record(scenario, list(zip(few, self._times(few, math.inf), strict=True)))
            self._mind_the_time()
        self._learn(scenario, seen)

    def _times(self, keys: Sequence[str], best: float) -> Sequence[float | Failure]:
        return measure(self._executor.sample, [self._configs[k] for k in keys], best, self._method)

    def _ranked(self, name: str, keys: Sequence[str]) -> list[str]:
        """Configs that did best so far first: in the class, or anywhere for the class's first scenario."""
        scores = self._scores[name] or self._scores[""]
        means = {key: total / count for key, (total, count) in scores.items()}
        return sorted(keys, key=lambda k: (means.get(k, math.inf), _spread(k)))

    def _learn(self, scenario: Scenario, seen: _Seen) -> None:
        best = seen.best
        for key, time in seen.first.items():
            if time is not None:
                for scores in (self._scores[self._class[scenario.id]], self._scores[""]):
                    total, count = scores.get(key, (0.0, 0))
                    scores[key] = (total + math.log(time / best), count + 1)

    def _few(self, scenario: Scenario) -> list[str]:
        first = self._seen[scenario.id].first
        timed = [(key, t) for key in self._cells[scenario.id] if (t := first.get(key)) is not None]
        return [timed[i][0] for i in best_few([t for _, t in timed], self._method)]

    def _lacks_repeats(self, scenario: Scenario) -> bool:
        rows = self._seen[scenario.id].rows
        return any(rows[key] < self._method.repeats for key in self._few(scenario))

    def _rounds(self, scenario: Scenario) -> Iterator[list[str]]:
        """Rounds of the best few until each has its repeats; a failed repeat counts as one."""
        few, rows = self._few(scenario), self._seen[scenario.id].rows
        for wanted in range(2, self._method.repeats + 1):
            short = [key for key in few if rows[key] < wanted]
            if short:
                yield short

    def _record(self, scenario: Scenario, outcomes: Sequence[tuple[str, float | Failure]]) -> None:
        if not outcomes:
            return
        layout, seen = self._journal.layout, self._seen[scenario.id]
        self._journal.append([layout.row(scenario, self._configs[key], outcome) for key, outcome in outcomes])
        for key, outcome in outcomes:
            self.missing -= key not in seen.first
            self.rows += 1
            seen.add(key, None if isinstance(outcome, Failure) else outcome)
            if isinstance(outcome, Failure):
                self.failures[outcome.status] += 1
        done, spent = self._before - self.missing, self._clock() - self._measuring_since
        left = spent / done * self.missing if done else None
        self._tell("measure", self.total - self.missing, self.total, left)

    def _tell(self, phase: Literal["compile", "measure"], done: int, total: int, left: float | None) -> None:
        self._report(Progress(phase, done, total, self._clock() - self._started, left))

    def _mind_the_time(self) -> None:
        if self._clock() >= self._deadline:
            raise OutOfTime


def _spread(text: str) -> str:
    """A sort key that has nothing to do with the order of the text."""
    return hashlib.sha256(text.encode()).hexdigest()
