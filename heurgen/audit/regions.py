"""Regions of feature space as a person reads them: the tests on a path, joined feature by feature."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from heurgen import ir
from heurgen.base.errors import literal
from heurgen.base.text import number_text


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a path says of one feature: above `low`, at most `high`; in `only`, not in `excluded`."""

    low: float = -math.inf
    high: float = math.inf
    only: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()

    def after(self, node: ir.Split | ir.Membership, left: bool) -> Bounds:
        """The same one test further on."""
        if isinstance(node, ir.Split):
            if left:
                return replace(self, high=min(self.high, node.threshold))
            return replace(self, low=max(self.low, node.threshold))
        # The side where unknown categories go is known only by what it is not.
        if left == node.unknown_left:
            out = node.others if left else node.values
            only = None if self.only is None else tuple(v for v in self.only if v not in out)
            return replace(self, only=only, excluded=tuple(dict.fromkeys((*self.excluded, *out))))
        listed = node.values if left else node.others
        inside = listed if self.only is None else tuple(v for v in self.only if v in listed)
        return replace(self, only=tuple(v for v in inside if v not in self.excluded))


Region = Mapping[str, Bounds]


def leaf_regions(tree: ir.Node) -> Iterator[tuple[ir.Leaf, Region]]:
    """Every leaf with its region, in the order of `ir.leaves`; features in the order of their first test."""
    stack: list[tuple[ir.Node, dict[str, Bounds]]] = [(tree, {})]
    while stack:
        node, region = stack.pop()
        if isinstance(node, ir.Leaf):
            yield node, region
            continue
        known = region.get(node.feature, Bounds())
        stack.append((node.right, {**region, node.feature: known.after(node, False)}))
        stack.append((node.left, {**region, node.feature: known.after(node, True)}))


def region_texts(region: Region, flags: Sequence[str] = ()) -> list[str]:
    """One condition per feature; `flags` are the bool features."""
    return [_bounds_text(name, bounds, name in flags) for name, bounds in region.items()]


def _bounds_text(name: str, bounds: Bounds, flag: bool) -> str:
    if flag:
        return f"{name} is {'true' if bounds.high > 0 else 'false'}"
    if bounds.only is not None:
        return category_text(name, bounds.only, True)
    if bounds.excluded:
        return category_text(name, bounds.excluded, False)
    low, high = number_text(bounds.low), number_text(bounds.high)
    if math.isinf(bounds.low):
        return f"{name} <= {high}"
    return f"{name} > {low}" if math.isinf(bounds.high) else f"{low} < {name} <= {high}"


def category_text(name: str, values: Sequence[str], inside: bool) -> str:
    if len(values) == 1:
        return f"{name} {'is' if inside else 'is not'} {literal(values[0])}"
    listed = ", ".join(map(literal, values))
    return f"{name} {'in' if inside else 'not in'} {{{listed}}}"


def edge_text(node: ir.Split | ir.Membership, left: bool, flags: Sequence[str] = ()) -> str:
    """The condition on one side of a test."""
    return _bounds_text(node.feature, Bounds().after(node, left), node.feature in flags)


def flags_of(module: ir.HeuristicModule) -> tuple[str, ...]:
    return tuple(f.name for f in module.features if f.type == "bool")
