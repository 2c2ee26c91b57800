"""What a log says leaf by leaf and config by config, worked out by hand (tests/audit/views.py)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.audit.evidence import (
    best_single,
    column_values,
    config_uses,
    importance,
    leaf_evidence,
    map_columns,
    ranked,
)
from tests.audit.views import TREE, view


def test_configs_rank_by_where_they_are_valid_then_by_their_mean() -> None:
    found = ranked(view().costs)
    assert [(column, valid) for column, valid, _ in found] == [(0, 4), (2, 3), (1, 3)]
    assert found[0][2] == pytest.approx((math.log(3) + math.log(2)) / 4)
    assert ranked(np.array([[math.nan, math.inf]])) == []
    tie = ranked(np.array([[0.5, 0.5]]))
    assert [column for column, *_ in tie] == [0, 1]


def test_the_best_single_config_is_known_where_costs_are() -> None:
    one = view()
    assert best_single(one) == 0
    assert best_single(replace(one, table=replace(one.table, costs_known=False))) is None


def test_a_leaf_counts_what_failed_and_names_the_best_other_config() -> None:
    small, large = leaf_evidence(view())
    assert (small.index, small.n, small.slowdown, small.n_invalid) == (0, 2, 1.0, 0)
    assert (small.runner_up, small.runner_valid) == ((32,), 2)  # 48 is faster and was measured in one alone
    assert small.runner_slowdown == pytest.approx(math.sqrt(8))
    assert (large.n, large.n_invalid, large.runner_up, large.runner_valid) == (2, 1, (48,), 2)
    assert large.slowdown == pytest.approx(1.5)


def test_of_winners_alone_a_leaf_knows_its_scenarios() -> None:
    one = view()
    small, _ = leaf_evidence(replace(one, table=replace(one.table, costs_known=False)))
    assert (small.n, small.n_invalid, small.runner_up, small.runner_valid) == (2, 0, None, 0)


def test_a_leaf_without_scenarios_has_no_evidence() -> None:
    empty = leaf_evidence(view(ir.Split("m", 1000, TREE, ir.Leaf(0, 0))))[-1]
    assert (empty.n, empty.slowdown, empty.runner_up, empty.runner_slowdown) == (0, None, None, None)


def test_dropping_a_config_leaves_the_others() -> None:
    first, second = config_uses(view())
    assert [(u.config, u.n_leaves, u.n_training, u.n) for u in (first, second)] == [
        (0, 1, 2, 2),
        (1, 1, 2, 2),
    ]
    # without 32 its leaf takes 16: 3.0 and 2.0; without 16 the other takes 32: 2.0, 4.0, 1.5 and a failure
    assert second.without == pytest.approx(6 ** (1 / 4))
    assert second.invalid_without == 0.0
    assert first.without == pytest.approx(12 ** (1 / 3))
    assert first.invalid_without == 0.25


def test_configs_that_training_used_most_come_first() -> None:
    tree = ir.Split("m", 1, ir.Leaf(0, 1), ir.Split("m", 64, ir.Leaf(1, 7), ir.Leaf(0, 2)))
    assert [(u.config, u.n_training, u.n, u.n_leaves) for u in config_uses(view(tree))] == [
        (1, 7, 2, 1),
        (0, 3, 2, 2),
    ]


def test_the_only_config_cannot_be_dropped() -> None:
    (only,) = config_uses(view(ir.Leaf(0, 4)))
    # the selector's other config is there to take
    assert only.without == pytest.approx(12 ** (1 / 3))
    one = view(ir.Leaf(0, 4))
    alone = replace(one, selector=replace(one.selector, configs=((16,),)))
    (only,) = config_uses(alone)
    assert (only.without, only.invalid_without) == (None, None)


def test_the_map_takes_the_features_whose_tests_save_most() -> None:
    assert map_columns(view()) == ("m", "dtype")
    assert set(importance(view())) == {"m"}
    both = ir.Split(
        "m", 4, ir.Membership("dtype", ("a",), ("b",), False, ir.Leaf(0, 1), ir.Leaf(1, 1)), ir.Leaf(1, 2)
    )
    saved = importance(view(both))
    assert saved["m"] > saved["dtype"] > 0
    assert map_columns(view(ir.Leaf(0, 4))) == ("m", "dtype")


def test_a_column_of_the_views_scenarios() -> None:
    assert column_values(view(), "m").tolist() == [1, 2, 64, 128]
    assert column_values(view(), "dtype").tolist() == [0, 1, 0, 0]
