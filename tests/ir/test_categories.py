"""Other spellings of categories, and those that nobody knows."""

from __future__ import annotations

import pytest

from heurgen.base.errors import ModelError
from heurgen.ir import MAX_TEXT, Aliases, Unknown, check_categories, known
from heurgen.ir.categories import check_distinct, check_lengths

ALIASES: Aliases = (("half", "float16"), ("torch.float16", "float16"))


@pytest.mark.parametrize("unknown", ["fallback", "error"])
def test_a_spelling_is_its_category(unknown: Unknown) -> None:
    for spelling in ("float16", "half", "torch.float16"):
        assert known(spelling, "dtype", ("float16", "fp8"), unknown, ALIASES) == "float16"
    assert known("fp8", "dtype", ("float16", "fp8"), unknown, ALIASES) == "fp8"


def test_an_unknown_one_stays_or_is_refused() -> None:
    assert known("int8", "dtype", ("float16",), "fallback", ALIASES) == "int8"
    with pytest.raises(ModelError) as caught:
        known("int8", "dtype", ("float16", "fp8"), "error", ALIASES)
    assert str(caught.value) == "unknown dtype 'int8', known: 'float16', 'fp8'"


@pytest.mark.parametrize(
    ("is_category", "values", "unknown", "aliases", "message"),
    [
        (True, (), "raise", (), "unknown of c is 'raise', expected one of fallback, error"),
        (False, (), "error", (), "aliases and unknown do not apply to c, which is no category"),
        (False, (), "fallback", (("a", "b"),), "aliases and unknown do not apply to c, which is no category"),
        (True, (), "fallback", (("a", "b"), ("a", "c")), "aliases of c must be distinct strings"),
        (True, (), "fallback", ((1, "b"),), "aliases of c must be distinct strings"),
        (True, (), "fallback", (("a", 1),), "what the aliases of c stand for must be distinct strings"),
        (True, ("a", "b"), "fallback", (("a", "b"),), "'a' is an alias and a category of c"),
        (True, (), "fallback", (("a", "b"), ("b", "c")), "'b' is an alias and a category of c"),
    ],
)
def test_what_makes_no_sense(
    is_category: bool, values: tuple[str, ...], unknown: str, aliases: Aliases, message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        check_categories("c", is_category, values, unknown, aliases)
    assert str(caught.value) == message


def test_what_makes_sense() -> None:
    check_categories("c", False, (), "fallback", ())
    check_categories("c", True, ("float16",), "error", ALIASES)  # several for one category
    check_distinct(("a", "b", ""), "values")
    check_lengths(("x" * MAX_TEXT,), "values")


def test_texts_have_an_end() -> None:
    for check in (check_distinct, check_lengths):
        with pytest.raises(ModelError) as caught:
            check(("a", "x" * (MAX_TEXT + 1)), "values")
        assert str(caught.value) == f"values must have at most {MAX_TEXT} characters"
