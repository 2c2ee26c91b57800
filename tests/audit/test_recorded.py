"""What a model says of its own making."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from heurgen import ir
from heurgen.audit.recorded import (
    Block,
    HeldOut,
    blocks,
    held_out,
    held_out_by_name,
    held_out_interval,
    held_out_scenarios,
    held_out_text,
    held_out_worst,
    several_repeats,
    told,
    training,
)
from heurgen.base.figures import Summary

TREE = ir.Split("m", 4, ir.Leaf(0, 3, 2.0), ir.Leaf(1, 1, 1.0))


def selector(choice: dict[str, Any] | None = None, tree: ir.Node = TREE, known: bool = True) -> ir.Selector:
    return ir.Selector(
        "nvidia", ("B",), ((1,), (2,)), tree, n_scenarios=4, choice=choice or {}, costs_known=known
    )


def test_training_weighs_leaves_by_their_scenarios() -> None:
    found = training(selector())
    assert found is not None
    assert (found.n_scenarios, found.geomean_slowdown) == (4, pytest.approx(2 ** (3 / 4)))
    assert training(selector(tree=ir.Leaf(0, 2))) is None
    assert training(selector(tree=ir.Leaf(0, 0, 1.0))) is None
    assert training(selector(tree=ir.Split("m", 4, ir.Leaf(0, 3, 2.0), ir.Leaf(1)))) is not None


def test_held_out_figures() -> None:
    new = {
        "geomean_slowdown": 1.05,
        "p95_slowdown": 1.2,
        "max_slowdown": 2,
        "within_1_1": 0.9,
        "invalid_share": 0.0,
    }
    found, how = held_out(
        selector({"held_out": {**new, "n_scenarios": 32, "agreement": 0.5}, "folds": 5, "repeats": 8})
    )
    assert found is not None
    assert (found.n_scenarios, found.geomean_slowdown, found.max_slowdown, found.agreement) == (
        4,
        1.05,
        2.0,
        0.5,
    )
    assert how == "5 folds over scenarios, 8 times, recorded by training"
    _, how = held_out(selector({"held_out": {**new, "folds": 3, "repeats": 1}}))
    assert how == "3 folds over scenarios, recorded by training"
    assert held_out(selector({"held_out": new}))[1] == "recorded by training"
    for none in ("often", True, 1.25):
        assert held_out(selector({"held_out": none})) == (None, "no cross-validation is recorded")


def test_the_price_of_invalid_choices_is_no_slowdown() -> None:
    """It stands in the mean that the learner looks at: e^3 where nothing was valid."""
    found, _ = held_out(selector({"held_out": {"mean_log_slowdown": 3.0, "invalid_share": 1.0}}))
    assert found is not None
    assert (found.geomean_slowdown, found.invalid_share) == (None, 1.0)


def test_of_winners_alone_no_figure_looks_like_a_slowdown() -> None:
    choice = {
        "held_out": {"geomean_slowdown": 1.2, "agreement": 0.8, "within_1_1": 0.8},
        "curve": [{"mean_log_slowdown": 1, "leaves": 2}],
    }
    winners = selector(choice, known=False)
    assert told(winners) == {"held_out": {"agreement": 0.8}, "curve": [{"leaves": 2}]}
    assert told(selector(choice)) == choice
    found, _ = held_out(winners)
    assert found is not None
    assert (found.geomean_slowdown, found.agreement) == (None, 0.8)


def test_an_interval_needs_a_mean_scenarios_and_folds() -> None:
    told = {"held_out": {"geomean_slowdown": 1.2, "scenarios": [1.1, 1.3, 1.2]}, "folds": 5}
    low, high = held_out_interval(selector(told), [0, 1, 2]) or (0.0, 0.0)
    assert 1.0 == low < 1.2 < high < 2.0
    assert held_out_interval(selector(told), [0, 1]) is None  # another table
    assert held_out_interval(selector({**told, "folds": 1}), [0, 1, 2]) is None
    edited = {"geomean_slowdown": -1.2, "scenarios": [1.1, 1.3, 1.2]}
    assert held_out_interval(selector({**told, "held_out": edited}), [0, 1, 2]) is None


def test_scenarios_and_the_worst_are_read_where_they_are_whole() -> None:
    worst = [{"scenario": 2, "slowdown": 3, "chosen": [1]}, {"scenario": 0, "slowdown": None, "chosen": [2]}]
    bad = [
        "x",
        {"scenario": 1.0, "chosen": [1]},
        {"scenario": 1, "chosen": [1, 2]},
        {"scenario": 1, "chosen": 1},
        {"scenario": 4, "chosen": [1]},
        {"scenario": -1, "chosen": [1]},
    ]
    record = {"held_out": {"scenarios": [1.0, None, 2], "worst": [*worst, *bad]}}
    found = held_out_scenarios(selector(record))
    assert found is not None
    assert (found[0], math.isnan(found[1]), found[2]) == (1.0, True, 2.0)
    assert held_out_worst(selector(record)) == [HeldOut(2, 3.0, (1,)), HeldOut(0, None, (2,))]
    for other in (
        {},
        {"held_out": 1.2},
        {"held_out": {"scenarios": [1.0, "x"]}},
        {"held_out": {"scenarios": []}},
        {"held_out": {"worst": 3, "scenarios": 3}},
    ):
        assert held_out_scenarios(selector(other)) is None
        assert held_out_worst(selector(other)) == []


def test_repeats_are_those_of_the_folds_wherever_they_are_recorded() -> None:
    assert several_repeats(selector({"repeats": 3, "held_out": {"geomean": 1.1}}))
    assert several_repeats(selector({"held_out": {"repeats": 2}}))
    for choice in ({"repeats": 1}, {}, {"repeats": "3"}, {"held_out": 1.1}):
        assert not several_repeats(selector(choice))


def test_blocks_are_tables_and_one_list_of_names_and_values() -> None:
    choice = {
        "strategy": "joint", "held_out": {"geomean": 1.04444, "scenarios": [1.0] * 9}, "limits": [1, None],
        "alternatives": [{"leaves": 3, "max_depth": 2}, {"leaves": 4}],
    }  # fmt: skip
    first, table = blocks(selector(choice))
    assert first.rows == (("held out geomean", "1.044"), ("limits", "1, –"), ("strategy", "joint"))
    assert table == Block("alternatives", ("leaves", "max depth"), (("3", "2"), ("4", "–")))
    assert blocks(selector()) == ()
    (worst,) = blocks(selector({"held_out": {"worst": [{"scenario": 24, "slowdown": None}]}}))
    assert worst == Block(
        "held out worst", ("place in the table", "slowdown"), (("24", "–"),)
    )  # no id of the log
    (within,) = blocks(selector({"held_out": {"within_1_1": 0.5}}))
    assert within.rows == (("held out within 1.1x", "0.5"),)


def test_held_out_figures_stand_under_the_names_of_the_groups_that_they_are_of() -> None:
    def one(device: str | None, geomean: float, **fields: Any) -> ir.Selector:
        held = {"held_out": {"geomean_slowdown": geomean, "invalid_share": 0.0}}
        return replace(selector(held, **fields), device=device, devices=() if device else ("A", "B"))

    def names(*selectors: ir.Selector) -> list[str]:
        module = ir.HeuristicModule("k", (ir.Feature("m", "int"),), (ir.Parameter("B", "int"),), selectors)
        return list(held_out_by_name(module))

    assert names(one(None, 1.2)) == ["nvidia"]
    assert names(one(None, 1.2), one("A", 1.1)) == ["nvidia", "nvidia / A"]
    # It answers for devices that were not measured alone.
    assert names(one(None, 1.2), one("A", 1.1), one("B", 1.3)) == ["nvidia / A", "nvidia / B"]
    assert names(one(None, 1.2, known=False)) == []  # no agreement was recorded
    agreed = selector({"held_out": {"agreement": 0.5, "invalid_share": 0.0}}, known=False)
    module = ir.HeuristicModule("k", (ir.Feature("m", "int"),), (ir.Parameter("B", "int"),), (agreed,))
    assert held_out_by_name(module) == {
        "nvidia": Summary(4, agreement=0.5)
    }  # of winners alone no other figure
    assert names(selector({"held_out": 1.2})) == []  # the mean alone is no row of figures


def test_held_out_figures_in_a_line_do_not_hide_choices_that_were_not_valid() -> None:
    assert (
        held_out_text(Summary(8, 1.047, None, 2.0, None, 0.375)) == "1.047x, worst 2.00x, not valid on 37.5 %"
    )
    assert held_out_text(Summary(8, 1.047, None, None, None, 0.0)) == "1.047x"
    assert held_out_text(Summary(8, None, None, None, None, 1.0)) == "not valid on 100.0 %"
    assert (
        held_out_text(Summary(30_000, 1.0, None, None, None, 1 / 30_000))
        == "1.000x, not valid on under 0.1 %"
    )
    assert held_out_text(None) == ""
