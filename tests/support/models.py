"""The models that every target is tried on: those that ship, and small ones with every kind of node."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from heurgen import ir
from heurgen.ir.schema import read_model
from tests.render.examples import EXAMPLES
from tests.support.modules import two_vendors
from tests.support.random_rows import random_rows

SHIPPED = Path(__file__).parents[2] / "kernels" / "heurgen_kernels" / "heuristics"
NAMES = ("two_vendors", "arithmetic", *EXAMPLES, *sorted(p.stem for p in SHIPPED.glob("*.json")))


@cache
def model(name: str) -> ir.HeuristicModule:
    if name == "two_vendors":
        return two_vendors()
    if name == "arithmetic":
        return arithmetic()
    return EXAMPLES[name]() if name in EXAMPLES else read_model(SHIPPED / f"{name}.json")


def arithmetic() -> ir.HeuristicModule:
    """Every operator of derived features, in a tree that reads them all; names that C++ owns."""
    expressions = {
        "tokens": "num_seqs * double",
        "per_seq": "double / num_seqs",
        "blocks": "register // -64",
        "rest": "register % (num_seqs - 8)",
        "least": "min(num_seqs, double, register / 3)",
        "most": "max(-double, num_seqs - register, 2.5)",
        "fused": "num_seqs * double + register",
        "mixed": "(double % 0.7) // (num_seqs + causal)",
    }
    features = (
        ir.Feature("num_seqs", "int", low=1, high=256),
        ir.Feature("double", "float", low=1.0, high=8192.0),
        ir.Feature("register", "int", low=1, high=100000),
        ir.Feature("causal", "bool"),
    )
    derived = tuple(ir.Derived(name, text) for name, text in expressions.items())
    thresholds = (65536.0, 16.5, -1000.0, 3.0, 40.0, 2.5, 100001.0, 7.0)
    node: ir.Node = ir.Leaf(8)
    for i, (column, threshold) in enumerate(zip(derived, thresholds, strict=True)):
        other = ir.Split("num_seqs", 10 + i, ir.Leaf(i), node) if i % 2 else node
        node = ir.Split(column.name, threshold, ir.Leaf(i), other)
        node = ir.Split("double", threshold, node, ir.Split(column.name, threshold / 2, ir.Leaf(7 - i), node))
    configs = tuple((16 * i, i / 3, bool(i % 2), f"v{i}") for i in range(9))
    kinds: tuple[ir.ColumnType, ...] = ("int", "float", "bool", "category")
    names = ("BLOCK_M", "scale", "default", "variant")
    parameters = tuple(ir.Parameter(n, k) for n, k in zip(names, kinds, strict=True))
    selector = ir.Selector("nvidia", names, configs, node)
    return ir.HeuristicModule("arithmetic", features, parameters, (selector,), derived)


@cache
def answers(
    name: str, vendor: str, device: str | None, typed: bool
) -> tuple[list[dict[str, Any]], list[dict[str, ir.Value]]]:
    """Random rows and what the interpreter says; 10,000 in all for a model, shared out among its selectors."""
    module = model(name)
    selector = module.selector(vendor, device)
    rows = random_rows(module, typed=typed)[module.selectors.index(selector) :: len(module.selectors)]
    known = [dict(zip(selector.parameters, c, strict=True)) for c in selector.configs]
    return rows, [known[ir.find_leaf(selector.tree, ir.with_derived(module, row)).config] for row in rows]


SELECTORS = [(n, s.vendor, s.device) for n in NAMES for s in model(n).selectors]
