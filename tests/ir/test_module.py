"""A model refuses what cannot be rendered, and its interpreter is total."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heurgen
from heurgen import ir
from heurgen.base.errors import HeurgenError, ModelError
from heurgen.ir import (
    Derived,
    Feature,
    HeuristicModule,
    Leaf,
    Membership,
    Parameter,
    RunnerUp,
    Selector,
    Split,
)
from tests.support.modules import two_vendors


def launch(**changes: Any) -> dict[str, Any]:
    return {"num_seqs": 4, "avg_seqlen_k": 100.0, "dtype": "bfloat16", "causal": True, **changes}


def test_select_walks_the_tree() -> None:
    module = two_vendors()
    assert ir.select(module, "nvidia", launch()) == {"variant": "2d", "BLOCK_M": 16}
    assert ir.select(module, "nvidia", launch(num_seqs=100)) == {"variant": "2d", "BLOCK_M": 64}
    assert ir.select(module, "amd", launch(num_seqs=9))["waves_per_eu"] == 2


@pytest.mark.parametrize("ask", [ir.select, ir.shortlist])
def test_a_feature_that_is_not_given_is_told_whatever_the_leaf_tests(ask: Any) -> None:
    given = launch()
    del given["causal"]
    with pytest.raises(ModelError) as caught:
        ask(two_vendors(), "nvidia", given)
    hint = "the features are num_seqs, avg_seqlen_k, dtype, causal"
    assert str(caught.value) == f"no value of the feature 'causal' ({hint})"


@pytest.mark.parametrize("ask", [ir.select, ir.shortlist, heurgen.explain])
@pytest.mark.parametrize(
    ("value", "told"), [("4", "'4' (str)"), (None, "'None' (NoneType)"), ([4], "'[4]' (list)")]
)
def test_what_is_no_number_is_told(ask: Any, value: Any, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(two_vendors(), "nvidia", launch(num_seqs=value))
    assert str(caught.value) == f"num_seqs is {told}, expected a number (int)"


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


LONG = "x" * (ir.MAX_TEXT + 1)
AMD = Selector("amd", ("B",), ((1,),), Leaf(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Feature("a b", "int"), "feature name 'a b' is not an ASCII identifier"),
        (lambda: Feature("ａ", "int"), "feature name 'ａ' is not an ASCII identifier"),
        (lambda: Feature("lambda", "int"), "feature name 'lambda' is a Python keyword"),
        (lambda: Feature("__x", "int"), "feature name '__x' is a dunder or private name"),
        (lambda: Feature("x\n", "int"), r"feature name 'x\n' is not an ASCII identifier"),
        (lambda: Feature("x", "text"), "x has the type 'text', expected one of int, float, bool, category"),
        (
            lambda: Feature("x", "int", LONG),
            f"unit and doc of feature x must have at most {ir.MAX_TEXT} characters",
        ),
        (
            lambda: Feature("x", "int", "", LONG),
            f"unit and doc of feature x must have at most {ir.MAX_TEXT} characters",
        ),
        (
            lambda: Feature("x", "category", values=("a", 1)),  # type: ignore[arg-type]
            "values of feature x must be distinct strings",
        ),
        (lambda: Feature("x", "category", values=("a", "a")), "values of feature x must be distinct strings"),
        (
            lambda: Feature("x", "int", aliases=(("a", "b"),)),
            "aliases and unknown do not apply to x, which is no category",
        ),
        (
            lambda: Feature("x", "int", unknown="error"),
            "aliases and unknown do not apply to x, which is no category",
        ),
        (lambda: Derived("if", "1"), "derived feature name 'if' is a Python keyword"),
        (lambda: Derived("d", "x ("), "'x (' is no arithmetic expression"),
        (lambda: Parameter("x y", "int"), "parameter name 'x y' is not an ASCII identifier"),
        (lambda: Parameter("_x", "int"), "parameter name '_x' starts with an underscore"),
        (lambda: Parameter("x", "text"), "x has the type 'text', expected one of int, float, bool, category"),
    ],
)
def test_what_no_column_can_be(make: Any, message: str) -> None:
    with pytest.raises(HeurgenError) as caught:
        make()
    assert str(caught.value) == message


def test_a_category_is_looked_up_where_it_has_spellings_or_is_refused() -> None:
    assert not Feature("x", "category", values=("a",)).looks_up
    assert Feature("x", "category", values=("a",), unknown="error").looks_up
    assert Feature("x", "category", values=("a",), aliases=(("b", "a"),)).looks_up
    assert not Parameter("B", "int").optional


VENDOR_NAME = (
    "is no name for a generated function (vendor names match [a-z][a-z0-9_]* and are no Python keyword)"
)
LENGTHS = "configs of amd do not have one value per parameter"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vendor": "NVIDIA"}, f"vendor 'NVIDIA' {VENDOR_NAME}"),
        ({"vendor": "is"}, f"vendor 'is' {VENDOR_NAME}"),
        ({"devices": ("a", LONG)}, f"devices of amd must have at most {ir.MAX_TEXT} characters"),
        (
            {"device": "X", "capability": LONG},
            f"capability of amd must have at most {ir.MAX_TEXT} characters",
        ),
        ({"capability": "gfx942"}, "a selector of amd has a capability and no device"),
        ({"device": "X", "capability": ""}, "a selector of amd has a capability and no device"),
        ({"configs": ((1, 2),)}, LENGTHS),
        ({"configs": ((1,), (1, 2))}, LENGTHS),  # one bad among good ones
        ({"alternatives": ((),)}, LENGTHS),
        ({"parameters": (), "configs": ((),)}, LENGTHS),
        ({"tree": Leaf(1)}, "a leaf of amd points past the last config"),
        ({"tree": Split("x", 1, Leaf(0), Leaf(1))}, "a leaf of amd points past the last config"),
        ({"tree": Leaf(0, shortlist=(0, 1))}, "a leaf of amd lists a config past the last alternative"),
        (
            {"tree": Leaf(0, runner_up=RunnerUp(1, 1.5, 3))},
            "a leaf of amd lists a config past the last alternative",
        ),
    ],
)
def test_what_no_selector_can_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        replace(AMD, **changes)
    assert str(caught.value) == message


def test_a_selector_lists_its_configs_and_then_its_alternatives() -> None:
    leaf = Leaf(0, shortlist=(0, 1), runner_up=RunnerUp(2, 1.5, 3))
    found = replace(AMD, tree=leaf, alternatives=((2,), (3,)), device="X", capability="gfx942")
    assert found.listed == ((1,), (2,), (3,))
    module, row = module_with(selectors=(AMD, found)), {"x": 1, "c": "a", "f": True}
    assert ir.shortlist(module, "amd", row, "X") == ({"B": 1}, {"B": 2})
    assert ir.shortlist(module, "amd", row, "Y", "gfx942") == ({"B": 1}, {"B": 2})
    assert ir.shortlist(module, "amd", row, "Y", "gfx90a") == ({"B": 1},)
    assert ir.shortlist(module, "amd", row) == ({"B": 1},)


def module_with(**changes: Any) -> HeuristicModule:
    selector = Selector("amd", ("B",), ((1,),), changes.pop("tree", Leaf(0)))
    parts: dict[str, Any] = {
        "kernel": "k",
        "features": (Feature("x", "int"), Feature("c", "category", values=("a",)), Feature("f", "bool")),
        "parameters": (Parameter("B", "int"),),
        "selectors": (selector,),
    }
    return HeuristicModule(**{**parts, **changes})


ON_X = replace(AMD, device="X", capability="gfx942")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "a b"}, "kernel name 'a b' is not an ASCII identifier"),
        ({"features": (Feature("B", "int"),)}, "the name 'B' is used twice"),
        ({"derived": (Derived("x", "1"),)}, "the name 'x' is used twice"),
        ({"features": (Feature("vendor", "int"),)}, "the name 'vendor' is reserved for generated code"),
        (
            {"features": (Feature("_SHORTLIST_12", "int"),)},
            "the name '_SHORTLIST_12' is reserved for generated code",
        ),
        ({"derived": (Derived("d", "x + z + y"),)}, "d uses 'y', which is no feature"),
        ({"derived": (Derived("d", "x"), Derived("e", "d"))}, "e uses 'd', which is no feature"),
        ({"parameters": (Parameter("C", "int"),)}, "the selector of amd uses 'B', which is no feature"),
        ({"parameters": (Parameter("B", "float"),)}, "B = '1' is no float value"),
        ({"parameters": (Parameter("B", "bool"),)}, "B = '1' is no bool value"),
        ({"parameters": (Parameter("B", "category"),)}, "B = '1' is no category value"),
        ({"tree": Split("y", 1, Leaf(0), Leaf(0))}, "a split uses 'y', which is no feature"),
        (
            {"tree": Split("x", 1, Leaf(0), Split("y", 1, Leaf(0), Leaf(0)))},
            "a split uses 'y', which is no feature",
        ),
        ({"tree": Split("c", 1, Leaf(0), Leaf(0))}, "the split on 'c' does not fit its type category"),
        (
            {"tree": Membership("x", ("a",), ("b",), False, Leaf(0), Leaf(0))},
            "the split on 'x' does not fit its type int",
        ),
        ({"tree": Split("x", 1.5, Leaf(0), Leaf(0))}, "the threshold 1.5 of x does not fit its type int"),
        (
            {"tree": Split("d", 1, Leaf(0), Leaf(0)), "derived": (Derived("d", "x"),)},
            "the threshold 1 of d does not fit its type float",
        ),
        ({"tree": Split("f", 1, Leaf(0), Leaf(0))}, "the bool feature f splits at 0, found 1"),
        ({"selectors": ()}, "a module needs at least one selector"),
        (
            {"selectors": (AMD, replace(AMD, vendor="nvidia", device="X"))},
            "a device selector has no vendor selector to fall back to",
        ),
        ({"selectors": (AMD, AMD)}, "two selectors serve the same vendor and device"),
        ({"selectors": (AMD, ON_X, ON_X)}, "two selectors serve the same vendor and device"),
        (
            {"selectors": (AMD, ON_X, replace(ON_X, device="Y"))},
            "two selectors answer for unknown devices of one capability",
        ),
        (
            {
                "selectors": (AMD, replace(ON_X, parameters=("C",))),
                "parameters": (Parameter("B", "int"), Parameter("C", "int")),
            },
            "the selector of the device 'X' does not set the parameters of amd",
        ),
    ],
)
def test_what_no_module_can_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        module_with(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("type_", "value", "problem"),
    [
        ("int", True, "B = 'True' is no int value"),
        ("int", None, "B = 'None' is no int value"),
        ("float", math.inf, "B = 'inf' is no float value"),
        ("float", math.nan, "B = 'nan' is no float value"),
        ("category", LONG, f"values of B must have at most {ir.MAX_TEXT} characters"),
        ("int", 3, None), ("float", 0.5, None), ("bool", False, None), ("category", LONG[1:], None),
    ],
)  # fmt: skip
def test_values_are_of_their_parameter_s_type(
    type_: ir.ColumnType, value: ir.Value, problem: str | None
) -> None:
    """Of alternatives as well; None where it is optional."""
    fine: ir.Value = {"int": 1, "float": 1.0, "bool": True, "category": "a"}[type_]
    for changes in ({"configs": ((value,),)}, {"configs": ((fine,),), "alternatives": ((value,),)}):
        whole = {"parameters": (Parameter("B", type_),), "selectors": (replace(AMD, **changes),)}
        if problem is None:
            assert module_with(**whole).selectors[0].listed[-1] == (value,)
            continue
        with pytest.raises(ModelError) as caught:
            module_with(**whole)
        assert str(caught.value) == problem
    optional = {
        "parameters": (Parameter("B", type_, True),),
        "selectors": (replace(AMD, configs=((None,),)),),
    }
    assert ir.select(module_with(**optional), "amd", {"x": 1, "c": "a", "f": True}) == {"B": None}


@pytest.mark.parametrize("name", ["_", "case", "match", "None", "async"])
def test_words_of_python_are_no_names(name: str) -> None:
    with pytest.raises(ModelError, match=f"^kernel name '{name}' is a Python keyword$"):
        ir.check_name(name, "kernel")


def test_the_ends_of_what_a_name_can_be() -> None:
    for name in ("type", "_x", "x" * ir.MAX_NAME, "Z9"):
        ir.check_name(name, "feature")
    with pytest.raises(ModelError) as caught:
        ir.check_name("x" * (ir.MAX_NAME + 1), "feature")
    assert str(caught.value).endswith(
        f"...' has {ir.MAX_NAME + 1} characters, expected at most {ir.MAX_NAME}"
    )
    with pytest.raises(ModelError, match=r"^feature name '3' is not an ASCII identifier$"):
        ir.check_name(3, "feature")


def test_depth_is_bounded() -> None:
    tree: ir.Node = Leaf(0)
    for i in range(90):
        tree = Split("x", i, Leaf(0), tree)
    assert replace(AMD, tree=tree).tree == tree
    with pytest.raises(ModelError) as caught:
        replace(AMD, tree=Split("x", 91, Leaf(0), tree))
    assert str(caught.value) == "the tree of amd is deeper than 90"


def test_columns_are_features_and_then_derived() -> None:
    module = two_vendors()
    assert [c.name for c in module.columns] == ["num_seqs", "avg_seqlen_k", "dtype", "causal", "kv_tokens"]
    assert module.column("kv_tokens") is module.derived[0]
    assert module.vendors == ("amd", "nvidia")
    assert replace(module, selectors=module.selectors[::-1]).vendors == ("nvidia", "amd")


def test_a_row_has_bools_as_bools_and_spellings_as_categories() -> None:
    dtype = Feature("c", "category", values=("a",), unknown="error", aliases=(("A", "a"),))
    module = module_with(features=(Feature("x", "int"), dtype, Feature("f", "bool")))
    assert ir.with_derived(module, {"x": 1, "c": "A", "f": 2}) == {"x": 1, "c": "a", "f": True}
    assert ir.with_derived(module, {"x": 2}) == {"x": 2}
    with pytest.raises(ModelError) as caught:
        ir.select(module, "amd", {"x": 1, "c": "b", "f": True})
    assert str(caught.value) == "unknown c 'b', known: 'a'"
