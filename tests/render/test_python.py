"""The shape of a generated module, in the words that a caller would test."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heurgen
from heurgen import ir
from heurgen.base.errors import EmitError, ModelError
from heurgen.ir import expr
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from tests.render.examples import K, Q, by_device, constant, listing2, spellings
from tests.support.generated import executed, loaded

PROMISES = Path(__file__).resolve().parents[2] / "docs/modules.md"
ROW = {"num_seqs": 4, "max_seqlen_q": 1, "max_seqlen_k": 16, "dtype": "bfloat16", "causal": True}


def body_of(text: str, function: str) -> str:
    """The statements of a function, without its signature and docstring."""
    rest = text[text.index(f"def {function}(") :]
    return rest.split('"""', 2)[2].removeprefix("\n").split("\n\n\n")[0]


def with_tree(
    tree: ir.Node, *features: ir.Feature, derived: tuple[ir.Derived, ...] = ()
) -> ir.HeuristicModule:
    selector = ir.Selector("nvidia", ("BLOCK_M",), ((16,), (32,), (64,)), tree)
    return ir.HeuristicModule("kernel", features, (ir.Parameter("BLOCK_M", "int"),), (selector,), derived)


# --- the interface ----------------------------------------------------------------------------------------


def test_select_takes_plain_named_arguments_in_spec_order() -> None:
    signature = inspect.signature(loaded(listing2())["select"])
    assert str(signature) == (
        "(*, vendor: 'str', num_seqs: 'int', max_seqlen_q: 'int', avg_seqlen_q: 'float', max_seqlen_k: 'int')"
        " -> 'Config'"
    )
    assert {p.kind for p in signature.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_selectors_and_parameter_functions_are_positional() -> None:
    names = loaded(listing2())
    assert list(names["SELECTORS"]) == ["nvidia", "amd"]
    assert names["SELECTORS"]["nvidia"](1, 8192, 8192.0, 8192) == (64, 64)
    assert names["nvidia_BLOCK_M"](1, 8192, 8192.0, 8192) == 64
    assert names["amd_BLOCK_N"](1, 8192, 8192.0, 8192) == 32
    assert "DEVICE_SELECTORS" not in names


@pytest.mark.parametrize(("vendor", "shown"), [("intel", "'intel'"), ("", "''"), (None, "None"), ([], "[]")])
def test_an_unknown_vendor(vendor: Any, shown: str) -> None:
    with pytest.raises(ValueError, match="vendor") as caught:
        loaded(by_device())["select"](vendor=vendor, **ROW)
    assert str(caught.value) == f"unknown vendor {shown}, known: nvidia, amd"
    assert caught.value.__suppress_context__


def test_a_device_gets_its_own_selector_and_any_other_its_vendors() -> None:
    names = loaded(by_device())
    select = names["select"]
    assert select(vendor="nvidia", **ROW).variant == "2d"
    assert select(vendor="nvidia", device="NVIDIA H200", **ROW) == ("3d", 64, 8)
    assert select(vendor="nvidia", device="B200 (x2)", **ROW) == ("2d", 64, 4)
    assert select(vendor="nvidia", device="MI300X", **ROW) == select(vendor="nvidia", **ROW)
    assert select(vendor="amd", device="NVIDIA H200", **ROW) == select(vendor="amd", **ROW)
    assert list(names["DEVICE_SELECTORS"]) == ["NVIDIA H200", "B200 (x2)"]
    assert names["DEVICE_SELECTORS"]["B200 (x2)"] is names["select_nvidia_b200_x2"]
    assert names["nvidia_h200_variant"](*ROW.values()) == "3d"


def test_vendors_with_other_parameters_have_their_own_config_type() -> None:
    names = loaded(by_device())
    assert type(names["select"](vendor="nvidia", **ROW)) is names["Config"]
    assert type(names["select"](vendor="amd", **ROW)) is names["AmdConfig"]
    assert names["Config"]._fields == ("variant", "TILE_SIZE", "num_warps")
    assert names["Config"].__doc__ == "A launch config of paged_attention on nvidia."
    assert loaded(listing2())["Config"].__doc__ == "A launch config of unified_attention on nvidia, amd."


def test_one_constant_per_distinct_config() -> None:
    configs = ((1,), (2,), (1,))
    tree = ir.Split("max_seqlen_q", 1, ir.Leaf(0), ir.Split("max_seqlen_q", 2, ir.Leaf(2), ir.Leaf(0)))
    selector = ir.Selector("nvidia", ("BLOCK_M",), configs, tree)
    text = render_python(replace(with_tree(tree, Q), selectors=(selector, replace(selector, device="H200"))))
    assert text.count("_CONFIG_0 = ") == 1
    assert "_CONFIG_1" not in text


def test_domain_and_provenance() -> None:
    names = loaded(by_device())
    assert names["DOMAIN"]["num_seqs"] == {"type": "int", "unit": "sequences", "low": 1, "high": 256}
    assert names["DOMAIN"]["dtype"]["values"] == ("bfloat16", "float16", "fp8")
    assert list(names["DOMAIN"]) == list(ROW)
    refused = loaded(spellings("error"))["DOMAIN"]["dtype"]
    assert (refused["unknown"], list(refused["aliases"])) == (
        "error",
        ["half", "torch.bfloat16", "torch.float16"],
    )
    assert not {"unknown", "aliases"} & set(names["DOMAIN"]["dtype"])
    data = loaded(listing2())["PROVENANCE"]
    assert data["kernel"] == "unified_attention"
    assert data["tools"] == {"torch": "2.9.0", "triton": "3.5.0"}
    assert data["selectors"]["select_amd"] == {
        "vendor": "amd",
        "device": None,
        "devices": ["AMD Instinct MI300X"],
        "n_scenarios": 40,
        "n_measurements": 40,
        "strategy": "joint",
        "slowdown_known": False,
    }


# --- the text ---------------------------------------------------------------------------------------------


def test_a_module_begins_with_its_header_and_checksum() -> None:
    lines = render_python(listing2(), "heurgen build").splitlines()
    assert lines[0] == "# SPDX-License-Identifier: Apache-2.0"
    assert lines[3] == "# Regenerate: heurgen build"
    assert lines[4].startswith("# checksum sha256 ")


def test_winners_only_is_said_in_the_docstrings() -> None:
    names = loaded(listing2())
    assert names["select_amd"].__doc__.endswith("\n    Slowdown unknown, the log holds winners only.\n    ")
    assert "Expected slowdown 1.012x." in names["select_nvidia"].__doc__


def test_parameter_functions_read_like_listing_2() -> None:
    text = render_python(listing2())
    assert body_of(text, "nvidia_BLOCK_M") == (
        "    if max_seqlen_q <= 1 or avg_seqlen_q <= 4095.0:\n"
        "        return 16  # 69 scenarios, 1.02x\n"
        "    return 64  # 35 scenarios, 1.01x"
    )
    assert body_of(text, "nvidia_BLOCK_N") == (
        "    if max_seqlen_q <= 1 or avg_seqlen_q <= 4095.0 or max_seqlen_k <= 64:\n"
        "        return 32  # 73 scenarios, 1.02x\n"
        "    return 64  # 31 scenarios, 1.00x"
    )
    assert body_of(text, "amd_BLOCK_M") == "    return 16  # 40 scenarios"


def test_equal_leaves_on_the_right_are_joined_by_and() -> None:
    tree = ir.Split("max_seqlen_q", 8, ir.Split("max_seqlen_k", 64, ir.Leaf(1), ir.Leaf(0)), ir.Leaf(0))
    text = render_python(with_tree(tree, Q, K))
    assert body_of(text, "nvidia_BLOCK_M") == (
        "    if max_seqlen_q <= 8 and max_seqlen_k <= 64:\n        return 32\n    return 16"
    )


def test_a_derived_feature_is_computed_where_it_is_needed() -> None:
    used = ir.Split("area", 100.0, ir.Leaf(0), ir.Split("area", 1000.0, ir.Leaf(1), ir.Leaf(2)))
    tree = ir.Split("max_seqlen_q", 1, ir.Leaf(1), used)
    derived = (ir.Derived("area", "max_seqlen_q * max_seqlen_k"), ir.Derived("unused", "max_seqlen_q + 1"))
    text = render_python(with_tree(tree, Q, K, derived=derived))
    assert body_of(text, "select_nvidia") == (
        "    if max_seqlen_q <= 1:\n"
        "        return _CONFIG_1\n"
        "    area = float(max_seqlen_q) * float(max_seqlen_k)\n"
        "    if area <= 100.0:\n"
        "        return _CONFIG_0\n"
        "    if area <= 1000.0:\n"
        "        return _CONFIG_1\n"
        "    return _CONFIG_2"
    )


def test_ints_beyond_float64_are_compared_and_no_part_of_a_derived_feature() -> None:
    """The exception that docs/modules.md makes from "every input gets an answer"."""
    plain = with_tree(ir.Split("max_seqlen_q", 4, ir.Leaf(0), ir.Leaf(1)), Q, K)
    tree = ir.Split("area", 4.0, ir.Leaf(0), ir.Leaf(1))
    derived = with_tree(tree, Q, K, derived=(ir.Derived("area", "max_seqlen_q * max_seqlen_k"),))
    asked = {"max_seqlen_q": 2**1024, "max_seqlen_k": 1}
    assert loaded(plain)["SELECTORS"]["nvidia"](*asked.values()).BLOCK_M == 32
    with pytest.raises(OverflowError):
        loaded(derived)["SELECTORS"]["nvidia"](*asked.values())
    with pytest.raises(OverflowError):
        heurgen.select(derived, "nvidia", asked)
    assert "an int of 2**1024 or more that a derived feature reads" in PROMISES.read_text()


def test_a_derived_feature_of_both_sides_is_computed_once() -> None:
    side = ir.Split("area", 100.0, ir.Leaf(0), ir.Leaf(1))
    tree = ir.Split("max_seqlen_q", 1, side, ir.Split("area", 7.0, ir.Leaf(2), ir.Leaf(0)))
    text = render_python(with_tree(tree, Q, K, derived=(ir.Derived("area", "max_seqlen_q * max_seqlen_k"),)))
    assert body_of(text, "select_nvidia").startswith(
        "    area = float(max_seqlen_q) * float(max_seqlen_k)\n    if max"
    )
    assert body_of(text, "select_nvidia").count("area = ") == 1


def test_every_kind_of_test_is_spelled_as_a_person_would() -> None:
    dtype, flag = ir.Feature("dtype", "category", values=("a", "b", "c")), ir.Feature("flag", "bool")
    spelled: list[tuple[ir.Node, str]] = [
        (ir.Membership("dtype", ("a",), ("b", "c"), False, ir.Leaf(0), ir.Leaf(1)), 'if dtype == "a":'),
        (
            ir.Membership("dtype", ("a", "b"), ("c",), False, ir.Leaf(0), ir.Leaf(1)),
            'if dtype in ("a", "b"):',
        ),
        (ir.Membership("dtype", ("a", "b"), ("c",), True, ir.Leaf(0), ir.Leaf(1)), 'if dtype != "c":'),
        (
            ir.Membership("dtype", ("a",), ("b", "c"), True, ir.Leaf(0), ir.Leaf(1)),
            'if dtype not in ("b", "c"):',
        ),
        (ir.Split("flag", 0, ir.Leaf(0), ir.Leaf(1)), "if not flag:"),
        (ir.Split("avg_seqlen_q", 4096.0, ir.Leaf(0), ir.Leaf(1)), "if avg_seqlen_q <= 4096.0:"),
        (ir.Split("max_seqlen_q", -4096, ir.Leaf(0), ir.Leaf(1)), "if max_seqlen_q <= -4096:"),
    ]
    for node, line in spelled:
        features = (dtype, flag, Q, ir.Feature("avg_seqlen_q", "float"))
        assert body_of(render_python(with_tree(node, *features)), "select_nvidia") == (
            f"    {line}\n        return _CONFIG_0\n    return _CONFIG_1"
        )


def test_nan_fails_every_comparison_where_the_branches_are_swapped() -> None:
    node: ir.Node = ir.Leaf(0)
    for i in range(8):
        node = ir.Split("max_seqlen_q", 100 - i, node, ir.Leaf(1 + i % 2))
    text = render_python(with_tree(node, Q))
    assert "if not max_seqlen_q <= 93:" in text
    assert executed(text)["select"](vendor="nvidia", max_seqlen_q=math.nan) == (64,)


def test_lines_stay_within_110_characters_but_for_long_strings() -> None:
    for module in (listing2(), by_device(), constant()):
        assert max(map(len, render_python(module).splitlines())) <= 110


def test_the_order_of_provenance_does_not_matter() -> None:
    data = {"tools": {"b": 1, "a": [{"d": 1, "c": 2}]}, "devices": ["x"]}
    turned = {"devices": ["x"], "tools": {"a": [{"c": 2, "d": 1}], "b": 1}}
    first, second = (render_python(replace(constant(), provenance=d)) for d in (data, turned))
    assert first == second


# --- refusals ---------------------------------------------------------------------------------------------


def refused(module: ir.HeuristicModule) -> str:
    with pytest.raises(EmitError) as caught:
        render_python(module)
    return str(caught.value)


def test_names_that_clash() -> None:
    base = with_tree(ir.Leaf(0), Q)
    nvidia = base.selectors[0]
    h200, other = replace(nvidia, device="NVIDIA H200"), replace(nvidia, device="H200")
    assert refused(replace(base, selectors=(nvidia, h200, other))) == (
        "the name select_nvidia_h200 is needed by the selector of the device 'NVIDIA H200' and by "
        "the selector of the device 'H200' (rename the device in the log, or train with --group-by vendor)"
    )
    both = (nvidia, replace(nvidia, vendor="select"))
    selectors = tuple(replace(s, parameters=("nvidia",)) for s in both)
    assert refused(replace(base, parameters=(ir.Parameter("nvidia", "int"),), selectors=selectors)) == (
        "the name select_nvidia is needed by the selector of nvidia and by nvidia of select"
    )


def test_features_that_would_hide_a_name() -> None:
    for name in ("_CONFIG_0", "ValueError"):
        with pytest.raises(ModelError, match=f"the name '{name}' is reserved for generated code"):
            with_tree(ir.Leaf(0), ir.Feature(name, "int"))


def test_features_may_be_called_like_the_local_variable_of_select() -> None:
    names = ["choose" + "_" * n for n in range(6)]
    module = with_tree(ir.Leaf(0), *(ir.Feature(n, "int") for n in names))
    space: dict[str, object] = {}
    exec(render_python(module), space)
    chosen = space["select"](vendor="nvidia", **dict.fromkeys(names, 1))  # type: ignore[operator]
    assert chosen == space["_CONFIG_0"]


def test_a_device_of_two_vendors_and_one_without_a_name() -> None:
    base = with_tree(ir.Leaf(0), Q)
    nvidia = base.selectors[0]
    amd = replace(nvidia, vendor="amd")
    twice = (nvidia, amd, replace(nvidia, device="x"), replace(amd, device="x"))
    assert refused(replace(base, selectors=twice)) == (
        "the device 'x' belongs to two vendors (rename the device in the log, or train with --group-by vendor)"
    )
    assert refused(replace(base, selectors=(nvidia, replace(nvidia, device="\u00ae")))) == (
        "the device '\xae' has no ASCII letter or digit to name a function after "
        "(rename the device in the log, or train with --group-by vendor)"
    )


def test_values_without_a_literal() -> None:
    module = with_tree(ir.Leaf(0), replace(Q, low=math.inf))
    assert refused(module) == "'inf' (float) cannot be written as a literal"
    huge = replace(module.selectors[0], configs=((10**5000,),))
    assert (
        refused(replace(module, features=(Q,), selectors=(huge,)))
        == "an int of 16610 bits (int) cannot be written as a literal"
    )
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert refused(replace(constant(), provenance={"x": deep})) == "data nests deeper than 20"
    assert refused(replace(constant(), provenance={"x": {1: 2}})) == "the key '1' is no string"


def test_nested_divisions_are_refused_before_they_fill_the_memory() -> None:
    derived = (ir.Derived("d", "x / (" * 25 + "1 + x" + ")" * 25),)
    module = with_tree(ir.Split("d", 1.0, ir.Leaf(0), ir.Leaf(1)), ir.Feature("x", "int"), derived=derived)
    assert refused(module) == "the expression of d nests too many divisions to be written"


@pytest.mark.parametrize("part", ["x*x+x", "1+1", "x/2", "-x", "x%3"])
def test_an_expression_that_divides_by_no_feature_is_never_too_long(part: str) -> None:
    """Of sums alone it was refused, for its divisions; and spaces made it too long to be read back."""
    text = "max(" + ",".join([part] * (395 // (len(part) + 1))) + ")"
    derived = (ir.Derived("d", text),)
    module = with_tree(ir.Split("d", 1.0, ir.Leaf(0), ir.Leaf(1)), ir.Feature("x", "int"), derived=derived)
    (found,) = read_module(render_python(module)).derived
    assert expr.parse(found.expression) == expr.parse(text)


@pytest.mark.parametrize("longer", [0, 1])
def test_a_type_is_broken_over_lines_where_its_head_is_longer_than_one(longer: int) -> None:
    names = ("a" * 30, "b" * (110 - len('class Config(namedtuple("Config", ("", ""))):') - 30 + longer))
    selector = ir.Selector("nvidia", names, ((1, 2),), ir.Leaf(0))
    parameters = tuple(ir.Parameter(n, "int") for n in names)
    text = render_python(ir.HeuristicModule("kernel", (Q,), parameters, (selector,)))
    line = next(line for line in text.splitlines() if line.startswith("class Config("))
    assert len(line) == (len("class Config(") if longer else 110)
    assert loaded(ir.HeuristicModule("kernel", (Q,), parameters, (selector,)))["Config"]._fields == names
