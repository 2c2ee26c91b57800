"""Black-style layout of calls and data."""

from __future__ import annotations

import ast

import pytest

from heurgen.base.errors import EmitError
from heurgen.render.layout import WIDTH, assignment, bracketed, one_line, sorted_data, wrapped


def test_what_fits_is_one_line_and_what_does_not_is_one_item_a_line() -> None:
    assert bracketed("f(", ["a", "b"], ")") == "f(a, b)"
    fits = "x" * (WIDTH - len("    f(, b):"))
    assert bracketed("f(", [fits, "b"], "):", 1) == f"    f({fits}, b):"
    longer = bracketed("f(", [fits + "y", "b"], "):", 1)
    assert longer.split("\n") == ["    f(", f"        {fits}y,", "        b,", "    ):"]
    assert bracketed("f" * 200 + "(", [], ")") == "f" * 200 + "()"


def test_a_bare_star_keeps_its_place() -> None:
    items = ["first", "*", *(f"argument_{i}: int" for i in range(9))]
    lines = bracketed("def f(", items, "):").split("\n")
    assert lines[1:4] == ["    first,", "    *,", "    argument_0: int,"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"), ((), "()"), ((1,), "(1,)"), ((1, 2), "(1, 2)"), ([], "[]"), ([None, True], "[None, True]"),
        ({"a": {"b": [1.5]}}, '{"a": {"b": [1.5]}}'),
    ],
)  # fmt: skip
def test_one_line(value: object, text: str) -> None:
    assert one_line(value) == text


def test_data_wider_than_a_line_is_laid_out_and_reads_back() -> None:
    value = {"numbers": list(range(60)), "pair": ("a" * 60, "b" * 60), "flat": {"x": 1}, "empty": {}}
    text = assignment("DATA", value)
    assert max(map(len, text.split("\n"))) <= WIDTH
    assert text.startswith('DATA = {\n    "numbers": [\n        0,\n')
    assert ast.literal_eval(text.removeprefix("DATA = ")) == value


def test_the_line_that_is_just_full_holds_a_comma_too() -> None:
    width = WIDTH - len('DATA = ""') - 1
    assert assignment("DATA", ["a" * (width - 2)]) == f'DATA = ["{"a" * (width - 2)}"]'
    assert assignment("DATA", ["a" * (width - 1)]).startswith("DATA = [\n")


@pytest.mark.parametrize("value", [{1: 2}, [{"a": {None: 1}}]])
def test_a_key_that_is_no_string_is_refused(value: object) -> None:
    for function in (one_line, sorted_data):
        with pytest.raises(EmitError, match=r"the key '(1|None)' is no string"):
            function(value)


def test_nesting_has_an_end() -> None:
    deep: object = 1
    for _ in range(20):
        deep = [deep]
    assert one_line(deep) == "[" * 20 + "1" + "]" * 20
    assert sorted_data(deep) == deep
    tables: object = 1
    for _ in range(20):
        tables = {"a": tables}
    assert sorted_data(tables) == tables
    assert one_line(tables) == '{"a": ' * 20 + "1" + "}" * 20
    for function in (one_line, sorted_data):
        with pytest.raises(EmitError, match="data nests deeper than 20"):
            function({"a": deep})


def test_keys_are_sorted_at_every_level() -> None:
    found = sorted_data({"b": ({"z": 1, "a": 2},), "a": 0})
    assert list(found) == ["a", "b"]
    assert found["b"] == [{"a": 2, "z": 1}]
    assert list(found["b"][0]) == ["a", "z"]


def test_prose_is_wrapped_behind_its_indents_and_never_at_a_hyphen() -> None:
    lines = wrapped("word " * 30 + "left-right " * 20, "# ", "#   ")
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("# word")
    assert all(line.startswith("#   ") and not line.endswith("-") for line in lines[1:])
