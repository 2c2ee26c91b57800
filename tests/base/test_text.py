"""Numbers and tables as the commands print them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen.base.figures import Summary
from heurgen.base.text import (
    counted,
    did_you_mean,
    number_text,
    percent,
    ratio,
    rounded,
    slowdown_text,
    summary_cells,
    summary_tables,
    table,
    winner_cells,
)

KNOWN = Summary(
    geomean_slowdown=1.05, p95_slowdown=1.25, max_slowdown=None, within_1_1=0.875, invalid_share=0.0,
    agreement=0.5, n_scenarios=8,
)  # fmt: skip
WINNERS = replace(KNOWN, invalid_share=None)


def test_the_first_column_is_flush_left_and_the_others_right() -> None:
    found = table(("name", "n"), [("a", "100"), ("longer", "7"), ("", "")])
    assert found.split("\n") == ["name      n", "a       100", "longer    7", ""]


@pytest.mark.parametrize(("n", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_counts(n: int, text: str) -> None:
    assert counted(n, "row") == text
    assert counted(n, "leaf") == text.replace("rows", "leaves").replace("row", "leaf")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"), (-0.0, "0"), (0.5, "0.5"), (7, "7"), (1e14, "100000000000000"), (1e15, "1000000000000000.0"),
        (1e300, "1e+300"), (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_numbers_are_as_short_as_they_round_trip(value: float, text: str) -> None:
    assert number_text(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(8000.0, "8000"), (123456789, "123456789"), (2857.5714285714284, "2857.57"), (0.0028930476, "0.00289305"),
     (float("nan"), "nan")],
)  # fmt: skip
def test_a_number_to_read_has_six_figures_but_whole_ones_all(value: float, text: str) -> None:
    assert rounded(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0344, "1.034x"), (1.99949, "1.999x"), (2.0, "2.00x"), (9.994, "9.99x"), (10.0, "10x"), (12.34, "12.3x"),
     (100.4, "100x"), (1234.5, "1234x"), (999999.4, "999999x"), (3.76e49, "3.8e+49x")],
)  # fmt: skip
def test_slowdowns_are_rounded_the_more_the_larger_they_are(value: float, text: str) -> None:
    assert slowdown_text(value) == text
    assert slowdown_text(value, "×") == text.replace("x", "×")


def test_unknown_figures_say_so() -> None:
    assert (ratio(1.0), ratio(None)) == ("1.0000", "unknown")
    assert (percent(0.125), percent(None)) == ("12.5 %", "unknown")
    assert summary_cells(KNOWN) == ["1.0500", "1.2500", "unknown", "87.5 %", "0.0 %", "8"]
    assert winner_cells(KNOWN) == ["50.0 %", "8"]


def test_winners_alone_have_a_table_of_their_own() -> None:
    assert summary_tables("device", {"a": KNOWN}).splitlines()[0].split()[:3] == ["device", "geomean", "p95"]
    both = summary_tables("device", {"a\n": KNOWN, "b": WINNERS}).split("\n\n")
    assert both[0].splitlines()[1].startswith("a\\n ")
    assert both[1].splitlines() == [
        "device: unknown, winners only  agrees with the winner  scenarios",
        f"b{'50.0 %':>52}{'8':>11}",
    ]
    assert summary_tables("device", {"b": WINNERS}).startswith("device: unknown")


def test_columns_align_under_letters_of_every_width() -> None:
    names = ("plain", "日本", "GPU 😀", "e\u0301te\u0301", "été", "עברית")
    found = table(("device", "geomean"), [(name, "1.0") for name in names]).splitlines()
    assert [line.removesuffix("1.0") for line in found[1:]] == [
        name + " " * (12 - room) for name, room in zip(names, (5, 4, 6, 3, 3, 5), strict=True)
    ]


def test_a_close_word_is_named_and_a_far_one_is_not() -> None:
    assert did_you_mean("num_wraps", ["num_warps", "x"]) == "did you mean 'num_warps'?"
    assert did_you_mean("zzz", ["num_warps"]) is None
    assert did_you_mean("a" * 10**6, ["a" * 90]) == f"did you mean '{'a' * 57}...'?"
