"""What a trained selector should be read with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from heurgen.ir import Leaf, Selector, Split
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.ship.remarks import (
    aligned,
    beyond,
    curve,
    device_forms,
    flaky,
    gaps,
    grouping,
    held_out,
    passed_over,
    to_dict,
    to_text,
    warnings,
)
from tests.trees.synthetic import np, table

TREE = Split("x", 4, Leaf(0, 6, 1.0, 6), Leaf(0, 4, 2.0, 1))


def selector(choice: dict[str, Any] | None = None, **fields: Any) -> Selector:
    made = Selector("nvidia", ("BLOCK",), ((16,),), TREE, n_scenarios=3, choice=choice or {})
    return replace(made, **fields)


TABLE = table([TableColumn("y", "int"), TableColumn("x", "int")], np.array([[1.0, 7.0]] * 3), np.ones((3, 1)))


def test_a_region_whose_config_failed_is_warned_of_with_its_share() -> None:
    assert list(warnings(selector())) == [
        "nvidia: in 1 region of 2 what ships failed or was never measured in 3 of 4 scenarios"
    ]
    assert list(warnings(selector(tree=Leaf(0, 4, 1.0, 4)))) == []
    assert list(warnings(selector(tree=Leaf(0, 4)))) == []  # an older model: not known


def test_what_devices_disagree_in_is_warned_of_under_the_selectors_name() -> None:
    told = selector({"devices": ["A and B want opposite configs"]}, tree=Leaf(0), device="NVIDIA H200")
    assert list(warnings(told)) == ["nvidia, NVIDIA H200: A and B want opposite configs"]


def test_whose_figures_are_missing_is_told() -> None:
    """One device of several may be the only one with too few scenarios."""
    few = "fewer than 6 groups of scenarios: no cross-validation, a small default"
    told = selector({"note": few}, tree=Leaf(0), device="NVIDIA H200")
    assert list(warnings(told)) == [f"nvidia, NVIDIA H200: {few}"]


def test_configs_that_a_sweep_passed_over_are_named() -> None:
    n, times = 56, np.ones((56, 12))
    times[:, 4:] = np.where(np.arange(n)[:, None] % 7, np.nan, 1.0)
    swept = table([TableColumn("x", "int")], np.arange(1.0, n + 1)[:, None], times)
    said = "  8 of 12 configs left out, which the sweep passed over: BLOCK=80; BLOCK=96; BLOCK=112 and 5 more"
    assert passed_over(swept) == [said]
    assert said in to_text(selector(), swept).splitlines()
    assert gaps(selector(), swept) == []  # of what is left all was measured
    assert passed_over(TABLE) == []


def test_a_size_by_whose_multiples_configs_fail_is_named() -> None:
    x = np.arange(1.0, 101.0)
    times = np.column_stack(
        [np.ones(100), np.where(x % 8 == 0, 1.0, np.inf), np.where(x % 4 == 0, 1.0, np.inf)]
    )
    times = np.vstack([times] * 3)
    made = table(
        [TableColumn("cols", "int"), TableColumn("y", "int")],
        np.column_stack([[*x] * 3, np.arange(300.0)]),
        times,
    )
    said = (
        "  2 of 3 configs fail wherever cols is no multiple of 8, or of less: cols % 8 in [derived] of the spec lets "
        "trees ask"
    )
    assert aligned(made) == [said]
    assert said in to_text(selector(), made)
    assert aligned(TABLE) == []


def test_what_gaps_were_taken_for_is_told_where_most_cells_are_missing() -> None:
    said = "% of the cells were not measured, "
    assert gaps(selector({"estimated_cells": 0.25}), TABLE) == [
        f"  25.0 {said}by chance as it looks: learnt from estimates; figures are of measured choices"
    ]
    assert gaps(selector({"lost_cells": 0.75}), TABLE) == [
        f"  75.0 {said}passed by in a search as it looks: taken for configs that lost; figures are of measured choices"
    ]
    assert gaps(selector(), TABLE) == []
    half = table(TABLE.columns, TABLE.X, np.array([[1.0, 1.0, np.nan, np.nan]] * 3))
    assert gaps(selector(), half) == []
    most = table(TABLE.columns, TABLE.X, np.array([[1.0, np.nan, np.nan, np.nan]] * 3))
    assert gaps(selector(), most) == [
        f"  75.0 {said}taken for configs that may not run there; if they could not win there, say pruned = true "
        "in [log]"
    ]
    assert gaps(selector(), replace(most, pruned=True)) == [
        f"  75.0 {said}since those configs lost, the spec says"
    ]
    assert gaps(selector(), replace(most, costs_known=False)) == []


def test_the_curve_is_three_aligned_lines() -> None:
    points = [
        {"max_configs": 1, "leaves": 1.0, "mean_log_slowdown": math.log(1.25)},
        {"max_configs": 16, "leaves": 10.4, "mean_log_slowdown": math.log(1.0625)},
    ]
    assert curve(selector({"curve": points})) == [
        "  configs       1     16",
        "  leaves        1     10",
        "  held out 1.2500 1.0625",
    ]
    assert curve(selector({"curve": points}, costs_known=False)) == []
    assert curve(selector()) == []


def test_the_held_out_line_has_what_is_known_and_names_the_worst() -> None:
    figures = {"geomean_slowdown": 1.05, "p95_slowdown": 1.25, "max_slowdown": 3.0, "invalid_share": 0.125}
    worst = [
        {"scenario": 1, "slowdown": 3.0, "chosen": [16]},
        {"scenario": 0, "slowdown": 2.0, "chosen": [16]},
    ]
    assert held_out(selector({"held_out": {**figures, "worst": worst}}), TABLE) == [
        "  held out: geomean 1.0500, p95 1.250, max 3.00, 12.5 % invalid; worst: scenario 1 (x 7, y 1): 3.00x"
    ]
    rare = held_out(selector({"held_out": {**figures, "invalid_share": 1e-5}}), TABLE)
    assert rare == ["  held out: geomean 1.0500, p95 1.250, max 3.00, under 0.1 % invalid"]
    invalid = [{"scenario": 2, "slowdown": None, "chosen": [16]}]
    none = {"mean_log_slowdown": 3.0, "geomean_slowdown": None, "invalid_share": 1.0}
    rows = [{"max_configs": 1, "leaves": 1, "mean_log_slowdown": 3.0}]
    assert held_out(selector({"held_out": none, "curve": rows}), TABLE) == [
        "  held out: no figure, 100.0 % invalid, which the row above counts as slow"
    ]
    told = held_out(selector({"held_out": {"geomean_slowdown": 1.05, "worst": invalid}}), TABLE)
    assert told == ["  held out: geomean 1.0500; worst: scenario 2 (x 7, y 1): invalid"]
    # All devices mostly measured it.
    told = held_out(
        selector({"held_out": {"geomean_slowdown": 1.05, "worst": invalid}}),
        replace(TABLE, device=("A", "A", "B")),
    )
    assert told == ["  held out: geomean 1.0500; worst: scenario 2 (x 7, y 1) on B: invalid"]
    # Without an id all features name it, however many: two scenarios may agree in the first ones.
    columns = tuple(TableColumn(name, "int") for name in "abcd")
    wide = replace(
        TABLE, columns=columns, X=np.arange(4.0 * len(TABLE.X)).reshape(-1, 4), scenario=("",) * len(TABLE.X)
    )
    told = held_out(selector({"held_out": {"geomean_slowdown": 1.05, "worst": invalid}}, tree=Leaf(0)), wide)
    assert told == ["  held out: geomean 1.0500; worst: a 8, b 9, c 10, d 11: invalid"]
    # Of another table's rows nothing is said.
    other = selector({"held_out": {"geomean_slowdown": 1.05, "worst": invalid}}, n_scenarios=9)
    assert held_out(other, TABLE) == ["  held out: geomean 1.0500"]
    assert held_out(selector(), TABLE) == []


def test_the_held_out_line_says_how_far_few_scenarios_can_be_trusted() -> None:
    figures = {"geomean_slowdown": 1.05, "p95_slowdown": 1.25, "max_slowdown": 1.3}
    told = selector({"held_out": {**figures, "scenarios": [1.0, 1.3, None]}, "folds": 5})
    apart = replace(TABLE, group=np.arange(3))
    assert held_out(told, apart) == [
        "  held out: geomean 1.0500 (95 % interval 1.000x to 12.8x), p95 1.250, max 1.30"
    ]
    assert to_dict(told, apart)["interval"] == pytest.approx((1.0, 12.8), abs=0.1)
    one = replace(TABLE, group=np.zeros(3, dtype=np.int64))
    assert held_out(told, one) == ["  held out: geomean 1.0500, p95 1.250, max 1.30"]
    assert to_dict(selector(), apart)["interval"] is None


def test_a_held_out_figure_that_is_none_of_the_curve_says_why() -> None:
    rows = [{"max_configs": 3, "leaves": 5, "mean_log_slowdown": math.log(1.2)}]

    def line(**record: object) -> str:
        told = {"geomean_slowdown": 1.1, "mean_log_slowdown": math.log(1.1), **record}
        return held_out(selector({"held_out": told, "curve": rows}), TABLE)[0]

    assert line() == "  held out: geomean 1.1000"
    other = "  held out: geomean 1.1000, of per-parameter trees (the row above: joint ones)"
    assert line(strategy="per-parameter") == other
    assert line(strategy="joint", mean_log_slowdown=math.log(1.05)) == (
        "  held out: geomean 1.1000, with sizes chosen without these launches (the row above: with them)"
    )
    assert line(mean_log_slowdown=0.9, invalid_share=0.5).endswith(
        "50.0 % invalid, which the row above counts as slow"
    )


def test_what_failed_by_chance_is_told() -> None:
    said = "  40 cells failed by chance, as it looks: no region with one has that config. Measure them again"
    assert flaky(selector({"flaky_cells": 40})) == [said]
    assert said in to_text(selector({"flaky_cells": 40}), TABLE).splitlines()
    assert flaky(selector()) == []
    # Of many scenarios some are looked at.
    many = [flaky(replace(selector({"flaky_cells": 40}), n_scenarios=n)) for n in (4000, 4001)]
    assert many == [[said], [f"  at least {said.strip()}"]]


def test_the_curve_says_what_it_takes_invalid_choices_for() -> None:
    rows = [{"max_configs": 3, "leaves": 5, "mean_log_slowdown": math.log(1.2)}]
    told = {"curve": rows, "held_out": {"geomean_slowdown": 1.1, "invalid_share": 0.5}}

    def line(of: CostTable = TABLE, **record: float) -> str:
        return held_out(selector({**told, **record}), of)[0].partition(" invalid, ")[2]

    lost = "which the row above counts as configs that lost, or as slow where they failed"
    assert line() == "which the row above counts as slow"
    assert line(estimated_cells=0.9) == (
        "which the row above counts by their estimates, or as slow where they failed"
    )
    assert line(lost_cells=0.9) == lost
    assert line(replace(TABLE, pruned=True)) == lost


def test_the_shortlists_best_stands_below() -> None:
    listed = {
        "size": 3, "geomean_slowdown": 1.01, "p95_slowdown": 1.05, "max_slowdown": 1.5, "choice_geomean_slowdown": 1.04,
    }  # fmt: skip
    told = selector({"held_out": {"geomean_slowdown": 1.05}, "shortlist": listed})
    assert held_out(told, TABLE)[1] == (
        "  held out, best of the shortlist of 3: geomean 1.0100, p95 1.050, max 1.50; the choice alone on these folds "
        "1.0400"
    )
    nothing = selector(
        {"held_out": {"geomean_slowdown": 1.05}, "shortlist": {"size": 2, "geomean_slowdown": None}}
    )
    assert held_out(nothing, TABLE)[1] == "  held out, best of the shortlist of 2: nothing of it succeeded"


def test_limits_that_bind_say_what_they_cost() -> None:
    choice = {
        "beyond": {"mean_log_slowdown": math.log(1.02), "max_depth": 10, "leaves": 79.6},
        "held_out": {"mean_log_slowdown": math.log(1.05)},
    }
    assert beyond(selector(choice)) == (
        "nvidia: the limits bind: depth 10 and 80 leaves would give 1.0200 held out, not 1.0500 "
        "(--max-depth, --max-leaves)"
    )
    assert beyond(selector(choice, costs_known=False)) is None
    assert beyond(selector({"beyond": None})) is None


def test_scenarios_that_repeat_a_shape_are_counted() -> None:
    grouped = replace(TABLE, group=np.array([0, 0, 1]), grouped=("x", "y"))
    assert grouping(grouped) == ["  3 scenarios in 2 groups of equal x, y"]
    assert grouping(replace(TABLE, group=np.array([2, 0, 1]))) == []


def test_the_forms_for_devices_are_a_table_and_say_which_ships() -> None:
    known = {"geomean_slowdown": 1.05, "p95_slowdown": 1.25, "max_slowdown": 3.0, "leaves": 4}
    forms = {
        "folds": 5, "repeats": 1, "chosen": "pooled", "device_features": ["multiprocessors", "clock"],
        "compared": [
            {"form": "pooled", **known, "invalid_share": 0.5}, {"form": "one tree a device", **known, "leaves": 1}
        ],
    }  # fmt: skip
    devices = [
        {"device": "A", "answered_by": "pooled", "geomean_slowdown": 1.5},
        {"device": "B", "answered_by": "pooled", "agreement": 0.25},
        {"device": "C", "answered_by": "pooled"},
    ]
    choice = {"device_forms": forms, "unknown_device": {**known, "devices": devices}}
    assert device_forms(selector(choice, devices=("A", "B", "C"))) == [
        "  3 devices, held out in 5 folds, 1 time, each form at the sizes that it ships:",
        "    pooled             geomean 1.0500, p95 1.250, max 3.00, 50.0 % invalid, 4 leaves <- ships",
        "    one tree a device  geomean 1.0500, p95 1.250, max 3.00, 1 leaf",
        "    device features: multiprocessors, clock",
        "  on a device that was not measured: geomean 1.0500, p95 1.250, max 3.00; A (as pooled) 1.5000; "
        "B (as pooled) the winner on 25.0 %; C (as pooled) nothing valid",
    ]
    assert device_forms(selector({"device_forms": forms})) == []
    assert device_forms(selector({"unknown_device": known})) == []
