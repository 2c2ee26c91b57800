"""What the strategies are compared with."""

from __future__ import annotations

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees.baselines import best_single, oracle, parameter_trees, winner_tree
from heurgen.trees.compare import Method
from tests.trees.synthetic import table

NAN, INF = np.nan, np.inf
X = np.column_stack([np.arange(8.0), [0.0, 0.0, 1.0, 1.0] * 2])
COLUMNS = [TableColumn("x", "int"), TableColumn("kind", "category", values=("a", "b"))]
# (1, 2) leads for x < 4 in kind a, (2, 1) for x < 4 in kind b, (2, 2) from 4 on; (1, 1) was never measured.
CONFIGS = [(2, 2), (1, 2), (2, 1)]
TIMES = np.array([[2.0, 1.0, 3.0]] * 2 + [[2.0, INF, 1.0]] * 2 + [[1.0, 2.0, NAN]] * 4)
T = table(COLUMNS, X, TIMES, CONFIGS, ("A", "B"))
ALL = np.arange(8)


def test_the_oracle_takes_each_winner_and_the_first_config_by_value_on_a_tie() -> None:
    assert [x if isinstance(x, int) else x.tolist() for x in oracle(T, ALL, ALL)] == [
        [1, 1, 2, 2, 0, 0, 0, 0],
        0,
        3,
    ]
    tied = table([COLUMNS[0]], X[:1, :1], np.array([[5.0, 5.0]]), [(32,), (16,)])
    assert oracle(tied, ALL[:1], ALL[:1])[0].tolist() == [1]


def test_the_best_single_config_is_learnt_from_the_training_rows_alone() -> None:
    chosen, leaves, configs = best_single(T, ALL[:2], ALL[2:])
    assert (chosen.tolist(), leaves, configs) == ([1] * 6, 1, 1)
    # One that failed anywhere gives way to one that ran everywhere.
    assert best_single(T, ALL, ALL)[0].tolist() == [0] * 8


def test_the_winner_tree_predicts_winners_by_number_and_by_category() -> None:
    chosen, leaves, configs = winner_tree(T, ALL, ALL)
    assert (chosen.tolist(), leaves, configs) == ([1, 1, 2, 2, 0, 0, 0, 0], 3, 3)


def test_parameter_trees_recombine_their_values_and_count_all_leaves() -> None:
    chosen, leaves, configs = parameter_trees(T, ALL, ALL)
    assert (chosen.tolist(), leaves, configs) == ([1, 1, 2, 2, 0, 0, 0, 0], 5, 3)


@pytest.mark.parametrize("method", [winner_tree, parameter_trees])
def test_configs_are_counted_over_the_tree_and_not_over_what_is_held_out(method: Method) -> None:
    """Of one held-out scenario a tree per parameter had one config, whatever it holds."""
    for test in (ALL[:1], ALL[4:], ALL):
        assert method(T, ALL, test)[2] == 3


def test_parameter_trees_meet_in_values_that_form_no_config() -> None:
    # A follows x and B follows y; at small x and small y they meet in (1, 1), which is no config.
    grid = np.array([[0.0, 9.0], [9.0, 0.0], [9.0, 9.0], [0.0, 0.0]])
    columns = [TableColumn("x", "int"), TableColumn("y", "int")]
    times = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, 2.0], [2.0, 2.0, 1.0], [2.0, 2.0, 1.0]])
    t = table(columns, grid, times, [(1, 2), (2, 1), (2, 2)], ("A", "B"))
    train = np.flatnonzero(t.X.any(axis=1))
    assert parameter_trees(t, train, np.flatnonzero(~t.X.any(axis=1)))[0].tolist() == [-1]
