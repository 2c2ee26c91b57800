"""IR = generated functions = the module read back, on every input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.render.names import plan
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from tests.support.generated import executed, spelled
from tests.support.strategies import modules, rows

SLOW_TO_BUILD = [HealthCheck.too_slow, HealthCheck.data_too_large]


def check(module: ir.HeuristicModule, names: dict[str, Any], row: dict[str, Any]) -> None:
    """Every generated function agrees with the interpreter on one row."""
    prefixes = plan(module).prefixes
    for selector in module.selectors:
        expected = spelled(ir.select(module, selector.vendor, row, selector.device))
        prefix = prefixes[selector.vendor, selector.device]
        with_device = {} if selector.device is None else {"device": selector.device}
        assert spelled(names["select"](vendor=selector.vendor, **with_device, **row)) == expected
        bound = names["SELECTORS"][selector.vendor]
        if selector.device is not None:
            bound = names["DEVICE_SELECTORS"][selector.device]
        assert bound is names[f"select_{prefix}"]
        assert spelled(bound(*row.values())) == expected
        single = {p: repr(names[f"{prefix}_{p}"](*row.values())) for p in selector.parameters}
        assert single == expected


@settings(max_examples=150, suppress_health_check=SLOW_TO_BUILD)
@given(st.data())
def test_every_function_is_the_ir(data: st.DataObject) -> None:
    module = data.draw(modules())
    names = executed(render_python(module))
    with np.errstate(all="ignore"):
        for row in data.draw(st.lists(rows(module), min_size=4, max_size=12)):
            check(module, names, row)


@settings(max_examples=60, suppress_health_check=SLOW_TO_BUILD)
@given(st.data())
def test_a_module_read_back_chooses_the_same(data: st.DataObject) -> None:
    module = data.draw(modules())
    again = read_module(render_python(module))
    assert again.vendors == module.vendors
    with np.errstate(all="ignore"):
        for row in data.draw(st.lists(rows(module), min_size=4, max_size=12)):
            for selector in module.selectors:
                expected = ir.select(module, selector.vendor, row, selector.device)
                assert spelled(ir.select(again, selector.vendor, row, selector.device)) == spelled(expected)


@settings(max_examples=25, suppress_health_check=SLOW_TO_BUILD)
@given(modules())
def test_a_module_read_back_renders_to_itself(module: ir.HeuristicModule) -> None:
    once = render_python(read_module(render_python(module)))
    assert render_python(read_module(once)) == once


def chain(depth: int, left: bool) -> ir.Node:
    """A tree that is one long path."""
    node: ir.Node = ir.Leaf(depth % 3)
    for i in reversed(range(depth)):
        leaf = ir.Leaf(i % 3)
        node = ir.Split("x", i, node, leaf) if left else ir.Split("x", i, leaf, node)
    return node


def zigzag(depth: int) -> ir.Node:
    node: ir.Node = ir.Leaf(0)
    for i in reversed(range(depth)):
        low, high = (ir.Leaf(i % 3), node) if i % 2 else (node, ir.Leaf(i % 3))
        node = ir.Split("x", (i if i % 2 else 200 - i), low, high)
    return node


def one_feature(tree: ir.Node) -> ir.HeuristicModule:
    selector = ir.Selector("nvidia", ("BLOCK_M",), ((16,), (32,), (64,)), tree)
    return ir.HeuristicModule(
        "kernel", (ir.Feature("x", "int"),), (ir.Parameter("BLOCK_M", "int"),), (selector,)
    )


@pytest.mark.parametrize(
    "tree", [chain(90, True), chain(90, False), zigzag(90)], ids=["left", "right", "zigzag"]
)
def test_the_deepest_tree_stays_flat_and_exact(tree: ir.Node) -> None:
    module = one_feature(tree)
    text = render_python(module)
    assert max(len(line) - len(line.lstrip(" ")) for line in text.splitlines()) <= 12
    names, again = executed(text), read_module(text)
    for x in [*range(-2, 203), math.nan, math.inf, -math.inf]:
        check(module, names, {"x": x})
        assert ir.select(again, "nvidia", {"x": x}) == ir.select(module, "nvidia", {"x": x})


def test_a_balanced_tree_of_depth_8() -> None:
    def grow(low: int, high: int) -> ir.Node:
        middle = (low + high) // 2
        return (
            ir.Leaf(low % 3)
            if high - low < 2
            else ir.Split("x", middle, grow(low, middle), grow(middle, high))
        )

    module = one_feature(grow(0, 256))
    names = executed(render_python(module))
    for x in range(-1, 258):
        check(module, names, {"x": x})


def test_products_of_small_numpy_ints_do_not_overflow() -> None:
    selector = ir.Selector(
        "nvidia", ("BLOCK_M",), ((16,), (32,)), ir.Split("tokens", 1e9, ir.Leaf(0), ir.Leaf(1))
    )
    module = ir.HeuristicModule(
        "kernel",
        (ir.Feature("a", "int"), ir.Feature("b", "int")),
        (ir.Parameter("BLOCK_M", "int"),),
        (selector,),
        (ir.Derived("tokens", "a * b"),),
    )
    names = executed(render_python(module))
    row = {"a": np.int32(100_000), "b": np.int32(100_000)}
    assert names["select"](vendor="nvidia", **row) == (32,)
    check(module, names, row)
