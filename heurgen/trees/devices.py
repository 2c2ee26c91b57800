"""Several devices of one vendor: one tree for all, one that knows features of the device, or one a device.

The forms are compared over the same folds of scenarios, each at the sizes that were decided for it on its whole
table; a form that is not surely better loses to a simpler one. Trees of their own may win by having more leaves
together: then a tree for all is decided once more with room for as many. What ships for a GPU that nobody measured is
tried on every device in turn, with that device's rows left out of training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heurgen import ir
from heurgen.logs.costs import CostTable
from heurgen.logs.devices import failing_devices, opposite_winners
from heurgen.trees import auto, constants
from heurgen.trees.auto import Progress
from heurgen.trees.build import choices
from heurgen.trees.labels import without_slowdowns
from heurgen.trees.learn import Decided, fit_decided, refit
from heurgen.trees.options import FitOptions
from heurgen.trees.preference import error, held_out_cost, mean_cost
from heurgen.trees.problem import NOT_WINNER, Bools, Floats, Ints, groups, problem
from heurgen.trees.record import figures
from heurgen.trees.specialise import specialised

POOLED, FEATURED, OWN = "pooled", "pooled with device features", "one tree a device"


@dataclass(frozen=True, slots=True)
class DeviceTables:
    """One vendor's table in three forms. Rows of the first two are the same scenarios in the same order.

    pooled    no column of it is a feature of the device
    featured  with such columns; None where none is known
    own       a table a device, its rows in the order that they have in `pooled`
    looked_up   columns of `featured` that a launch is not asked for: what each holds on every device
    capability  of each device, where it is known
    """

    pooled: CostTable
    featured: CostTable | None
    own: tuple[CostTable, ...]
    looked_up: Mapping[str, Mapping[str, float]]
    capability: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    table: CostTable
    selector: ir.Selector
    decided: Decided


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A form with its held-out log-slowdowns, those of all scenarios for each repeat of the folds."""

    name: str
    cost: Floats
    leaves: int
    configs: int

    @property
    def mean(self) -> float:
        return mean_cost(self.cost)


def fit_devices(
    tables: DeviceTables,
    options: FitOptions,
    progress: Progress = lambda done, total: None,
    *,
    compare: bool = True,
) -> tuple[ir.Selector, ...]:
    """The selectors of the best form: the vendor's, then those of devices, where the form has such.

    The vendor's selector records what was compared (`choice["device_forms"]`), and what a device that is not in the
    log is to expect (`choice["unknown_device"]`). Without `compare` it is one tree a device, and nothing recorded.
    """
    if not compare:
        return _shipped(tables, OWN, _fitted(replace(tables, featured=None), options, progress))
    fits = _fitted(tables, options, progress)
    pooled, _, own = fits
    if not pooled.decided.regime.validates:
        return (pooled.selector,)
    folds = list(_folds(pooled))
    forms = [*_shared_forms(fits, options, folds), _own_form(tables, own, options, folds)]
    regime = pooled.decided.regime
    chosen = _chosen(forms, regime.tolerance, regime.repeats)
    leaves_are_open = options.strategy == "auto" and options.max_leaves is None
    if leaves_are_open and chosen.name == OWN and chosen.leaves > forms[0].leaves:
        fits = _with_room(tables, fits, chosen.leaves, options, progress)
        forms = [*_shared_forms(fits, options, folds), chosen]
        chosen = _chosen(forms, regime.tolerance, regime.repeats)
    shipped = _shipped(tables, chosen.name, fits)
    record = {
        "device_forms": _record(tables, forms, chosen, regime.repeats),
        "unknown_device": _unknown(tables, chosen, fits, shipped[1:], options),
        "devices": list(_warnings(tables, shipped)),
    }
    first = replace(shipped[0], choice={**shipped[0].choice, **record})
    return (without_slowdowns(first), *shipped[1:])


Fits = tuple[_Fit, _Fit | None, tuple[_Fit, ...]]


def _fitted(tables: DeviceTables, options: FitOptions, progress: Progress) -> Fits:
    """Every form fitted on its whole table."""
    found = _fits([*_shared(tables), *tables.own], options, progress)
    has = tables.featured is not None
    return found[0], found[1] if has else None, tuple(found[1 + has :])


def _with_room(
    tables: DeviceTables, fits: Fits, leaves: int, options: FitOptions, progress: Progress
) -> Fits:
    """The fits, each tree for all devices decided anew with room for so many leaves.

    At its own sizes it stops where twice the leaves gain too little on all scenarios, as each device's tree does on its
    own: of 6,383 scenarios of attention one of 56 leaves is 1.0545 held out, two of 118 are 1.0518, one of 113 1.0479.
    """
    pooled, *featured = _fits(_shared(tables), replace(options, max_leaves=leaves), progress)
    return pooled, featured[0] if featured else None, fits[2]


def _shared(tables: DeviceTables) -> list[CostTable]:
    """The tables of trees for all devices."""
    return [tables.pooled, *([tables.featured] if tables.featured else [])]


def _fits(wanted: Sequence[CostTable], options: FitOptions, progress: Progress) -> list[_Fit]:
    # A table takes time with its scenarios.
    sizes = [t.n_scenarios for t in wanted]
    found: list[_Fit] = []
    for i, table in enumerate(wanted):

        def tell(done: int, of: int, before: int = sum(sizes[:i]), size: int = sizes[i]) -> None:
            progress(before + size * done // of, sum(sizes))

        found.append(_Fit(table, *fit_decided(table, options, tell)))
    return found


# --- held-out costs -----------------------------------------------------------------------------------------


def _folds(pooled: _Fit) -> Iterator[tuple[Ints, Ints]]:
    """(training, held out) rows of every fold of every repeat: a group is held out on all devices at once.

    Groups are numbered as where the pooled tree's sizes are compared, so that figures of that tree agree.
    """
    p = problem(pooled.table)
    group = np.empty(p.n_real, dtype=np.int64)
    group[p.index] = groups(p)
    for held in auto.held_out_groups(pooled.decided.regime):
        yield np.flatnonzero(~held[group]), np.flatnonzero(held[group])


def _shared_forms(fits: Fits, options: FitOptions, folds: Sequence[tuple[Ints, Ints]]) -> list[_Form]:
    """Of the trees for all devices."""
    pooled, featured, _ = fits
    found = [_pooled_form(POOLED, pooled, options, folds)]
    if featured is not None:
        found.append(_pooled_form(FEATURED, featured, options, folds))
    return found


def _pooled_form(name: str, fit: _Fit, options: FitOptions, folds: Sequence[tuple[Ints, Ints]]) -> _Form:
    costs = [_costs(_refit(fit, train, options), fit.table, test) for train, test in folds]
    n_leaves = sum(1 for _ in ir.leaves(fit.selector.tree))
    return _Form(name, np.concatenate(costs), n_leaves, len(fit.selector.configs))


def _own_form(
    tables: DeviceTables, own: Sequence[_Fit], options: FitOptions, folds: Sequence[tuple[Ints, Ints]]
) -> _Form:
    costs = []
    for train, test in folds:
        cost = np.full(tables.pooled.n_scenarios, constants.LEARNER.uncovered)
        for fit, place in zip(own, _places(tables), strict=True):
            mine, held = (np.flatnonzero(np.isin(place, rows)) for rows in (train, test))
            # A device without a row to learn from has no answer.
            if len(mine) and len(held):
                cost[place[held]] = _costs(_refit(fit, mine, options), fit.table, held)
        costs.append(cost[test])
    n_leaves = sum(1 for fit in own for _ in ir.leaves(fit.selector.tree))
    configs = {config for fit in own for config in fit.selector.configs}
    return _Form(OWN, np.concatenate(costs), n_leaves, len(configs))


def _places(tables: DeviceTables) -> list[Ints]:
    """Of every device's table, the row in `pooled` of each of its rows."""
    device = np.array(tables.pooled.device)
    return [np.flatnonzero(device == t.device_name) for t in tables.own]


def _refit(fit: _Fit, rows: Ints, options: FitOptions) -> ir.Selector:
    """A fold's tree: of the decided depth alone, as where sizes are compared."""
    decided = replace(fit.decided, regime=replace(fit.decided.regime, every_depth=False))
    return refit(fit.table, rows, options, decided)


def _costs(selector: ir.Selector, table: CostTable, rows: Ints) -> Floats:
    """Log-slowdown of a selector's choices for rows of a table; `LEARNER.uncovered` where one was not valid.

    In a log of winners, NOT_WINNER where the choice is not the winner.
    """
    chosen = choices(selector, table, rows)
    found = np.where(chosen >= 0, table.log_slowdown[rows, chosen], np.nan)
    return held_out_cost(found) if table.costs_known else np.where(np.isfinite(found), found, NOT_WINNER)


def _chosen(forms: Sequence[_Form], tolerance: float, repeats: int) -> _Form:
    """The best mean; or a simpler form (an earlier one) that is within the tolerance of it, or a standard error.

    On devices that hardly differ, whose trees of their own saw other noise, that is the tree for all.
    """
    best = min(forms, key=lambda form: form.mean)
    return next(f for f in forms if f.mean <= best.mean + max(tolerance, error(f.cost, best.cost, repeats)))


# --- what ships ---------------------------------------------------------------------------------------------


def _shipped(tables: DeviceTables, chosen: str, fits: Fits) -> tuple[ir.Selector, ...]:
    pooled, featured, own = fits
    if chosen == POOLED:
        return (pooled.selector,)
    if chosen == OWN:
        devices = [fit.selector for fit in own]
    else:
        assert featured is not None
        tested = ir.tested(featured.selector.tree)
        if not tested & set(tables.looked_up):
            return (featured.selector,)
        devices = [_of_device(tables, featured, str(t.device_name)) for t in tables.own]
    alike = _stand_ins(tables, devices)
    named = (replace(s, capability=alike.get(str(s.device))) for s in devices)
    return (pooled.selector, *named)


def _of_device(tables: DeviceTables, featured: _Fit, device: str) -> ir.Selector:
    """The featured tree as it answers on one device."""
    values = {name: by_device[device] for name, by_device in tables.looked_up.items()}
    rows = np.flatnonzero(np.array(featured.table.device) == device)
    return specialised(featured.selector, featured.table, rows, device, values)


def _stand_ins(
    tables: DeviceTables, selectors: Sequence[ir.Selector], without: str | None = None
) -> dict[str, str]:
    """Device -> the capability that it answers for, for one device of each; `without`: as if that were not in the log.

    Of several devices of one capability the one whose selector costs the others least. Where all devices are of one
    capability none answers for it: the vendor's selector knows them all.
    """
    present = [s for s in selectors if s.device != without]
    known: dict[str, list[ir.Selector]] = {}
    for selector in present:
        if (capability := tables.capability.get(str(selector.device))) is not None:
            known.setdefault(capability, []).append(selector)
    device = np.array(tables.pooled.device)

    def loss(selector: ir.Selector, alike: Sequence[ir.Selector]) -> float:
        others = [str(s.device) for s in alike if s.device != selector.device]
        rows = np.flatnonzero(np.isin(device, others))
        return math.fsum(_costs(selector, tables.pooled, rows).tolist()) if len(rows) else 0.0

    return {
        str(min(alike, key=lambda s: (loss(s, alike), s.device)).device): capability
        for capability, alike in known.items()
        if len(alike) < len(present)
    }


# --- records ------------------------------------------------------------------------------------------------


def _record(tables: DeviceTables, forms: Sequence[_Form], chosen: _Form, repeats: int) -> dict[str, Any]:
    columns = () if tables.featured is None else tables.featured.columns
    known = {c.name for c in tables.pooled.columns}
    return {
        "chosen": chosen.name,
        "folds": constants.LEARNER.folds,
        "repeats": repeats,
        "device_features": [c.name for c in columns if c.name not in known and not c.derived],
        "compared": [
            {
                "form": form.name,
                **_figures(form.cost),
                "leaves": form.leaves,
                "configs": form.configs,
            }
            for form in forms
        ],
    }


def _unknown(
    tables: DeviceTables, chosen: _Form, fits: Fits, devices: Sequence[ir.Selector], options: FitOptions
) -> dict[str, Any]:
    """Every device as if nobody had measured it: what would answer there, and its figures.

    Its scenarios are held out by folds too, so that no other device was measured on the same shapes.
    """
    folds = list(_folds(fits[0]))[: constants.LEARNER.folds]
    costs, told = [], []
    for device in (str(t.device_name) for t in tables.own):
        name, cost = _left_out(tables, chosen.name, fits, devices, device, folds, options)
        costs.append(cost)
        told.append({"device": device, "answered_by": name, **_figures(cost)})
    return {**_figures(np.concatenate(costs)), "devices": told}


def _figures(cost: Floats) -> dict[str, Any]:
    return {**figures(cost), "mean_log_slowdown": round(mean_cost(cost), 6)}


def _left_out(
    tables: DeviceTables,
    chosen: str,
    fits: Fits,
    devices: Sequence[ir.Selector],
    left_out: str,
    folds: Sequence[tuple[Ints, Ints]],
    options: FitOptions,
) -> tuple[str, Floats]:
    """Who answers for a device whose rows training did not see, and its log-slowdowns there."""
    device = np.array(tables.pooled.device)
    stand_ins = {c: d for d, c in _stand_ins(tables, devices, left_out).items()}
    other = stand_ins.get(tables.capability.get(left_out, ""))
    fit, known = fits[0], device != left_out
    if other is not None and chosen == OWN:
        own = next(f for f in fits[2] if f.table.device_name == other)
        fit, known = replace(fit, decided=own.decided), device == other
    elif chosen == FEATURED and (other is not None or not devices):
        assert fits[1] is not None
        fit = fits[1]
        if other is not None:
            fit = replace(fit, table=_as(tables, fit.table, device == left_out, other))
    costs = []
    for train, test in folds:
        rows, asked = train[known[train]], test[device[test] == left_out]
        if len(rows) and len(asked):
            costs.append(_costs(_refit(fit, rows, options), fit.table, asked))
        else:
            costs.append(np.full(len(asked), constants.LEARNER.uncovered))
    return other or tables.pooled.vendor, np.concatenate(costs)


def _as(tables: DeviceTables, table: CostTable, rows: Bools, device: str) -> CostTable:
    """A table in which some rows have the features of another device, as far as a launch is not asked for them."""
    X = table.X.copy()
    for i, column in enumerate(table.columns):
        if column.name in tables.looked_up:
            X[rows, i] = tables.looked_up[column.name][device]
    return replace(table, X=X)


def _warnings(tables: DeviceTables, shipped: Sequence[ir.Selector]) -> Iterator[str]:
    if not tables.pooled.costs_known:
        return
    table = tables.pooled if tables.featured is None else tables.featured
    if len(shipped) == 1:
        yield from opposite_winners(tables.pooled)
    rows = np.arange(table.n_scenarios)
    chosen = choices(shipped[0], table, rows)
    for selector, place in zip(shipped[1:], _places(tables), strict=False):
        chosen[place] = choices(selector, table, place)
    yield from failing_devices(table, rows, chosen)
