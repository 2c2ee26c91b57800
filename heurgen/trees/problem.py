"""Cost table -> the problem that the trees solve: canonical order, and costs as whole numbers.

Rows, columns and configs are sorted by content and name, so that no choice depends on the order in which a spec
or a log names them. Costs are whole multiples of 2**-20 held in float64: sums of them are exact, hence equal
whatever the number of BLAS threads or the order of the terms, and ties are real ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from heurgen.ir import Config
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import constants
from heurgen.trees.passed_over import measured_throughout

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# Costs are log-slowdowns in units of 2**-20: a millionth.
UNIT = 2.0**20
# Sums of costs stay below this, where float64 holds every whole number.
EXACT = 2.0**52
# Winners-only logs: the cost of any config but the winner.
NOT_WINNER = 1.0
# Where the tail begins, as a log-slowdown: 1.1x.
TAIL_FROM = math.log(1.1)
_TYPE_ORDER = {"int": 0, "bool": 1, "category": 2, "float": 3}


@dataclass(slots=True, eq=False)
class Shared:
    """What follows from the rows' features alone: problems that differ in their configs find it once.

    codes  int32 [N, F]  the bins of `bins.binned`
    near   int32 [N, K]  see `points.nearest_rows`
    parts  what is shared by problems of some of the rows, by these rows
    lines  X of the problems with points between (see `points`) and what they share, by the pairs that are joined
    """

    codes: NDArray[np.int32] | None = None
    near: NDArray[np.int32] | None = None
    parts: dict[bytes, Shared] = field(default_factory=dict)
    lines: dict[bytes, tuple[Floats, Shared]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Supposed:
    """Launches that may come, though no scenario is like them, each of which some config would fail (see `crossed`).

    X       float64 [M, F]
    fails   bool [M, C]
    weight  of each beside a scenario's 1.0
    """

    X: Floats
    fails: Bools
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """N rows (scenarios, and points between them), F columns, C configs.

    X        float64 [N, F]
    cost     float64 [N, C]  whole numbers: weight x log-slowdown x UNIT. Where not `covered` so much that one such
                             scenario outweighs all slowdowns together (see `_uncovered`): coverage comes first
    covered  bool [N, C]     measured and did not fail (or would not have: `chance.estimated`, a spec's `pruned`)
    untried  bool [N, C]     never measured
    real     bool [N]        False for a point between scenarios (see `points`)
    noise    float64 [N]     whole numbers, as `cost`: a lead up to this is within the noise
    index    int64 [N]       row of the table; of a point between, one of its ends
    configs  int64 [C]       column of the table
    leaf_price  float64 [C]  what a leaf pays for its config on top of its rows' costs, see `priced`
    weight   float64 [N]     1.0 for a scenario, less for a point between
    grouped  features that make a group; none: all given ones
    sparse   whether many cells are missing, see `coverage.sparse`
    doubtful  whether a leaf of a sparse table pays in full for doubt, see `priced`
    careful  whether regions are bounded that come near what a config was never covered on, see `guards`
    shared   what follows from `X` alone, found once for all problems of the same rows
    supposed  what guards look at beside the scenarios; not parted with the rows
    """

    columns: tuple[TableColumn, ...]
    X: Floats
    cost: Floats
    covered: Bools
    untried: Bools
    real: Bools
    noise: Floats
    index: Ints
    configs: Ints
    labels_only: bool
    leaf_price: Floats
    weight: Floats
    grouped: tuple[str, ...] = ()
    sparse: bool = False
    doubtful: bool = False
    careful: bool = False
    shared: Shared = field(default_factory=Shared)
    supposed: Supposed | None = None

    @property
    def n_real(self) -> int:
        return int(self.real.sum())

    @property
    def guessed(self) -> bool:
        """Whether cells that were not measured have a cost nevertheless: an estimate, or that of what lost."""
        return bool((self.covered & self.untried).any())

    @property
    def soft(self) -> Floats:
        """Costs [N, C] with `LEARNER.uncovered` where not covered: what held-out figures look at."""
        return self._at_most(constants.LEARNER.uncovered)

    @property
    def guide(self) -> Floats:
        """Costs [N, C] that growth goes by: as `soft`, but at most `LEARNER.sparse_uncovered` in a sparse table; of
        winners alone NOT_WINNER or nothing, whatever the tail.
        """
        c = constants.LEARNER
        if self.labels_only:
            return self._at_most(NOT_WINNER)
        return self._at_most(c.sparse_uncovered if self.sparse else c.uncovered)

    def _at_most(self, cost: float) -> Floats:
        found: Floats = np.minimum(self.cost, np.rint(self.weight[:, None] * (cost * UNIT)))
        return found


def problem(table: CostTable, rows: Ints | None = None, configs: Ints | None = None) -> Problem:
    """The problem of a table, or of some of its rows (indices in any order), less configs that were passed over.

    `configs`: those of the problem of any other rows of the table, where they are known.
    """
    rows = np.arange(table.n_scenarios) if rows is None else np.sort(rows)
    order = np.array(column_order(table.columns), dtype=np.int64)
    if configs is None:
        configs = np.array(config_order(table), dtype=np.int64)
        configs = configs[np.isin(configs, measured_throughout(table))]
    X = table.X[np.ix_(rows, order)]
    log = table.log_slowdown[np.ix_(rows, configs)]
    covered = np.isfinite(log)
    untried = np.isnan(log) if table.costs_known else np.zeros_like(covered)
    if table.costs_known:
        known = np.minimum(np.where(covered, log, 0.0), constants.LEARNER.uncovered - 1)
        cost = np.where(covered, np.rint(known * UNIT), _uncovered(np.rint(known * UNIT)))
        if table.pruned:
            cost, covered = _lost(cost, untried), covered | untried
    else:
        # The other configs were not measured because they lost, not because they do not apply.
        cost = np.rint(np.where(covered, 0.0, NOT_WINNER) * UNIT)
        covered = np.ones_like(covered)
    sort = _row_order(X, [table.device[r] for r in rows.tolist()], cost)
    return Problem(
        columns=tuple(table.columns[i] for i in order.tolist()),
        X=X[sort],
        cost=cost[sort],
        covered=covered[sort],
        untried=untried[sort],
        real=np.ones(len(rows), dtype=bool),
        noise=np.rint(np.log1p(table.noise[rows][sort]) * UNIT),
        index=rows[sort].astype(np.int64),
        configs=configs,
        labels_only=not table.costs_known,
        leaf_price=np.zeros(len(configs)),
        weight=np.ones(len(rows)),
        grouped=table.grouped,
    )


def device_of(table: CostTable, p: Problem) -> Ints:
    """The number of each row's device, in the order of their names."""
    return np.unique(table.device, return_inverse=True)[1].astype(np.int64)[p.index]


def lost(p: Problem) -> Problem:
    """The problem in which a config that was not measured is one that lost, as in one of a pruned table."""
    return replace(p, cost=_lost(p.cost, p.untried), covered=p.covered | p.untried)


def _lost(cost: Floats, untried: Bools) -> Floats:
    return np.where(untried, np.rint(constants.LEARNER.lost * UNIT), cost)


def _uncovered(known: Floats) -> float:
    """The cost of a scenario with a config that failed there or was never measured there.

    More than all scenarios' largest slowdowns together: 3 configs at 1x, 3x and failed in one scenario of 90 others
    cost 0, 99 and more than 99. From some ten thousand scenarios on it is as large as exact sums allow.
    """
    together = 1.5 * float(known.max(axis=1, initial=0.0).sum()) + constants.LEARNER.uncovered * UNIT
    return float(np.rint(min(together, EXACT / (2 * len(known)))))


def column_order(columns: tuple[TableColumn, ...]) -> list[int]:
    """Columns in the order in which they win ties: given before derived, whole numbers first, then by name."""
    keys = [(c.derived, _TYPE_ORDER[c.type], c.name) for c in columns]
    return sorted(range(len(columns)), key=keys.__getitem__)


def config_order(table: CostTable) -> list[int]:
    """Configs by their values, parameters taken in the order of their names."""
    names = sorted(range(len(table.parameters)), key=table.parameters.__getitem__)

    def key(config: Config) -> list[tuple[bool, object]]:
        return [(config[i] is not None, config[i] if config[i] is not None else 0) for i in names]

    return sorted(range(len(table.configs)), key=lambda i: key(table.configs[i]))


def _row_order(X: Floats, device: list[str], cost: Floats) -> Ints:
    """Rows by features; rows equal in all of them by device, then costs."""
    order = np.lexsort(X.T[::-1]) if X.shape[1] else np.arange(len(X))
    same = (X[order[1:]] == X[order[:-1]]).all(axis=1)
    start = np.flatnonzero(np.concatenate([[True], ~same, [True]]))
    for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        if b - a > 1:
            tied = order[a:b].tolist()
            order[a:b] = sorted(tied, key=lambda i: (device[i], np.ascontiguousarray(cost[i]).tobytes()))
    return order.astype(np.int64)


def groups(p: Problem) -> Ints:
    """Scenarios equal in the features that make a group share a number; numbers follow the sorted features."""
    given = [i for i, c in enumerate(p.columns) if c.name in p.grouped or not (p.grouped or c.derived)]
    return np.unique(p.X[:, given], axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def with_configs(p: Problem, chosen: Ints) -> Problem:
    """The problem with a few of its configs (indices into `p.configs`), the cheapest over all first.

    The order decides ties in a leaf: of two configs that serve it equally, the one better everywhere ships.
    """
    chosen = np.sort(chosen)
    total = p.cost[p.real][:, chosen].sum(axis=0)
    chosen = chosen[np.lexsort((chosen, total))]
    return replace(
        p,
        cost=np.ascontiguousarray(p.cost[:, chosen]),
        covered=np.ascontiguousarray(p.covered[:, chosen]),
        untried=np.ascontiguousarray(p.untried[:, chosen]),
        configs=p.configs[chosen],
        leaf_price=p.leaf_price[chosen],
    )


def subset(p: Problem, rows: Bools) -> Problem:
    """Some of the rows."""
    return replace(
        p,
        X=p.X[rows],
        cost=p.cost[rows],
        covered=p.covered[rows],
        untried=p.untried[rows],
        real=p.real[rows],
        noise=p.noise[rows],
        index=p.index[rows],
        weight=p.weight[rows],
        shared=p.shared.parts.setdefault(rows.tobytes(), Shared()),
    )


def without_columns(p: Problem, columns: tuple[int, ...]) -> Problem:
    """The problem whose tests ask for none of these columns."""
    keep = [i for i in range(len(p.columns)) if i not in columns]
    key = b"without " + bytes(str(columns), "ascii")
    kept = tuple(p.columns[i] for i in keep)
    return replace(p, columns=kept, X=p.X[:, keep], shared=p.shared.parts.setdefault(key, Shared()))


def priced(p: Problem) -> Problem:
    """The problem with a price on every leaf for the doubt about its config's coverage.

    A config that is covered on all scenarios of a leaf, but on few around it, probably fails somewhere in the
    leaf's region. A leaf pays `doubt` times the share of all scenarios that its config does not cover: little where a
    leaf has many scenarios that speak for the config.
    """
    c = constants.LEARNER
    doubt = c.sparse_doubt if p.sparse and not p.doubtful else c.doubt
    share = 1 - p.covered[p.real].mean(axis=0)
    return replace(p, leaf_price=np.rint(doubt * UNIT * share))


def steep(p: Problem) -> Problem:
    """The problem in which a config slower than an invalid choice counts `LEARNER.hopeless` more.

    A naive solver runs everywhere, sometimes at 7000x. Without this the few configs that ship are chosen for what a
    thousand scenarios gain a little by, and a scenario among them costs 300x that one more config would have saved.
    """
    c = constants.LEARNER
    known = np.where(p.covered, p.cost, 0.0)
    known = np.where(known > np.rint(c.invalid * UNIT), known + np.rint(c.hopeless * UNIT), known)
    return replace(p, cost=np.where(p.covered, known, _uncovered(known)))


def tailed(p: Problem, tail: float) -> Problem:
    """The problem in which a slowdown counts 1 + tail times as far as it lies beyond 1.1x."""
    if not tail:
        return p
    beyond = np.maximum(p.cost - np.rint(p.weight * (TAIL_FROM * UNIT))[:, None], 0.0)
    return replace(p, cost=np.where(p.covered, p.cost + np.rint(tail * beyond), p.cost))
