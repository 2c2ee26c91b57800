"""IR -> IR: exact and round thresholds, merging of equal siblings, projection to one parameter.

Every pass keeps the answer for every input, NaN and unknown categories included.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from heurgen.ir import ColumnType, Leaf, Membership, Node, Selector, Split, Value

# --- thresholds -------------------------------------------------------------------------------------------

FLOAT32_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def to_float32(x: float) -> float:
    """The float32 nearest to x (ties to even), as a float; past the range, an infinity."""
    try:
        value: float = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return value


def next_float32(x: float, towards: float) -> float:
    """The float32 next to the float32 x in the direction of `towards`."""
    if x == 0:
        return math.copysign(2.0**-149, towards)
    (bits,) = struct.unpack("<i", struct.pack("<f", x))
    step = 1 if (towards > x) == (x > 0) else -1
    value: float = struct.unpack("<f", struct.pack("<i", bits + step))[0]
    return value


def exact_cutoff(threshold: float) -> float:
    """The float64 c with `x <= c` equal to `float32(x) <= threshold` for every float64 x in float32 range.

    scikit-learn casts its input to float32 and keeps thresholds in float64 (DESIGN.md, "Exactness"). Returns
    an infinity where every such x goes one way.
    """
    below = to_float32(threshold)
    if below > threshold:
        below = next_float32(below, -math.inf)
    if below >= FLOAT32_MAX:
        return math.inf
    if below < -FLOAT32_MAX:
        return -math.inf
    middle = (below + next_float32(below, math.inf)) / 2
    return middle if to_float32(middle) == below else math.nextafter(middle, -math.inf)


def exact_split(feature: str, type_: ColumnType, threshold: float, left: Node, right: Node) -> Node:
    """A sklearn test as IR: the exact cut-off in the feature's type; a test that cannot fail is dropped."""
    cutoff = exact_cutoff(threshold)
    if math.isinf(cutoff):
        return left if cutoff > 0 else right
    if type_ == "float":
        return Split(feature, cutoff, left, right)
    floor = math.floor(cutoff)
    if type_ == "bool" and floor != 0:
        return left if floor > 0 else right
    return Split(feature, floor, left, right)


def roundest(low: float, high: float, type_: ColumnType) -> int | float:
    """The roundest t with low <= t < high, so that `x <= t` separates the values low and high.

    Zero, then a power of two from 1/8 on (the one nearest to the geometric middle), then the fewest significant
    decimal digits (the one nearest to the middle): 0.0005 is rounder than 2**-11.
    """
    if not low < high:
        raise ValueError(f"no threshold separates {low!r} from {high!r}")
    integral = type_ != "float"
    if type_ == "bool" or low <= 0 < high:
        return 0 if integral else 0.0
    if high <= 0:
        mirrored = _round_positive(Decimal(-high), Decimal(-low), integral, include_high=True)
        found = -mirrored
    else:
        found = _round_positive(Decimal(low), Decimal(high), integral, include_high=False)
    value = int(found) if integral else float(found)
    return value if low <= value < high else (math.ceil(low) if integral else float(low))


def _round_positive(low: Decimal, high: Decimal, integral: bool, include_high: bool) -> Decimal:
    """The roundest number of [low, high), or of (low, high], for 0 <= low < high."""

    def inside(x: Decimal) -> bool:
        return low < x <= high if include_high else low <= x < high

    first = math.floor(math.log2(low)) if low > 0 else math.floor(math.log2(high)) - 2
    exponents = range(max(first, 0 if integral else -3), math.floor(math.log2(high)) + 1)
    powers = [p for e in exponents if inside(p := Decimal(2) ** e)]
    if powers:
        middle = math.log2(high) if low <= 0 else (math.log2(low) + math.log2(high)) / 2
        return min(powers, key=lambda p: (abs(math.log2(p) - middle), p))
    for exponent in range(high.adjusted(), -1 if integral else high.adjusted() - 40, -1):
        step = Decimal(1).scaleb(exponent)
        start = (low / step).to_integral_value(ROUND_CEILING)
        found = [x for i in range(11) if inside(x := (start + i) * step)]
        if found:
            centre = (low + high) / 2
            return min(found, key=lambda x: (len(x.normalize().as_tuple().digits), abs(x - centre), x))
    return high if include_high else low


# --- merging ----------------------------------------------------------------------------------------------


def same(a: Node, b: Node) -> bool:
    """Equal as functions by structure: evidence in the leaves is left out."""
    if isinstance(a, Leaf) or isinstance(b, Leaf):
        return isinstance(a, Leaf) and isinstance(b, Leaf) and a.config == b.config
    return _test(a) == _test(b) and same(a.left, b.left) and same(a.right, b.right)


def _test(node: Split | Membership) -> tuple[object, ...]:
    if isinstance(node, Split):
        return (node.feature, node.threshold)
    return (node.feature, frozenset(node.values), frozenset(node.others), node.unknown_left)


def merged(a: Node, b: Node) -> Node:
    """One of two `same` trees, with the evidence of both in its leaves."""
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        return merged_leaf(a, b)
    assert not isinstance(a, Leaf)
    assert not isinstance(b, Leaf)
    return replace(a, left=merged(a.left, b.left), right=merged(a.right, b.right))


def merged_leaf(a: Leaf, b: Leaf) -> Leaf:
    """The scenarios of both leaves; the geometric mean of their slowdowns, None where one is unknown.

    A slowdown weighs as many scenarios as its config succeeded in.
    """
    n = a.n_scenarios + b.n_scenarios
    n_ok = None if a.n_ok is None or b.n_ok is None else a.n_ok + b.n_ok
    if n_ok is not None and n_ok < n:
        measured = [(x.n_ok or 0, math.log(x.slowdown)) for x in (a, b) if x.slowdown is not None]
        total = math.fsum(count * log for count, log in measured)
        return Leaf(a.config, n, math.exp(total / n_ok) if n_ok else None, n_ok)
    known = [leaf for leaf in (a, b) if leaf.slowdown is not None and leaf.n_scenarios]
    if not known or sum(leaf.n_scenarios for leaf in known) < n:
        return Leaf(a.config, n, a.slowdown if not n else None, n_ok)
    total = math.fsum(leaf.n_scenarios * math.log(leaf.slowdown or 1.0) for leaf in known)
    return Leaf(a.config, n, known[0].slowdown if len(known) == 1 else math.exp(total / n), n_ok)


def merge(tree: Node) -> Node:
    """Drop tests that decide nothing: implied by the path, or with equal siblings."""
    return _merge(tree, {})


@dataclass(frozen=True, slots=True)
class _Known:
    """What a path says of a feature: above `low` or NaN, at most `high`, not `excluded`.

    `only` holds the categories still possible once a membership test was passed; None: anything.
    """

    low: float = -math.inf
    high: float = math.inf
    only: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()


def _merge(node: Node, known: Mapping[str, _Known]) -> Node:
    if isinstance(node, Leaf):
        return node
    fact = known.get(node.feature, _Known())
    decided = _decided(node, fact)
    if decided is not None:
        return _merge(node.left if decided else node.right, known)
    left_fact, right_fact = _after(node, fact)
    left = _merge(node.left, {**known, node.feature: left_fact})
    right = _merge(node.right, {**known, node.feature: right_fact})
    return merged(left, right) if same(left, right) else _joined(replace(node, left=left, right=right))


def _decided(node: Split | Membership, fact: _Known) -> bool | None:
    """Whether the path already says where the test goes; NaN is above `low` and fails the test as well."""
    if isinstance(node, Split):
        return True if fact.high <= node.threshold else False if fact.low >= node.threshold else None
    values, others = frozenset(node.values), frozenset(node.others)
    if fact.only is not None:
        # A category that the test does not list goes where unknown ones go.
        left = fact.only - others if node.unknown_left else fact.only & values
        return True if left == fact.only else None if left else False
    if node.unknown_left and others <= fact.excluded:
        return True
    return False if not node.unknown_left and values <= fact.excluded else None


def _after(node: Split | Membership, fact: _Known) -> tuple[_Known, _Known]:
    if isinstance(node, Split):
        return (
            replace(fact, high=min(fact.high, node.threshold)),
            replace(fact, low=max(fact.low, node.threshold)),
        )
    values, others = frozenset(node.values), frozenset(node.others)
    if node.unknown_left:
        inside = others - fact.excluded if fact.only is None else fact.only & others
        return _without(fact, others), replace(fact, only=inside)
    inside = values - fact.excluded if fact.only is None else fact.only & values
    return replace(fact, only=inside), _without(fact, values)


def _without(fact: _Known, categories: frozenset[str]) -> _Known:
    only = None if fact.only is None else fact.only - categories
    return replace(fact, only=only, excluded=fact.excluded | categories)


def _joined(node: Split | Membership) -> Node:
    """`x <= 5: A, else x <= 9: A, else B` is `x <= 9: A, else B`, and its mirror image."""
    if not isinstance(node, Split):
        return node
    left, right = node.left, node.right
    if isinstance(right, Split) and right.feature == node.feature and same(left, right.left):
        return _joined(replace(right, left=merged(left, right.left)))
    if isinstance(left, Split) and left.feature == node.feature and same(left.right, right):
        return _joined(replace(left, right=merged(left.right, right)))
    return node


# --- projection -------------------------------------------------------------------------------------------


def project(selector: Selector, parameter: str) -> tuple[tuple[Value, ...], Node]:
    """One parameter's values, in the order of first use, and the tree whose leaves index them."""
    position = selector.parameters.index(parameter)
    values: list[Value] = []

    def index(value: Value) -> int:
        for i, known in enumerate(values):
            if type(known) is type(value) and repr(known) == repr(value):  # 0.0 is not -0.0
                return i
        values.append(value)
        return len(values) - 1

    def relabel(node: Node) -> Node:
        if isinstance(node, Leaf):
            value = selector.configs[node.config][position]
            return replace(node, config=index(value), runner_up=None, shortlist=())
        return replace(node, left=relabel(node.left), right=relabel(node.right))

    tree = merge(relabel(selector.tree))
    return tuple(values), tree
