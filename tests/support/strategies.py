"""Hypothesis strategies: random modules of every shape, and rows that sit on their edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from heurgen import ir
from heurgen.ir import expr

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


@st.composite
def features(draw: st.DrawFn) -> tuple[ir.Feature, ...]:
    names = draw(st.lists(st.sampled_from(FEATURE_NAMES), min_size=1, max_size=5, unique=True))
    return tuple(_feature(name, draw(st.sampled_from(ir.COLUMN_TYPES))) for name in names)


def _feature(name: str, type_: ir.ColumnType) -> ir.Feature:
    if type_ == "category":
        return ir.Feature(name, type_, values=CATEGORIES)
    return ir.Feature(name, type_, unit="tokens", low=1, high=64)


def expressions(names: list[str]) -> st.SearchStrategy[expr.Expr]:
    """Arithmetic over the names."""
    leaf: st.SearchStrategy[expr.Expr] = st.sampled_from(
        [*map(expr.Name, names), expr.Number(2.0), expr.Number(0.0), expr.Number(0.25)]
    )

    def grow(inner: st.SearchStrategy[expr.Expr]) -> st.SearchStrategy[expr.Expr]:
        operator: st.SearchStrategy[expr.Operator] = st.sampled_from(["+", "-", "*", "/", "//", "%"])
        function: st.SearchStrategy[Any] = st.sampled_from(["min", "max"])
        return (
            st.builds(expr.Binary, operator, inner, inner)
            | st.builds(expr.Negate, inner)
            | st.builds(expr.Call, function, st.tuples(inner, inner))
        )

    return st.recursive(leaf, grow, max_leaves=5)


@st.composite
def derived(draw: st.DrawFn, columns: tuple[ir.Feature, ...]) -> tuple[ir.Derived, ...]:
    numbers = [f.name for f in columns if f.type != "category"]
    if not numbers:
        return ()
    found = draw(st.lists(expressions(numbers), max_size=2))
    return tuple(ir.Derived(f"derived_{i}", expr.to_text(tree)) for i, tree in enumerate(found))


def _values(parameter: ir.Parameter) -> st.SearchStrategy[ir.Value]:
    kinds: dict[str, st.SearchStrategy[ir.Value]] = {
        "int": st.sampled_from([16, 32, 64, -1, 0]),
        "float": st.sampled_from([0.5, 0.0, -0.0, 1e-9]),
        "bool": st.booleans(),
        "category": st.sampled_from(["2d", "3d", "it's \\ \n", "\u202e"]),
    }
    return kinds[parameter.type] | (st.none() if parameter.optional else st.nothing())


@st.composite
def trees(
    draw: st.DrawFn, columns: tuple[ir.Feature | ir.Derived, ...], n_configs: int, max_leaves: int = 12
) -> ir.Node:
    known = st.booleans()
    leaves = st.builds(
        ir.Leaf,
        st.integers(0, n_configs - 1),
        st.integers(0, 40),
        st.sampled_from([1.0, 1.024, 3.5]) if draw(known) else st.none(),
    )

    def grow(inner: st.SearchStrategy[ir.Node]) -> st.SearchStrategy[ir.Node]:
        return st.one_of([_test(column, inner) for column in columns])

    return draw(st.recursive(leaves, grow, max_leaves=max_leaves))


def _test(column: ir.Feature | ir.Derived, inner: st.SearchStrategy[ir.Node]) -> st.SearchStrategy[ir.Node]:
    type_ = column.type if isinstance(column, ir.Feature) else "float"
    if type_ == "category":
        sides = st.permutations(CATEGORIES[:5]).flatmap(
            lambda found: st.tuples(st.just(found), st.integers(1, 3), st.integers(4, 5))
        )
        return st.builds(
            lambda side, unknown, left, right: ir.Membership(
                column.name,
                tuple(side[0][: side[1]]),
                tuple(side[0][side[1] : side[2]]),
                unknown,
                left,
                right,
            ),
            sides,
            st.booleans(),
            inner,
            inner,
        )
    thresholds = {"int": INT_THRESHOLDS, "float": FLOAT_THRESHOLDS, "bool": (0,)}[type_]
    return st.builds(ir.Split, st.just(column.name), st.sampled_from(thresholds), inner, inner)


@st.composite
def modules(draw: st.DrawFn, *, max_leaves: int = 12) -> ir.HeuristicModule:
    """Any valid module: one to three vendors, device selectors, every type of feature and parameter."""
    columns = draw(features())
    computed = draw(derived(columns))
    names = draw(st.lists(st.sampled_from(PARAMETER_NAMES), min_size=1, max_size=4, unique=True))
    parameters = tuple(
        ir.Parameter(name, draw(st.sampled_from(ir.COLUMN_TYPES)), draw(st.booleans())) for name in names
    )
    vendors = draw(st.lists(st.sampled_from(VENDORS), min_size=1, unique=True))
    keys = [(v, d) for v in vendors for d in ((None, DEVICES[v]) if draw(st.booleans()) else (None,))]
    reads: tuple[ir.Feature | ir.Derived, ...] = (*columns, *computed)
    # Some vendors lack the last parameter.
    short = {v for v in vendors if len(parameters) > 1 and draw(st.booleans())}
    own = {v: parameters[:-1] if v in short else parameters for v in vendors}
    selectors = [draw(_selector(vendor, device, own[vendor], reads, max_leaves)) for vendor, device in keys]
    provenance = draw(
        st.sampled_from([{}, {"heurgen": "0.1.0", "n_measurements": 12312, "devices": ["H200"]}])
    )
    return ir.HeuristicModule("kernel", columns, parameters, tuple(selectors), computed, provenance)


@st.composite
def _selector(
    draw: st.DrawFn,
    vendor: str,
    device: str | None,
    own: tuple[ir.Parameter, ...],
    columns: tuple[ir.Feature | ir.Derived, ...],
    max_leaves: int,
) -> ir.Selector:
    configs = draw(st.lists(st.tuples(*map(_values, own)), min_size=1, max_size=4))
    tree = draw(trees(columns, len(configs), max_leaves))
    names = tuple(p.name for p in own)
    return ir.Selector(vendor, names, tuple(configs), tree, device=device, costs_known=draw(st.booleans()))


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
            found += [t, math.nextafter(t, math.inf), math.nextafter(t, -math.inf), float(np.float32(t))]
            found += [np.float64(t), np.float32(t)]
    return found


@st.composite
def rows(draw: st.DrawFn, module: ir.HeuristicModule) -> dict[str, Any]:
    """A setting of all features."""
    return {f.name: draw(st.sampled_from(edge_values(module, f))) for f in module.features}


__all__ = ["derived", "edge_values", "expressions", "features", "modules", "rows", "trees"]
