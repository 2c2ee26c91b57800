"""The filters between values and text."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heurgen.base.errors import EmitError, quoted
from heurgen.render import layout
from heurgen.render.text import MAX_JOINED, comment, identifier, literal, prose
from tests.support.hostile import PAYLOADS

any_text = st.text(st.characters()) | st.sampled_from(PAYLOADS)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
)


@given(scalars)
def test_a_literal_is_ascii_and_evaluates_to_the_value(value: Any) -> None:
    text = literal(value)
    assert text.isascii()
    assert text.isprintable()
    again = ast.literal_eval(text)
    assert (type(again), repr(again)) == (type(value), repr(value))


def test_strings_take_the_quotes_that_need_fewer_escapes() -> None:
    assert literal("2d") == '"2d"'
    assert literal("it's") == '"it\'s"'
    assert literal("\xff\u0100\uffff\U00010000") == '"\\xff\\u0100\\uffff\\U00010000"'
    assert literal('say "x"') == "'say \"x\"'"
    assert literal("a\\b\n\xe9\u202e\U0001f600") == '"a\\\\b\\n\\xe9\\u202e\\U0001f600"'


class Sly(str):
    """A string whose repr is code."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "canary()"


@pytest.mark.parametrize(
    "value",
    [math.inf, -math.inf, math.nan, 10**400, np.float64(1), np.int64(1), Sly("x"), b"x", 1j, object(), ()],
)
def test_what_has_no_literal(value: object) -> None:
    with pytest.raises(EmitError) as caught:
        literal(value)
    found = "an int of 1329 bits" if type(value) is int else quoted(value)
    assert str(caught.value) == f"{found} ({type(value).__name__}) cannot be written as a literal"


@given(any_text)
def test_text_stays_on_its_line_and_cannot_end_a_docstring(text: str) -> None:
    for written in (prose(text), comment(text)):
        assert written.isascii()
        assert written.isprintable() or not written
        assert '"' not in written
        assert "\\" not in written
    assert not set(":=#") & set(comment(text))


def test_invisible_characters_are_spelled_out() -> None:
    assert prose("BLOCK_X") == "BLOCK_X"
    assert prose("a\u202eb\x00\n\\") == "a<U+202E>b<U+0000> <U+005C>"


@pytest.mark.parametrize(
    "name", ["", "1x", "x y", "caf\xe9", "class", "__x", "x\n", "x" * (MAX_JOINED + 1), None, 3, "\uff53"]
)
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(EmitError) as caught:
        identifier(name)
    assert str(caught.value) == f"{quoted(name)} cannot be a name in generated code"


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(any_text, inner), max_leaves=20))
def test_laid_out_data_evaluates_to_itself(data: Any) -> None:
    text = layout.assignment("DATA", data)
    assert repr(ast.literal_eval(text.removeprefix("DATA = "))) == repr(data)
