"""Columns for scikit-learn, and a fitted tree back as cuts."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from heurgen.logs.costs import TableColumn
from heurgen.trees.estimator import MAX_COLUMNS, classifier, encode, from_estimator
from heurgen.trees.node import Branch, Cut, Tip, assign
from heurgen.trees.problem import Problem, problem
from tests.trees.synthetic import table


def mixed(n: int = 6, categories: int = 3) -> Problem:
    columns = [
        TableColumn("x", "int"),
        TableColumn("kind", "category", values=tuple(f"k{i:03}" for i in range(categories))),
    ]
    X = np.column_stack([2.0 ** np.arange(40, 40 + n), np.arange(float(n)) % categories])
    return problem(table(columns, X, np.ones((n, 2))))


def test_numbers_become_dense_ranks_and_categories_a_column_each_of_what_is_not_them() -> None:
    X, meaning = encode(mixed(), np.arange(6))
    assert meaning == [Cut(0), Cut(1, left=(0,)), Cut(1, left=(1,)), Cut(1, left=(2,))]
    assert X[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert X[:, 2].tolist() == [1, 0, 1, 1, 0, 1]


def test_beyond_the_most_columns_the_commonest_categories_have_one() -> None:
    n = MAX_COLUMNS + 40
    p = mixed(n + 1, n)  # the first category comes twice
    X, meaning = encode(p, np.arange(n + 1))
    assert X.shape == (n + 1, 1 + MAX_COLUMNS)
    assert [cut.left for cut in meaning[1:]] == [(v,) for v in range(MAX_COLUMNS)]
    rows = np.arange(1, n + 1)  # now category 0 comes last, and as rarely as all others
    assert (0,) in [cut.left for cut in encode(p, rows)[1]]


def test_a_fitted_tree_sends_every_row_where_the_estimator_does() -> None:
    p = mixed(12)
    rows = np.arange(12)
    labels = (p.X[:, 0] > 2.0**45) ^ (p.X[:, 1] == 1)
    X, meaning = encode(p, rows)
    estimator = DecisionTreeClassifier(random_state=0).fit(X, labels)
    value = estimator.tree_.value[:, 0, :].argmax(axis=1)
    tree = from_estimator(p, rows, estimator, X, meaning, lambda node: int(value[node]))
    assert assign(p, rows, tree).tolist() == labels.astype(int).tolist()


def test_as_many_labels_as_rows_are_labels_without_a_word() -> None:
    rows = np.arange(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = classifier(rows[:, None].astype(np.float64), rows, max_depth=2)
    assert tree.get_depth() == 2


def test_a_gap_lies_between_the_rows_of_its_node() -> None:
    p = mixed(4, 1)
    rows = np.array([0, 3])
    X, meaning = encode(p, rows)
    estimator = DecisionTreeClassifier().fit(X, [0, 1])
    tree = from_estimator(p, rows, estimator, X, meaning, lambda node: node)
    assert tree == Branch(Cut(0, 2.0**40, 2.0**43), Tip(1), Tip(2))
