"""The learners that heurgen's are compared with: plain scikit-learn, as others use it for kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.held_out import Learner, learner
from heurgen.logs.costs import CostTable
from heurgen.trees import FitOptions, optimal
from heurgen.trees.baselines import encoded, winners_of
from heurgen.trees.problem import Floats, Ints

# What an unmeasured cell counts where every cell needs a time: 20x.
UNMEASURED = 3.0
# Scenarios up to which the solver of optimal trees is asked: minutes a fold beyond.
SOLVABLE = 1000


def entropy(table: CostTable, train: Ints, test: Ints) -> Ints:
    """A classification tree on the label of the winner."""
    return _classified(table, train, test, winners_of(table, train))


def set_cover(table: CostTable, train: Ints, test: Ints) -> Ints:
    """A cover of the scenarios by at most 10 configs within 5 % of the best; the winner among those is the label."""
    logs = table.log_slowdown[train]
    near, left, chosen = logs <= math.log(1.05), np.ones(len(train), dtype=bool), list[int]()
    while left.any() and len(chosen) < 10:
        chosen.append(int((near & left[:, None]).sum(axis=0).argmax()))
        left &= ~near[:, chosen[-1]]
    own = np.where(np.isfinite(logs[:, chosen]), logs[:, chosen], np.inf)
    return _classified(table, train, test, np.array(chosen)[own.argmin(axis=1)])


def _classified(table: CostTable, train: Ints, test: Ints, labels: Ints) -> Ints:
    from sklearn.tree import DecisionTreeClassifier

    X = encoded(table)
    tree = DecisionTreeClassifier(criterion="entropy", max_depth=6, random_state=0)
    found: Ints = tree.fit(X[train], labels).predict(X[test])
    return found


def regression(table: CostTable, train: Ints, test: Ints) -> Ints:
    """A regression tree on the log-times of all configs: the config of least prediction."""
    from sklearn.tree import DecisionTreeRegressor

    X = encoded(table)
    tree = DecisionTreeRegressor(max_leaf_nodes=256, min_samples_leaf=2, random_state=0)
    found: Ints = tree.fit(X[train], _log_times(table, train)).predict(X[test]).argmin(axis=1)
    return found


def boosted(table: CostTable, train: Ints, test: Ints) -> Ints:
    """A gradient-boosted regression a config that won somewhere: the bound that no launch can afford."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y = encoded(table), _log_times(table, train)
    used = np.unique(winners_of(table, train))
    fits = [HistGradientBoostingRegressor(random_state=0).fit(X[train], y[:, c]) for c in used]
    found: Ints = used[np.column_stack([f.predict(X[test]) for f in fits]).argmin(axis=1)]
    return found


def _log_times(table: CostTable, rows: Ints) -> Floats:
    logs: Any = table.log_slowdown[rows]
    return np.where(np.isfinite(logs), np.minimum(logs, UNMEASURED), UNMEASURED)


LEARNERS: dict[str, Learner] = {
    "winner-label entropy tree": entropy,
    "set cover, entropy tree": set_cover,
    "regression tree, 256 leaves": regression,
    "gradient boosting (unshippable)": boosted,
    "`--strategy joint`": learner(FitOptions(strategy="joint")),
    "`--strategy auto`": learner(FitOptions()),
}
if optimal.available():
    LEARNERS["`--strategy optimal`, depth 3"] = learner(FitOptions(strategy="optimal"))


def able(name: str, table: CostTable) -> bool:
    return "optimal" not in name or table.n_scenarios <= SOLVABLE
