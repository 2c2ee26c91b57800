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
from heurgen.trees.problem import UNCOVERED, UNIT, Bools, Floats, Ints, Problem, groups, problem
from heurgen.trees.refine import with_max_leaves

FOLDS = 5
# Repeats of the folds. On the H200 log (70 scenarios), nested: 5 give 1.0490, 8 give 1.0435. On one of 404 scenarios a
# single division calls 16 and 32 configs equal; three (15 other folds) give 0.0425 and 0.0365.
MAX_REPEATS = 8
SCENARIOS_TO_FIT = 1280
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

    `cost` is UNCOVERED where the choice was invalid; such a choice counts as INVALID in `mean`.
    """

    strategy: str
    settings: Settings
    mean: float = math.nan
    leaves: float = 0.0
    cost: Floats = field(default_factory=lambda: np.zeros(0))


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
    found: dict[tuple[str, Settings], list[tuple[Floats, int]]] = {}
    for held in held_out_groups(n_groups):
        test = p.index[held[group]]
        part = problem(table, p.index[~held[group]])
        for strategy, settings, fitted in _fits(part, table, options, cap):
            cost = held_out_costs(table, p, fitted, test)
            found.setdefault((strategy, settings), []).append((cost, n_leaves(fitted.tree)))
    scored = [_scored(strategy, settings, folds) for (strategy, settings), folds in found.items()]
    tolerance = LARGE_TOLERANCE if p.n_real > joint.SMALL else TOLERANCE["accuracy"]
    tolerance = TOLERANCE["small"] if options.prefer == "small" else tolerance
    return pick(scored, tolerance, repeats(n_groups)), scored


def repeats(n_groups: int) -> int:
    """Divisions into folds: few scenarios take several, or luck decides."""
    return max(1, min(MAX_REPEATS, SCENARIOS_TO_FIT // n_groups))


def held_out_groups(n_groups: int) -> Iterator[Bools]:
    """For every fold of every repeat, which groups [n_groups] it holds out."""
    for repeat in range(repeats(n_groups)):
        fold = np.random.RandomState(repeat).permutation(n_groups) % min(FOLDS, n_groups)
        yield from (fold == k for k in range(int(fold.max()) + 1))


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


def pick(scored: list[Candidate], tolerance: float, n_repeats: int) -> Candidate:
    """The best held-out mean; or the smallest tree that is surely within the tolerance of it.

    Surely: by one standard error of the difference. Repeats hold the same scenarios out again, so they make
    the mean steadier but count once in its error.
    """
    best = min(scored, key=lambda c: (c.mean, c.leaves))
    near = [c for c in scored if c.mean + _error(c, best, n_repeats) <= best.mean + tolerance]
    return min([*near, best], key=lambda c: (c.leaves, c.settings.max_configs, c.mean))


def _error(a: Candidate, b: Candidate, n_repeats: int) -> float:
    """Standard error of the mean difference of two candidates on the same held-out scenarios."""
    difference = np.minimum(a.cost, INVALID) - np.minimum(b.cost, INVALID)
    spread = difference - math.fsum(difference.tolist()) / len(difference)
    return math.sqrt(math.fsum((spread**2).tolist()) * n_repeats) / len(difference)


def record(chosen: Candidate, compared: list[Candidate], p: Problem) -> dict[str, Any]:
    """The choice as JSON data; held-out figures of the chosen candidate where costs are known."""
    if not compared:
        return {"note": f"fewer than {MIN_GROUPS} groups of scenarios: no cross-validation, a small default"}
    return {
        "held_out": _described(chosen) | ({} if p.labels_only else _figures(chosen.cost)),
        "alternatives": [_described(c) for c in compared],
        "folds": FOLDS,
        "repeats": len(chosen.cost) // p.n_real,
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
