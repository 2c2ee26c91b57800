"""The tree while it is fitted: who goes left, what it costs, how large it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import TableColumn
from heurgen.trees.node import (
    Branch,
    Cut,
    Tip,
    assign,
    best_tip,
    doubt,
    goes_left,
    height,
    n_leaves,
    real_cost,
    row_costs,
    tips,
)
from heurgen.trees.problem import UNIT, problem
from tests.trees.synthetic import table

COLUMNS = [TableColumn("x", "int"), TableColumn("kind", "category", values=("a", "b", "c"))]
X = np.array([[1.0, 2.0], [2.0, 0.0], [3.0, 1.0], [4.0, 2.0]])
LEADS = np.array([[1.0, np.e], [1.0, np.e], [np.e, 1.0], [np.e, 1.0]])
P = problem(table(COLUMNS, X, LEADS))
ALL = np.arange(4)
# kind (a category) comes before x only where the order of columns says so: cuts name columns by place.
AT = {c.name: i for i, c in enumerate(P.columns)}
TREE = Branch(Cut(AT["x"], 2.0, 3.0), Tip(0), Branch(Cut(AT["kind"], left=(1,)), Tip(1), Tip(0)))


def test_a_value_at_the_low_end_of_a_gap_goes_left_and_a_category_where_it_is_listed() -> None:
    assert goes_left(P, ALL, Cut(AT["x"], 2.0, 3.0)).tolist() == [True, True, False, False]
    assert goes_left(P, ALL, Cut(AT["kind"], left=(0, 2))).tolist() == [True, True, False, True]
    assert goes_left(P, ALL[2:], Cut(AT["x"], 3.0, 4.0)).tolist() == [True, False]


def test_each_row_ends_in_the_config_of_its_leaf_and_costs_what_that_costs() -> None:
    assert assign(P, ALL, TREE).tolist() == [0, 0, 1, 0]
    assert assign(P, ALL[::-1], TREE).tolist() == [0, 1, 0, 0]
    assert row_costs(P, ALL, TREE).tolist() == [0.0, 0.0, 0.0, UNIT]
    assert real_cost(P, TREE) == UNIT
    some = replace(P, real=np.array([True, True, True, False]))
    assert real_cost(some, TREE) == 0.0


def test_the_best_tip_costs_least_with_its_price_and_the_first_wins_a_tie() -> None:
    assert best_tip(P, ALL[2:]) == Tip(1)
    assert best_tip(P, ALL) == Tip(0)
    assert best_tip(replace(P, leaf_price=np.array([1.0, 0.0])), ALL) == Tip(1)


def test_sizes_are_counted_over_leaves_and_the_longest_path() -> None:
    assert [tip.config for tip in tips(TREE)] == [0, 1, 0]
    assert (n_leaves(TREE), height(TREE), height(Tip(0))) == (3, 2, 0)
    assert doubt(replace(P, leaf_price=np.array([5.0, 7.0])), TREE) == 17.0
