"""Strategy and size by cross-validation over scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heurgen.costs import CostTable
from heurgen.trees import joint
from heurgen.trees.build import route, to_ir
from heurgen.trees.joint import Fitted, Settings
from heurgen.trees.node import n_leaves
from heurgen.trees.options import DEFAULT_DEPTH, FitOptions, leaf_cap
from heurgen.trees.problem import UNIT, Ints, Problem, groups, problem

FOLDS = 5
MIN_GROUPS = 6
# A smaller tree wins within this mean log-slowdown of the best candidate's, by preference.
TOLERANCE = {"accuracy": 0.002, "small": 0.01}
# Few scenarios: half the configs may generalise better.
SMALL = 500


@dataclass(frozen=True, slots=True)
class Candidate:
    """What cross-validation compares, with the mean held-out log-slowdown and leaves that it found."""

    strategy: str
    settings: Settings
    mean: float = math.nan
    leaves: float = 0.0
    error: float = 0.0


def choose(table: CostTable, options: FitOptions, rows: Ints | None = None) -> tuple[Candidate, list[Candidate]]:
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
    found: dict[tuple[str, Settings], list[tuple[Any, int]]] = {}
    for held in range(int(fold.max()) + 1):
        test = p.index[fold == held]
        part = problem(table, p.index[fold != held])
        for strategy, settings, fitted in _fits(part, options, cap):
            loss = losses(table, p, fitted, test)
            found.setdefault((strategy, settings), []).append((loss, n_leaves(fitted.tree)))
    scored = [_scored(strategy, settings, folds) for (strategy, settings), folds in found.items()]
    return _pick(scored, found, options), scored


def _fits(p: Problem, options: FitOptions, cap: int) -> Iterator[tuple[str, Settings, Fitted]]:
    """Every candidate fitted: a tree is grown once per config count and pruned at every price."""
    counts = [options.max_configs]
    if p.n_real <= SMALL and options.max_configs > 1:
        counts.append((options.max_configs + 1) // 2)
    for count in counts:
        small = joint.prepared(p, count)
        tree = joint.grow(small, DEFAULT_DEPTH, cap)
        for price in joint.PRICES:
            pruned = joint.finish(small, tree, joint.price_units(price, p.n_real), cap)
            yield "joint", Settings(count, price, DEFAULT_DEPTH, cap), Fitted(small, pruned)


def losses(table: CostTable, p: Problem, fitted: Fitted, rows: Ints) -> Any:
    """Costs [n] of what a fit chooses for rows of the table, as the problem prices them (per UNIT)."""
    numbers = {i: i for i in range(fitted.p.cost.shape[1])}
    tree = to_ir(fitted.p, fitted.tree, numbers, table)
    chosen = fitted.p.configs[route(tree, table.columns, table.X[rows])]
    column = {c: i for i, c in enumerate(p.configs.tolist())}
    row = {r: i for i, r in enumerate(p.index.tolist())}
    return p.cost[[row[r] for r in rows.tolist()], [column[c] for c in chosen.tolist()]] / UNIT


def _scored(strategy: str, settings: Settings, folds: list[tuple[Any, int]]) -> Candidate:
    loss = np.concatenate([f[0] for f in folds]).tolist()
    mean = math.fsum(loss) / len(loss)
    leaves = sum(f[1] for f in folds) / len(folds)
    return Candidate(strategy, settings, mean, leaves)


def _pick(
    scored: list[Candidate], found: dict[tuple[str, Settings], list[tuple[Any, int]]], options: FitOptions
) -> Candidate:
    """The smallest candidate that is within the tolerance of the best.

    For accuracy the tolerance is 0.002, or half the standard error of the paired difference where that is
    less: with thousands of scenarios a difference of 0.001 is no tie.
    """
    best = min(scored, key=lambda c: (c.mean, c.leaves))
    base = np.concatenate([f[0] for f in found[best.strategy, best.settings]])
    near = []
    for c in scored:
        difference = np.concatenate([f[0] for f in found[c.strategy, c.settings]]) - base
        error = math.sqrt(math.fsum((difference**2).tolist())) / len(difference)
        tolerance = TOLERANCE[options.prefer]
        if options.prefer == "accuracy":
            tolerance = min(tolerance, 0.5 * error)
        if c.mean <= best.mean + tolerance:
            near.append(replace(c, error=error))
    return min(near, key=lambda c: (c.leaves, c.settings.max_configs, c.mean))


def record(chosen: Candidate, compared: list[Candidate]) -> dict[str, Any]:
    """The choice as JSON data."""
    if not compared:
        return {"note": f"fewer than {MIN_GROUPS} groups of scenarios: no cross-validation, a small default"}
    return {
        "held_out": _described(chosen),
        "alternatives": [_described(c) for c in compared],
        "folds": FOLDS,
    }


def _described(c: Candidate) -> dict[str, Any]:
    return {
        "strategy": c.strategy,
        "max_configs": c.settings.max_configs,
        "price": c.settings.price,
        "leaves": round(c.leaves, 2),
        "mean_log_slowdown": round(c.mean, 6),
    }
