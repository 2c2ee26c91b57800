"""Derived features: arithmetic over feature names, parsed here and never eval'ed.

Grammar: numbers, names, + - * / // %, unary -, parentheses, min(a, b, ...), max(a, b, ...). Every name stands
for `float(name)`, so that Python ints, numpy scalars and training columns all give the same float64. A zero
divisor gives 0. The text is read with Python's own parser and every node is checked against this list.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from heurgen.base.errors import SpecError, quoted

Operator: TypeAlias = Literal["+", "-", "*", "/", "//", "%"]
MAX_LENGTH = 400
MAX_NESTING = 30
OPERATORS: dict[type[ast.operator], Operator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    operator: Operator
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Call:
    function: Literal["min", "max"]
    arguments: tuple[Expr, ...]


Expr: TypeAlias = Number | Name | Negate | Binary | Call


@lru_cache(maxsize=1024)
def parse(text: str) -> Expr:
    """Read an expression.

    Raises:
        SpecError: the text is no such expression; says at which character.
    """
    return _convert(syntax(text, "arithmetic expression"), text, 0)


def syntax(text: str, noun: str) -> ast.expr:
    """The syntax tree of an expression (or of a constraint, which is arithmetic and more), within bounds.

    Raises:
        SpecError: the text is too long, has characters of no expression, or is no expression at all.
    """
    what = noun.rpartition(" ")[2]
    if len(text) > MAX_LENGTH:
        raise SpecError(f"the {what} has {len(text)} characters, expected at most {MAX_LENGTH}")
    if not text.isascii() or any(c in text for c in "\n\r\0\\#"):
        raise SpecError(f"the {what} {quoted(text)} has characters that no {noun} uses")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"{quoted(text)} is no {noun}") from error


def _convert(node: ast.expr, text: str, level: int) -> Expr:
    if level > MAX_NESTING:
        raise SpecError(f"the expression {quoted(text)} nests deeper than {MAX_NESTING}")

    def convert(child: ast.expr) -> Expr:
        return _convert(child, text, level + 1)

    match node:
        case ast.Constant(value=(int() | float()) as value) if _is_number(value):
            return Number(float(value))
        case ast.Name(id=name):
            return Name(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Negate(convert(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return Binary(OPERATORS[type(op)], convert(left), convert(right))
        case ast.Call(func=ast.Name(id=("min" | "max") as function), args=args, keywords=[]) if len(args) > 1:
            return Call(function, tuple(convert(a) for a in args))
    found = ast.get_source_segment(text.strip(), node) or text
    raise SpecError(
        f"{quoted(found)} is not allowed in the expression {quoted(text)}",
        hint="allowed: + - * / // % min max, parentheses, numbers and feature names",
    )


def _is_number(value: int | float) -> bool:
    try:
        return type(value) is not bool and math.isfinite(float(value))
    except OverflowError:
        return False


def names(tree: Expr) -> frozenset[str]:
    """The feature names that an expression reads."""
    match tree:
        case Name(name):
            return frozenset((name,))
        case Negate(operand):
            return names(operand)
        case Binary(_, left, right):
            return names(left) | names(right)
        case Call(_, arguments):
            return frozenset().union(*(names(a) for a in arguments))
    return frozenset()


def evaluate(tree: Expr, row: Mapping[str, Any]) -> float:
    """The value for one row, by the same Python operations as the generated code."""
    match tree:
        case Number(value):
            return value
        case Name(name):
            return float(row[name])
        case Negate(operand):
            return -evaluate(operand, row)
        case Call(function, arguments):
            return (min if function == "min" else max)([evaluate(a, row) for a in arguments])
        case Binary(operator, left, right):
            return apply(operator, evaluate(left, row), evaluate(right, row))


def apply(operator: Operator, a: float, b: float) -> float:
    """One operation; a zero divisor gives 0. Ints stay exact, as constraints of a parameter space have them."""
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b if b else 0.0
        case "//":
            return a // b if b else 0.0
        case "%":
            return a % b if b else 0.0


def to_text(tree: Expr) -> str:
    """Canonical text: what a person would write, with no more parentheses than needed."""
    match tree:
        case Number(value):
            return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case Name(name):
            return name
        case Negate(operand):
            return f"-{_wrapped(operand, 3)}"
        case Call(function, arguments):
            return f"{function}({', '.join(to_text(a) for a in arguments)})"
        case Binary(operator, left, right):
            level = _PRECEDENCE[operator]
            return f"{_wrapped(left, level)} {operator} {_wrapped(right, level + 1)}"


def _wrapped(tree: Expr, level: int) -> str:
    own = _PRECEDENCE[tree.operator] if isinstance(tree, Binary) else 3 if isinstance(tree, Negate) else 4
    return to_text(tree) if own >= level else f"({to_text(tree)})"


def to_python(tree: Expr) -> str:
    """The expression as generated code that computes what `evaluate` does."""
    match tree:
        case Number(value):
            return repr(value)
        case Name(name):
            return f"float({name})"
        case Negate(operand):
            return f"-({to_python(operand)})" if isinstance(operand, Binary) else f"-{to_python(operand)}"
        case Call(function, arguments):
            return f"{function}({', '.join(to_python(a) for a in arguments)})"
        case Binary(operator, left, right):
            return _binary_to_python(operator, left, right)


def _binary_to_python(operator: Operator, left: Expr, right: Expr) -> str:
    def operand(tree: Expr) -> str:
        bare = isinstance(tree, Negate | Binary) and not is_guarded(tree)
        return f"({to_python(tree)})" if bare else to_python(tree)

    text = f"{operand(left)} {operator} {operand(right)}"
    if not is_guarded(Binary(operator, left, right)):
        return text
    # In `a / b if b else 0.0` the divisor is read twice; features do not change between the two.
    return f"({text} if {to_python(right)} else 0.0)"


def is_guarded(tree: Expr) -> bool:
    """Whether the divisor could be zero, so that `to_python` gives a conditional in parentheses."""
    if not isinstance(tree, Binary):
        return False
    divisor = tree.right.operand if isinstance(tree.right, Negate) else tree.right
    safe = isinstance(divisor, Number) and divisor.value != 0
    return tree.operator in ("/", "//", "%") and not safe
