"""Trees of cuts as IR: leaves' evidence, and what a category that training never saw gets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, fit
from heurgen.trees.build import _widened, choices, to_ir
from heurgen.trees.node import Branch, Cut, Tip
from heurgen.trees.problem import problem
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


def test_where_kernels_are_for_one_category_each_an_unknown_one_gets_the_generic_kernel() -> None:
    """Config 64 wins nowhere, so no leaf ships it; what does fails under two of three categories each."""
    times = {
        "bf16": [1.0, np.inf, np.nan, 5.0, 3.0],
        "fp16": [np.inf, 1.0, np.nan, 5.0, 3.0],
        "fp32": [np.inf, np.nan, 1.0, 5.0, np.inf],
    }
    for strategy in ("joint", "per-parameter", "auto"):
        t = by_kind(times)
        selector = fit(t, FitOptions(strategy=strategy, max_configs=3))
        assert [answer(selector, kind) for kind in times] == [16, 32, 48]
        assert answer(selector, "float8") == 64
        assert len(selector.configs) == 4
        assert choices(selector, t, np.arange(t.n_scenarios)).max() < 3


def test_a_category_is_unknown_but_once_and_where_a_region_has_none_of_it() -> None:
    """Of kinds 0 to 2, which alone come to the left, kind 2 has no scenario below i = 5; above it has."""
    X = np.array([[k, i] for k in range(4) for i in range(10) if k != 2 or i >= 5], dtype=float)
    columns = [TableColumn("kind", "category", values=tuple("abcd")), TableColumn("i", "int")]
    kind = X[:, 0].astype(int)
    own = [np.where((kind == k) | (kind == 3), 1.0, np.inf) for k in range(3)]
    t = table(columns, X, np.column_stack([*own, np.full(len(X), 5.0)]))
    p = problem(t)
    of_kind, of_i = ([c.name for c in p.columns].index(name) for name in ("kind", "i"))
    inner = Branch(Cut(of_kind, left=(0,)), Tip(0), Branch(Cut(of_kind, left=(1,)), Tip(1), Tip(2)))
    halves = Branch(Cut(of_i, 4, 5), Branch(Cut(of_kind, left=(0,)), Tip(0), Tip(1)), inner)
    node = to_ir(p, Branch(Cut(of_kind, left=(0, 1, 2)), halves, Tip(0)), [0, 1, 2, 3], t)
    assert [ir.find_leaf(node, {"kind": k, "i": i}).config for k in "abc" for i in (0, 9)] == [
        0,
        0,
        1,
        1,
        3,
        2,
    ]
    assert isinstance(node, ir.Membership)
    by_i = node.left
    assert isinstance(by_i, ir.Split)
    # above 5 all that comes is known: no leaf is for what does not come
    assert [leaf.n_scenarios for leaf in ir.leaves(by_i.right)] == [5, 5, 5]


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


def test_a_point_that_meets_a_size_leaves_a_threshold_that_can_be_read() -> None:
    """Right of the cut ships what does not run at 300; the last point left of it is 2**19 less one part in 2**40."""
    X = np.array([[100.0], [300.0], [2.0**19], [2.0**20]])
    t = table([TableColumn("x", "float")], X, np.array([[1.0, np.inf]] * 2 + [[2.0, 1.0]] * 2))
    p = problem(t)
    for low in (2.0**19 * (1 - 2.0**-40), 300.0):
        node = to_ir(p, Branch(Cut(0, low, 2.0**19), Tip(0), Tip(1)), p.configs.tolist(), t)
        assert isinstance(node, ir.Split)
        assert node.threshold == 524000.0


def test_where_most_cells_are_missing_a_threshold_leaves_out_what_a_config_was_covered_on_nowhere() -> None:
    """Right of the cut ships a config that no k below 512 has; left one that some launches of every k lack."""
    k = np.array([64.0, 128, 256, 384, 512, 1024, 2048, 4096])
    X = np.column_stack([k, [1.0, 1, 1, 1, 2, 1, 1, 1]])
    times = np.array([[1.0, np.nan]] * 4 + [[np.nan, 1.0], *[[2.0, 1.0]] * 3])
    p = problem(table([TableColumn("k", "int"), TableColumn("m", "int")], X, times))
    column = [c.name for c in p.columns].index("k")
    zero, one = (p.configs.tolist().index(c) for c in (0, 1))
    tree = Branch(Cut(column, 384.0, 512.0), Tip(zero), Tip(one))
    t = table([TableColumn("k", "int"), TableColumn("m", "int")], X, times)
    for careful, expected in ((False, 400), (True, 511)):
        node = to_ir(replace(p, careful=careful), tree, [zero, one], t)
        assert isinstance(node, ir.Split)
        assert node.threshold == expected
