"""Products and ratios of sizes where the spec names no derived features: a spec and tables that know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from heurgen.ir import Selector
from heurgen.logs.costs import CostTable
from heurgen.spec.kernel_spec import KernelSpec

if TYPE_CHECKING:
    from heurgen.trees.products import Trial


def with_products(
    spec: KernelSpec, tables: Sequence[CostTable]
) -> tuple[KernelSpec, tuple[CostTable, ...], dict[str, Trial]]:
    """The spec and the tables of vendors whose trees are surely better held out with them; what was tried, by vendor.

    A vendor's table decides for those of its devices.
    """
    from heurgen.trees.products import sets, tried, with_columns

    trials: dict[str, Trial] = {}
    for table in tables:
        found = sets(table) if table.device_name is None and not spec.derived else ()
        if (trial := tried(table, found)) is not None:
            trials[table.vendor] = trial
    derived = {column.name: column for trial in trials.values() for column in trial.columns}
    wide = tuple(with_columns(t, trials[t.vendor].columns) if t.vendor in trials else t for t in tables)
    return replace(spec, derived=(*spec.derived, *derived.values())), wide, trials


def as_trained(tables: Sequence[CostTable], selectors: Sequence[Selector]) -> tuple[CostTable, ...]:
    """The tables with the products and ratios that `train` took by itself, as suggestions are beside these."""
    from heurgen.trees.products import sets, with_columns

    taken = {s.vendor: told for s in selectors if (told := s.choice.get("products", {})).get("taken")}
    columns = {
        t.vendor: next((found for found in sets(t) if len(found) == taken[t.vendor].get("columns")), ())
        for t in tables
        if t.vendor in taken and t.device_name is None
    }
    return tuple(with_columns(t, columns.get(t.vendor, ())) for t in tables)


def with_trial(selector: Selector, trials: Mapping[str, Trial]) -> Selector:
    """A vendor's selector with what was tried for it."""
    trial = trials.get(selector.vendor)
    if trial is None or selector.device is not None:
        return selector
    told = {
        "taken": bool(trial.columns),
        "columns": len(trial.columns),
        "geomean_with": round(trial.with_them, 6),
        "geomean_without": round(trial.without, 6),
    }
    return replace(selector, choice={**selector.choice, "products": told})
