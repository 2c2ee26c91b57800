"""Constraints of a parameter space: truth over parameters and features, parsed here and never eval'ed.

Arithmetic is that of derived features, `heurgen.ir.expr` (+ - * / // % unary -, min, max, parentheses; a zero
divisor gives 0), comparisons (chains too), `and`, `or`, `not`, `in (a, b)`, `not in (a, b)`, quoted words, True, False
and None:

    BLOCK_M * TILE_SIZE <= 16384 and (variant == '3d' or segments == 0)

Numbers are exact Python numbers. None and words have no order and no arithmetic: that is an error, not False.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from heurgen.base.errors import SpecError, quoted
from heurgen.ir import expr

Row: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[Row], Any]

_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUALITY: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_MEMBERSHIP: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A parsed constraint. `names` are the parameters and features that it reads."""

    text: str
    names: frozenset[str]
    _read: Read

    def holds(self, row: Row) -> bool:
        """Whether it holds for one setting of its names.

        Raises:
            SpecError: an operand has the wrong type, or the result is no truth value.
        """
        try:
            result = self._read(row)
        except (ArithmeticError, TypeError) as error:
            raise SpecError(f"the constraint {quoted(self.text)} fails: {error}") from error
        if type(result) is not bool:
            raise SpecError(
                f"the constraint {quoted(self.text)} gives {quoted(result)}, expected true or false",
                hint="compare it with something",
            )
        return result


def parse(text: object) -> Constraint:
    """Read a constraint.

    Raises:
        SpecError: the text is no constraint; quotes the part that is not allowed.
    """
    if not isinstance(text, str):
        raise SpecError(f"a constraint must be text, found {quoted(text)}")
    tree = expr.syntax(text, "constraint")
    read = _Reader(text.strip()).read(tree, 0)
    return Constraint(
        text, frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) - {"min", "max"}, read
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str

    def read(self, node: ast.expr, level: int) -> Read:
        if level > expr.MAX_NESTING:
            raise SpecError(f"the constraint {quoted(self.text)} nests deeper than {expr.MAX_NESTING}")

        def child(inner: ast.expr) -> Read:
            return self.read(inner, level + 1)

        match node:
            case ast.Constant(value=value) if _is_plain(value):
                return lambda row: value
            case ast.Name(id=name):
                return operator.itemgetter(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                negated = child(operand)
                return lambda row: -_number(negated(row))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                denied = child(operand)
                return lambda row: not _truth(denied(row))
            case ast.BoolOp(op=op, values=values):
                return _junction(isinstance(op, ast.And), [child(v) for v in values])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in expr.OPERATORS:
                sign, a, b = expr.OPERATORS[type(op)], child(left), child(right)
                return lambda row: expr.apply(sign, _number(a(row)), _number(b(row)))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._comparison(left, ops, comparators, level + 1)
            case ast.Call(func=ast.Name(id=("min" | "max") as name), args=args, keywords=[]) if len(args) > 1:
                pick, readers = (min if name == "min" else max), [child(a) for a in args]
                return lambda row: pick([_number(r(row)) for r in readers])
        raise self._refusal(node)

    def _comparison(self, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr], level: int) -> Read:
        steps: list[tuple[Callable[[Any, Any], bool], Read]] = []
        for op, right in zip(ops, rights, strict=True):
            if type(op) in _MEMBERSHIP and isinstance(right, ast.Tuple | ast.List):
                members = [self.read(e, level + 1) for e in right.elts]
                steps.append((_MEMBERSHIP[type(op)], _all_of(members)))
            elif type(op) in _ORDER:
                steps.append((_ordered(_ORDER[type(op)]), self.read(right, level)))
            elif type(op) in _EQUALITY:
                steps.append((_EQUALITY[type(op)], self.read(right, level)))
            else:
                raise self._refusal(right)
        first = self.read(left, level)

        def compare(row: Row) -> bool:
            value = first(row)
            for holds, read in steps:
                other = read(row)
                if not holds(value, other):
                    return False
                value = other
            return True

        return compare

    def _refusal(self, node: ast.expr) -> SpecError:
        found = ast.get_source_segment(self.text, node) or self.text
        return SpecError(
            f"{quoted(found)} is not allowed in the constraint {quoted(self.text)}",
            hint="allowed: + - * / // % min max, comparisons, and, or, not, in (...), numbers, words, names",
        )


def _is_plain(value: object) -> bool:
    return value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise TypeError(f"{quoted(value)} is no number")
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{quoted(value)} is not true or false")
    return value


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: compare(_number(a), _number(b))


def _all_of(readers: list[Read]) -> Read:
    return lambda row: [r(row) for r in readers]


def _junction(conjunction: bool, readers: list[Read]) -> Read:
    if conjunction:
        return lambda row: all(_truth(r(row)) for r in readers)
    return lambda row: any(_truth(r(row)) for r in readers)
