"""A fitted scikit-learn tree over a problem's rows, and back as a tree of cuts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from heurgen.trees.grow import gap
from heurgen.trees.node import Branch, Cut, Tip, Tree, parted
from heurgen.trees.problem import Bools, Floats, Ints, Problem

# Categories beyond this many share what is left: memory grows with the columns.
MAX_COLUMNS = 256


def encode(p: Problem, rows: Ints) -> tuple[Floats, list[Cut]]:
    """Columns for scikit-learn, and what `column <= 0.5 + k` means for each (a Cut with the k-th gap).

    Numbers become their dense rank, which float32 holds exactly; categories one column each, the commonest
    MAX_COLUMNS of them.
    """
    blocks, meaning = [], []
    for column, description in enumerate(p.columns):
        x = p.X[rows, column]
        values, rank, counts = np.unique(x, return_inverse=True, return_counts=True)
        if description.type == "category":
            common = np.sort(np.lexsort((values, -counts))[:MAX_COLUMNS])
            for v in values[common].astype(np.int64).tolist():
                blocks.append((x != v).astype(np.float64))
                meaning.append(Cut(column, left=(v,)))
        else:
            blocks.append(rank.reshape(-1).astype(np.float64))
            meaning.append(Cut(column))
    return np.column_stack(blocks), meaning


def classifier(X: Floats, labels: Ints, weight: Floats | None = None, **settings: Any) -> Any:
    """A fitted classification tree of scikit-learn's.

    It warns where more than half as many labels as rows occur, since they may be numbers. Ours never are: a log of
    many configs has as many winners.
    """
    from sklearn.tree import DecisionTreeClassifier

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return DecisionTreeClassifier(random_state=0, **settings).fit(X, labels, sample_weight=weight)


def from_estimator(
    p: Problem,
    rows: Ints,
    estimator: Any,
    X: Floats,
    meaning: list[Cut],
    label: Callable[[int], int],
) -> Tree:
    """A fitted sklearn tree over `encode`d rows; a leaf is labelled by `label(sklearn node)`."""
    arrays = estimator.tree_

    def build(node: int, own: Ints) -> Tree:
        if arrays.children_left[node] == -1:
            return Tip(label(node))
        cut = meaning[arrays.feature[node]]
        left: Bools = X[own, arrays.feature[node]] <= arrays.threshold[node]
        below, above = parted(own, left)
        if not cut.left:
            cut = gap(p, rows[own], cut.column, left)
        return Branch(
            cut, build(arrays.children_left[node], below), build(arrays.children_right[node], above)
        )

    return build(0, np.arange(len(rows)))
