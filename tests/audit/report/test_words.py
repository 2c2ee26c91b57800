"""How the report spells things."""

from __future__ import annotations

import pytest

from heurgen.audit.regions import Bounds
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
    assert conditions(region, ("flag",)) == ["m ≤ 8", "flag is false"]
