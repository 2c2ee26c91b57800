"""A model along one integer feature."""

from __future__ import annotations

import pytest

from heurgen import ir
from heurgen.render.axis import LAST_TRIED, Stretch, _differ, is_exact_everywhere, steps

CONFIGS = ((16,), (32,))


def model(tree: ir.Node, *derived: ir.Derived) -> tuple[ir.HeuristicModule, ir.Selector]:
    selector = ir.Selector("nvidia", ("B",), CONFIGS, tree)
    features = (ir.Feature("m", "int"), ir.Feature("k", "int"))
    return ir.HeuristicModule("x", features, (ir.Parameter("B", "int"),), (selector,), derived), selector


def test_steps_begin_behind_each_threshold_and_equal_neighbours_are_one() -> None:
    same = ir.Split("m", 64, ir.Leaf(1), ir.Leaf(1))
    module, selector = model(ir.Split("m", 8, ir.Leaf(0), same))
    assert steps(module, selector, "m", {"k": 1}) == (Stretch(1, 8, {"B": 16}), Stretch(9, None, {"B": 32}))
    assert is_exact_everywhere(module, selector, "m")


def test_thresholds_below_one_make_no_step() -> None:
    module, selector = model(ir.Split("m", -3, ir.Leaf(0), ir.Split("m", 0, ir.Leaf(0), ir.Leaf(1))))
    assert steps(module, selector, "m", {"k": 1}) == (Stretch(1, None, {"B": 32}),)


def test_other_features_are_as_they_are_fixed() -> None:
    module, selector = model(ir.Split("k", 4, ir.Leaf(0), ir.Split("m", 2, ir.Leaf(0), ir.Leaf(1))))
    assert len(steps(module, selector, "m", {"k": 4})) == 1
    assert len(steps(module, selector, "m", {"k": 5})) == 2


def test_one_and_one_point_zero_are_two_answers() -> None:
    assert _differ({"B": 1}, {"B": 1.0})
    assert _differ({"B": 0.0}, {"B": -0.0})
    assert not _differ({"B": 1}, {"B": 1})


def test_a_derived_feature_of_the_axis_is_tried_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LAST_TRIED == 65536
    monkeypatch.setattr("heurgen.render.axis.LAST_TRIED", 1001)
    odd = ir.Derived("odd", "m % 2")
    module, selector = model(ir.Split("odd", 0.0, ir.Leaf(0), ir.Leaf(1)), odd)
    found = steps(module, selector, "m", {"k": 1})
    assert [step.first for step in found] == list(range(1, 1002))
    assert found[-1] == Stretch(1001, None, {"B": 32})
    assert found[:2] == (Stretch(1, 1, {"B": 32}), Stretch(2, 2, {"B": 16}))
    assert not is_exact_everywhere(module, selector, "m")
    assert is_exact_everywhere(module, selector, "k")
