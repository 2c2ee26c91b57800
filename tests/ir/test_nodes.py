"""Nodes of a tree: what they refuse, and what they answer."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from heurgen import ir
from heurgen.base.errors import ModelError
from heurgen.ir import Leaf, Membership, RunnerUp, Split

LISTED = "a leaf's shortlist must be distinct indices, its config first"
COUNTS = "a runner-up's config and n_ok must be counts"
RANGE = "threshold of 'x' must be finite, in float64 range"
TWICE = "categories of the split on x must be distinct strings"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Leaf(-1), "leaf config must be an index, found '-1'"),
        (lambda: Leaf(True), "leaf config must be an index, found 'True'"),
        (lambda: Leaf(0, -1), "leaf n_scenarios must be a count, found '-1'"),
        (lambda: Leaf(0, 1.0), "leaf n_scenarios must be a count, found '1.0'"),  # type: ignore[arg-type]
        (lambda: Leaf(0, 2, None, 3), "leaf n_ok must be a count up to n_scenarios, found '3'"),
        (lambda: Leaf(0, 2, None, -1), "leaf n_ok must be a count up to n_scenarios, found '-1'"),
        (lambda: Leaf(0, 2, None, True), "leaf n_ok must be a count up to n_scenarios, found 'True'"),
        (lambda: Leaf(0, 1, math.inf), "leaf slowdown must be a finite positive float, found 'inf'"),
        (lambda: Leaf(0, 2, 0.0), "leaf slowdown must be a finite positive float, found '0.0'"),
        (lambda: Leaf(0, 2, 1), "leaf slowdown must be a finite positive float, found '1'"),
        (lambda: Leaf(0, shortlist=(0, -1)), LISTED),
        (lambda: Leaf(0, shortlist=(0, True)), LISTED),
        (lambda: Leaf(0, shortlist=(1, 0)), LISTED),
        (lambda: Leaf(0, shortlist=(0, 1, 1)), LISTED),
        (lambda: RunnerUp(-1, 1.0, 1), COUNTS),
        (lambda: RunnerUp(1, 1.0, -1), COUNTS),
        (lambda: RunnerUp(1, 1.0, True), COUNTS),
        (lambda: RunnerUp(1, 0.0, 1), "a runner-up's slowdown must be a finite positive float, found '0.0'"),
        (
            lambda: RunnerUp(1, math.inf, 1),
            "a runner-up's slowdown must be a finite positive float, found 'inf'",
        ),
        (lambda: RunnerUp(1, 2, 1), "a runner-up's slowdown must be a finite positive float, found '2'"),
        (lambda: Split("x", math.nan, Leaf(0), Leaf(0)), RANGE),
        (lambda: Split("x", math.inf, Leaf(0), Leaf(0)), RANGE),
        (lambda: Split("x", -math.inf, Leaf(0), Leaf(0)), RANGE),
        (lambda: Split("x", 10**400, Leaf(0), Leaf(0)), RANGE),
        (lambda: Split("x", True, Leaf(0), Leaf(0)), RANGE),
        (
            lambda: Membership("x", (), ("a",), False, Leaf(0), Leaf(0)),
            "membership split of 'x' has an empty side",
        ),
        (
            lambda: Membership("x", ("a",), (), False, Leaf(0), Leaf(0)),
            "membership split of 'x' has an empty side",
        ),
        (lambda: Membership("x", ("a",), ("b", "a"), False, Leaf(0), Leaf(0)), TWICE),
        (lambda: Membership("x", ("a",), (1,), False, Leaf(0), Leaf(0)), TWICE),  # type: ignore[arg-type]
    ],
)
def test_what_no_node_can_be(make: Callable[[], ir.Node], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()
    assert str(caught.value) == message


def test_the_ends_of_what_a_node_can_be() -> None:
    assert Leaf(0) == Leaf(0, 0, None, None, None, ())
    for leaf in (Leaf(0, 0, None, 0), Leaf(0, 2, 5e-324, 2), Leaf(1, 1, 0.5, 0, RunnerUp(0, 5e-324, 0))):
        assert list(ir.nodes(leaf)) == [leaf]
    assert not RunnerUp(0, 1.0, 0).tie
    assert Leaf(2, shortlist=(2, 0, 1)).shortlist == (2, 0, 1)
    for threshold in (sys.float_info.max, -sys.float_info.max, 2**62, -3):
        assert Split("x", threshold, Leaf(0), Leaf(1)).threshold == threshold


LEFT = Split("y", 2, Leaf(0), Leaf(1))
TREE = Split("x", 5, LEFT, Membership("c", ("a", "b"), ("d",), False, Leaf(2), LEFT))


def test_nodes_come_parents_first_and_from_the_left() -> None:
    assert list(ir.nodes(TREE)) == [TREE, LEFT, Leaf(0), Leaf(1), TREE.right, Leaf(2), LEFT, Leaf(0), Leaf(1)]
    assert [leaf.config for leaf in ir.leaves(TREE)] == [0, 1, 2, 0, 1]


def test_a_tree_reads_what_its_tests_name() -> None:
    assert ir.tested(TREE) == {"x", "y", "c"}
    assert ir.tested(Leaf(0)) == frozenset()


def test_depth_is_the_number_of_tests_on_the_longest_path() -> None:
    assert [ir.depth(tree) for tree in (Leaf(0), LEFT, TREE)] == [0, 1, 3]
    assert ir.depth(Split("x", 5, TREE, Leaf(0))) == 4


@pytest.mark.parametrize(
    ("row", "config"),
    [
        ({"x": 5, "y": 2}, 0),
        ({"x": 5, "y": 3}, 1),
        ({"x": -math.inf, "y": math.nan}, 1),
        ({"x": math.nan, "c": "b"}, 2),
        ({"x": 6, "c": "d", "y": 0}, 0),
        ({"x": 6, "c": "unseen", "y": 9}, 1),
    ],
)
def test_a_row_ends_in_a_leaf(row: dict[str, Any], config: int) -> None:
    assert ir.find_leaf(TREE, row).config == config


def test_what_no_side_names_goes_where_the_node_says() -> None:
    for unknown_left in (True, False):
        node = Membership("c", ("a",), ("b",), unknown_left, Leaf(0), Leaf(1))
        assert [ir.goes_left(node, v) for v in ("a", "b", "z", None)] == [
            True,
            False,
            unknown_left,
            unknown_left,
        ]
