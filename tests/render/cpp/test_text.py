"""The filters between values and C++ text."""

from __future__ import annotations

import math

import pytest

from heurgen.base.errors import EmitError
from heurgen.render.cpp.text import KEYWORDS, MACROS, OURS, comment, identifier, number, string, value


def test_strings_are_octal_where_a_byte_is_not_plain() -> None:
    assert string('a"\\?\n\0' + "1\xe9") == '"a\\"\\\\\\?\\012\\0001\\303\\251"'
    assert string(" ~\x7f\ud800") == '" ~\\177\\355\\240\\200"'
    assert string("nul\0", view=True) == '::std::string_view("nul\\000", 4)'
    assert string("\xe9", view=True) == '::std::string_view("\\303\\251", 2)'


def test_comments_are_one_line_without_trigraphs_and_keep_what_they_may() -> None:
    assert comment("a\\\nb??/ é", kept=":") == "a<U+005C> b<U+003F><U+003F>/ <U+00E9>"
    assert comment("a:b=c#", kept=":=") == "a:b=c<U+0023>"
    assert comment("a:b") == "a<U+003A>b"
    # What stands in for a kept character while the others are filtered is no character of the text's own.
    assert comment("a\ue000:\ue00f\ue010\udfff", kept=":=") == "a:<U+E010><U+DFFF>"
    assert comment(12) == "12"


@pytest.mark.parametrize("name", ["register", "linux", "std", "select"])
def test_names_that_others_own_get_an_underscore(name: str) -> None:
    assert name in KEYWORDS | MACROS | OURS
    assert identifier(name) == f"{name}_"


def test_other_names_stay_as_they_are_where_cpp_does_not_reserve_them() -> None:
    assert [identifier(n) for n in ("M", "_m", "m_", "_")] == ["M", "_m", "m_", "_"]
    for name in ("a__b", "_M", "__m"):
        with pytest.raises(EmitError):
            identifier(name)
    with pytest.raises(EmitError) as caught:
        identifier("_M")
    assert str(caught.value) == (
        "'_M' cannot be a name in C++, which reserves it (names with two underscores, or with one before a capital; "
        "rename it in the log)"
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (-(2**63), "(-9223372036854775807LL - 1)"), (2**63 - 1, "9223372036854775807LL"), (2**31, "2147483648LL"),
        (2**31 - 1, "2147483647"), (-(2**31), "-2147483648LL"), (1 - 2**31, "-2147483647"), (0, "0"),
        (5e-324, "5e-324"), (-0.0, "-0.0"), (1e300, "1e+300"),
    ],
)  # fmt: skip
def test_numbers(found: float, text: str) -> None:
    assert number(found) == value(found) == text


@pytest.mark.parametrize("found", [2**63, -(2**63) - 1])
def test_ints_that_cpp_does_not_have(found: int) -> None:
    with pytest.raises(EmitError) as caught:
        number(found)
    assert str(caught.value) == f"{found} does not fit int64 (C++ has no wider standard integer)"


@pytest.mark.parametrize("found", [math.inf, math.nan])
def test_floats_that_have_no_literal(found: float) -> None:
    with pytest.raises(EmitError, match=rf"^{found} cannot be written as a double$"):
        number(found)


def test_values_of_a_config() -> None:
    assert [value(v) for v in (None, True, False)] == ["::std::nullopt", "true", "false"]
    assert value("2d") == '::std::string_view("2d", 2)'
