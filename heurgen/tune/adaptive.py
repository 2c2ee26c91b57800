"""Adaptive sweeps: which scenarios and configs to measure next, and when more would not pay.

A first part of the scenarios is measured with all configs. From it comes a shortlist: the few configs whose best is
nearest the best of all. The others are measured with the shortlist, batch by batch, those that `advise` ranks first
going first; some of each batch with all configs, and a winner that the shortlist lacks joins it.

After every batch cross-validation over scenarios compares trees learnt from all of the training folds with trees
learnt from half of them, on the same held-out scenarios: what the last doubling brought. Each further doubling is
taken to bring DECAY of the one before (losses fall like a power of the number of scenarios; DECAY 0.7 is a power of
0.5, the slowest that theory knows for a mean). The sweep stops when the upper end of the 95 % interval of all that
is left to gain, with what the shortlist loses to all configs, is below the target twice in a row:
`--target-slowdown 1.01` stops when a selector from the full matrix would be at most 1.01 times as good.
`benchmarks/adaptive.py` replays a log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from heurgen.audit.advise.rank import next_scenarios
from heurgen.audit.advise.scale import scale_over
from heurgen.ir import ColumnType
from heurgen.logs.costs import TableColumn
from heurgen.trees import quick
from heurgen.trees.configs import choose as choose_configs
from heurgen.tune.matrix import Matrix
from heurgen.tune.protocol import Scenario

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Scenarios that are measured with all configs at the start: this share of them, at least so many.
FIRST_SHARE, FIRST = 0.15, 24
SHORTLIST = 28
# A batch is this share of what has been measured; one in AUDIT of its scenarios is measured with all configs.
BATCH_SHARE, AUDIT = 0.5, 20
FOLDS, REPEATS = 5, 4
# Estimates in a row that must be below the target: of many looks, one may be lucky, most of all an early one.
LOOKS = 2
DECAY = 0.7
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


@dataclass(slots=True)
class Planner:
    """Plans one kind of device's sweep. `order` holds all scenarios, spread; `X` their features [S, F].

    `target` is the slowdown, above 1, to which a selector may be worse than that of the full matrix.
    """

    columns: Sequence[TableColumn]
    X: Floats
    order: Sequence[int]
    n_configs: int
    target: float
    estimate: Estimate | None = None
    _shortlist: set[int] = field(default_factory=set)
    _below: int = 0

    def next(self, times: Floats) -> Batch | None:
        """The next batch, or None where enough is known.

        Args:
            times: [S, C] ms; NaN never measured, inf failed.
        """
        done = np.asarray(~np.isnan(times).all(axis=1))
        rest = [s for s in self.order if not done[s]]
        every = tuple(range(self.n_configs))
        first = min(len(self.order), max(FIRST, math.ceil(FIRST_SHARE * len(self.order))))
        if not rest:
            return None
        if done.sum() < first:
            taken = rest[: first - int(done.sum())]
            return Batch(tuple(taken), (every,) * len(taken))
        rows = np.flatnonzero(done & np.isfinite(times).any(axis=1))
        if len(rows) < FIRST // 2:  # nearly all fails: there is nothing to learn from
            return Batch(tuple(rest), (every,) * len(rest))
        whole = self._whole(times, rows)
        columns = np.array(self._shortlisted(times, whole), dtype=np.int64)
        cost = _costs(times[np.ix_(rows, columns)])
        self.estimate = Estimate(
            gain(self.X[rows], cost, len(self.order)), shortlist_loss(times[whole], columns)
        )
        self._below = self._below + 1 if self.estimate.slowdown <= self.target else 0
        if self._below >= LOOKS:
            return None
        count = min(len(rest), max(FIRST, round(BATCH_SHARE * len(rows))))
        chosen = quick.choose(self.X[rows], cost, self.X[rest])
        scale = scale_over(self.columns, self.X)
        picked = [rest[i] for i in next_scenarios(scale, self.X[rows], cost, self.X[rest], chosen, count)]
        few = tuple(columns.tolist())
        return Batch(tuple(picked), tuple(every if i % AUDIT == 0 else few for i in range(len(picked))))

    def _whole(self, times: Floats, rows: Ints) -> Ints:
        """The scenarios that were measured with all configs: with nearly as many as any, for some do not apply."""
        counts = (~np.isnan(times[rows])).sum(axis=1)
        found: Ints = rows[counts > 0.5 * counts.max()]
        return found

    def _shortlisted(self, times: Floats, whole: Ints) -> list[int]:
        """The shortlist: of the first scenarios, and with every later one's winner that it lacks by the target."""
        cost = _costs(times[whole])
        if not self._shortlist:
            self._shortlist = set(choose_configs(cost, min(SHORTLIST, self.n_configs)).tolist())
        few = sorted(self._shortlist)
        lacking = cost[:, few].min(axis=1) > math.log(self.target)
        self._shortlist |= set(cost[lacking].argmin(axis=1).tolist())
        return sorted(self._shortlist)


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
    means = np.bincount(group, differences) / np.bincount(group)
    upper = float(means.mean() + Z * means.std(ddof=1) / math.sqrt(n_groups)) if n_groups > 1 else INVALID
    doublings = math.log2(max(1.0, n_all / ((1 - 1 / FOLDS) * len(X))))
    return float(max(0.0, upper) * DECAY * (1 - DECAY**doublings) / (1 - DECAY))


def shortlist_loss(times: Floats, columns: Ints) -> float:
    """Upper end of the 95 % interval of what the best of some configs loses to the best of all, over times [S, C].

    Measured on the scenarios that the shortlist was made from too, which flatters it: those that were audited
    later are of others.
    """
    loss = _costs(times)[:, columns].min(axis=1)
    spread = loss.std(ddof=1) / math.sqrt(len(loss)) if len(loss) > 1 else INVALID
    return float(loss.mean() + Z * spread)


# --- in a sweep -----------------------------------------------------------------------------------------------


class AdaptivePlan:
    """What a sweep measures next on each kind of device: a `matrix.Plan` for one of them."""

    def __init__(self, features: Mapping[str, ColumnType], target: float) -> None:
        self._features, self._target = features, target
        self._planner: Planner | None = None
        self._matrix: Matrix | None = None

    def __call__(self, matrix: Matrix) -> list[Scenario]:
        everything = matrix.everything
        if self._planner is None:
            columns, X = _feature_matrix(everything, self._features)
            order = range(len(everything))  # spread by hash already
            self._planner = Planner(columns, X, order, len(matrix.configs), self._target)
        self._matrix = matrix
        batch = self._planner.next(_times(matrix))
        if batch is None:
            return []
        configs = list(matrix.configs.values())
        return [
            replace(everything[s], configs=tuple(configs[c] for c in few) if len(few) < len(configs) else ())
            for s, few in zip(batch.scenarios, batch.configs, strict=True)
        ]

    def report(self) -> str:
        """How much was measured, and what is left to gain."""
        if self._matrix is None or self._planner is None:
            return "nothing was measured"
        done = self._matrix.total - self._matrix.missing
        share = f"{done} of the full matrix's {self._matrix.full_total} cells measured on {self._matrix.device.name}"
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
    """The first time of every cell [S, C]; NaN where there is none, inf where it failed."""
    number = {key: i for i, key in enumerate(matrix.configs)}
    times = np.full((len(matrix.everything), len(number)), np.nan)
    for s, scenario in enumerate(matrix.everything):
        tally = matrix.tallies.get(scenario.id)
        for key, time in tally.first.items() if tally else ():
            times[s, number[key]] = math.inf if time is None else time
    return times
