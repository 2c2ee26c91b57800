"""Derived features of many launches at once."""

from __future__ import annotations

import numpy as np
import pytest

from heurgen.ir import expr
from heurgen.logs.costs import TableColumn
from heurgen.trees.derived import derive


@pytest.mark.parametrize(
    "text",
    [
        "a * b",
        "a / b",
        "a // b",
        "a % b",
        "-a + b - 3",
        "min(a, b, 2) * max(a, 7)",
        "(a + b) % (b // 2)",
        "5",
    ],
)
def test_values_are_those_of_the_generated_code(text: str) -> None:
    tree = expr.parse(text)
    a, b = (x.ravel() for x in np.meshgrid([-7.5, -3, 0, 1, 2.5, 1e300], [-2, -0.3, 0, 3, 1e-300, 1e300]))
    X = np.column_stack([np.full(len(a), np.nan), a, b])
    derive(
        (TableColumn("x", "float", True, (), tree), TableColumn("a", "float"), TableColumn("b", "float")), X
    )
    told = [expr.evaluate(tree, {"a": u, "b": v}) for u, v in zip(a.tolist(), b.tolist(), strict=True)]
    assert X[:, 0].tolist() == told
    assert np.array_equal(X[:, 1:], np.column_stack([a, b]))


def test_a_derived_feature_of_unknown_expression_stays() -> None:
    X = np.array([[1.0, 2.0]])
    derive((TableColumn("a", "int"), TableColumn("x", "float", derived=True)), X)
    assert X.tolist() == [[1.0, 2.0]]
