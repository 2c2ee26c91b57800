"""explain: the numbers behind each step, what is unsure, what lies outside training; rounding."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heurgen import ir
from heurgen.audit.explain import Outside, explain, feature_text, unsure
from tests.support.modules import two_vendors

TIE = "the runner-up is within the noise of the measurements"
ROW = {"num_seqs": 80, "avg_seqlen_k": 100.0, "dtype": "fp8", "causal": True}


def test_every_step_says_how_many_training_scenarios_went_where() -> None:
    found = explain(two_vendors(), "nvidia", ROW)
    counts = [(s.held, s.yes.n_scenarios, s.no.n_scenarios) for s in found.steps]
    assert counts == [(False, 13, 23), (False, 20, 3), (False, 1, 2)]
    assert [(s.yes.n_leaves, s.no.n_leaves) for s in found.steps] == [(2, 3), (1, 2), (1, 1)]
    step = found.to_dict()["path"][1]
    assert step["yes"] == {"n_scenarios": 20, "expected_slowdown": 1.25, "n_leaves": 1}
    assert found.to_text() == (
        "kv_tokens <= 4096: no, it is 8000\n"
        "    in training: 23 scenarios, 1.258x went this way; 13 scenarios, 1.044x the other\n"
        "num_seqs <= 64: no, it is 80\n"
        "    in training: 3 scenarios, 1.310x went this way; 20 scenarios, 1.250x the other\n"
        "causal is false: no, it is True\n"
        "    in training: 2 scenarios, 1.500x went this way; 1 scenario, 1.000x the other\n"
        "\nconfig\n  variant = '2d'\n  BLOCK_M = 64\n"
        "\nheld out: 1.050x, over launches of all leaves"
        "\nevidence: 2 of 36 training scenarios, 1.500x in training"
        "\nunsure: 2 training scenarios ended here"
    )


def test_held_out_figures_come_before_the_training_evidence() -> None:
    held = {"geomean_slowdown": 1.3, "max_slowdown": 2.5}
    module = two_vendors()
    module = replace(module, selectors=tuple(replace(s, choice={"held_out": held}) for s in module.selectors))
    found = explain(module, "nvidia", ROW)
    assert (
        "\n\nheld out: 1.300x, worst 2.50x, over launches of all leaves\nevidence: 2 of 36" in found.to_text()
    )
    assert found.to_dict()["held_out"]["max_slowdown"] == 2.5
    assert "held out" not in explain(module, "amd", ROW).to_text()  # winners only: no slowdown is known
    assert explain(two_vendors(), "amd", ROW).to_dict()["held_out"] is None


def test_a_device_that_was_not_measured_lies_outside_training() -> None:
    found = explain(two_vendors(), "nvidia", {**ROW, "num_seqs": 1}, "NVIDIA B200")
    assert found.to_text().endswith("\noutside training: device = 'NVIDIA B200', seen NVIDIA H200")
    assert explain(two_vendors(), "nvidia", ROW, "NVIDIA H200").outside == ()


def test_of_a_device_that_was_not_measured_it_says_what_came_of_others() -> None:
    module = two_vendors()
    record = {"unknown_device": {"geomean_slowdown": 1.2, "max_slowdown": 3.0, "invalid_share": 0.05}}
    module = replace(module, selectors=tuple(replace(s, choice=record) for s in module.selectors))
    found = explain(module, "nvidia", ROW, "NVIDIA B200")
    line = "\neach device left out of training in turn: 1.200x, worst 3.00x, not valid on 5.0 %\nevidence: "
    assert line in found.to_text()
    assert found.to_dict()["unknown_device"]["max_slowdown"] == 3.0
    known = explain(module, "nvidia", ROW, "NVIDIA H200")
    assert (known.unknown_device, "left out" in known.to_text()) == (None, False)
    assert explain(module, "amd", ROW, "AMD X").unknown_device is None  # winners only: no slowdown is known


def test_of_many_categories_the_first_are_listed() -> None:
    many = tuple(f"op_{i}" for i in range(300))
    module = two_vendors()
    features = tuple(replace(f, values=many) if f.name == "dtype" else f for f in module.features)
    nvidia = replace(module.selectors[1], tree=ir.Leaf(0, 36, 1.1))
    (outside,) = explain(replace(module, features=features, selectors=(nvidia,)), "nvidia", ROW).outside
    assert outside.to_text() == f"dtype = 'fp8', seen {', '.join(many[:12])} and 288 more"


def test_a_category_with_a_line_break_stays_on_its_line() -> None:
    """What followed the break began a line of its own, which could say anything."""
    outside = Outside("dtype", "fp8", ("bf16", "new\nunsure: nothing", "zz\u202e"))
    assert outside.to_text() == r"dtype = 'fp8', seen bf16, new\nunsure: nothing, zz\u202e"


def test_winners_only_steps_have_counts_without_slowdowns() -> None:
    text = explain(two_vendors(), "amd", ROW).to_text()
    assert "in training: 2 scenarios went this way; 2 scenarios the other" in text
    assert "evidence: 2 of 4 training scenarios, slowdown unknown" in text


def test_a_category_on_the_path_is_told_with_those_it_is_compared_with() -> None:
    found = explain(two_vendors(), "nvidia", {**ROW, "num_seqs": 1})
    assert [(s.test, s.shown, s.held) for s in found.steps] == [
        ("kv_tokens <= 4096", "100", True),
        ("dtype not in {'float16', 'fp8'}", "'fp8'", False),
    ]


@pytest.mark.parametrize(
    ("leaf", "reasons"),
    [
        (ir.Leaf(0, 3, 1.0, 3), ()),
        (ir.Leaf(0, 3, 1.0), ()),
        (
            ir.Leaf(0),
            ("no training scenario ended here: its config worked on such launches elsewhere, if on any",),
        ),
        (ir.Leaf(0, 2, 1.0, 2), ("2 training scenarios ended here",)),
        (ir.Leaf(0, 5, 1.0, 4), ("the config failed, or was not measured, in 1 scenario",)),
        (ir.Leaf(0, 5, 1.0, 5, ir.RunnerUp(1, 1.2, 5)), ()),
        (ir.Leaf(0, 5, 1.0, 5, ir.RunnerUp(1, 1.0, 5, True)), (TIE,)),
        (ir.Leaf(0, 5, 1.0, None, ir.RunnerUp(1, 1.0, 2, True)), (TIE,)),
        (
            ir.Leaf(0, 5, 1.0, 5, ir.RunnerUp(1, 1.0, 3, True)),
            (f"{TIE}, but succeeded in 3 of 5 scenarios alone",),
        ),
    ],
)
def test_why_a_leaf_does_not_decide(leaf: ir.Leaf, reasons: tuple[str, ...]) -> None:
    assert unsure(leaf) == reasons


def test_a_launch_that_ends_where_no_scenario_did_is_unsure() -> None:
    tree = ir.Split("x", 0, ir.Leaf(0, 5, 1.0, 5), ir.Leaf(0))
    selector = ir.Selector("nvidia", ("BLOCK",), ((16,),), tree)
    module = ir.HeuristicModule("k", (ir.Feature("x", "int"),), (ir.Parameter("BLOCK", "int"),), (selector,))
    assert explain(module, "nvidia", {"x": 0}).unsure == ()
    assert explain(module, "nvidia", {"x": 1}).unsure == unsure(ir.Leaf(0))
    # A model of which no leaf knows its scenarios says nothing of any.
    bare = explain(replace(module, selectors=(replace(selector, tree=ir.Leaf(0)),)), "nvidia", {"x": 1})
    assert bare.to_text().endswith("evidence: the model records none")  # as one made from a module
    told = replace(selector, tree=ir.Split("x", 0, ir.Leaf(0), ir.Leaf(0)))
    assert explain(replace(module, selectors=(told,)), "nvidia", {"x": 1}).unsure == ()


@pytest.mark.parametrize(
    ("value", "limits", "text"),
    [
        (2857.5714285714284, (2600.0,), "2857.57"),
        (0.0028930476448784017, (0.00286,), "0.00289305"),
        (8.0, (7.999999999999999,), "8"),
        (7.9999999, (7.99999999,), "7.9999999"),  # 8 would have gone the other way
        (0.30000000000000004, (0.3,), "0.30000000000000004"),
        (2765.250001, (1.0, 2765.25), "2765.250001"),  # 2765.25 would have been within
        (math.nan, (1.0,), "nan"),
        (math.inf, (), "inf"),
        (123456789, (1.0,), "123456789"),
        (True, (0,), "True"),
        ("fp8", (), "'fp8'"),
    ],
)
def test_a_value_is_rounded_where_it_stays_on_its_side(
    value: Any, limits: tuple[float, ...], text: str
) -> None:
    assert feature_text(value, limits) == text


def test_what_lies_outside_training_is_rounded_and_json_keeps_every_digit() -> None:
    found = explain(two_vendors(), "nvidia", {**ROW, "num_seqs": 129, "avg_seqlen_k": 100000 / 3})
    assert found.to_text().splitlines()[-3:] == [
        "outside training: num_seqs = 129, seen 1 to 128",
        "outside training: avg_seqlen_k = 33333.3, seen 16 to 8192",
        "outside training: kv_tokens = 4300000, seen 16 to 1048576",
    ]
    told = [(o["feature"], o["value"], o["seen"]) for o in found.to_dict()["outside_training"]]
    assert told[1] == ("avg_seqlen_k", 33333.333333333336, [16.0, 8192.0])


def test_a_bool_beyond_training_is_told_in_its_own_words() -> None:
    module = two_vendors()
    for seen, value, text in (((0, 0), True, "True, seen False"), ((1, 1), False, "False, seen True")):
        ranges = {**module.selectors[1].ranges, "causal": seen}
        nvidia = replace(module.selectors[1], ranges=ranges)
        found = explain(replace(module, selectors=(nvidia,)), "nvidia", {**ROW, "causal": value})
        assert found.to_text().endswith(f"\noutside training: causal = {text}")
        assert found.to_dict()["outside_training"] == [
            {"feature": "causal", "value": value, "seen": list(seen)}
        ]


def test_scalars_of_numpy_are_shown_as_python_s() -> None:
    plain = {**ROW, "num_seqs": 129, "avg_seqlen_k": 100.5}
    row = {
        **plain,
        "num_seqs": np.int64(129),
        "avg_seqlen_k": np.array(100.5),
        "dtype": np.str_("fp8"),
        "causal": np.bool_(True),
    }
    found, expected = explain(two_vendors(), "nvidia", row), explain(two_vendors(), "nvidia", plain)
    assert found.to_text() == expected.to_text()
    assert json.dumps(found.to_dict()) == json.dumps(expected.to_dict())
