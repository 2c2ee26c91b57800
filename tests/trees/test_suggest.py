"""Suggestions of derived features."""

from __future__ import annotations

import json

import numpy as np
import pytest

from heurgen.base.errors import UsageError
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import suggest_derived
from heurgen.trees.suggest import Suggestion, Suggestions, _expressions, _remainders, evaluated, known
from tests.trees.synthetic import surface, table, winners_only


def test_a_hidden_product_is_found() -> None:
    rng = np.random.RandomState(0)
    X = np.floor(2.0 ** (3 + 9 * rng.rand(70, 2)))
    large = X[:, 0] * X[:, 1] > 2.0**15
    times = np.where(large[:, None], [[2.0, 1.0]], [[1.0, 2.0]]) * np.exp(0.01 * rng.rand(70, 2))
    found = suggest_derived(table([TableColumn("a", "int"), TableColumn("b", "int")], X, times))
    assert found.ranked[0].expression == "a * b"
    assert found.ranked[0].pays
    assert found.ranked[0].with_it < found.ranked[0].without
    assert 0 < found.ranked[0].error < found.ranked[0].without - found.ranked[0].with_it
    assert (
        found.to_text().splitlines()[0]
        == "nvidia: derived features that pay on held-out scenarios are marked *"
    )
    assert json.loads(json.dumps(found.to_dict()))["vendor"] == "nvidia"


def test_a_hidden_alignment_is_found() -> None:
    """A vectorised config is for rows of whole vectors: no size says so, however a tree divides it."""
    rng = np.random.RandomState(0)
    X = np.floor(64 + 4000 * rng.rand(90, 2))
    X[::2, 1] = 16 * np.ceil(X[::2, 1] / 16)
    times = np.where((X[:, 1:] % 16 == 0), [[1.0, 2.0]], [[2.0, 1.0]]) * np.exp(0.01 * rng.rand(90, 2))
    found = suggest_derived(table([TableColumn("a", "int"), TableColumn("b", "int")], X, times))
    best = found.ranked[0]
    assert (best.expression, best.pays, round(best.with_it, 1)) == ("b % 16", True, 1.0)
    assert "* b % 16: 1.0" in found.to_text()


def test_remainders_are_of_sizes_that_are_multiples_now_and_then() -> None:
    x = np.arange(1.0, 101.0)
    columns = [
        TableColumn("x", "int"),
        TableColumn("y", "int"),
        TableColumn("z", "int"),
        TableColumn("w", "float"),
    ]
    t = table(columns, np.column_stack([8 * x, x % 5, 2 * x + 1, x + 0.5]), np.ones((100, 2)))
    # every x is a multiple of 8, and few of 128; y has five values, z no even one
    assert list(_remainders(t)) == ["x % 16", "x % 32", "x % 64", "x % 128"]


def test_nothing_pays_where_one_feature_decides() -> None:
    rng = np.random.RandomState(0)
    X = np.floor(2.0 ** (3 + 9 * rng.rand(60, 2)))
    times = np.where((X[:, :1] > 64), [[2.0, 1.0]], [[1.0, 2.0]])
    found = suggest_derived(table([TableColumn("a", "int"), TableColumn("b", "int")], X, times))
    assert not any(s.pays for s in found.ranked)


def test_suggestions_need_costs_and_scenarios(small: CostTable) -> None:
    with pytest.raises(UsageError, match="a log of winners"):
        suggest_derived(winners_only(small))
    few = surface(6, 3, 2)
    with pytest.raises(UsageError, match="6 groups of scenarios are too few"):
        suggest_derived(few)


def test_what_orders_the_scenarios_as_a_column_does_is_not_tried() -> None:
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 3.0, 9.0, 27.0])
    columns = [TableColumn("x", "int"), TableColumn("y", "int"), TableColumn("one", "int")]
    t = table(columns, np.column_stack([x, y, np.full(4, 5.0)]), np.ones((4, 2)))
    assert known(t, 3 * x)
    assert known(t, -x)
    assert not known(t, x % 3)
    # x * y, x / y and y / x all rise or fall with x; a column of one value makes no pair.
    assert list(_expressions(t)) == []


def test_products_and_both_ratios_of_each_pair_are_tried_in_the_order_of_names() -> None:
    b, a = np.array([4.0, 1.0, 3.0]), np.array([1.0, 3.0, 2.0])
    t = table([TableColumn("b", "int"), TableColumn("a", "int")], np.column_stack([b, a]), np.ones((3, 2)))
    found = dict(_expressions(t))
    assert list(found) == ["a * b"]
    assert sorted(evaluated(t, found["a * b"]).tolist()) == [3.0, 4.0, 6.0]


def test_the_text_marks_what_pays() -> None:
    pays, idle = Suggestion("a * b", 1.2, 1.1, 0.01, True), Suggestion("a / b", 1.2, 1.19, 0.01, False)
    assert Suggestions("amd", (pays, idle)).to_text().splitlines() == [
        "amd: derived features that pay on held-out scenarios are marked *",
        "* a * b: 1.1000 with it, 1.2000 without",
        "  a / b: 1.1900 with it, 1.2000 without",
    ]
    none = Suggestions("amd", (idle,)).to_text().splitlines()
    assert none[0] == "amd: no product, ratio or remainder pays on held-out scenarios"
    more = Suggestions("amd", (idle,), ("m_times_n", "waves")).to_text().splitlines()
    assert more[0] == f"{none[0]} (beside m_times_n, waves)"
