"""What is recorded of a choice by cross-validation: figures, the curve of sizes, every held-out scenario."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heurgen.base.figures import summarise
from heurgen.logs.costs import CostTable
from heurgen.trees import constants
from heurgen.trees.auto import Contest
from heurgen.trees.preference import Candidate, held_out_cost
from heurgen.trees.problem import Bools, Floats, Problem
from heurgen.trees.regime import Regime

# Held-out scenarios that are recorded with what was chosen.
WORST = 12
# What `Settings` say beside sizes, each told where it holds.
RULES = ("by_rows", "lightly", "wary", "doubtful", "dense", "nameless")


def record(choice: Contest, table: CostTable, p: Problem, r: Regime) -> dict[str, Any]:
    """The choice as JSON data; held-out figures where costs are known, of launches that had no say in the sizes.

    `curve` has, for every number of configs, the best held-out mean over prices and the leaves it took.
    """
    if not choice.compared:
        few = constants.LEARNER.min_groups
        return {"note": f"fewer than {few} groups of scenarios: no cross-validation, a small default"}
    chosen = choice.chosen
    told: dict[str, Any] = {
        "held_out": _described(chosen)
        | ({} if p.labels_only else _held_out(choice.unseen or chosen, table, p)),
        "alternatives": [_described(c) for c in choice.compared],
        "curve": [_described(c) for c in curve(choice.compared)],
        "folds": constants.LEARNER.folds,
        "repeats": r.repeats,
        "limits": {
            "max_depth": max(r.max_depth, chosen.settings.depth),
            "max_leaves": max(r.max_leaves, chosen.settings.max_leaves),
            "max_configs": r.counts[-1],
        },
    }
    if choice.beyond is not None and choice.beyond.mean < chosen.mean - r.tolerance:
        told["beyond"] = _described(choice.beyond) | {"max_depth": choice.beyond.settings.depth}
    return told


def curve(compared: tuple[Candidate, ...]) -> list[Candidate]:
    """For every number of configs that was compared, ascending, the joint candidate of the best mean."""
    best: dict[int, Candidate] = {}
    for c in compared:
        known = best.get(c.settings.n_configs)
        if c.strategy == "joint" and (known is None or (c.mean, c.leaves) < (known.mean, known.leaves)):
            best[c.settings.n_configs] = c
    return [best[k] for k in sorted(best)]


def _held_out(c: Candidate, table: CostTable, p: Problem) -> dict[str, Any]:
    return figures(c.cost) | {"scenarios": scenarios(c, p), "worst": worst(c, table, p)}


def scenarios(c: Candidate, p: Problem) -> list[float | None]:
    """Held-out slowdown of every scenario in the order of the table's rows, rounded.

    Over several repeats their geometric mean; None where the choice was invalid in one of them.
    """
    place = np.searchsorted(np.sort(p.index), c.rows)
    count = np.bincount(place, minlength=p.n_real)
    # Costs are whole multiples of 2**-20: their sums are exact.
    mean = np.bincount(place, weights=c.cost, minlength=p.n_real) / np.maximum(count, 1)
    bad = (count == 0) | (np.bincount(place, weights=_invalid(c), minlength=p.n_real) > 0)
    return [None if b else _rounded(m) for m, b in zip(mean.tolist(), bad.tolist(), strict=True)]


def worst(c: Candidate, table: CostTable, p: Problem) -> list[dict[str, Any]]:
    """The worst held-out choice of each of the `WORST` worst scenarios, by row: invalid ones first, then slowest."""
    place = np.searchsorted(np.sort(p.index), c.rows)
    order = np.lexsort((c.chosen, place, -c.cost))
    first = dict.fromkeys(place[order].tolist())
    found = {row: int(at) for row, at in zip(place[order][::-1].tolist(), order[::-1].tolist(), strict=True)}
    bad = _invalid(c)
    return [
        {
            "scenario": row,
            "slowdown": None if bad[found[row]] else _rounded(float(c.cost[found[row]])),
            "chosen": list(table.configs[int(c.chosen[found[row]])]),
        }
        for row in list(first)[:WORST]
    ]


def _invalid(c: Candidate) -> Bools:
    return np.asarray(c.cost >= constants.LEARNER.uncovered)


def _rounded(log: float) -> float:
    return round(math.exp(log), 4)


def figures(cost: Floats) -> dict[str, Any]:
    """The headline figures over the held-out scenarios of all folds."""
    found = summarise(np.where(cost < constants.LEARNER.uncovered, cost, np.nan).tolist())
    values = {
        "invalid_share": found.invalid_share,
        "geomean_slowdown": found.geomean_slowdown,
        "p95_slowdown": found.p95_slowdown,
        "max_slowdown": found.max_slowdown,
        "within_1_1": found.within_1_1,
    }
    return {"n_scenarios": found.n_scenarios} | {k: round(v, 6) for k, v in values.items() if v is not None}


def _described(c: Candidate) -> dict[str, Any]:
    told = {
        "strategy": c.strategy,
        "max_configs": c.settings.n_configs,
        "price": c.settings.price,
        "leaves": round(c.leaves, 2),
        "configs": round(c.configs, 2),
        "mean_log_slowdown": round(c.mean, 6),
    }
    told |= {name: True for name in RULES if getattr(c.settings, name)}
    return told | ({"tail": c.settings.tail} if c.settings.tail else {})


def shortlist_record(size: int, best: Floats, choice: Floats, known: bool) -> dict[str, Any]:
    """Held-out figures of the best of a shortlist, and of the choice alone on the same folds.

    best, choice  float64 [N]  log-slowdowns; inf where nothing of the list, or not the choice, succeeded
    """
    told: dict[str, Any] = {"size": size, "folds": constants.LEARNER.folds}
    if not known:
        shares = {"agreement": np.isfinite(best).mean(), "choice_agreement": np.isfinite(choice).mean()}
        return told | {name: round(float(share), 6) for name, share in shares.items()}
    alone = figures(held_out_cost(choice))
    return told | figures(held_out_cost(best)) | {f"choice_{k}": v for k, v in alone.items() if "slow" in k}
