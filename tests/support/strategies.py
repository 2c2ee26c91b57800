"""Random modules of every shape, and rows that sit on their edges, as Hypothesis strategies.

Hypothesis draws a number, and `random` all the rest from it: some fifty times faster than drawing node by node. What
shrinks is the number, so a failing module is as large as it was found.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from heurgen import ir
from heurgen.ir import expr

T = TypeVar("T")
FEATURE_NAMES = (
    "num_seqs",
    "max_seqlen_q",
    "avg_seqlen_k",
    "dtype",
    "causal",
    "x",
    "_private",
    "choose",
    "l",
)
PARAMETER_NAMES = ("variant", "BLOCK_M", "num_warps", "waves_per_eu", "count", "index")
CATEGORIES = (
    "bfloat16",
    "float16",
    "fp8",
    "",
    "a b",
    "it's",
    '"""',
    "\\",
    "\n",
    "\u202e",
    "caf\xe9",
    "{{ x }}",
)
VENDORS = ("nvidia", "amd", "intel_gpu")
DEVICES = {"nvidia": "NVIDIA H200", "amd": "MI300X \u00ae", "intel_gpu": "intel_gpu Max-1550"}
INT_THRESHOLDS = (0, 1, 7, 64, 4096, 2**24 + 1, 2**31 - 1, 2**53 + 1, -3, 10**20)
FLOAT_THRESHOLDS = (0.0, 0.1, 0.5, 1.0, 4096.0, 16777217.0, 1e300, -2.5, 5e-324, float(np.float32(0.1)))


def drawn(make: Callable[[random.Random], T]) -> st.SearchStrategy[T]:
    """What `make` makes of any seed."""
    return st.integers(0, 2**64 - 1).map(lambda seed: make(random.Random(seed)))


def some(rng: random.Random, values: Sequence[T], least: int, most: int) -> list[T]:
    """Some of the values, each once, in any order."""
    return rng.sample(values, rng.randint(least, min(most, len(values))))


# --- modules ----------------------------------------------------------------------------------------------


def modules() -> st.SearchStrategy[ir.HeuristicModule]:
    """Any valid module: one to three vendors, device selectors, every type of feature and parameter."""
    return drawn(_module)


def trees(columns: Sequence[ir.Feature | ir.Derived], n_configs: int) -> st.SearchStrategy[ir.Node]:
    """Trees of up to 12 leaves."""
    return drawn(lambda rng: _tree(rng, columns, n_configs))


def _module(rng: random.Random) -> ir.HeuristicModule:
    columns = tuple(_feature(n, rng.choice(ir.COLUMN_TYPES)) for n in some(rng, FEATURE_NAMES, 1, 5))
    computed = _derived(rng, [f.name for f in columns if f.type != "category"])
    parameters = tuple(
        ir.Parameter(name, rng.choice(ir.COLUMN_TYPES), rng.random() < 0.5)
        for name in some(rng, PARAMETER_NAMES, 1, 4)
    )
    selectors: list[ir.Selector] = []
    for vendor in some(rng, VENDORS, 1, 3):
        # Some vendors lack the last parameter.
        own = parameters[:-1] if len(parameters) > 1 and rng.random() < 0.5 else parameters
        devices = (None, DEVICES[vendor]) if rng.random() < 0.5 else (None,)
        selectors += [_selector(rng, vendor, device, own, (*columns, *computed)) for device in devices]
    provenance = rng.choice([{}, {"heurgen": "0.1.0", "n_measurements": 12312, "devices": ["H200"]}])
    return ir.HeuristicModule("kernel", columns, parameters, tuple(selectors), computed, provenance)


def _feature(name: str, type_: ir.ColumnType) -> ir.Feature:
    if type_ == "category":
        return ir.Feature(name, type_, values=CATEGORIES)
    return ir.Feature(name, type_, unit="tokens", low=1, high=64)


def _derived(rng: random.Random, names: Sequence[str]) -> tuple[ir.Derived, ...]:
    found = [_expression(rng, names, rng.randint(1, 5)) for _ in range(rng.randint(0, 2) if names else 0)]
    return tuple(ir.Derived(f"derived_{i}", expr.to_text(tree)) for i, tree in enumerate(found))


def _expression(rng: random.Random, names: Sequence[str], size: int) -> expr.Expr:
    """Arithmetic over the names with so many operands."""
    if rng.random() < 0.15:
        return expr.Negate(_expression(rng, names, size))
    if size == 1:
        return rng.choice([*map(expr.Name, names), expr.Number(2.0), expr.Number(0.0), expr.Number(0.25)])
    left = rng.randint(1, size - 1)
    pair = _expression(rng, names, left), _expression(rng, names, size - left)
    if rng.random() < 0.25:
        return expr.Call(rng.choice(("min", "max")), pair)
    return expr.Binary(rng.choice(tuple(expr.OPERATORS.values())), *pair)


def _selector(
    rng: random.Random,
    vendor: str,
    device: str | None,
    own: Sequence[ir.Parameter],
    columns: Sequence[ir.Feature | ir.Derived],
) -> ir.Selector:
    configs = tuple(tuple(_value(rng, p) for p in own) for _ in range(rng.randint(1, 4)))
    tree = _tree(rng, columns, len(configs))
    names, known = tuple(p.name for p in own), rng.random() < 0.5
    return ir.Selector(vendor, names, configs, tree, device=device, costs_known=known)


def _value(rng: random.Random, parameter: ir.Parameter) -> ir.Value:
    kinds: dict[str, tuple[ir.Value, ...]] = {
        "int": (16, 32, 64, -1, 0),
        "float": (0.5, 0.0, -0.0, 1e-9),
        "bool": (True, False),
        "category": ("2d", "3d", "it's \\ \n", "\u202e"),
    }
    return rng.choice((*kinds[parameter.type], *((None,) if parameter.optional else ())))


def _tree(rng: random.Random, columns: Sequence[ir.Feature | ir.Derived], n_configs: int) -> ir.Node:
    known = rng.random() < 0.5

    def grown(n_leaves: int) -> ir.Node:
        if n_leaves == 1:
            slowdown = rng.choice((1.0, 1.024, 3.5)) if known else None
            return ir.Leaf(rng.randrange(n_configs), rng.randint(0, 40), slowdown)
        left = rng.randint(1, n_leaves - 1)
        return _test(rng, rng.choice(columns), grown(left), grown(n_leaves - left))

    return grown(rng.randint(1, 12))


def _test(
    rng: random.Random, column: ir.Feature | ir.Derived, left: ir.Node, right: ir.Node
) -> ir.Split | ir.Membership:
    type_ = column.type if isinstance(column, ir.Feature) else "float"
    if type_ == "category":
        order = tuple(rng.sample(CATEGORIES[:5], 5))
        middle, end = rng.randint(1, 3), rng.randint(4, 5)
        unknown_left = rng.random() < 0.5
        return ir.Membership(column.name, order[:middle], order[middle:end], unknown_left, left, right)
    thresholds = {"int": INT_THRESHOLDS, "float": FLOAT_THRESHOLDS, "bool": (0,)}[type_]
    return ir.Split(column.name, rng.choice(thresholds), left, right)


# --- rows -------------------------------------------------------------------------------------------------


def edge_values(module: ir.HeuristicModule, feature: ir.Feature) -> list[Any]:
    """Values on and beside every threshold of a feature, and those that no training log has."""
    tests = [n for s in module.selectors for n in ir.nodes(s.tree) if not isinstance(n, ir.Leaf)]
    own = [n for n in tests if n.feature == feature.name]
    if feature.type == "category":
        return [*CATEGORIES, "unknown", None, math.nan, [], {}, 3, np.str_("fp8")]
    if feature.type == "bool":
        return [True, False, 1, 0, np.bool_(True), np.bool_(False), math.nan]
    thresholds = {n.threshold for n in own if isinstance(n, ir.Split)} | {3}
    found: list[Any] = [
        math.nan,
        math.inf,
        -math.inf,
        10**300,
        -(10**300),
        np.int32(2**31 - 1),
        np.int64(2**62),
    ]
    found += [np.float32(0.1), np.float64(math.nan), np.int8(-128), np.uint8(200), True]
    for t in sorted(thresholds):
        if feature.type == "int":
            found += [t - 1, t, t + 1, float(t), math.nextafter(float(t), math.inf)]
        else:
            with np.errstate(over="ignore"):  # float32 ends before float64 does
                near = np.float32(t)
            found += [t, math.nextafter(t, math.inf), math.nextafter(t, -math.inf), float(near)]
            found += [np.float64(t), near]
    return found


def rows(module: ir.HeuristicModule) -> st.SearchStrategy[dict[str, Any]]:
    """A setting of all features."""
    edges = {f.name: edge_values(module, f) for f in module.features}
    return drawn(lambda rng: {name: rng.choice(values) for name, values in edges.items()})
