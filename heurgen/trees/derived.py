"""Derived features of many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from heurgen.ir import expr
from heurgen.logs.costs import TableColumn
from heurgen.trees.problem import Floats

_OPERATIONS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod,
}  # fmt: skip


def derive(columns: Sequence[TableColumn], X: Floats) -> None:
    """Give the derived columns of X [N, F] the values that follow from its given ones, as `expr.evaluate` has them."""
    given = {c.name: X[:, i] for i, c in enumerate(columns) if not c.derived}
    with np.errstate(all="ignore"):
        for i, column in enumerate(columns):
            if column.expression is not None:
                X[:, i] = derived_values(column.expression, given)


def derived_values(tree: expr.Expr, given: Mapping[str, Floats]) -> Floats:
    """`expr.evaluate` of many rows at once, with the same bits. given: [N] by name."""
    match tree:
        case expr.Number(value):
            return np.array(float(value))
        case expr.Name(name):
            return given[name]
        case expr.Negate(operand):
            return -derived_values(operand, given)
        case expr.Call(function, arguments):
            least = np.minimum if function == "min" else np.maximum
            found = derived_values(arguments[0], given)
            for argument in arguments[1:]:
                found = least(found, derived_values(argument, given))
            return found
        case expr.Binary(operator, left, right):
            a, b = derived_values(left, given), derived_values(right, given)
            found = _OPERATIONS[operator](a, b)
            return found if operator in "+-*" else np.where(b == 0, 0.0, found)
