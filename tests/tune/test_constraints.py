from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import SpecError
from heurgen.tune.constraints import parse

ROW = {"A": 16, "B": 64, "share": 0.5, "variant": "3d", "flag": True, "blank": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A * B <= 1024", True),
        ("A * B < 1024", False),
        ("16 <= A < B <= 64", True),
        ("A < B < 64", False),
        ("variant == '2d' or B == 64", True),
        ("variant != '3d' and A / 0 == 0", False),
        ("variant in ('2d', '3d')", True),
        ("variant not in ['2d', '3d']", False),
        ("not flag", False),
        ("flag", True),
        ("blank == None", True),
        ("blank == None or blank > 3", True),
        ("max(A, B) // min(A, B) == 4", True),
        ("B % 0 == 0 and B // 0 == 0", True),
        ("-A < -share", True),
        ("A * 9007199254740993 == 144115188075855888", True),
    ],
)
def test_truth(text: str, expected: bool) -> None:
    assert parse(text).holds(ROW) is expected


def test_names() -> None:
    assert parse("max(A, B) <= 4 and variant == 'x'").names == {"A", "B", "variant"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(1) == 1", "'f(1)' is not allowed in the constraint 'f(1) == 1'"),
        ("A.__class__ == 1", "'A.__class__' is not allowed in the constraint 'A.__class__ == 1'"),
        ("A ** 9 < 1", "'A ** 9' is not allowed in the constraint 'A ** 9 < 1'"),
        ("A in B", "'B' is not allowed in the constraint 'A in B'"),
        ("A is None", "'None' is not allowed in the constraint 'A is None'"),
        (
            "[x for x in (1, 2)]",
            "'[x for x in (1, 2)]' is not allowed in the constraint '[x for x in (1, 2)]'",
        ),
        ("(A := 3) == 3", "'A := 3' is not allowed in the constraint '(A := 3) == 3'"),
        ("A <", "'A <' is no constraint"),
        ("A == 1\n", "the constraint 'A == 1\\n' has characters that no constraint uses"),
        ("max(A) == 1", "'max(A)' is not allowed in the constraint 'max(A) == 1'"),
        (3, "a constraint must be text, found '3'"),
    ],
)
def test_refused(text: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A + 1", "the constraint 'A + 1' gives '17', expected true or false"),
        ("variant < 3", "the constraint 'variant < 3' fails: '3d' is no number"),
        ("blank * 2 == 0", "the constraint 'blank * 2 == 0' fails: 'None' is no number"),
        ("A and flag", "the constraint 'A and flag' fails: '16' is not true or false"),
        ("flag + 1 == 2", "the constraint 'flag + 1 == 2' fails: 'True' is no number"),
    ],
)
def test_wrong_types(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text).holds(ROW)
    assert caught.value.message == message


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(SpecError, match="nests deeper than 30"):
        parse("not " * 40 + "flag")


_NUMBERS = st.integers(-50, 50)
_SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@settings(derandomize=True, deadline=None)
@given(_NUMBERS, _NUMBERS, _NUMBERS, st.sampled_from(sorted(_SIGNS)))
def test_agrees_with_python(a: int, b: int, c: int, sign: str) -> None:
    expected = _SIGNS[sign](a * b + c, c - a)
    assert parse(f"a * b + c {sign} c - a").holds({"a": a, "b": b, "c": c}) is expected
