"""Devices of one vendor side by side: where their selectors disagree, and what the other's choice would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heurgen import ir
from heurgen.audit.evidence import View
from heurgen.audit.report.words import config_pairs, differing, pairs_text, times
from heurgen.audit.score import config_columns

SHOWN = 12
# Sixty devices have 3540 pairs, which nobody reads and which fill the page.
PAIRS = 20


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A scenario of one device that another device's selector answers otherwise."""

    device: str
    other: str
    features: str
    own: str
    theirs: str
    cost: str


@dataclass(frozen=True, slots=True)
class Pair:
    """device's scenarios under other's selector: how many get another config, and the slowdown over all of them."""

    device: str
    other: str
    n: int
    n_other: int
    own: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Disagreements:
    """`pairs`: those that differ most; `n_more`: how many there are beside."""

    pairs: tuple[Pair, ...]
    worst: tuple[Disagreement, ...]
    n_more: int


def disagreements(module: ir.HeuristicModule, views: Sequence[View]) -> Disagreements:
    """Empty where no vendor has two devices with selectors of their own."""
    pairs: list[tuple[float, Pair]] = []
    rows: list[tuple[float, Disagreement]] = []
    for view in views:
        for other in views:
            if other.vendor == view.vendor and other.selector is not view.selector:
                loss, pair, found = _compared(module, view, other)
                pairs.append((loss, pair))
                rows += found
    rows.sort(key=lambda r: -r[0])
    told = sorted(range(len(pairs)), key=lambda i: -pairs[i][0])[:PAIRS]
    worst = tuple(row for _, row in rows[:SHOWN])
    return Disagreements(tuple(pairs[i][1] for i in sorted(told)), worst, len(pairs) - len(told))


def _compared(
    module: ir.HeuristicModule, view: View, other: View
) -> tuple[float, Pair, list[tuple[float, Disagreement]]]:
    """How far they differ, the pair, and where."""
    columns = config_columns(other.selector, view.table)
    costs = view.costs
    found: list[tuple[float, Disagreement]] = []
    theirs: list[float] = []
    for place, choice in enumerate(view.choices):
        leaf = ir.find_leaf(other.selector.tree, ir.with_derived(module, choice.features))
        column, config = columns[leaf.config], other.selector.configs[leaf.config]
        cost = math.nan if column is None else float(costs[place, column])
        theirs.append(cost)
        if _named(other.selector, config) == _named(view.selector, choice.chosen):
            continue
        row = Disagreement(
            view.device,
            other.device,
            pairs_text(choice.features),
            config_pairs(view.selector.parameters, choice.chosen),
            differing(
                view.selector.parameters, choice.chosen, _in_order(view.selector, other.selector, config)
            ),
            _told(cost) if view.known else times(None),
        )
        found.append((cost if math.isfinite(cost) else math.inf, row))
    means = (_mean(costs) if view.known else times(None) for costs in (view.slowdown.tolist(), theirs))
    pair = Pair(view.device, other.device, len(view.rows), len(found), *means)
    return _loss(view, theirs) if view.known else len(found), pair, found


def _loss(view: View, theirs: Sequence[float]) -> float:
    """How much slower the other's choices are, as a logarithm; infinite where some are not valid."""
    lost = float(np.mean(theirs)) - float(view.slowdown.mean())
    return lost if math.isfinite(lost) else math.inf


def _named(selector: ir.Selector, config: ir.Config) -> dict[str, tuple[str, ir.Value]]:
    """Parameters by name; 1 and True differ."""
    return {n: (type(v).__name__, v) for n, v in zip(selector.parameters, config, strict=True)}


def _in_order(own: ir.Selector, other: ir.Selector, config: ir.Config) -> ir.Config:
    """Another selector's config as this one orders its parameters."""
    values = dict(zip(other.parameters, config, strict=True))
    return tuple(values.get(n) for n in own.parameters)


def _told(cost: float) -> str:
    return "not valid" if not math.isfinite(cost) else times(math.exp(cost))


def _mean(costs: Sequence[float]) -> str:
    """Geometric mean over the valid choices, and how many are not."""
    valid = [c for c in costs if math.isfinite(c)]
    if not valid:
        return times(None)
    bad = f", {len(costs) - len(valid)} not valid" if len(valid) < len(costs) else ""
    return times(math.exp(math.fsum(valid) / len(valid))) + bad
