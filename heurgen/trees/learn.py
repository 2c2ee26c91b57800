"""Cost table -> selector."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from heurgen.costs import CostTable
from heurgen.ir import MAX_DEPTH, Selector
from heurgen.trees import auto, optimal
from heurgen.trees.build import to_ir
from heurgen.trees.joint import Fitted, Settings, config_set, fit_joint, or_single
from heurgen.trees.node import tips
from heurgen.trees.options import DEFAULT_DEPTH, FitOptions, leaf_cap
from heurgen.trees.per_parameter import fit_per_parameter
from heurgen.trees.problem import Ints, config_order, problem
from heurgen.trees.refine import with_max_leaves


def fit(table: CostTable, options: FitOptions | None = None) -> Selector:
    """Learn the tree of one selector.

    The objective is the mean log-slowdown over scenarios. A scenario on which a config failed or was never
    measured costs that config `problem.UNCOVERED`, so that what ships for a region was measured on what the
    region serves; where no config covers a region, the one with fewest uncovered scenarios ships.

    Raises:
        UsageError: strategy "optimal" without the package pystreed.
    """
    return fit_rows(table, np.arange(table.n_scenarios), options or FitOptions())


def fit_rows(table: CostTable, rows: Ints, options: FitOptions) -> Selector:
    """`fit` on some of a table's scenarios."""
    with one_thread():
        return _fit_rows(table, rows, options)


def one_thread() -> AbstractContextManager[object]:
    """BLAS on one thread: its matrices are small here, and spinning threads on a busy host cost 20x."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    found: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return found


def _fit_rows(table: CostTable, rows: Ints, options: FitOptions) -> Selector:
    p = problem(table, rows)
    cap = leaf_cap(options, p.n_real)
    told: dict[str, Any] = {"requested": options.strategy}
    if options.strategy == "auto":
        chosen, compared = auto.choose(table, options, rows)
        told |= auto.record(chosen, compared, p)
        strategy, settings = chosen.strategy, _limited(chosen.settings, options, bool(compared))
    else:
        strategy = options.strategy
        depth = options.max_depth or (optimal.DEFAULT_DEPTH if strategy == "optimal" else DEFAULT_DEPTH)
        settings = Settings(options.max_configs, depth=depth, max_leaves=cap)
    if strategy == "per-parameter":
        overlay = (options.max_depth or DEFAULT_DEPTH) if options.strategy == "auto" else MAX_DEPTH
        fitted, extra = fit_per_parameter(p, table, settings, config_set(p, settings.max_configs), overlay)
        if options.strategy == "auto" or options.max_leaves is not None:
            fitted = or_single(p, Fitted(fitted.p, with_max_leaves(fitted.p, fitted.tree, cap)))
    elif strategy == "optimal":
        fitted, extra = optimal.fit_optimal(p, settings)
    else:
        fitted, extra = fit_joint(p, settings), {}
    return selector(fitted, table, rows, strategy, told | extra | set_cost(fitted, table, rows))


def _limited(settings: Settings, options: FitOptions, validated: bool) -> Settings:
    """What auto chose, within the caller's depth; a default chosen without validation keeps its own."""
    if options.max_depth is None:
        return settings
    if settings.depth < DEFAULT_DEPTH or not validated:
        return replace(settings, depth=min(settings.depth, options.max_depth))
    return replace(settings, depth=options.max_depth)


def set_cost(fitted: Fitted, table: CostTable, rows: Ints) -> dict[str, Any]:
    """What the configs that ship cost against the oracle, each scenario with the best of them (training)."""
    configs = fitted.p.configs[sorted({t.config for t in tips(fitted.tree)})]
    found: dict[str, Any] = {"configs": len(configs)}
    if table.costs_known:
        logs = table.log_slowdown[np.ix_(rows, configs)]
        best = np.where(np.isfinite(logs), logs, np.inf).min(axis=1)
        known = sorted(best[np.isfinite(best)].tolist())
        if known:
            found["configs_geomean_slowdown"] = round(math.exp(math.fsum(known) / len(known)), 6)
        found["configs_uncovered_scenarios"] = int(np.isinf(best).sum())
    return found


def selector(fitted: Fitted, table: CostTable, rows: Ints, strategy: str, choice: dict[str, Any]) -> Selector:
    """The selector of a fit; `configs` are the used ones in canonical order (by values, see `config_order`)."""
    place = {column: i for i, column in enumerate(config_order(table))}
    used = sorted({t.config for t in tips(fitted.tree)}, key=lambda i: place[int(fitted.p.configs[i])])
    return Selector(
        vendor=table.vendor,
        parameters=table.parameters,
        configs=tuple(table.configs[int(fitted.p.configs[i])] for i in used),
        tree=to_ir(fitted.p, fitted.tree, {i: n for n, i in enumerate(used)}, table),
        device=table.device_name,
        devices=tuple(sorted({table.device[r] for r in rows.tolist()})),
        n_scenarios=len(rows),
        n_measurements=table.n_measurements,
        costs_known=table.costs_known,
        strategy=strategy,
        choice=choice,
    )
