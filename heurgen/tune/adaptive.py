"""Adaptive sweeps: which scenarios and configs to measure next, and when more would not pay.

Configs are narrowed in two steps, as in successive halving. A first few scenarios are measured with all configs; some
more with the WIDE share of them that did best; the others with a shortlist: the few configs whose best is nearest the
best of all, as many as cross-validation asks for. Each set is part of the one before, so that a shortlisted config is
measured in every scenario, and a first part of the order is a random sample: what the shortlist loses is seen without
bias in scenarios that were held out when it was made. After that scenarios come batch by batch, those that `advise`
ranks first going first.

After every batch cross-validation over scenarios compares trees learnt from all of the training folds with trees
learnt from half of them, on the same held-out scenarios: what the last doubling brought. Losses are taken to fall like
the inverse square root of the number of scenarios, the slowest that theory knows for a mean. The sweep stops when the
upper end of the 95 % interval of all that is left to gain, with what the shortlist loses to all configs, is below the
target twice in a row: `--target-slowdown 1.01` stops when a selector from the full matrix would be at most 1.01 times
as good. At the latest it ends when every scenario has been measured with the shortlist. `benchmarks/adaptive.py`
replays a log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heurgen.audit.advise.rank import next_scenarios
from heurgen.audit.advise.scale import scale_over
from heurgen.base.text import counted
from heurgen.ir import ColumnType
from heurgen.logs.costs import Floats, Ints, TableColumn
from heurgen.trees import quick
from heurgen.trees.configs import choose as choose_configs
from heurgen.tune.matrix import Matrix
from heurgen.tune.protocol import Scenario

Bools = NDArray[np.bool_]

# Scenarios of the first step, and of the first two: this share of all at least or at most, at least so many.
FIRST_SHARE, FIRST = 0.05, 16
SECOND_SHARE, SECOND = 0.3, 32
# Configs of the second step, and of the shortlist (at least), as shares of all; and at least so many.
WIDE, SHORT, SHORTLIST = 0.4, 0.15, 16
# The second step takes what is left of this share of all cells with the other steps. The best few of a scenario are
# measured several times: of the measurements it is a third.
CELLS = 0.26
# A batch is this share of what has been measured.
BATCH_SHARE = 0.5
FOLDS, REPEATS = 5, 4
# Estimates in a row that must be below the target: of many looks, one may be lucky, most of all an early one.
LOOKS = 2
# One-sided 95 % of a normal distribution.
Z = 1.645
# What a failed or unmeasured choice costs, as a log-slowdown.
INVALID = 3.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Scenarios to measure next, each with its config columns."""

    scenarios: tuple[int, ...]
    configs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left to gain by measuring all, as upper ends of 95 % intervals of mean log-slowdowns."""

    scenarios: float
    configs: float

    @property
    def slowdown(self) -> float:
        return math.exp(self.scenarios + self.configs)


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """The configs (columns, ascending), and the upper end of what the best of them loses to the best of all."""

    configs: Ints
    loss: float


@dataclass(slots=True)
class Planner:
    """Plans one kind of device's sweep. `order` holds all scenarios, spread; `X` their features [S, F].

    `target` is the slowdown, above 1, to which a selector may be worse than that of the full matrix. What is asked for
    follows from the order and the times alone, so that a sweep which was stopped goes on as it would have.
    """

    columns: Sequence[TableColumn]
    X: Floats
    order: Sequence[int]
    n_configs: int
    target: float
    estimate: Estimate | None = None
    _short: Shortlist | None = None
    _below: int = 0

    def next(self, times: Floats) -> Batch | None:
        """The next batch, or None where enough is known.

        Args:
            times: [S, C] ms; NaN never measured, inf failed.
        """
        n = len(self.order)
        undone = np.asarray(np.isnan(times).all(axis=1))
        first = min(n, max(FIRST, math.ceil(FIRST_SHARE * n)))
        second = min(n, max(first, SECOND, self._second(n, first)))
        if batch := self._part(undone, 0, first, np.arange(self.n_configs)):
            return batch
        early = list(self.order[:first])
        if np.isfinite(times[early]).any(axis=1).sum() < first / 2:  # there is nothing to learn from
            return self._part(undone, 0, n, np.arange(self.n_configs))
        if self._short is None:
            wide, lost = narrowed(self.X[early], times[early], self._sizes()[0])
            if batch := self._part(undone, first, second, wide):
                return batch
            early = list(self.order[:second])
            self._short = self._shortlist(self.X[early], times[early][:, wide], wide, upper_end(lost))
        return self._batch(times, self._short)

    def _sizes(self) -> tuple[int, int]:
        """How many configs the second step and the shortlist have."""
        short = min(self.n_configs, max(SHORTLIST, math.ceil(SHORT * self.n_configs)))
        return max(short, math.ceil(WIDE * self.n_configs)), short

    def _second(self, n: int, first: int) -> int:
        """The scenarios of the first two steps, by what they cost."""
        wide, short = self._sizes()
        left = CELLS * n * self.n_configs - first * self.n_configs - (n - first) * short
        return min(math.ceil(SECOND_SHARE * n), first + int(max(0.0, left) / max(1, wide - short)))

    def _part(self, undone: Bools, start: int, end: int, configs: Ints) -> Batch | None:
        """What is not done of a part of the order, with these configs."""
        scenarios = tuple(s for s in self.order[start:end] if undone[s])
        return Batch(scenarios, (tuple(configs.tolist()),) * len(scenarios)) if scenarios else None

    def _shortlist(self, X: Floats, times: Floats, wide: Ints, lost: float) -> Shortlist:
        """The fewest of the wide set that do not surely lose more than the target to it; `lost`: what that loses."""
        count = min(len(wide), self._sizes()[1])
        while True:
            few, more = narrowed(X, times, count)
            if len(few) == len(wide) or -upper_end(-more) <= math.log(self.target):
                return Shortlist(wide[few], lost + upper_end(more))
            count = min(len(wide), count + math.ceil(count / 10))

    def _batch(self, times: Floats, short: Shortlist) -> Batch | None:
        measured = np.asarray(~np.isnan(times).all(axis=1))
        rest = [s for s in self.order if not measured[s]]
        rows = np.flatnonzero(np.isfinite(times[:, short.configs]).any(axis=1))
        cost = _costs(times[np.ix_(rows, short.configs)])
        self.estimate = Estimate(gain(self.X[rows], cost, len(rows) + len(rest)), short.loss)
        self._below = self._below + 1 if self.estimate.slowdown <= self.target else 0
        if not rest or self._below >= LOOKS:
            return None
        count = min(len(rest), max(FIRST, round(BATCH_SHARE * len(rows))))
        chosen = quick.choose(self.X[rows], cost, self.X[rest])
        scale = scale_over(self.columns, self.X)
        picked = [rest[i] for i in next_scenarios(scale, self.X[rows], cost, self.X[rest], chosen, count)]
        return Batch(tuple(picked), (tuple(short.configs.tolist()),) * len(picked))


def narrowed(X: Floats, times: Floats, count: int) -> tuple[Ints, Floats]:
    """Up to `count` columns of times [S, C] whose best is near the best of all; and what they lose, held out [S]."""
    rows = np.isfinite(times).any(axis=1)
    X, cost = X[rows], _costs(times[rows])
    fold = np.random.RandomState(0).permutation(len(cost)) % FOLDS
    lost = np.zeros(len(cost))
    for k in np.unique(fold).tolist() if len(cost) > 1 else ():
        few = _chosen(X[fold != k], cost[fold != k], count)
        lost[fold == k] = cost[fold == k][:, few].min(axis=1)
    return _chosen(X, cost, count), lost


def _chosen(X: Floats, cost: Floats, count: int) -> Ints:
    """Columns of cost [N, C] that serve the scenarios and the regions of trees over them, which are what they ship for.

    `configs.choose` ends where no further config is the best of any; of the others it chooses again.
    """
    cost = np.vstack([cost, quick.region_costs(X, cost)])
    left, chosen = np.arange(cost.shape[1], dtype=np.int64), list[int]()
    while len(chosen) < min(count, cost.shape[1]):
        found = choose_configs(cost[:, left], count - len(chosen))
        chosen += left[found].tolist()
        left = np.delete(left, found)
    return np.array(sorted(chosen), dtype=np.int64)


def upper_end(values: Floats) -> float:
    """Upper end of the 95 % interval of a mean; INVALID of fewer than two values."""
    if len(values) < 2:
        return INVALID
    return float(values.mean() + Z * values.std(ddof=1) / math.sqrt(len(values)))


def _costs(times: Floats) -> Floats:
    """Log-slowdowns [S, C], INVALID where there is no time."""
    filled = np.where(np.isfinite(times), times, np.inf)
    best = filled.min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        logs = np.log(filled / best)
    return np.where(np.isfinite(logs), np.minimum(logs, INVALID), INVALID)


def gain(X: Floats, cost: Floats, n_all: int) -> float:
    """Upper end of the 95 % interval of what measuring all scenarios would gain over those of X [N, F].

    Scenarios equal in all features are held out together, and count once in the error.
    """
    group = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    n_groups = int(group.max()) + 1
    differences = np.zeros(len(X))
    for repeat in range(REPEATS):
        random = np.random.RandomState(repeat)
        fold = (random.permutation(n_groups) % min(FOLDS, n_groups))[group]
        half = random.permutation(n_groups)[group] % 2 == 0
        for k in range(int(fold.max()) + 1):
            test, train = fold == k, fold != k
            some = train & half
            if not some.any() or not test.any():
                continue
            rows = np.flatnonzero(test)
            before = cost[rows, quick.choose(X[some], cost[some], X[test])]
            after = cost[rows, quick.choose(X[train], cost[train], X[test])]
            differences[rows] += (before - after) / REPEATS
    last = max(0.0, upper_end(np.bincount(group, differences) / np.bincount(group)))
    trained = 1 - 1 / FOLDS
    share = min(1.0, len(X) / n_all)
    # With losses of a / sqrt(n): n against n_all scenarios, over half of the training folds against all of them.
    return last * (1 - math.sqrt(share)) / (math.sqrt(2 / trained) - math.sqrt(1 / trained))


# --- in a sweep -----------------------------------------------------------------------------------------------


class AdaptivePlan:
    """What a sweep measures next on each kind of device: a `matrix.Plan` for one of them."""

    def __init__(self, features: Mapping[str, ColumnType], target: float) -> None:
        self._features, self._target = features, target
        self._planner: Planner | None = None
        self._asked = np.zeros(0, dtype=bool)  # [S]: whether the planner has asked for it
        self._matrix: Matrix | None = None

    def __call__(self, matrix: Matrix) -> list[Scenario]:
        everything = matrix.everything
        if self._planner is None:
            columns, X = _feature_matrix(everything, self._features)
            order = range(len(everything))  # spread by hash already
            self._planner = Planner(columns, X, order, len(matrix.configs), self._target)
            self._asked = np.zeros(len(everything), dtype=bool)
        self._matrix = matrix
        configs, times = list(matrix.configs.values()), _times(matrix)
        undone: Bools = np.asarray(np.isnan(times).all(axis=1))
        # A planner counts what it has seen. One that is new, over a log of its past, is shown it batch by batch.
        while batch := self._planner.next(np.where(self._asked[:, None], times, np.nan)):
            self._asked[list(batch.scenarios)] = True
            pairs = zip(batch.scenarios, batch.configs, strict=True)
            chosen = [(s, few if len(few) < len(configs) else ()) for s, few in pairs if undone[s]]
            if chosen:
                return [replace(everything[s], configs=tuple(configs[c] for c in few)) for s, few in chosen]
        return []

    def report(self) -> str:
        """How much was measured, and what is left to gain."""
        if self._matrix is None or self._planner is None:
            return "nothing was measured"
        done, whole = self._matrix.total - self._matrix.missing, self._matrix.full_total
        if done == whole:  # nothing is better than all of it, whatever was estimated on the way
            return f"all of the full matrix's {counted(whole, 'cell')} measured on {self._matrix.device.name}"
        share = f"{done} of the full matrix's {counted(whole, 'cell')} measured on {self._matrix.device.name}"
        if self._planner.estimate is None:
            return f"{share}; too few for an estimate of what more would bring"
        return (
            f"{share}; a selector from all of it would be at most {self._planner.estimate.slowdown:.4f} times as "
            "good, by cross-validation (95 %)"
        )


def _feature_matrix(
    scenarios: Sequence[Scenario], features: Mapping[str, ColumnType]
) -> tuple[tuple[TableColumn, ...], Floats]:
    columns: list[TableColumn] = []
    values: list[list[float]] = []
    for name, kind in features.items():
        column = [s.features[name] for s in scenarios]
        words = tuple(sorted({str(v) for v in column})) if kind == "category" else ()
        columns.append(TableColumn(name, kind, values=words))
        values.append([float(words.index(str(v)) if kind == "category" else v) for v in column])
    return tuple(columns), np.array(values).T


def _times(matrix: Matrix) -> Floats:
    """The first time of every cell [S, C]; NaN where there is none, inf where it failed.

    All of a scenario that was asked for and in which no config applies: it is done.
    """
    number = {key: i for i, key in enumerate(matrix.configs)}
    times = np.full((len(matrix.everything), len(number)), np.nan)
    for s, scenario in enumerate(matrix.everything):
        tally = matrix.tallies.get(scenario.id)
        if tally and not tally.launches:
            times[s] = math.inf
        for key, time in tally.first.items() if tally else ():
            times[s, number[key]] = math.inf if time is None else time
    return times
