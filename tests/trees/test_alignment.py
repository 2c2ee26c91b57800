"""Configs that fail wherever a size is no multiple of something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen.ir import expr
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees.alignment import Alignment, alignment
from tests.trees.synthetic import np, surface, table

X = np.column_stack([np.arange(400.0) % 7 + 1, 50 + np.arange(400.0)])


def vectors(widths: tuple[int, ...], bad: float = np.inf) -> CostTable:
    """400 scenarios of 50 to 449 columns; a config for each width, which fails where its vectors fill no row."""
    times = np.column_stack([np.where(X[:, 1] % width == 0, 1.0, bad) for width in widths])
    return table([TableColumn("rows", "int"), TableColumn("cols", "int")], X, times)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_the_largest_multiple_that_configs_ask_for(bad: float) -> None:
    assert alignment(vectors((1, 4, 8), bad)) == Alignment("cols", 8, 2)
    assert alignment(vectors((1, 4, 4), bad)) == Alignment("cols", 4, 2)
    # a few rows are multiples of 64: what fails in all others may ask for anything
    assert alignment(vectors((1, 64), bad)) is None


def test_a_remainder_that_the_spec_has_is_not_named_again() -> None:
    plain = vectors((1, 8))
    for text, said in (("max(cols % 4, rows)", False), ("cols / 8", True), ("-(rows % 8)", True)):
        column = TableColumn("derived", "float", derived=True, expression=expr.parse(text))
        wide = replace(plain, columns=(*plain.columns, column), X=np.column_stack([plain.X, plain.X[:, 0]]))
        assert (alignment(wide) is not None) == said


def test_what_a_range_of_the_size_says_is_no_alignment() -> None:
    """A config for large rows, in a log whose small rows are no multiples; and one that fails nearly everywhere."""
    cols = np.concatenate([np.arange(101.0, 301, 2), 8 * np.arange(60.0, 160)])
    times = np.ones((200, 3))
    times[cols < 400, 1] = np.inf
    times[:-3, 2] = np.inf
    made = table([TableColumn("cols", "int")], cols[:, None], times)
    assert alignment(made) is None


def test_logs_without_failures_and_of_winners_say_nothing() -> None:
    assert alignment(surface(200, 12, 4)) is None
    assert alignment(replace(vectors((1, 8)), costs_known=False)) is None
