"""The IR refuses what cannot be rendered, and its interpreter is total."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heurgen import ir
from heurgen.base.errors import HeurgenError, ModelError
from heurgen.ir import Feature, HeuristicModule, Leaf, Membership, Parameter, Selector, Split
from tests.support.modules import two_vendors


def launch(**changes: Any) -> dict[str, Any]:
    return {"num_seqs": 4, "avg_seqlen_k": 100.0, "dtype": "bfloat16", "causal": True, **changes}


def test_select_walks_the_tree() -> None:
    module = two_vendors()
    assert ir.select(module, "nvidia", launch()) == {"variant": "2d", "BLOCK_M": 16}
    assert ir.select(module, "nvidia", launch(num_seqs=100)) == {"variant": "2d", "BLOCK_M": 64}
    assert ir.select(module, "amd", launch(num_seqs=9))["waves_per_eu"] == 2


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -1, 2**80, 0.5, True, np.int32(7), np.float32(3)]
)
def test_select_is_total_over_numbers(value: Any) -> None:
    module = two_vendors()
    for vendor in module.vendors:
        assert ir.select(module, vendor, launch(num_seqs=value))
        assert ir.select(module, vendor, launch(avg_seqlen_k=value))


@pytest.mark.parametrize("value", ["unseen", None, math.nan, [], np.str_("unseen")])
def test_an_unknown_category_goes_where_most_scenarios_went(value: Any) -> None:
    module = two_vendors()
    assert ir.select(module, "nvidia", launch(dtype=value))["variant"] == "2d"


def test_nan_fails_every_test() -> None:
    assert ir.find_leaf(Split("x", 5, Leaf(0), Leaf(1)), {"x": math.nan}).config == 1


def test_int32_products_do_not_overflow() -> None:
    module = two_vendors()
    row = ir.with_derived(module, launch(num_seqs=np.int32(2**30), avg_seqlen_k=np.int32(2**30)))
    assert row["kv_tokens"] == 2.0**60


def test_an_unknown_vendor_names_the_known_ones() -> None:
    with pytest.raises(ModelError) as caught:
        ir.select(two_vendors(), "intel", launch())
    assert str(caught.value) == "unknown vendor 'intel' (known vendors: amd, nvidia)"


def test_a_device_has_its_own_selector_or_its_vendors() -> None:
    module = two_vendors()
    h100 = replace(module.selectors[1], device="NVIDIA H100", tree=Leaf(2))
    module = replace(module, selectors=(*module.selectors, h100))
    assert ir.select(module, "nvidia", launch(), "NVIDIA H100") == {"variant": "2d", "BLOCK_M": 64}
    assert ir.select(module, "nvidia", launch(), "NVIDIA B200") == ir.select(module, "nvidia", launch())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Feature("a b", "int"), "feature name 'a b' is not an ASCII identifier"),
        (lambda: Feature("ａ", "int"), "feature name 'ａ' is not an ASCII identifier"),
        (lambda: Feature("lambda", "int"), "feature name 'lambda' is a Python keyword"),
        (lambda: Feature("__x", "int"), "feature name '__x' is a dunder or private name"),
        (lambda: Feature("x\n", "int"), r"feature name 'x\n' is not an ASCII identifier"),
        (lambda: Feature("x", "text"), "x has the type 'text', expected one of int, float, bool, category"),
        (lambda: Parameter("_x", "int"), "parameter name '_x' starts with an underscore"),
        (lambda: Split("x", math.nan, Leaf(0), Leaf(0)), "threshold of 'x' must be finite, in float64 range"),
        (
            lambda: Membership("x", (), ("a",), False, Leaf(0), Leaf(0)),
            "membership split of 'x' has an empty side",
        ),
        (lambda: Leaf(-1), "leaf config must be an index, found '-1'"),
        (lambda: Leaf(0, 1, math.inf), "leaf slowdown must be a finite positive float, found 'inf'"),
        (
            lambda: Selector("NVIDIA", ("a",), ((1,),), Leaf(0)),
            "vendor 'NVIDIA' is no name for a generated function",
        ),
        (
            lambda: Selector("amd", ("a",), ((1, 2),), Leaf(0)),
            "configs of amd do not have one value per parameter",
        ),
        (lambda: Selector("amd", ("a",), ((1,),), Leaf(1)), "a leaf of amd points past the last config"),
        # One bad among good ones.
        (
            lambda: Selector("amd", ("a",), ((1,), (1, 2)), Leaf(0)),
            "configs of amd do not have one value per parameter",
        ),
        (lambda: Selector("amd", (), ((),), Leaf(0)), "configs of amd do not have one value per parameter"),
        (
            lambda: Selector("amd", ("a",), ((1,),), Split("x", 1, Leaf(0), Leaf(1))),
            "a leaf of amd points past the last config",
        ),
        (
            lambda: Selector("amd", ("a",), ((1,),), Leaf(0, shortlist=(0, 1))),
            "a leaf of amd lists a config past the last alternative",
        ),
        (
            lambda: Feature("x", "category", values=("a", 1)),  # type: ignore[arg-type]
            "values of feature x must be distinct strings",
        ),
        (lambda: Feature("x", "category", values=("a", "a")), "values of feature x must be distinct strings"),
        (lambda: Leaf(0, shortlist=(0, -1)), "a leaf's shortlist must be distinct indices, its config first"),
        (lambda: Leaf(0, shortlist=(1, 0)), "a leaf's shortlist must be distinct indices, its config first"),
        (
            lambda: Leaf(0, shortlist=(0, 1, 1)),
            "a leaf's shortlist must be distinct indices, its config first",
        ),
        (lambda: Leaf(0, -1), "leaf n_scenarios must be a count, found '-1'"),
        (lambda: Leaf(0, 2, None, 3), "leaf n_ok must be a count up to n_scenarios, found '3'"),
        (lambda: Leaf(0, 2, 0.0), "leaf slowdown must be a finite positive float, found '0.0'"),
        (lambda: Leaf(0, 2, 1), "leaf slowdown must be a finite positive float, found '1'"),
        (lambda: ir.RunnerUp(-1, 1.0, 1), "a runner-up's config and n_ok must be counts"),
        (lambda: ir.RunnerUp(1, 1.0, -1), "a runner-up's config and n_ok must be counts"),
        (
            lambda: ir.RunnerUp(1, 0.0, 1),
            "a runner-up's slowdown must be a finite positive float, found '0.0'",
        ),
    ],
)
def test_nodes_are_validated(make: Any, message: str) -> None:
    with pytest.raises(HeurgenError) as caught:
        make()
    assert caught.value.message == message


AMD = Selector("amd", ("B",), ((1,),), Leaf(0))


def module_with(**changes: Any) -> HeuristicModule:
    selector = Selector("amd", ("B",), ((1,),), changes.pop("tree", Leaf(0)))
    parts: dict[str, Any] = {
        "kernel": "k",
        "features": (Feature("x", "int"), Feature("c", "category", values=("a",)), Feature("f", "bool")),
        "parameters": (Parameter("B", "int"),),
        "selectors": (selector,),
    }
    return HeuristicModule(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": (Feature("B", "int"),)}, "the name 'B' is used twice"),
        ({"features": (Feature("vendor", "int"),)}, "the name 'vendor' is reserved for generated code"),
        ({"parameters": (Parameter("B", "float"),)}, "B = '1' is no float value"),
        ({"tree": Split("y", 1, Leaf(0), Leaf(0))}, "a split uses 'y', which is no feature"),
        ({"tree": Split("c", 1, Leaf(0), Leaf(0))}, "the split on 'c' does not fit its type category"),
        ({"tree": Split("x", 1.5, Leaf(0), Leaf(0))}, "the threshold 1.5 of x does not fit its type int"),
        ({"tree": Split("f", 1, Leaf(0), Leaf(0))}, "the bool feature f splits at 0, found 1"),
        ({"selectors": ()}, "a module needs at least one selector"),
        (
            {"selectors": (AMD, replace(AMD, vendor="nvidia", device="X"))},
            "a device selector has no vendor selector to fall back to",
        ),
        ({"selectors": (AMD, AMD)}, "two selectors serve the same vendor and device"),
    ],
)
def test_modules_are_validated(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        module_with(**changes)
    assert caught.value.message == message


def test_depth_is_bounded() -> None:
    tree: ir.Node = Leaf(0)
    for i in range(91):
        tree = Split("x", i, Leaf(0), tree)
    with pytest.raises(ModelError, match="deeper than 90"):
        Selector("amd", ("B",), ((1,),), tree)
