"""Axes: places, ticks that a person would write, labels that do not touch."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from heurgen.audit.report.scales import (
    Scale,
    Tick,
    category_scale,
    compact,
    number_scale,
    people,
    placed,
    room_of,
    roomy,
    shortened,
    slowdown_scale,
)


@pytest.mark.parametrize(
    ("values", "kind", "note"),
    [([1.0, 20.0], "linear", ""), ([1.0, 21.0], "log", "log scale"), ([0.0, 21.0], "log1p", "log scale"),
     ([0.0, 20.0], "linear", ""), ([-1.0, 1000.0], "linear", ""), ([], "linear", "")],
)  # fmt: skip
def test_numbers_that_span_a_factor_of_20_lie_on_a_log_axis(
    values: list[float], kind: str, note: str
) -> None:
    scale = number_scale([*values, math.inf, math.nan])
    assert (scale.kind, scale.note) == (kind, note)
    assert all(0 < scale.place(x) < 1 for x in values if x or kind == "linear")
    assert [t.at for t in scale.ticks] == sorted(t.at for t in scale.ticks)


def test_places_are_clipped_and_ordered() -> None:
    linear, log, log1p = (
        Scale("linear", 0, 10, ()),
        Scale("log", 1, 100, ()),
        Scale("log1p", 0, math.e - 1, ()),
    )
    assert [linear.place(x) for x in (-5, 0, 2.5, 10, 11)] == [0, 0, 0.25, 1, 1]
    assert [log.place(x) for x in (-1, 1, 10, 100)] == [0, 0, pytest.approx(0.5), 1]
    assert [log1p.place(x) for x in (-1, 0, math.sqrt(math.e) - 1)] == [0, 0, pytest.approx(0.5)]
    assert linear.place(math.nan) == 0
    assert Scale("linear", 3, 3, ()).place(9) == 0.5
    assert [placed(linear, 100, 50)(x) for x in (0, 5)] == [100, 125]
    assert [placed(linear, 100, 50, flip=True)(x) for x in (0, 5)] == [150, 125]


@pytest.mark.parametrize(
    ("values", "labels"),
    [([0, 10], ["0", "2.5", "5", "7.5", "10"]), ([1, 10_000], ["1", "10", "100", "1k", "10k"]),
     ([0, 1000], ["0", "1", "10", "100", "1k"]), ([1.2, 30], ["2", "5", "10", "20"]), ([7, 7], ["7"]),
     ([5, 110], ["5", "10", "20", "50", "100"])],
)  # fmt: skip
def test_ticks_are_numbers_that_a_person_would_write(values: list[float], labels: list[str]) -> None:
    found = [t.label for t in number_scale(values).ticks]
    assert set(labels) <= set(found)
    assert len(found) <= 9


@pytest.mark.parametrize(
    ("values", "labels"),
    [([4096, 4100], ["4096", "4097", "4098", "4099", "4100"]), ([0.9999, 1.0001], ["0.99995", "1", "1.00005"]),
     ([1e-4, 1.1e-3], ["2.5e-4", "5e-4", "7.5e-4", "0.001"]), ([1e12, 2e12], ["1e+12", "1.25e+12", "1.5e+12"]),
     ([1_000_000, 1_009_000], ["1M", "1.002M", "1.008M"]), ([-1e6, 3 - 1e6], ["-1M", "-999999", "-999997"])],
)  # fmt: skip
def test_no_tick_reads_as_another_number(values: list[float], labels: list[str]) -> None:
    scale = number_scale(values)
    found = [t.label for t in scale.ticks]
    assert set(labels) <= set(found)
    assert len(set(found)) == len(found)
    units = {"k": 1e3, "M": 1e6}
    read = [float(x.rstrip("kM")) * units.get(x[-1], 1) for x in found]
    assert [scale.place(x) for x in read] == pytest.approx([t.at for t in scale.ticks], abs=1e-6)


def test_the_longest_ranges_of_floats_have_an_axis() -> None:
    top = 1.7e308
    for values in ([5e-324, 1.0, top], [1e-300, 1e300], [-top, 0.0, top], [0.0, top], [top], [5e-324]):
        scale = number_scale(values)
        assert 0 < scale.high - scale.low < math.inf
        assert scale.ticks
        assert [scale.place(x) for x in values] == sorted(scale.place(x) for x in values)


def test_equal_values_get_an_axis_around_them() -> None:
    for value in (0.0, 0.5, 7.0):
        scale = number_scale([value])
        assert scale.low < value < scale.high


def test_categories_take_a_place_each_and_hide_nothing() -> None:
    scale = category_scale(["a", "b\u202e", "c" * 30])
    assert [t.label for t in scale.ticks] == ["a", "b\\u202e", "c" * 23 + "…"]
    assert [scale.place(i) for i in range(3)] == [pytest.approx(t.at) for t in scale.ticks]
    assert len(category_scale([str(i) for i in range(100)]).ticks) <= 12
    assert category_scale([]).ticks == ()


@pytest.mark.parametrize(("highest", "top", "last"), [(1.0, 1.25, "1.2×"), (2.4, 2.4, "2×"), (99, 10, "10×")])
def test_slowdowns_lie_on_a_log_axis_from_1_to_10_at_most(highest: float, top: float, last: str) -> None:
    scale = slowdown_scale(highest)
    assert (scale.kind, scale.low, scale.high) == ("log", 1.0, top)
    assert (scale.ticks[0].label, scale.ticks[-1].label) == ("1×", last)
    assert all(b.at - a.at >= 0.13 for a, b in pairwise(scale.ticks))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1500, "1.5k"), (999, "999"), (1e6, "1M"), (-2.5e9, "-2.5G"), (1e12, "1e+12"), (0.0004, "4e-4"),
     (0.001, "0.001"), (0.123456, "0.1235")],
)  # fmt: skip
def test_compact_numbers(value: float, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(104677.0, "104677"), (1e9, "1e+09"), (0.0105213, "0.01052"), (8.7436e-06, "8.744e-06")],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert people(value) == text


def test_labels_that_would_touch_are_left_out_or_cut() -> None:
    scale = Scale("linear", 0, 1, tuple(Tick(i / 10, "12345") for i in range(11)))
    kept = roomy(scale, 100)
    assert 1 < len(kept) < 11
    assert all((b.at - a.at) * 100 > 5 * 7.8 for a, b in pairwise(kept))
    assert roomy(scale, 2000) == list(scale.ticks)
    words = category_scale(["alphabetical", "b"])
    assert [t.label for t in roomy(words, 100)] == ["alpha…", "b"]
    alike = category_scale([f"op_{i:03}" for i in range(12)])
    assert [t.label for t in roomy(alike, 340)] == [
        "op_000",
        "op_002",
        "op_004",
        "op_006",
        "op_008",
        "op_010",
    ]
    assert (room_of("abé"), room_of("日本"), shortened("日本語", 6), shortened("日本語", 5)) == (
        3,
        4,
        "日本語",
        "日本…",
    )
    assert [t.label for t in roomy(category_scale(["日本語の配置", "x"]), 100)] == ["日本…", "x"]
    assert shortened("abcd", 4) == "abcd"
    assert shortened("abcde", 4) == "abc…"
