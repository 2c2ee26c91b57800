"""Thresholds, merging and projection keep every answer, NaN and unknown categories included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.ir import Leaf, Membership, Node, Selector, Split, passes

SETTINGS = settings(max_examples=400)
TREES = settings(max_examples=100)
finite = st.floats(allow_nan=False, allow_infinity=False)
in_range = st.floats(-passes.FLOAT32_MAX, passes.FLOAT32_MAX)
whole = st.integers(-(2**53), 2**53)


# --- thresholds -------------------------------------------------------------------------------------------


@SETTINGS
@given(finite, in_range)
def test_exact_cutoff_decides_as_float32_does(threshold: float, x: float) -> None:
    cutoff = passes.exact_cutoff(threshold)
    near = [math.nextafter(y, d) for y in (threshold, cutoff) for d in (-math.inf, math.inf)]
    for probe in (x, threshold, cutoff, *near):
        if abs(probe) <= passes.FLOAT32_MAX:
            assert (probe <= cutoff) == (float(np.float32(probe)) <= threshold)


@pytest.mark.parametrize(
    ("threshold", "type_", "expected"),
    [
        (4096.5, "int", 4096),
        (2.0**24, "int", 2**24 + 1),  # 2**24 + 1 is cast to the even neighbour 2**24
        (-0.5, "int", -1),
        (0.5, "bool", 0),
        (0.5, "float", 0.5000000298023224),
    ],
)
def test_exact_split_takes_the_type_of_the_feature(threshold: float, type_: Any, expected: Any) -> None:
    node = passes.exact_split("x", type_, threshold, Leaf(0), Leaf(1))
    assert isinstance(node, Split)
    assert (node.threshold, type(node.threshold)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("threshold", "type_", "config"),
    [(1e39, "float", 0), (-1e39, "int", 1), (1.5, "bool", 0), (-1, "bool", 1)],
)
def test_a_test_that_cannot_fail_is_dropped(threshold: float, type_: Any, config: int) -> None:
    assert passes.exact_split("x", type_, threshold, Leaf(0), Leaf(1)) == Leaf(config)


@SETTINGS
@given(st.one_of(st.tuples(finite, finite, st.just("float")), st.tuples(whole, whole, st.just("int"))))
def test_roundest_separates(case: tuple[float, float, Any]) -> None:
    low, high, type_ = min(case[:2]), max(case[:2]), case[2]
    if low == high:
        with pytest.raises(ValueError, match="no threshold separates"):
            passes.roundest(low, high, type_)
        return
    threshold = passes.roundest(low, high, type_)
    assert low <= threshold < high
    assert type(threshold) is (int if type_ == "int" else float)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (3891, 4100, 4096),
        (3000, 3900, 3000),
        (4500, 4900, 4700),
        (0.97, 1.0, 0.98),
        (0.0003, 0.0006, 0.0004),
        (0.1, 0.3, 0.125),
        (0.3, 0.7, 0.5),
        (-5, -2, -4),
        (-3, 9, 0),
        (1023.5, 1024.2, 1024.0),
        (765.25, 1301.75, 1024.0),
        (16777216, 16777217, 16777216),
    ],
)
def test_roundest_is_what_a_person_would_write(low: float, high: float, expected: float) -> None:
    assert passes.roundest(low, high, "int" if isinstance(low, int) else "float") == expected


# --- merging and projection -------------------------------------------------------------------------------

CATEGORIES = ("a", "b", "c", "d")


@st.composite
def memberships(draw: st.DrawFn, left: Node, right: Node) -> Membership:
    order = draw(st.permutations(CATEGORIES))
    n, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    values, others = tuple(order[:n]), tuple(order[n : n + m])
    return Membership("c", values, others, draw(st.booleans()), left, right)


def trees(n_configs: int = 3, max_leaves: int = 14) -> st.SearchStrategy[Node]:
    leaf = st.builds(Leaf, st.integers(0, n_configs - 1), st.integers(1, 9), st.floats(1, 4))

    def grow(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        split = st.builds(Split, st.sampled_from(["i", "j"]), st.integers(-3, 3), children, children)
        return split | st.tuples(children, children).flatmap(lambda pair: memberships(*pair))

    return st.recursive(leaf, grow, max_leaves=max_leaves)


ROWS = [
    {"i": i, "j": j, "c": c}
    for i in (-9, -3, -2, -1, 0, 1, 2, 3, 4, math.nan, math.inf)
    for j in (-3, -1, 0, 0.5, 2, 9, math.nan)
    for c in (*CATEGORIES, "unknown", None)
]


@TREES
@given(trees())
def test_merge_keeps_every_answer_and_is_idempotent(tree: Node) -> None:
    small = passes.merge(tree)
    for row in ROWS:
        assert ir.find_leaf(small, row).config == ir.find_leaf(tree, row).config
    assert passes.merge(small) == small
    assert sum(1 for _ in ir.nodes(small)) <= sum(1 for _ in ir.nodes(tree))


@TREES
@given(trees())
def test_projections_agree_with_the_joint_tree(tree: Node) -> None:
    configs = ((16, "2d", 0.0), (16, "3d", -0.0), (64, "3d", 0.0))
    selector = Selector("nvidia", ("BLOCK_M", "variant", "x"), configs, tree)
    for position, name in enumerate(selector.parameters):
        values, projected = passes.project(selector, name)
        for row in ROWS:
            expected = configs[ir.find_leaf(tree, row).config][position]
            assert repr(values[ir.find_leaf(projected, row).config]) == repr(expected)


def test_equal_siblings_merge_with_their_evidence() -> None:
    tree = Split("i", 4, Leaf(0, 3, 1.0), Leaf(0, 1, 16.0))
    assert passes.merge(tree) == Leaf(0, 4, 2.0)


def test_evidence_of_a_leaf_without_costs_stays_unknown() -> None:
    assert passes.merge(Split("i", 4, Leaf(0, 3), Leaf(0, 1))) == Leaf(0, 4, None)


def test_neighbouring_intervals_with_one_answer_are_one_test() -> None:
    tree = Split("i", 5, Leaf(0), Split("i", 9, Leaf(0), Leaf(1)))
    assert passes.merge(tree) == Split("i", 9, Leaf(0), Leaf(1))
    tree = Split("i", 5, Split("i", 2, Leaf(0), Leaf(1)), Leaf(1))
    assert passes.merge(tree) == Split("i", 2, Leaf(0), Leaf(1))


def test_tests_that_the_path_decides_are_dropped() -> None:
    tree = Split("i", 5, Split("i", 7, Leaf(0), Leaf(1)), Split("i", 3, Leaf(1), Leaf(2)))
    assert passes.merge(tree) == Split("i", 5, Leaf(0), Leaf(2))
    tree = Split("i", 5, Split("i", 5, Leaf(0), Leaf(1)), Split("i", 5, Leaf(1), Leaf(2)))
    assert passes.merge(tree) == Split("i", 5, Leaf(0), Leaf(2))


def test_equal_subtrees_merge_with_the_evidence_of_both_sides() -> None:
    low, high = (Split("i", 5, Leaf(0, n), Leaf(1, 2 * n)) for n in (1, 10))
    assert passes.merge(Split("j", 0, low, high)) == Split("i", 5, Leaf(0, 11), Leaf(1, 22))


def member(values: str, others: str, unknown_left: bool, left: Node, right: Node) -> Membership:
    return Membership("c", tuple(values), tuple(others), unknown_left, left, right)


A, B, C, D = (Leaf(i) for i in range(4))


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        # Known to be one of a, b: the test for both is passed, that for another fails.
        (member("ab", "d", False, member("abc", "d", True, A, B), C), member("ab", "d", False, A, C)),
        (member("ab", "d", False, member("d", "ab", False, A, B), C), member("ab", "d", False, B, C)),
        # Neither a nor b: a test for a, or for both, fails; that for a and c says something.
        (member("ab", "d", False, A, member("a", "d", False, B, C)), member("ab", "d", False, A, C)),
        (member("ab", "d", False, A, member("ab", "d", False, B, C)), member("ab", "d", False, A, C)),
        (member("ab", "d", False, A, member("ac", "d", False, B, C)),) * 2,
        # Not d, where unknown ones go left as well.
        (member("ab", "d", True, member("b", "d", True, A, B), C), member("ab", "d", True, A, C)),
        (member("ab", "d", True, member("b", "ad", True, A, B), C),) * 2,
        # a or b, then not b: what is left is a.
        (
            member("ab", "d", False, member("b", "ad", True, A, member("a", "d", False, B, C)), D),
            member("ab", "d", False, member("b", "ad", True, A, B), D),
        ),
        (
            member("abe", "d", False, member("a", "be", False, A, member("be", "d", False, B, C)), D),
            member("abe", "d", False, member("a", "be", False, A, B), D),
        ),
        # b and f, of which f went right with the unknown ones: no a, and not only what the test lists.
        (
            member("abf", "d", False, member("a", "b", False, A, member("a", "b", False, B, C)), D),
            member("abf", "d", False, member("a", "b", False, A, C), D),
        ),
        (
            member("abf", "d", False, member("a", "b", True, member("a", "b", True, A, B), C), D),
            member("abf", "d", False, member("a", "b", True, A, C), D),
        ),
        # c, since a was left behind.
        (
            member("ab", "d", False, A, member("ac", "d", False, member("c", "a", False, B, C), D)),
            member("ab", "d", False, A, member("ac", "d", False, B, D)),
        ),
        (
            member("d", "ab", True, member("d", "ac", True, A, member("c", "a", True, B, C)), D),
            member("d", "ab", True, member("d", "ac", True, A, B), D),
        ),
    ],
)
def test_memberships_that_the_path_decides_are_dropped(tree: Node, expected: Node) -> None:
    assert passes.merge(tree) == expected


def test_joined_intervals_keep_the_evidence_of_both() -> None:
    tree = Split("i", 5, Split("i", 2, Leaf(0, 1), Leaf(1, 2)), Leaf(1, 4))
    assert passes.merge(tree) == Split("i", 2, Leaf(0, 1), Leaf(1, 6))
    tree = Split("i", 5, Leaf(0, 1), Split("i", 9, Leaf(0, 2), Leaf(1, 4)))
    assert passes.merge(tree) == Split("i", 9, Leaf(0, 3), Leaf(1, 4))
    # Intervals of another feature, and memberships, are not joined.
    other = Split("i", 5, Leaf(0), Split("j", 9, Leaf(0), Leaf(1)))
    assert passes.merge(other) == other


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Leaf(0, 3, 1.0, 3), Leaf(0, 1, 16.0, 1), Leaf(0, 4, 2.0, 4)),
        (Leaf(0, 3, 1.0, 1), Leaf(0, 1, 4.0, 1), Leaf(0, 4, 2.0, 2)),  # weighed by what succeeded
        (Leaf(0, 3, None, 0), Leaf(0, 1, None, 0), Leaf(0, 4, None, 0)),
        (Leaf(0, 3, None, 0), Leaf(0, 1, 4.0, 1), Leaf(0, 4, 4.0, 1)),
        (Leaf(0, 3, 1.0, 3), Leaf(0, 1, 4.0), Leaf(0, 4, 2.0**0.5, None)),
        (Leaf(0, 0, 3.0), Leaf(0, 0, 5.0), Leaf(0, 0, 3.0)),
        (Leaf(0, 0, 3.0), Leaf(0, 2, 1.7), Leaf(0, 2, 1.7)),
        (Leaf(0, 1, None), Leaf(0, 2, 1.7), Leaf(0, 3, None)),
    ],
)
def test_the_evidence_of_two_leaves(a: Leaf, b: Leaf, expected: Leaf) -> None:
    found = passes.merged_leaf(a, b)
    assert (found.config, found.n_scenarios, found.n_ok) == (0, expected.n_scenarios, expected.n_ok)
    assert found.slowdown == (None if expected.slowdown is None else pytest.approx(expected.slowdown))


def test_sameness_is_of_tests_and_configs_whatever_the_evidence_and_the_order_of_categories() -> None:
    assert passes.same(Leaf(1, 2, 3.0), Leaf(1))
    assert not passes.same(Leaf(1), Leaf(0))
    assert not passes.same(Split("i", 1, A, B), Leaf(0))
    assert not passes.same(Leaf(0), Split("i", 1, A, B))
    assert passes.same(member("ab", "d", True, A, B), member("ba", "d", True, A, B))
    for other in (
        member("ab", "d", False, A, B), member("a", "d", True, A, B), member("ab", "e", True, A, B),
        member("ab", "d", True, B, B), member("ab", "d", True, A, A), Split("c", 1, A, B),
    ):  # fmt: skip
        assert not passes.same(member("ab", "d", True, A, B), other)
    assert not passes.same(Split("i", 1, A, B), Split("i", 2, A, B))
    assert not passes.same(Split("i", 1, A, B), Split("j", 1, A, B))


def test_a_projection_lists_values_as_they_are_first_used_and_one_point_zero_is_not_one() -> None:
    second = ir.RunnerUp(1, 1.2, 5)  # of whole configs, and nothing of one parameter
    tree = Split(
        "i", 1, Leaf(2, 5, 1.5, runner_up=second), Split("i", 2, Leaf(0), Split("i", 3, Leaf(1), Leaf(3)))
    )
    configs: tuple[ir.Config, ...] = ((1, "x"), (1.0, "y"), (1, "y"), (True, "x"))
    selector = Selector("nvidia", ("p", "q"), configs, tree)
    assert passes.project(selector, "q") == (
        ("y", "x"),
        Split("i", 1, Leaf(0, 5, 1.5), Split("i", 2, Leaf(1), Split("i", 3, Leaf(0), Leaf(1)))),
    )
    values, projected = passes.project(selector, "p")
    assert [repr(v) for v in values] == ["1", "1.0", "True"]
    assert projected == Split("i", 2, Leaf(0, 5, 1.5), Split("i", 3, Leaf(1), Leaf(2)))


@SETTINGS
@given(st.floats(-1e300, 1e300))
def test_between_neighbouring_floats_the_lower_is_the_only_threshold(x: float) -> None:
    assert passes.roundest(x, math.nextafter(x, math.inf), "float") == x


@pytest.mark.parametrize(
    ("low", "high", "type_", "expected"),
    [
        (8, 64, "int", 16),  # 16 and 32 are as near to the geometric middle: the smaller
        (-100, 0, "int", -64),
        (-100, -3, "int", -16),
        (-0.3, 0.0, "float", -0.25),
        (-0.001, 0.0, "float", -0.001),
        (0.0, 1.0, "float", 0.0),
        (0.0, 1.0, "bool", 0),
        (1, 2, "int", 1),
        (-2, -1, "int", -2),
        (-128, -70, "int", -128),
        (2.5, 3.5, "int", 3),
        (65.0, 70.0, "float", 67.0),  # of one-digit steps none fits; 67 and 68 are as near to 67.5
        (0.05, 0.06, "float", 0.055),
        (2.0**60, 2.0**60 + 1024, "int", 2**60),
    ],
)
def test_the_roundest_at_the_ends_of_its_rules(low: float, high: float, type_: Any, expected: float) -> None:
    found = passes.roundest(low, high, type_)
    assert (found, type(found)) == (expected, type(expected))
