"""Scenarios x configs on one kind of device: what its lanes have measured, and what is left to do.

Scenarios come in an order spread by hash, so that a sweep cut short by a budget has seen all kinds of
them; each GPU that is free takes the next one, whole. Within a scenario the configs that did well before
come first: a good best-so-far is what ends the losers early.
"""

from __future__ import annotations

import math
import statistics
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from heurgen.tune.compilers import CompileJob
from heurgen.tune.conditions import Conditions
from heurgen.tune.launches import Launch, Tally, launches_of, left_out
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.resume import LoggedRow, RowFormat
from heurgen.tune.space import ConfigSpace, config_key, spread_key
from heurgen.tune.target import Target, bounded
from heurgen.tune.timing import Failure, Method, best_few

# An adaptive sweep's choice of what to measure next: scenarios with their configs; none: enough is known.
Plan = Callable[["Matrix"], Sequence[Scenario]]
# A launch: the class of its scenario, and the key of its settings.
Kernel = tuple[str, str]
# Standard errors within which two configs count as tied.
TIED = 2.0
# A scenario, or a config, that so many lanes were lost at counts as what killed them: it is not tried again.
STRIKES = 2


class Matrix:
    """What the lanes of one kind of device share. All but `class_locks` is used under the sweep's lock.

    Under the lock of its class a scenario's configs are checked, so that lanes with scenarios of one class
    check none twice. `lanes` counts those that are there, `busy` those that are at a scenario, which may come back.
    """

    def __init__(
        self,
        target: Target,
        space: ConfigSpace,
        scenarios: Sequence[Scenario],
        device: DeviceInfo,
        rows: Iterable[LoggedRow],
        format_: RowFormat,
        method: Method,
        plan: Plan | None = None,
    ) -> None:
        self._target, self._method, self._plan = target, method, plan
        self.tunable = target.tunable.name
        self.space, self.device, self.lanes, self.busy = space, device, 0, 0
        self.conditions = Conditions()
        self.everything = sorted(scenarios, key=lambda s: spread_key(s.id))
        self.configs = {config_key(c): c for c in space.configs}
        self.class_of = {s.id: target.scenario_class(s) for s in scenarios}
        full = {s.id: Tally(self._launches(s)) for s in self.everything}
        self.full_total = sum(t.total for t in full.values())
        self.left_out = left_out(self.everything, full)  # as notes
        self.scenarios = self.everything if plan is None else []
        self.tallies = full if plan is None else {}
        self.verdict: dict[Kernel, Failure | None] = {}
        self.checked: set[Kernel] = set()
        self.class_locks = {name: Lock() for name in self.class_of.values()}
        self.smallest = self._smallest_of_class()
        self._strikes: Counter[tuple[str, str]] = Counter()
        self._scores: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
        self._fitted: set[Kernel] = set()
        self._begun: dict[str, Tally] = {}  # by an adaptive sweep that was stopped before their end
        self._count(rows, format_)
        self._queue = [s for s in self.scenarios if self._unfinished(s)]
        # Cells: pairs of a scenario and a config that applies there; all, and those without a row.
        self.total = sum(t.total for t in self.tallies.values())
        self.missing = sum(t.missing for t in self.tallies.values())
        if plan is not None:
            self.extend()

    # --- who measures what

    def left(self) -> list[Scenario]:
        """Scenarios that are not done and that no lane is at, in order."""
        return list(self._queue)

    def extend(self) -> bool:
        """Where the sweep is adaptive, queue what is to be measured next; False where that is nothing.

        A scenario in which none of the configs asked for applies gets all that do.
        """
        more = [] if self._plan is None else self._plan(self)
        for scenario in more:
            launches = self._launches(scenario) or self._launches(replace(scenario, configs=()))
            tally = self._begun.pop(scenario.id, Tally({}))
            tally = self.tallies[scenario.id] = replace(tally, launches=launches)
            self.total += tally.total
            self.missing += tally.missing
            self.scenarios.append(scenario)
            insort(self._queue, scenario, key=lambda s: spread_key(s.id))
        return bool(more)

    def take(self, ready: Callable[[Scenario], bool]) -> Scenario | None:
        """The next scenario that is ready, for the lane that asks."""
        scenario = next((s for s in self._queue if ready(s)), None)
        if scenario is not None:
            self._queue.remove(scenario)
            self.busy += 1
        return scenario

    def give_back(self, scenario: Scenario, done: bool) -> None:
        """The lane is done with it, or lost."""
        self.busy -= 1
        if not done:
            insort(self._queue, scenario, key=lambda s: spread_key(s.id))

    def strike(self, scenario: Scenario, at: str) -> bool:
        """A lane was lost in this scenario at a launch (or "open"): whether that is the cause, by now."""
        self._strikes[scenario.id, at] += 1
        return self._strikes[scenario.id, at] >= STRIKES

    def _unfinished(self, scenario: Scenario) -> bool:
        return bool(self.tallies[scenario.id].pending()) or self.lacks_repeats(scenario)

    # --- compiling

    def jobs(self, scenarios: Sequence[Scenario], compiled: Collection[Kernel]) -> list[CompileJob]:
        """What a machine has to compile for them, less what it has; each kernel once, with the smallest scenario.

        A compiler builds inputs whenever the scenario changes: the jobs of a class come together.
        """
        jobs: dict[Kernel, CompileJob] = {}
        turns = {name: i for i, name in enumerate(dict.fromkeys(self.class_of[s.id] for s in scenarios))}
        for scenario in sorted(scenarios, key=lambda s: turns[self.class_of[s.id]]):
            name, tally = self.class_of[scenario.id], self.tallies[scenario.id]
            for key in tally.pending():
                if (name, key) in compiled or (name, key) in jobs:
                    continue
                if (name, key) not in self._fitted:
                    self._fit(name, key, tally.launches[key].settings)
                if self.verdict.get((name, key)) is None:
                    settings = tally.launches[key].settings
                    jobs[name, key] = CompileJob((name, key), self.smallest[name], settings)
        return list(jobs.values())

    def is_compiled(self, scenario: Scenario, compiled: Collection[Kernel]) -> bool:
        """Whether a machine can measure a scenario: its kernels are compiled there, or known to be no good."""
        name = self.class_of[scenario.id]
        pending = ((name, key) for key in self.tallies[scenario.id].pending())
        return all(k in compiled or self.verdict.get(k) is not None for k in pending)

    def _fit(self, name: str, key: str, settings: Settings) -> None:
        self._fitted.add((name, key))
        reason = self._target.fits(settings, self.smallest[name], self.device)
        if reason is not None:
            self.verdict[name, key] = Failure("unfit", bounded(reason))

    def _smallest_of_class(self) -> dict[str, Scenario]:
        smallest: dict[str, Scenario] = {}
        for scenario in self.everything:
            best = smallest.setdefault(self.class_of[scenario.id], scenario)
            if self._target.work(scenario) < self._target.work(best):
                smallest[self.class_of[scenario.id]] = scenario
        return smallest

    # --- which launches first, and which again

    def failed(self, scenario: Scenario) -> list[tuple[str, float | Failure]]:
        """Launches without a row that are known to fail in the scenario's class."""
        name = self.class_of[scenario.id]
        pending = self.tallies[scenario.id].pending()
        return [(k, f) for k in pending if (f := self.verdict.get((name, k))) is not None]

    def ranked(self, scenario: Scenario) -> list[str]:
        """Launches to measure, those that did best so far first: in the class, or anywhere for its first scenario."""
        name, tally = self.class_of[scenario.id], self.tallies[scenario.id]
        scores = self._scores[name] or self._scores[""]
        means = {key: total / count for key, (total, count) in scores.items()}
        alive = [k for k in tally.pending() if self.verdict.get((name, k)) is None]
        return sorted(alive, key=lambda k: (means.get(k, math.inf), spread_key(k)))

    def learn(self, scenario: Scenario) -> None:
        """Let a scenario's times count in the ranking of the next ones."""
        best = self.tallies[scenario.id].best
        for key, time in self.tallies[scenario.id].timed():
            for scores in (self._scores[self.class_of[scenario.id]], self._scores[""]):
                total, count = scores.get(key, (0.0, 0))
                scores[key] = (total + math.log(time / best), count + 1)

    def lacks_repeats(self, scenario: Scenario) -> bool:
        """Whether one of the best few has been measured less often than it should be."""
        count = self.tallies[scenario.id].count
        short = any(count(key) < self._method.repeats for key in self._few(scenario))
        return short or bool(self._tied(scenario))

    def rounds(self, scenario: Scenario) -> Iterator[list[str]]:
        """Rounds of the best few until each has its repeats; a failed repeat counts as one."""
        few, count = self._few(scenario), self.tallies[scenario.id].count
        for wanted in range(2, self._method.repeats + 1):
            short = [key for key in few if count(key) < wanted]
            if short:
                yield short
        while tied := self._tied(scenario):
            yield tied

    def _tied(self, scenario: Scenario) -> list[str]:
        """The best and those that its repeats do not tell from it, while they may have more of them.

        Two medians are told apart beyond TIED standard errors of their difference, by the pooled relative spread
        of the repeats of all the best few. Equal times have no spread, and more of them would tell nothing.
        """
        tally, method = self.tallies[scenario.id], self._method
        times = {key: tally.times.get(tally.launches[key].configs[-1], []) for key in self._few(scenario)}
        times = {key: t for key, t in times.items() if len(t) >= 2}
        if method.repeats < 2 or len(times) < 2:
            return []
        middle = {key: statistics.median(t) for key, t in times.items()}
        best = min(middle, key=lambda k: (middle[k], k))
        squares = math.fsum((x / middle[k] - 1) ** 2 for k, t in times.items() for x in t)
        spread = math.sqrt(squares / sum(len(t) - 1 for t in times.values()))
        tied = [
            key
            for key, t in times.items()
            if key != best
            and 0
            < middle[key] / middle[best] - 1
            <= TIED * spread * math.sqrt(1 / len(t) + 1 / len(times[best]))
        ]
        return [key for key in [best, *tied] if tied and tally.count(key) < method.most_repeats]

    def _few(self, scenario: Scenario) -> list[str]:
        timed = self.tallies[scenario.id].timed()
        return [timed[i][0] for i in best_few([t for _, t in timed], self._method)]

    # --- rows

    def add(self, scenario: Scenario, config: str, outcome: float | Failure) -> None:
        """Count a row that was written now."""
        tally = self.tallies[scenario.id]
        self.missing -= config not in tally.first
        # To the nanosecond, as the log holds it: one that goes on from the log decides by the same times.
        tally.add(config, None if isinstance(outcome, Failure) else round(outcome, 6))

    def _count(self, rows: Iterable[LoggedRow], format_: RowFormat) -> None:
        """Count the rows that the log held before."""
        keys: Mapping[tuple[str, ...], str] = {format_.key(c): key for key, c in self.configs.items()}
        here = [r for r in rows if (r.vendor, r.device) == (self.device.vendor, self.device.name)]
        known = {s.id: s for s in self.everything}
        if self._plan is not None:
            for name in dict.fromkeys(r.scenario for r in here if r.scenario in known):
                done = {keys[r.config] for r in here if r.scenario == name and r.config in keys}
                given = replace(known[name], configs=tuple(self.configs[key] for key in sorted(done)))
                self.scenarios.append(given)
                self.tallies[name] = Tally(self._launches(given))
        for row in here:
            if row.scenario in self.tallies and row.config in keys:
                self.tallies[row.scenario].add(keys[row.config], row.time)
        for scenario in list(self.scenarios):
            # Repeats come last in a scenario. Where they lack the plan is to ask for it again, and for the configs
            # that a sweep which was stopped in it has not reached.
            if self._plan is not None and self.lacks_repeats(scenario):
                self.scenarios.remove(scenario)
                self._begun[scenario.id] = self.tallies.pop(scenario.id)
            else:
                self.learn(scenario)

    def _launches(self, scenario: Scenario) -> dict[str, Launch]:
        return launches_of(self.configs, self.space, self._target, scenario, self.device)
