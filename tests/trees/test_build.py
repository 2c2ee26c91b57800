"""Trees of cuts as IR: leaves' evidence, and what a category that training never saw gets."""

from __future__ import annotations

import numpy as np
import pytest

from heurgen import ir
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, fit
from heurgen.trees.build import _widened
from tests.trees.synthetic import table

JOINT = FitOptions(strategy="joint")


def by_kind(times: dict[str, list[float]], each: int = 10) -> CostTable:
    kinds = sorted(times)
    X = np.array([[k, i] for k in range(len(kinds)) for i in range(each)], dtype=float)
    rows = np.array([times[kinds[int(k)]] for k, _ in X])
    columns = [TableColumn("kind", "category", values=tuple(kinds)), TableColumn("i", "int")]
    return table(columns, X, rows)


def answer(selector: ir.Selector, kind: str) -> ir.Value:
    leaf = ir.find_leaf(selector.tree, {"kind": kind, "i": 3})
    return selector.configs[leaf.config][0]


def test_an_unknown_category_gets_a_config_that_succeeded_under_every_known_one() -> None:
    """Config 16 wins for most scenarios and fails for bf16; 48 works for both but is slower than each one's best."""
    times = {
        "bf16": [np.inf, 1.0, 2.0],
        "fp16": [1.0, np.inf, 2.0],
        "fp32": [5.0, 5.0, 1.0],
    }
    selector = fit(by_kind(times), JOINT)
    assert [answer(selector, kind) for kind in ("bf16", "fp16", "fp32")] == [32, 16, 48]
    assert answer(selector, "float8") == 48


def test_where_the_majoritys_config_works_everywhere_an_unknown_category_needs_no_test_more() -> None:
    selector = fit(by_kind({"a": [1.0, 2.0], "b": [2.0, 1.0]}), JOINT)
    assert isinstance(selector.tree, ir.Membership)
    assert isinstance(selector.tree.left, ir.Leaf)
    assert isinstance(selector.tree.right, ir.Leaf)


def test_a_leaf_says_in_how_many_scenarios_its_config_succeeded() -> None:
    """No config covers all ten: the one that ships failed in two of them."""
    times = np.array([[1.0, np.inf]] * 8 + [[np.inf, 1.0]] * 2)
    t = table([TableColumn("x", "int")], np.full((10, 1), 7.0), times)
    assert fit(t, JOINT).tree == ir.Leaf(0, 10, 1.0, 8, ir.RunnerUp(1, 1.0, 2))


def test_a_threshold_is_looked_for_within_the_gap_between_scenarios_and_near_its_points() -> None:
    # Points at 40 and 60 between scenarios at 10 and 1000: a rounder number may lie 15 % outside them.
    assert _widened(40.0, 60.0, 10.0, 1000.0) == (pytest.approx(40 / 1.15), pytest.approx(60 * 1.15))
    assert _widened(-60.0, -40.0, -1000.0, -10.0) == (pytest.approx(-60 * 1.15), pytest.approx(-40 / 1.15))
    # Never beyond the scenarios themselves.
    assert _widened(40.0, 60.0, 39.0, 61.0) == (39.0, 61.0)
