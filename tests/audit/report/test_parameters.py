"""One tree a parameter."""

from __future__ import annotations

from typing import Any

from heurgen import ir
from tests.audit.pages import data_of, given, page_text


def test_parameter_trees_point_at_the_joint_leaves() -> None:
    (data,) = data_of(page_text())
    n_leaves = sum(1 for _ in ir.leaves(given().module.selectors[0].tree))

    def members(node: list[Any]) -> list[int]:
        return node[3] if isinstance(node[1], int) else members(node[2]) + members(node[3])

    assert [tree["name"] for tree in data["trees"]] == list(given().module.selectors[0].parameters)
    for tree in data["trees"]:
        assert sorted(members(tree["tree"])) == list(range(n_leaves)), tree["name"]
