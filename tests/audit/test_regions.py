"""Regions as a person reads them."""

from __future__ import annotations

import pytest

from heurgen import ir
from heurgen.audit.regions import Bounds, category_text, edge_text, leaf_regions, region_texts

UNKNOWN_RIGHT = ir.Membership("c", ("a", "b"), ("d",), False, ir.Leaf(0), ir.Leaf(1))
UNKNOWN_LEFT = ir.Membership("c", ("a", "b"), ("d",), True, ir.Leaf(0), ir.Leaf(1))


def split(threshold: float) -> ir.Split:
    return ir.Split("x", threshold, ir.Leaf(0), ir.Leaf(1))


def test_tests_on_one_path_join_to_one_interval() -> None:
    bounds = (
        Bounds().after(split(9), True).after(split(2), False).after(split(5), False).after(split(20), True)
    )
    assert (bounds.low, bounds.high) == (5, 9)
    tree = ir.Split(
        "x", 9, ir.Split("y", 1.5, ir.Leaf(0), ir.Split("x", 2, ir.Leaf(1), ir.Leaf(2))), ir.Leaf(3)
    )
    texts = [region_texts(region) for _, region in leaf_regions(tree)]
    assert texts == [["x <= 9", "y <= 1.5"], ["x <= 2", "y > 1.5"], ["2 < x <= 9", "y > 1.5"], ["x > 9"]]
    assert [leaf.config for leaf, _ in leaf_regions(tree)] == [0, 1, 2, 3]


def test_the_side_of_unknown_categories_is_known_by_what_it_is_not() -> None:
    assert Bounds().after(UNKNOWN_RIGHT, True) == Bounds(only=("a", "b"))
    assert Bounds().after(UNKNOWN_RIGHT, False) == Bounds(excluded=("a", "b"))
    assert Bounds().after(UNKNOWN_LEFT, True) == Bounds(excluded=("d",))
    assert Bounds().after(UNKNOWN_LEFT, False) == Bounds(only=("d",))


def test_further_memberships_narrow_what_is_left() -> None:
    after = Bounds(only=("a", "d")).after(UNKNOWN_RIGHT, False)
    assert after == Bounds(only=("d",), excluded=("a", "b"))
    assert Bounds(excluded=("b",)).after(UNKNOWN_RIGHT, True).only == ("a",)
    assert Bounds(only=("b", "z")).after(UNKNOWN_RIGHT, True).only == ("b",)


@pytest.mark.parametrize(
    ("values", "inside", "text"),
    [
        (("a",), True, "c is 'a'"), (("a",), False, "c is not 'a'"), (("a", "\u202e"), True, "c in {'a', '\\u202e'}"),
        (("日本",), True, "c is '日本'"), (("a", "né"), False, "c not in {'a', 'né'}"),
        (("a", "b"), False, "c not in {'a', 'b'}"),
    ],
)  # fmt: skip
def test_categories(values: tuple[str, ...], inside: bool, text: str) -> None:
    assert category_text("c", values, inside) == text


def test_one_edge_of_a_test() -> None:
    assert (edge_text(split(4096.0), True), edge_text(split(0.5), False)) == ("x <= 4096", "x > 0.5")
    assert [edge_text(split(0), left, ("x",)) for left in (True, False)] == ["x is false", "x is true"]
    assert edge_text(UNKNOWN_LEFT, True) == "c is not 'd'"
