"""Strategy and size by cross-validation over scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heurgen.costs import CostTable
from heurgen.trees import joint
from heurgen.trees.build import route, to_ir
from heurgen.trees.joint import Fitted, Settings
from heurgen.trees.node import n_leaves
from heurgen.trees.options import DEFAULT_DEPTH, FitOptions, leaf_cap
from heurgen.trees.per_parameter import fit_per_parameter
from heurgen.trees.problem import UNCOVERED, UNIT, Floats, Ints, Problem, groups, problem
from heurgen.trees.refine import with_max_leaves

FOLDS = 5
MIN_GROUPS = 6
# A held-out choice that was never measured, as a log-slowdown (20x).
INVALID = 3.0
# A smaller tree wins within this mean log-slowdown of the best candidate's, by preference.
TOLERANCE = {"accuracy": 0.002, "small": 0.01}
# With more than joint.SMALL scenarios a difference of 0.002 is no tie, and large trees are within the leaf cap.
LARGE_TOLERANCE = 0.0002
# Depth of one parameter's tree as a candidate.
PARAMETER_DEPTH = 3


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """What cross-validation compares: held-out costs, the mean of their log-slowdowns, and the mean of leaves.

    `cost` is UNCOVERED where the choice was invalid; such a choice counts as INVALID in `loss` and `mean`.
    """

    strategy: str
    settings: Settings
    mean: float = math.nan
    leaves: float = 0.0
    cost: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def loss(self) -> Floats:
        return np.minimum(self.cost, INVALID)


def choose(
    table: CostTable, options: FitOptions, rows: Ints | None = None
) -> tuple[Candidate, list[Candidate]]:
    """The candidate to fit, and all that were compared (none where there are fewer than MIN_GROUPS groups).

    Sizes are compared at the default depth whatever `max_depth` says, so that a larger limit never gives a
    worse training objective.
    """
    p = problem(table, rows)
    group = groups(p)
    n_groups = int(group.max()) + 1
    cap = leaf_cap(options, p.n_real)
    if n_groups < MIN_GROUPS:
        return Candidate("joint", Settings(options.max_configs, depth=2, max_leaves=min(cap, 4))), []
    fold = (np.random.RandomState(0).permutation(n_groups) % min(FOLDS, n_groups))[group]
    found: dict[tuple[str, Settings], list[tuple[Floats, int]]] = {}
    for held in range(int(fold.max()) + 1):
        test = p.index[fold == held]
        part = problem(table, p.index[fold != held])
        for strategy, settings, fitted in _fits(part, table, options, cap):
            cost = held_out_costs(table, p, fitted, test)
            found.setdefault((strategy, settings), []).append((cost, n_leaves(fitted.tree)))
    scored = [_scored(strategy, settings, folds) for (strategy, settings), folds in found.items()]
    default = next(c for c in scored if c.settings.price == joint.DEFAULT_PRICE)
    return pick(scored, default, options.prefer), scored


def _fits(
    p: Problem, table: CostTable, options: FitOptions, cap: int
) -> Iterator[tuple[str, Settings, Fitted]]:
    """Every candidate fitted: a tree is grown once per config count and pruned at every price."""
    counts = [options.max_configs]
    if p.n_real <= joint.SMALL and options.max_configs > 1:
        counts.append((options.max_configs + 1) // 2)
    sets = [joint.config_set(p, count) for count in counts]
    for count, chosen in zip(counts, sets, strict=True):
        small = joint.prepared(p, chosen)
        tree = joint.grow(small, DEFAULT_DEPTH, cap, {})
        for price in joint.PRICES:
            pruned = joint.finish(small, tree, joint.price_units(price, p.n_real), cap)
            yield "joint", Settings(count, price, DEFAULT_DEPTH, cap), Fitted(small, pruned)
    settings = Settings(options.max_configs, 0.0, PARAMETER_DEPTH, cap)
    found = fit_per_parameter(p, table, settings, sets[0], DEFAULT_DEPTH)[0]
    yield "per-parameter", settings, Fitted(found.p, with_max_leaves(found.p, found.tree, cap))


def held_out_costs(table: CostTable, p: Problem, fitted: Fitted, rows: Ints) -> Floats:
    """Costs [n] of what a fit chooses for rows of the table: log-slowdowns, UNCOVERED where it is invalid."""
    numbers = {i: i for i in range(fitted.p.cost.shape[1])}
    tree = to_ir(fitted.p, fitted.tree, numbers, table)
    chosen = fitted.p.configs[route(tree, table.columns, table.X[rows])]
    column = {c: i for i, c in enumerate(p.configs.tolist())}
    row = {r: i for i, r in enumerate(p.index.tolist())}
    cost: Floats = p.cost[[row[r] for r in rows.tolist()], [column[c] for c in chosen.tolist()]] / UNIT
    return cost


def _scored(strategy: str, settings: Settings, folds: list[tuple[Floats, int]]) -> Candidate:
    cost = np.concatenate([f[0] for f in folds])
    mean = math.fsum(np.minimum(cost, INVALID).tolist()) / len(cost)
    return Candidate(strategy, settings, mean, sum(f[1] for f in folds) / len(folds), cost)


def pick(scored: list[Candidate], default: Candidate, prefer: str) -> Candidate:
    """The best held-out mean, doubt and ties resolved.

    With few scenarios the best mean is often luck: the default settings stand where they are within one
    standard error of the paired difference, unless they give a smaller tree that is not within the tolerance.
    Then a smaller tree wins where it is surely (by one standard error) within the tolerance of that choice,
    and its mean is within the tolerance of the best.
    """
    best = min(scored, key=lambda c: (c.mean, c.leaves))
    tolerance = TOLERANCE[prefer]
    if prefer == "accuracy" and len(best.loss) > joint.SMALL:
        tolerance = LARGE_TOLERANCE
    chosen = best
    if default.mean - best.mean <= max(_error(default, best), 0.0) and (
        default.leaves >= best.leaves or default.mean <= best.mean + tolerance
    ):
        chosen = default
    doubt = 1.0 if prefer == "accuracy" else 0.0
    near = [
        c
        for c in scored
        if c.mean <= best.mean + tolerance and c.mean + doubt * _error(c, chosen) <= chosen.mean + tolerance
    ]
    return min([*near, chosen], key=lambda c: (c.leaves, c.settings.max_configs, c.mean))


def _error(a: Candidate, b: Candidate) -> float:
    """Standard error of the mean difference of two candidates on the same held-out scenarios."""
    difference = a.loss - b.loss
    spread = difference - math.fsum(difference.tolist()) / len(difference)
    return math.sqrt(math.fsum((spread**2).tolist())) / len(difference)


def record(chosen: Candidate, compared: list[Candidate], costs_known: bool) -> dict[str, Any]:
    """The choice as JSON data; held-out figures of the chosen candidate where costs are known."""
    if not compared:
        return {"note": f"fewer than {MIN_GROUPS} groups of scenarios: no cross-validation, a small default"}
    return {
        "held_out": _described(chosen) | (_figures(chosen.cost) if costs_known else {}),
        "alternatives": [_described(c) for c in compared],
        "folds": FOLDS,
    }


def _figures(cost: Floats) -> dict[str, Any]:
    """Figures as `heurgen audit` gives them, over the held-out scenarios of all folds."""
    valid = sorted(cost[cost < UNCOVERED].tolist())
    n = len(valid)
    figures: dict[str, Any] = {"n_scenarios": len(cost), "invalid_share": round(1 - n / len(cost), 6)}
    if n:
        figures["geomean_slowdown"] = round(math.exp(math.fsum(valid) / n), 6)
        figures["p95_slowdown"] = round(math.exp(valid[min(n - 1, int(0.95 * n))]), 6)
        figures["max_slowdown"] = round(math.exp(valid[-1]), 6)
        figures["within_1_1"] = round(sum(x <= math.log(1.1) for x in valid) / n, 6)
    return figures


def _described(c: Candidate) -> dict[str, Any]:
    return {
        "strategy": c.strategy,
        "max_configs": c.settings.max_configs,
        "price": c.settings.price,
        "leaves": round(c.leaves, 2),
        "mean_log_slowdown": round(c.mean, 6),
    }
