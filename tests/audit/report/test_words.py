"""How the report spells things."""

from __future__ import annotations

import math

import pytest

from heurgen import ir
from heurgen.audit.regions import Bounds, leaf_regions
from heurgen.audit.report.words import (
    conditions,
    config_pairs,
    config_tag,
    differing,
    pairs_text,
    pretty,
    share,
    short,
    shorten,
    times,
    told_apart,
    value_text,
)


def test_figures_that_are_unknown_are_a_dash() -> None:
    assert (times(1.0344), times(None), share(0.125), share(None)) == ("1.034×", "–", "12.5 %", "–")


@pytest.mark.parametrize(("index", "tag"), [(0, "A"), (25, "Z"), (26, "A1"), (51, "Z1"), (52, "A2")])
def test_names_of_configs(index: int, tag: str) -> None:
    assert config_tag(index) == tag


def test_values_hide_nothing_and_are_cut_where_no_one_reads_on() -> None:
    assert [value_text(v) for v in (None, True, 16, "a\u202e")] == ["none", "True", "16", "a\\u202e"]
    assert short("x" * 70) == "x" * 59 + "…"
    assert shorten("x" * 60) == "x" * 60
    assert pairs_text({"a": 1, "b": None}) == "a=1 b=none" == config_pairs(("a", "b"), (1, None))


def test_what_another_config_sets_differently() -> None:
    assert differing(("a", "b", "c"), (1, 2, "x"), (1, 3, "y")) == "b=3 c=y"
    assert differing(("a",), (1,), (True,)) == "a=True"  # 1 is not True
    assert differing(("a",), (1,), (1,)) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [("x <= 7.999999999999999", "x ≤ 8"), ("0.0105213491 < x <= 4096", "0.0105213491 < x ≤ 4096"),
     ("x > 1.23456789e-07", "x > 1.23457e-07"), ("x is 'a\u202e'", "x is 'a\\u202e'"), ("y > 2.5", "y > 2.5")],
)  # fmt: skip
def test_conditions_for_a_reader(text: str, said: str) -> None:
    assert pretty(text) == said
    assert len(pretty("x" * 500)) == 160


def test_regions_in_words() -> None:
    region = {"m": Bounds(high=8.0), "flag": Bounds(high=0)}
    assert conditions(region, ("flag",), {}) == ["m ≤ 8", "flag is false"]


def test_two_thresholds_near_each_other_are_told_apart() -> None:
    near = ir.Split("x", 0.1234561, ir.Leaf(0, 1), ir.Split("x", 0.1234564, ir.Leaf(1, 1), ir.Leaf(0, 1)))
    tree = ir.Split("y", 0.33333333333, near, ir.Leaf(0, 1))
    assert told_apart(tree) == {"x": 7, "y": 6}
    told = [conditions(region, (), told_apart(tree)) for _, region in leaf_regions(tree)]
    assert [texts[1] for texts in told[:3]] == ["x ≤ 0.1234561", "0.1234561 < x ≤ 0.1234564", "x > 0.1234564"]
    assert told[3] == ["y > 0.333333"]
    assert told_apart(ir.Split("x", 0.1, ir.Split("x", math.nextafter(0.1, 0), near, near), near))["x"] == 16
    whole = ir.Split("n", 1000001, ir.Leaf(0, 1), ir.Split("n", 1000002, ir.Leaf(1, 1), ir.Leaf(0, 1)))
    assert told_apart(whole) == {}  # ints are never rounded
