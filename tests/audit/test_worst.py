"""The worst choices by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from heurgen import ir
from heurgen.audit.score import Choice
from heurgen.audit.worst import SHOWN, to_text, worst
from tests.audit.test_gate import choice, score_of


def module(*selectors: ir.Selector) -> ir.HeuristicModule:
    return ir.HeuristicModule("k", (ir.Feature("m", "int"),), (ir.Parameter("BLOCK_M", "int"),), selectors)


def selector(n_scenarios: int = 3, worst: Any = (), **more: Any) -> ir.Selector:
    tree, choice = ir.Leaf(0, n_scenarios, 1.0), {"held_out": {"worst": list(worst)}}
    found = ir.Selector("nvidia", ("BLOCK_M",), ((16,),), tree, n_scenarios=n_scenarios, choice=choice)
    return replace(found, **more)


def test_a_logs_worst_choices_come_by_name_with_what_was_right() -> None:
    slow = [choice(1.0 + i / 10, i) for i in range(9)]
    score = score_of(*slow, choice(None, 20), choice(None, 21, status="unknown"))
    found = worst(module(selector()), score, False)
    assert [one.slowdown for one in found] == [None, 1.8, 1.7, 1.6, 1.5]
    assert len(found) == SHOWN
    assert to_text(found[:2], False, False).splitlines() == [
        "worst",
        "  invalid (failed)  scenario s20: m=20; chose BLOCK_M=16 where BLOCK_M=64 won",
        "  1.800x  scenario s8: m=8; chose BLOCK_M=16 where BLOCK_M=64 won",
    ]


def test_gaps_of_a_log_do_not_hide_what_is_known() -> None:
    """Choices that were never measured may be good ones: two of five places, or what others leave."""
    gaps = [choice(None, i, status="unmeasured") for i in range(6)]
    slow = [choice(1.0 + i / 10, 10 + i) for i in range(4)]

    def shown(*choices: Choice) -> list[float | None]:
        return [one.slowdown for one in worst(module(selector()), score_of(*choices), False)]

    assert shown(*gaps, *slow) == [None, None, 1.3, 1.2, 1.1]
    assert shown(*gaps, slow[1]) == [None, None, None, None, 1.1]
    assert shown(*gaps) == [None] * SHOWN
    assert shown(gaps[0], *slow) == [None, 1.3, 1.2, 1.1]


def test_where_every_choice_is_the_best_there_is_no_worst() -> None:
    assert worst(module(selector()), score_of(choice(1.0), choice(1.0004, 1)), False) == []


def test_of_the_training_log_they_are_those_of_launches_held_out() -> None:
    record = [
        {"scenario": 1, "slowdown": None, "chosen": [8]},
        {"scenario": 2, "slowdown": 2.5, "chosen": [32]},
    ]
    score = score_of(*(choice(1.1, i) for i in range(3)))
    found = worst(module(selector(3, record)), score, True)
    assert to_text(found, True, False).splitlines() == [
        "worst, held out",
        "  invalid (while held out)  scenario s1: m=1; chose BLOCK_M=8 where BLOCK_M=64 won",
        "  2.500x  scenario s2: m=2; chose BLOCK_M=32 where BLOCK_M=64 won",
    ]
    assert worst(module(selector(4, record)), score, True) == []  # a record of another table


def test_records_of_selectors_of_devices_count_their_own_scenarios() -> None:
    record = [{"scenario": 1, "slowdown": 2.0, "chosen": [8]}]
    both = [choice(1.1, i, device="AB"[i % 2]) for i in range(4)]
    others = selector(4, [{"scenario": 3, "slowdown": 9.0, "chosen": [8]}], devices=("A", "B"))
    parts = (others, selector(2, record, device="A"), selector(2, [], device="B"))
    (found,) = worst(module(*parts), score_of(*both), True)
    assert (found.scenario, found.device, found.slowdown) == ("s2", "A", 2.0)
    several = worst(module(*parts), score_of(*both), False)
    assert to_text(several, False, True).splitlines()[1].endswith("won (A)")
