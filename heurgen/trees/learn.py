"""Cost table -> selector."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heurgen.ir import MAX_DEPTH, Selector, leaves
from heurgen.logs.costs import CostTable
from heurgen.logs.devices import failing_devices, opposite_winners
from heurgen.trees import auto, constants, optimal
from heurgen.trees.alternatives import listed_costs, relabelled, with_alternatives
from heurgen.trees.auto import Progress
from heurgen.trees.build import choices, to_ir
from heurgen.trees.configs import USUAL
from heurgen.trees.joint import Fitted, Settings, fit_joint, or_single, pool
from heurgen.trees.labels import without_slowdowns
from heurgen.trees.node import tips
from heurgen.trees.options import FitOptions
from heurgen.trees.per_parameter import fit_per_parameter
from heurgen.trees.problem import Floats, Ints, Problem, config_order, device_of, groups, problem
from heurgen.trees.record import record, shortlist_record
from heurgen.trees.refine import with_max_leaves
from heurgen.trees.regime import Regime, regime, ruled, spare_leaves, spare_tests


def fit(
    table: CostTable,
    options: FitOptions | None = None,
    progress: Progress = lambda done, total: None,
) -> Selector:
    """Learn the tree of one selector; `progress(done, total)` counts its steps.

    The objective is coverage first, then the mean log-slowdown over scenarios: what ships for a region was measured
    on what the region serves, and where no config covers a region, one with fewest uncovered scenarios ships.

    Raises:
        UsageError: strategy "optimal" without the package pystreed.
    """
    return fit_rows(table, np.arange(table.n_scenarios), options or FitOptions(), progress)


def fit_rows(
    table: CostTable,
    rows: Ints,
    options: FitOptions,
    progress: Progress = lambda done, total: None,
) -> Selector:
    """`fit` on some of a table's scenarios."""
    with one_thread():
        return without_slowdowns(_fit_rows(table, rows, options, progress)[0])


def one_thread() -> AbstractContextManager[object]:
    """BLAS on one thread: its matrices are small here, and spinning threads on a busy host cost 20x."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    found: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return found


@dataclass(frozen=True, slots=True)
class Decided:
    """Strategy, sizes and rules of one table: what is decided once, and holds for every part of the table."""

    strategy: str
    settings: Settings
    regime: Regime


def fit_decided(table: CostTable, options: FitOptions, progress: Progress) -> tuple[Selector, Decided]:
    """`fit`, and what it decided."""
    with one_thread():
        found, decided = _fit_rows(table, np.arange(table.n_scenarios), options, progress)
    return without_slowdowns(found), decided


def refit(table: CostTable, rows: Ints, options: FitOptions, decided: Decided) -> Selector:
    """The tree of some of a table's scenarios as it was decided; without a record or alternatives."""
    with one_thread():
        fitted, _ = _fitted(ruled(table, rows, decided.regime), table, options, decided)
    return selector(fitted, table, rows, decided.strategy, {})


def _fit_rows(
    table: CostTable, rows: Ints, options: FitOptions, progress: Progress
) -> tuple[Selector, Decided]:
    p = problem(table, rows)
    r = regime(p, options, device_of(table, p))
    p = ruled(table, rows, r, p.configs)
    told: dict[str, Any] = {"requested": options.strategy}
    if r.by_chance or r.searched:
        told["estimated_cells" if r.by_chance else "lost_cells"] = round(float(p.untried.mean()), 6)
    if r.flaky:
        told["flaky_cells"] = r.flaky
    if options.strategy == "auto":
        choice = auto.choose(table, options, p, r, progress)
        told |= record(choice, table, p, r)
        decided = Decided(choice.chosen.strategy, choice.chosen.settings, r)
    else:
        decided = Decided(options.strategy, _asked(options, r), r)
    fitted, extra = _fitted(p, table, options, decided)
    found = selector(fitted, table, rows, decided.strategy, told | extra | set_cost(fitted, table, rows))
    found = with_alternatives(found, table, rows, options.shortlist)
    if options.shortlist and r.validates:
        listed = _held_out_shortlists(p, table, options, decided)
        found = replace(found, choice={**found.choice, "shortlist": listed})
    if table.costs_known and len(set(table.device)) > 1:
        devices = [*opposite_winners(table), *failing_devices(table, rows, choices(found, table, rows))]
        found = replace(found, choice={**found.choice, "devices": devices})
    return found, decided


def _fitted(
    p: Problem, table: CostTable, options: FitOptions, decided: Decided
) -> tuple[Fitted, dict[str, Any]]:
    strategy, s, r = decided.strategy, decided.settings, decided.regime
    if strategy == "optimal":
        return optimal.fit_optimal(p, r, s)
    if strategy == "joint":
        return fit_joint(p, r, s), {}
    overlay = r.max_depth if options.strategy == "auto" else MAX_DEPTH
    fitted, extra = fit_per_parameter(p, table, s, pool(p, r).best(s), overlay)
    if options.strategy == "auto" or options.max_leaves is not None:
        fitted = or_single(p, Fitted(fitted.p, with_max_leaves(fitted.p, fitted.tree, r.max_leaves)))
    return fitted, extra


def _held_out_shortlists(
    p: Problem, table: CostTable, options: FitOptions, decided: Decided
) -> dict[str, Any]:
    """The best of every held-out scenario's shortlist, beside the choice, over the folds of one repeat."""
    group, best, first = groups(p), list[Floats](), list[Floats]()
    for held in auto.held_out_groups(replace(decided.regime, repeats=1)):
        out = held[group]
        train, test = np.sort(p.index[~out]), p.index[out]
        found = refit(table, train, options, decided)
        costs = listed_costs(with_alternatives(found, table, train, options.shortlist), table, test)
        best.append(costs.min(axis=1))
        first.append(costs[:, 0])
    return shortlist_record(options.shortlist, np.concatenate(best), np.concatenate(first), table.costs_known)


def _asked(options: FitOptions, r: Regime) -> Settings:
    """What a caller of one strategy asked for, and defaults."""
    depth = options.max_depth or (optimal.DEFAULT_DEPTH if options.strategy == "optimal" else r.max_depth)
    price, count = constants.LEARNER.price, options.max_configs or USUAL
    tail, spare = options.tail or 0.0, spare_tests(options)
    return Settings(count, price, depth, r.max_leaves, tail, r.few, spare, spare_leaves(options, r))


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
    tree = to_ir(fitted.p, fitted.tree, sorted({t.config for t in tips(fitted.tree)}), table)
    used = sorted({leaf.config for leaf in leaves(tree)}, key=config_order(table).index)
    renumbered = (replace(leaf, config=used.index(leaf.config)) for leaf in leaves(tree))
    return Selector(
        vendor=table.vendor,
        parameters=table.parameters,
        configs=tuple(table.configs[i] for i in used),
        tree=relabelled(tree, renumbered),
        device=table.device_name,
        devices=tuple(sorted({table.device[r] for r in rows.tolist()})),
        n_scenarios=len(rows),
        n_measurements=table.n_measurements,
        costs_known=table.costs_known,
        strategy=strategy,
        choice=choice,
    )
