"""What the strategies are compared with: the oracle, one config for all, and plain scikit-learn trees.

Each takes a table and training and test rows, and gives the test rows' config columns (-1: the values form no
config of the table), the number of leaves and of configs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heurgen.logs.costs import CostTable
from heurgen.trees.estimator import classifier
from heurgen.trees.problem import Floats, Ints, config_order, problem
from heurgen.trees.spread import within_float32

# The plain trees that the project started from have four levels.
DEPTH = 4


def oracle(table: CostTable, train: Ints, test: Ints) -> tuple[Ints, int, int]:
    best = winners_of(table, test)
    return best, 0, len(set(best.tolist()))


def best_single(table: CostTable, train: Ints, test: Ints) -> tuple[Ints, int, int]:
    p = problem(table, train)
    best = int(p.configs[p.cost.sum(axis=0).argmin()])
    return np.full(len(test), best, dtype=np.int64), 1, 1


def winner_tree(table: CostTable, train: Ints, test: Ints) -> tuple[Ints, int, int]:
    """Which config won, by a classification tree."""
    winners = winners_of(table, train)
    tree = _classifier(table, train, winners)
    return tree.predict(encoded(table)[test]), int(tree.get_n_leaves()), _labels(tree)


def parameter_trees(table: CostTable, train: Ints, test: Ints) -> tuple[Ints, int, int]:
    """A classification tree per parameter, recombined as they come. Leaves are summed over the trees.

    Configs are those that training scenarios get, as of every other tree: which are held out changes no count.
    """
    winners, X = winners_of(table, train).tolist(), encoded(table)[np.concatenate([test, train])]
    columns: list[list[Any]] = []
    n_leaves = 0
    for k in range(len(table.parameters)):
        values = [table.configs[w][k] for w in winners]
        domain = sorted(set(values), key=lambda v: (v is not None, v if v is not None else 0))
        tree = _classifier(table, train, np.array([domain.index(v) for v in values]))
        columns.append([domain[i] for i in tree.predict(X).tolist()])
        n_leaves += int(tree.get_n_leaves())
    number = {config: i for i, config in enumerate(table.configs)}
    tuples = list(zip(*columns, strict=True))
    answers, learnt = tuples[: len(test)], tuples[len(test) :]
    return np.array([number.get(t, -1) for t in answers], dtype=np.int64), n_leaves, len(set(learnt))


def winners_of(table: CostTable, rows: Ints) -> Ints:
    """The best config of each row, the first in canonical order on a tie."""
    order = np.array(config_order(table), dtype=np.int64)
    times = table.times[np.ix_(rows, order)]
    found: Ints = order[np.where(np.isfinite(times), times, np.inf).argmin(axis=1)]
    return found


def _classifier(table: CostTable, train: Ints, labels: Ints) -> Any:
    return classifier(encoded(table)[train], labels, max_depth=DEPTH)


def _labels(tree: Any) -> int:
    leaves = tree.tree_.children_left == -1
    return len(set(tree.tree_.value[leaves, 0, :].argmax(axis=1).tolist()))


def encoded(table: CostTable) -> Floats:
    blocks = []
    for i, column in enumerate(table.columns):
        x = table.X[:, i]
        if column.type == "category":
            blocks += [(x == v).astype(np.float64) for v in range(len(column.values))]
        else:
            blocks.append(within_float32(x))
    return np.column_stack(blocks)
