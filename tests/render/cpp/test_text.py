"""The filters between values and C++ text."""

from __future__ import annotations

import math
import re
import shutil
import subprocess

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


@pytest.mark.parametrize("name", ["register", "typeof", "linux", "std", "select"])
def test_names_that_others_own_get_an_underscore(name: str) -> None:
    assert name in KEYWORDS | MACROS | OURS
    assert identifier(name) == f"{name}_"


@pytest.mark.parametrize(
    "name",
    "INT64_MAX UINT8_MAX INT_FAST16_MIN UINT_LEAST32_WIDTH INTPTR_MAX UINT64_C INT_MAX SIZE_MAX CHAR_BIT "
    "PRIi64 SCNuFAST8 PRIXPTR FLT_RADIX DBL_MIN_10_EXP M_PI M_2_SQRTPIf64x FP_NAN FP_ILOGB0 HUGE_VALF SNANL".split(),
)
def test_macros_that_are_told_by_their_form_get_an_underscore(name: str) -> None:
    assert identifier(name) == f"{name}_"


@pytest.mark.parametrize(
    "name",
    "M_PAD M_PI_BLOCKS SEQ_MAX INT8 USE_INT8 FP_MODE PRI64 NUM_C SIZE M_E2 DBL_BUF FLT_ACC FP_FAST_MATH "
    "INT_TILE".split(),
)
def test_names_that_only_begin_like_macros_stay(name: str) -> None:
    assert identifier(name) == name


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_every_macro_of_the_headers_is_known() -> None:
    """As g++ defines them, but for what the C library drags in beside (endianness, wait())."""
    headers = "".join(f"#include <{h}>\n" for h in ("cstdint", "cmath", "cinttypes", "cfloat"))
    command = ["g++", "-std=gnu++17", "-x", "c++", "-dM", "-E", "-"]
    text = subprocess.run(command, input=headers, capture_output=True, text=True, check=True).stdout
    macros = {line.split()[1].partition("(")[0] for line in text.splitlines()}
    library = re.compile(
        r"_.*|E[A-Z0-9]+|[A-Z]+_(ENDIAN|ORDER)|W[A-Z]+|EXIT_.*|RAND_MAX|MB_CUR_MAX|FD_.*|NFDBITS|LC_.*|[a-z0-9]+"
    )
    assert {m for m in macros if not library.fullmatch(m) and identifier(m) == m} == set()


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
