"""Cost table -> the problem that the trees solve: canonical order, and costs as whole numbers.

Rows, columns and configs are sorted by content and name, so that no choice depends on the order in which a spec
or a log names them. Costs are whole multiples of 2**-20 held in float64: sums of them are exact, hence equal
whatever the number of BLAS threads or the order of the terms, and ties are real ties.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from heurgen.costs import CostTable, TableColumn
from heurgen.ir import Config

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# Costs are log-slowdowns in units of 2**-20: a millionth.
UNIT = 2.0**20
# Price of serving a scenario with a config that failed there or was never measured there. It is added per
# scenario, so it grows with the share of a region that a config does not cover; at e**10 = 22000x it outweighs
# every slowdown, and a config that covers the whole region ships unless there is none.
UNCOVERED = 10.0
# Winners-only logs: the cost of any config but the winner.
NOT_WINNER = 1.0
_TYPE_ORDER = {"int": 0, "bool": 1, "category": 2, "float": 3}


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """N rows (scenarios, and points between them), F columns, C configs.

    X        float64 [N, F]
    cost     float64 [N, C]  whole numbers: weight x log-slowdown x UNIT; UNCOVERED where not `covered`
    covered  bool [N, C]     measured and did not fail
    real     bool [N]        False for a point between scenarios (see `between`)
    noise    float64 [N]     whole numbers, as `cost`: a lead up to this is within the noise
    index    int64 [N]       row of the table; of a point between, one of its ends
    configs  int64 [C]       column of the table
    leaf_price  float64 [C]  what a leaf pays for its config on top of its rows' costs, see `priced`
    """

    columns: tuple[TableColumn, ...]
    X: Floats
    cost: Floats
    covered: Bools
    real: Bools
    noise: Floats
    index: Ints
    configs: Ints
    labels_only: bool
    leaf_price: Floats

    @property
    def n_real(self) -> int:
        return int(self.real.sum())


def problem(table: CostTable, rows: Ints | None = None) -> Problem:
    """The problem of a table, or of some of its rows (indices in any order)."""
    rows = np.arange(table.n_scenarios) if rows is None else np.sort(rows)
    order = np.array(column_order(table.columns), dtype=np.int64)
    configs = np.array(config_order(table), dtype=np.int64)
    X = table.X[np.ix_(rows, order)]
    log = table.log_slowdown[np.ix_(rows, configs)]
    covered = np.isfinite(log)
    if table.costs_known:
        cost = np.where(covered, np.minimum(log, UNCOVERED - 1), UNCOVERED)
    else:
        # The other configs were not measured because they lost, not because they do not apply.
        cost = np.where(covered, 0.0, NOT_WINNER)
        covered = np.ones_like(covered)
    cost = np.rint(np.where(np.isfinite(cost), cost, UNCOVERED) * UNIT)
    sort = _row_order(X, [table.device[r] for r in rows.tolist()], cost)
    return Problem(
        columns=tuple(table.columns[i] for i in order.tolist()),
        X=X[sort],
        cost=cost[sort],
        covered=covered[sort],
        real=np.ones(len(rows), dtype=bool),
        noise=np.rint(np.log1p(table.noise[rows][sort]) * UNIT),
        index=rows[sort].astype(np.int64),
        configs=configs,
        labels_only=not table.costs_known,
        leaf_price=np.zeros(len(configs)),
    )


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
    keys = [
        (x, d, c) for x, d, c in zip(X.tolist(), device, map(bytes, np.ascontiguousarray(cost)), strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def groups(p: Problem) -> Ints:
    """Scenarios equal in all given features share a number; numbers follow the sorted features."""
    given = [i for i, c in enumerate(p.columns) if not c.derived]
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
        configs=p.configs[chosen],
        leaf_price=p.leaf_price[chosen],
    )


def subset(p: Problem, rows: Ints | Bools) -> Problem:
    """Some of the rows."""
    return replace(
        p,
        X=p.X[rows],
        cost=p.cost[rows],
        covered=p.covered[rows],
        real=p.real[rows],
        noise=p.noise[rows],
        index=p.index[rows],
    )


# Uncovered scenarios, beyond those seen, that a leaf is taken to meet per share uncovered around it.
UNSEEN = 0.1


def priced(p: Problem) -> Problem:
    """The problem with a price on every leaf for the doubt about its config's coverage.

    A config that is covered on all scenarios of a leaf, but on few around it, probably fails somewhere in the
    leaf's region. A leaf pays UNCOVERED for UNSEEN scenarios times the share of all scenarios that its config
    does not cover: little where a leaf has many scenarios that speak for the config.
    """
    share = 1 - p.covered[p.real].mean(axis=0)
    return replace(p, leaf_price=np.rint(UNSEEN * UNCOVERED * UNIT * share))


# --- points between scenarios -------------------------------------------------------------------------------

NEIGHBOURS = 3
STEPS = 3
WEIGHT = 0.15
# Beyond this many scenarios the points cost more time than they bring. On an H200 log of 549 scenarios of attention,
# sequences of the same lengths held out together, they still lower the mean log-slowdown from 0.057 to 0.050.
MAX_SCENARIOS = 1000


def between(p: Problem) -> Problem:
    """The problem with points added between each scenario and its nearest neighbours.

    A small log leaves wide gaps, and many thresholds and features separate its scenarios equally well. Costs
    interpolated on the line between neighbours (geometric in positive columns, as launch costs scale) say which
    of them sits where the costs cross. On the H200 log this lowers the held-out geometric mean slowdown from
    1.061 to 1.047. All points together weigh WEIGHT times the scenarios.

    `p` holds the chosen configs: neighbours are joined only where the same ones of them are covered.
    """
    if p.n_real > MAX_SCENARIOS or p.labels_only:
        return p
    pairs = _pairs(p)
    if not len(pairs):
        return p
    weight = WEIGHT * p.n_real / (len(pairs) * STEPS)
    a, b = pairs[:, 0], pairs[:, 1]
    X, cost = [p.X], [p.cost]
    for step in range(1, STEPS + 1):
        w = step / (STEPS + 1)
        X.append(_line(p, a, b, w))
        cost.append(np.rint(((1 - w) * p.cost[a] + w * p.cost[b]) * weight))
    ends = np.concatenate([p.index, *[p.index[a]] * STEPS])
    n = len(a) * STEPS
    return replace(
        p,
        X=np.vstack(X),
        cost=np.vstack(cost),
        covered=np.vstack([p.covered, *[p.covered[a]] * STEPS]),
        real=np.concatenate([p.real, np.zeros(n, dtype=bool)]),
        noise=np.concatenate([p.noise, np.zeros(n)]),
        index=ends,
    )


def _scaled(p: Problem) -> tuple[Floats, Bools]:
    """Columns as distances see them: logs where positive, each with unit spread; and which are logs."""
    logs: Bools = np.asarray((p.X > 0).all(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        Z = np.where(logs, np.log(p.X), p.X)
    return Z, logs


def _pairs(p: Problem) -> Ints:
    """Pairs (i < j) of a row and one of its NEIGHBOURS nearest, with equal categories and coverage [P, 2]."""
    given = [i for i, c in enumerate(p.columns) if not c.derived and c.type in ("int", "float")]
    kinds = [i for i, c in enumerate(p.columns) if c.type in ("category", "bool")]
    Z = _scaled(p)[0][:, given]
    spread = Z.std(axis=0)
    Z = np.round((Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1.0), 9)
    kind = np.unique(np.hstack([p.X[:, kinds], p.covered]), axis=0, return_inverse=True)[1].reshape(-1)
    pairs: set[tuple[int, int]] = set()
    for i in range(len(Z)):
        distance = np.round(((Z - Z[i]) ** 2).sum(axis=1), 9)
        distance[(kind != kind[i]) | (distance == 0)] = np.inf
        nearest = np.argsort(distance, kind="stable")[:NEIGHBOURS]
        pairs |= {(min(i, j), max(i, j)) for j in nearest.tolist() if np.isfinite(distance[j])}
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def _line(p: Problem, a: Ints, b: Ints, w: float) -> Floats:
    """Points at share w of the way from rows a to rows b; products and ratios of columns stay consistent."""
    Z, logs = _scaled(p)
    mixed = (1 - w) * Z[a] + w * Z[b]
    with np.errstate(over="ignore"):
        mixed = np.where(logs, np.exp(mixed), mixed)
    return np.where(
        p.X[a] == p.X[b], p.X[a], np.clip(mixed, np.minimum(p.X[a], p.X[b]), np.maximum(p.X[a], p.X[b]))
    )
