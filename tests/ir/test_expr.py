"""Derived features: what is arithmetic, and that text, interpreter and generated code agree to the bit."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import SpecError
from heurgen.ir import expr
from heurgen.ir.expr import Binary, Call, Expr, Name, Negate, Number

SETTINGS = settings(max_examples=200)
NAMES = ("a", "b", "num_seqs")


def trees() -> st.SearchStrategy[Expr]:
    numbers = st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(lambda x: Number(x + 0.0))
    small = st.integers(0, 5).map(lambda x: Number(float(x)))
    leaves = st.one_of(st.sampled_from(NAMES).map(Name), small, numbers)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        operators = st.sampled_from(["+", "-", "*", "/", "//", "%"])
        calls = st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3).map(tuple))
        return st.one_of(
            inner.map(Negate),
            st.builds(Binary, operators, inner, inner),  # type: ignore[arg-type]
            calls.map(lambda c: Call(*c)),  # type: ignore[arg-type]
        )

    return st.recursive(leaves, grow, max_leaves=6)


ROWS = st.fixed_dictionaries(
    {n: st.one_of(st.integers(-(2**53), 2**53), st.floats(), st.booleans(), st.just(0)) for n in NAMES}
)


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def outcome(code: str, row: dict[str, Any]) -> bytes:
    return bits(eval(code, {"__builtins__": {"float": float, "min": min, "max": max}}, dict(row)))


@SETTINGS
@given(trees(), ROWS)
def test_generated_code_gives_the_interpreter_s_bits(tree: Expr, row: dict[str, Any]) -> None:
    assert outcome(expr.to_python(tree), row) == bits(expr.evaluate(tree, row))


@SETTINGS
@given(trees())
def test_canonical_text_is_read_back(tree: Expr) -> None:
    text = expr.to_text(tree)
    if len(text) <= expr.MAX_LENGTH:
        assert expr.parse(text) == tree
        assert expr.to_text(expr.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("a * b", {"a": 3, "b": 4}, 12.0),
        ("a + b * 2", {"a": 3, "b": 4}, 11.0),
        ("(a + b) * 2", {"a": 3, "b": 4}, 14.0),
        ("a - b - 1", {"a": 3, "b": 4}, -2.0),
        ("a / b", {"a": 3, "b": 0}, 0.0),
        ("a // b", {"a": 3, "b": 0}, 0.0),
        ("a % b", {"a": 3, "b": 0}, 0.0),
        ("a / (b - b)", {"a": 3, "b": 4}, 0.0),
        ("a / 0", {"a": 3}, 0.0),
        ("7 // a", {"a": 2}, 3.0),
        ("-7 // a", {"a": 2}, -4.0),
        ("-a % 4", {"a": 3}, 1.0),
        ("min(a, b, 2)", {"a": 3, "b": 4}, 2.0),
        ("max(a, b)", {"a": 3, "b": 4}, 4.0),
        ("a + 1", {"a": True}, 2.0),
        ("X * 2", {"X": 3}, 6.0),
        ("a * 1", {"a": 2**53 + 1}, 2.0**53),
        ("  a*1_000 ", {"a": 1}, 1000.0),
        ("--a", {"a": 1}, 1.0),
    ],
)
def test_values(text: str, row: dict[str, Any], value: float) -> None:
    found = expr.evaluate(expr.parse(text), row)
    assert (found, type(found)) == (value, float)
    assert outcome(expr.to_python(expr.parse(text)), row) == bits(value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a)*(b))", "a * b"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a-b)-c", "a - b - c"),
        ("a/(b*c)", "a / (b * c)"),
        ("-(a+b)", "-(a + b)"),
        ("-a*b", "-a * b"),
        ("a*-b", "a * -b"),
        ("min( a,2.50 )", "min(a, 2.5)"),
        ("a*1e3", "a * 1000"),
        ("a*1e20", "a * 1e+20"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert expr.to_text(expr.parse(text)) == canonical


def test_whole_numbers_of_fifteen_digits_are_written_as_ints() -> None:
    assert expr.to_text(Number(999_999_999_999_999.0)) == "999999999999999"
    assert expr.to_text(Number(1e15)) == "1000000000000000.0"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("-a", "-float(a)"),
        ("-min(a, 2)", "-min(float(a), 2.0)"),
        ("-(a + b)", "-(float(a) + float(b))"),
        ("a - -b", "float(a) - (-float(b))"),
        ("a // -64 % -0", "((float(a) // (-64.0)) % (-0.0) if -0.0 else 0.0)"),
        ("a / 2 + b / a", "(float(a) / 2.0) + (float(b) / float(a) if float(a) else 0.0)"),
    ],
)
def test_code_has_parentheses_where_they_tell_something(text: str, code: str) -> None:
    assert expr.to_python(expr.parse(text)) == code


def test_names() -> None:
    assert expr.names(expr.parse("min(a, 2) + -b / (c % 3)")) == {"a", "b", "c"}


ALLOWED = "(allowed: + - * / // % min max, parentheses, numbers and feature names)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "'' is no arithmetic expression"),
        ("a *", "'a *' is no arithmetic expression"),
        ("a = 1", "'a = 1' is no arithmetic expression"),
        ("a; b", "'a; b' is no arithmetic expression"),
        ("a ** 2", f"'a ** 2' is not allowed in the expression 'a ** 2' {ALLOWED}"),
        ("1 + a.real", f"'a.real' is not allowed in the expression '1 + a.real' {ALLOWED}"),
        ("a[0]", f"'a[0]' is not allowed in the expression 'a[0]' {ALLOWED}"),
        ("abs(a)", f"'abs(a)' is not allowed in the expression 'abs(a)' {ALLOWED}"),
        ("min(a)", f"'min(a)' is not allowed in the expression 'min(a)' {ALLOWED}"),
        ("min(*a, b)", f"'*a' is not allowed in the expression 'min(*a, b)' {ALLOWED}"),
        ("min(a, key=b)", f"'min(a, key=b)' is not allowed in the expression 'min(a, key=b)' {ALLOWED}"),
        ("a < b", f"'a < b' is not allowed in the expression 'a < b' {ALLOWED}"),
        ("a if b else 1", f"'a if b else 1' is not allowed in the expression 'a if b else 1' {ALLOWED}"),
        ("True", f"'True' is not allowed in the expression 'True' {ALLOWED}"),
        ("2j", f"'2j' is not allowed in the expression '2j' {ALLOWED}"),
        ("9" * 390, f"'{'9' * 57}...' is not allowed in the expression '{'9' * 57}...' {ALLOWED}"),
        ("1e999", f"'1e999' is not allowed in the expression '1e999' {ALLOWED}"),
        ("'x' * a", f"\"'x'\" is not allowed in the expression \"'x' * a\" {ALLOWED}"),
        ("+a", f"'+a' is not allowed in the expression '+a' {ALLOWED}"),
        ("(a := 1)", f"'a := 1' is not allowed in the expression '(a := 1)' {ALLOWED}"),
        ("a # b", "the expression 'a # b' has characters that no arithmetic expression uses"),
        ("a\nb", "the expression 'a\\nb' has characters that no arithmetic expression uses"),
        ("größe", "the expression 'größe' has characters that no arithmetic expression uses"),
        ("1 +" * 200 + "1", "the expression has 601 characters, expected at most 400"),
    ],
)
def test_what_is_no_arithmetic(text: str, expected: str) -> None:
    with pytest.raises(SpecError) as error:
        expr.parse(text)
    assert str(error.value) == expected


@pytest.mark.parametrize("text", ["(" * 199 + "a" + ")" * 199, "-" * 399 + "a", "1+" * 199 + "1"])
def test_deep_nesting_is_refused(text: str) -> None:
    if "(" in text:
        assert expr.parse(text) == Name("a")
    else:
        with pytest.raises(SpecError, match="nests deeper than 30"):
            expr.parse(text)


def test_thirty_levels_are_the_most() -> None:
    assert expr.names(expr.parse("-" * 30 + "a")) == {"a"}
    with pytest.raises(SpecError) as error:
        expr.parse("-" * 31 + "a")
    assert str(error.value) == f"the expression '{'-' * 31}a' nests deeper than 30"
