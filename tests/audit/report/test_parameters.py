"""One tree a parameter."""

from __future__ import annotations

from typing import Any

from heurgen import ir
from heurgen.audit.report.parameters import joint_leaves, parameter_trees
from tests.audit.pages import data_of, given, page_text
from tests.audit.views import view


def test_parameter_trees_point_at_the_joint_leaves() -> None:
    (data,) = data_of(page_text())
    n_leaves = sum(1 for _ in ir.leaves(given().module.selectors[0].tree))

    def members(node: list[Any]) -> list[int]:
        return node[3] if isinstance(node[1], int) else members(node[2]) + members(node[3])

    assert [tree["name"] for tree in data["trees"]] == list(given().module.selectors[0].parameters)
    for tree in data["trees"]:
        assert sorted(members(tree["tree"])) == list(range(n_leaves)), tree["name"]


def test_equal_siblings_are_one_and_know_their_leaves() -> None:
    assert parameter_trees(view(), ()) == [
        {"name": "BLOCK", "tree": ["m ≤ 4", "m > 4", ["16", 2, 1.0, [0]], ["32", 2, 1.5, [1]]]}
    ]
    same = ir.Split("m", 4, ir.Split("m", 1, ir.Leaf(0, 1, 1.0), ir.Leaf(0, 3, 1.26)), ir.Leaf(1, 2))
    merged = ["m ≤ 4", "m > 4", ["16", 4, 1.189, [0, 1]], ["32", 2, None, [2]]]
    assert parameter_trees(view(same), ())[0]["tree"] == merged
    flags = ir.Split("m", 0, ir.Leaf(0, 2), ir.Leaf(1, 2))
    assert parameter_trees(view(flags), ("m",))[0]["tree"][:2] == ["m is false", "m is true"]


def test_a_leaf_without_scenarios_of_the_log_points_at_none() -> None:
    tree = ir.Split("m", 1000, ir.Leaf(0, 4), ir.Leaf(1, 0))
    assert joint_leaves(view(tree), tree) == {0: [0]}
    assert parameter_trees(view(tree), ())[0]["tree"][3] == ["32", 0, None, []]
