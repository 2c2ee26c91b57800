"""Messages: where, what, what to do; and no character that a terminal obeys."""

from __future__ import annotations

import pytest

from heurgen.base.errors import HeurgenError, LogError, printable, quoted


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({}, "is wrong"),
        ({"file": "a.csv"}, "a.csv: is wrong"),
        ({"file": "a.csv", "row": 7}, "a.csv:7: is wrong"),
        ({"row": 0}, "line 0: is wrong"),
        ({"file": "a.csv", "row": 7, "column": "x"}, "a.csv:7: column 'x': is wrong"),
        ({"column": "", "hint": "mend it"}, "column '': is wrong (mend it)"),
        ({"file": "a\x1b[31m.csv", "hint": "\u202e"}, "a\\x1b[31m.csv: is wrong (\\u202e)"),
    ],
)
def test_the_place_comes_first_and_the_hint_last(place: dict[str, object], expected: str) -> None:
    error = LogError("is wrong", **place)  # type: ignore[arg-type]
    assert str(error) == expected
    assert isinstance(error, HeurgenError)
    assert (error.message, error.row, error.column) == ("is wrong", place.get("row"), place.get("column"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", "plain text"),
        ("caf\xe9 \u4e2d", "caf\xe9 \u4e2d"),
        ("a\nb\tc\x1b", "a\\nb\\tc\\x1b"),
        ("\u202eabc\u200b", "\\u202eabc\\u200b"),
        ("\u034f\u115f\u2800\ufe0f\U000e0100", "\\u034f\\u115f\\u2800\\ufe0f\\U000e0100"),
        ("\u180a\u1810\ufdff", "\u180a\u1810\ufdff"),  # beside the ranges of invisible marks
        (12, "12"),
    ],
)
def test_what_does_not_show_is_written_as_an_escape(text: object, expected: str) -> None:
    assert printable(text) == expected


def test_a_found_value_is_quoted_and_cut_at_its_limit() -> None:
    assert quoted("it's\n") == '"it\'s\\n"'
    assert quoted("a" * 60) == f"'{'a' * 60}'"
    assert quoted("a" * 61) == f"'{'a' * 57}...'"
    assert quoted("abcdef", limit=5) == "'ab...'"
    assert quoted(None) == "'None'"


def test_a_value_that_python_does_not_print_is_named_by_its_type() -> None:
    assert quoted(10**5000) == "'a int that cannot be shown'"
    endless: list[object] = []
    for _ in range(100_000):
        endless = [endless]
    assert quoted(endless) == "'a list that cannot be shown'"
