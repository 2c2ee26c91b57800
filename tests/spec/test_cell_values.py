"""The text of one cell: what it holds by its column's type, and the one message for everything else."""

from __future__ import annotations

import pytest

from heurgen.base.errors import UsageError
from heurgen.spec.kernel_spec import Column, cell_value, is_time, number

N = Column("n", "int", min=1, max=100)
ANY = Column("n", "int")
X = Column("x", "float", min=0)
B = Column("b", "bool")
C = Column("c", "category", values=("float16", "bfloat16"))
FREE = Column("c", "category")


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        (N, "16", 16),
        (N, "0016", 16),
        (N, "16.0", 16),
        (ANY, "-3.00", -3),
        (ANY, "-3", -3),
        (ANY, "-0", 0),
        (ANY, "9007199254740992", 2**53),
        (X, "5", 5.0),
        (X, "0.50", 0.5),
        (X, ".5", 0.5),
        (X, "5.", 5.0),
        (X, "1e-3", 0.001),
        (X, "1E+2", 100.0),
        (B, "true", True),
        (B, "True", True),
        (B, "1", True),
        (B, "false", False),
        (B, "False", False),
        (B, "0", False),
        (B, "TRUE", True),
        (B, "FALSE", False),
        (C, "float16", "float16"),
        (FREE, "a, b\n\u202e", "a, b\n\u202e"),
        (FREE, "None", "None"),
        (FREE, "NA", "NA"),
    ],
)
def test_cells(column: Column, text: str, value: object) -> None:
    found = cell_value(column, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        (N, "16.5", "found '16.5', expected a whole number such as 16"),
        (N, "16.", "found '16.', expected a whole number such as 16"),
        (N, "16e0", "found '16e0', expected a whole number such as 16"),
        (N, "101.0", "found '101.0', expected at most 100 (max in the spec)"),
        (N, "+16", "found '+16', expected a whole number such as 16"),
        (N, "1_000", "found '1_000', expected a whole number such as 16"),
        (N, "1,000", "found '1,000', expected a whole number such as 16"),
        (N, "١٦", "found '١٦', expected a whole number such as 16"),
        (N, "0x10", "found '0x10', expected a whole number such as 16"),
        (N, " 16", "found ' 16', expected a whole number such as 16 (remove the spaces around the value)"),
        (N, "16\n", "found '16\\n', expected a whole number such as 16 (remove the spaces around the value)"),
        (N, "0", "found '0', expected at least 1 (min in the spec)"),
        (N, "101", "found '101', expected at most 100 (max in the spec)"),
        (
            ANY,
            "-9007199254740993",
            "found '-9007199254740993', expected a whole number within +-2**53 "
            "(larger ones are not exact in training)",
        ),
        (X, "nan", "found 'nan', expected a finite number such as 0.5 or 1e-3"),
        (X, "inf", "found 'inf', expected a finite number such as 0.5 or 1e-3"),
        (X, "1e999", "found '1e999', expected a finite number such as 0.5 or 1e-3"),
        (X, "0x1p3", "found '0x1p3', expected a finite number such as 0.5 or 1e-3"),
        (X, "1,5", "found '1,5', expected a finite number such as 0.5 or 1e-3"),
        (X, "-0.1", "found '-0.1', expected at least 0 (min in the spec)"),
        (B, "yes", "found 'yes', expected true or false (or 1, 0)"),
        (
            C,
            "float32",
            "found 'float32', expected one of 'float16', 'bfloat16' (values in the spec; did you mean 'float16'?)",
        ),
        (
            Column("c", "category", values=tuple("abcdefgh")),
            "z",
            "found 'z', expected one of 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' (values in the spec)",
        ),
        (
            Column("c", "category", values=tuple("abcdefghi")),
            "z",
            "found 'z', expected one of 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', ... (values in the spec)",
        ),
        (
            N,
            "9" * 39,
            "found '" + "9" * 39 + "', expected a whole number within +-2**53 "
            "(larger ones are not exact in training)",
        ),
        (
            FREE,
            "a ",
            "found 'a ', expected a category without spaces around it (remove the spaces around the value)",
        ),
    ],
)
def test_cells_that_do_not_fit(column: Column, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        cell_value(column, text)
    assert str(error.value) == f"column {column.name!r}: {expected}"


def test_an_integer_of_many_digits_is_refused_quickly() -> None:
    with pytest.raises(UsageError, match="within"):
        cell_value(ANY, "9" * 100_000)


def test_minus_zero_is_zero() -> None:
    assert str(number("-0.0")) == "0.0"


@pytest.mark.parametrize(
    ("value", "fits"), [(1e-100, True), (1e100, True), (9e-101, False), (1.1e100, False), (0.0, False)]
)
def test_a_time_is_one_that_a_clock_could_give(value: float, fits: bool) -> None:
    assert is_time(value) == fits
