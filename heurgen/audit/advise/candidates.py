"""Scenarios that nobody measured, made from those that somebody did.

A launch is more than a point in a box: its features hang together (an average is no larger than a maximum).
Candidates are therefore points between two measured scenarios, feature by feature (geometric means where a
feature spans orders of magnitude), with what all scenarios have in common (`relations`); real traffic needs no such
guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen import ir
from heurgen.audit.advise.relations import Relations, relations
from heurgen.audit.advise.scale import FeatureScale, base_columns
from heurgen.logs.groups import device_columns

if TYPE_CHECKING:
    from heurgen.logs.costs import CostTable, Floats
    from heurgen.spec.kernel_spec import Column, KernelSpec

_PAIRED = 5
# Pairs across a threshold: this many nearest pairs for each.
_ACROSS = 4
_PLACES = 6  # after the point, or after the zeros there


@dataclass(frozen=True, slots=True)
class Proposal:
    """A launch to measure. `weight` is its share of traffic against the mean (1.0 without traffic)."""

    features: Mapping[str, Any]
    why: str
    weight: float = 1.0


def between(
    module: ir.HeuristicModule,
    selectors: Sequence[ir.Selector],
    table: CostTable,
    spec: KernelSpec,
    space: FeatureScale,
) -> list[Proposal]:
    """Candidates from pairs of scenarios: neighbours, and the nearest on either side of every selector's thresholds."""
    points = space.points(table.X[:, : len(space.columns)])
    pairs: dict[tuple[int, int], str] = {}
    rows = [ir.with_derived(module, table.features_of(s)) for s in range(table.n_scenarios)]
    for node, members in (split for s in selectors for split in _splits(s.tree, rows)):
        for a, b in _across(node, members, rows, points, space):
            pairs.setdefault(
                (min(a, b), max(a, b)), f"between the sides of {node.feature} at {node.threshold!r}"
            )
    for a, near in enumerate(space.neighbours(points, points, _PAIRED)[0].tolist()):
        for b in near:
            pairs.setdefault((min(a, b), max(a, b)), "between measured scenarios")
    kept = kept_relations(table)
    made = ((_middle(table, spec, space, kept, a, b), why) for (a, b), why in sorted(pairs.items()))
    return [Proposal(middle, why) for middle, why in made if middle is not None]


def kept_relations(table: CostTable) -> Relations:
    """What every scenario of a table keeps, and so every candidate."""
    base = base_columns(table)
    X = table.X[:, : len(base)]
    devices = np.unique(table.device, return_inverse=True)[1]
    return relations(base, X, {base[i].name for i in device_columns(X, devices)})


def _splits(tree: ir.Node, rows: Sequence[Mapping[str, Any]]) -> list[tuple[ir.Split, list[int]]]:
    """Every numeric test with the scenarios that reach it."""
    found: list[tuple[ir.Split, list[int]]] = []
    stack: list[tuple[ir.Node, list[int]]] = [(tree, list(range(len(rows))))]
    while stack:
        node, members = stack.pop()
        if isinstance(node, ir.Leaf):
            continue
        left = [m for m in members if ir.goes_left(node, rows[m][node.feature])]
        inside = set(left)
        stack += ((node.right, [m for m in members if m not in inside]), (node.left, left))
        if isinstance(node, ir.Split):
            found.append((node, members))
    return found


def _across(
    node: ir.Split,
    members: list[int],
    rows: Sequence[Mapping[str, Any]],
    points: Floats,
    space: FeatureScale,
) -> list[tuple[int, int]]:
    """The nearest pairs of scenarios on either side of a test."""
    held = [ir.goes_left(node, rows[m][node.feature]) for m in members]
    left = [m for m, yes in zip(members, held, strict=True) if yes]
    right = [m for m, yes in zip(members, held, strict=True) if not yes]
    if not left or not right:
        return []
    near, far = space.neighbours(points[left], points[right], _ACROSS)
    best = np.argsort(far, axis=None, kind="stable")[:_ACROSS].tolist()
    return [(left[i // near.shape[1]], right[near.flat[i]]) for i in best]


def _middle(
    table: CostTable, spec: KernelSpec, space: FeatureScale, kept: Relations, a: int, b: int
) -> dict[str, Any] | None:
    """The launch half way between two scenarios; what cannot be halved is taken from the first.

    So are features of the device: there is no GPU of 120 multiprocessors to measure on. None where nothing half way
    has what all scenarios have in common.
    """
    first: dict[str, Any] = table.features_of(a)
    second: dict[str, Any] = table.features_of(b)
    made: dict[str, Any] = {}
    given = {f.name: f for f in spec.features}
    for i, column in enumerate(space.columns):
        x, y = first[column.name], second[column.name]
        if column.type in ("category", "bool") or column.name in kept.taken:
            made[column.name] = x
            continue
        middle = _within(given[column.name], math.sqrt(x) * math.sqrt(y) if space.log[i] else x / 2 + y / 2)
        made[column.name] = round(middle) if column.type == "int" else _rounded(middle)
    found = kept.applied(made)
    return None if found is None or any(_within(given[n], v) != v for n, v in found.items()) else found


def _within(feature: Column, value: Any) -> Any:
    if feature.min is not None:
        value = max(value, feature.min)
    return value if feature.max is None else min(value, feature.max)


def _rounded(x: float) -> float:
    return round(x, _PLACES) if abs(x) >= 0.1 else float(f"{x:.{_PLACES}g}")
