"""The whole flow in one call: tuning log -> cost tables -> fitted trees -> IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from heurgen import expr
from heurgen._version import __version__
from heurgen.card import INTERPRETER
from heurgen.errors import LogError
from heurgen.ir import SCHEMA_VERSION, Derived, Feature, HeuristicModule, Parameter, Selector

if TYPE_CHECKING:
    from heurgen.costs import CostTable
    from heurgen.logs import TuningLog
    from heurgen.spec import KernelSpec
    from heurgen.trees import FitOptions

GroupBy = Literal["vendor", "device"]
Ranges = dict[str, tuple[float, float]]


def train(
    log: TuningLog,
    spec: KernelSpec,
    *,
    options: FitOptions | None = None,
    group_by: GroupBy = "vendor",
    tools: Mapping[str, Sequence[str]] | None = None,
) -> HeuristicModule:
    """Learn a module from a log.

    Args:
        log: what `read_logs` gave.
        spec: the spec it was read with.
        options: strategy and limits; default: `FitOptions()`, chosen by cross-validation.
        group_by: one selector per vendor, or one per device beside them.
        tools: what the data cards say of the measuring tools (`heurgen.card.read_tools`).

    Raises:
        LogError: the times are those of Triton's interpreter.
        UsageError: the options do not fit together, or need a package that is not installed.
    """
    from heurgen.costs import cost_tables

    return from_tables(cost_tables(log, spec, group_by=group_by), log, spec, options=options, tools=tools)


def from_tables(
    tables: Iterable[CostTable],
    log: TuningLog,
    spec: KernelSpec,
    *,
    options: FitOptions | None = None,
    tools: Mapping[str, Sequence[str]] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> HeuristicModule:
    """`train`, for a caller that has the cost tables already. `progress(done, total)` counts selectors."""
    from heurgen.trees import FitOptions, fit

    tables = tuple(tables)
    if any(INTERPRETER in t.device for t in tables):
        raise LogError(
            "holds times of Triton's interpreter, which say nothing about a GPU", hint="measure on the device"
        )
    selectors: list[Selector] = []
    for table in tables:
        progress(len(selectors), len(tables))
        selectors.append(_described(fit(table, options or FitOptions()), table))
    seen = _union([s.ranges for s in selectors])
    used = {name for s in selectors for name in s.parameters}
    return HeuristicModule(
        kernel=spec.name,
        features=_features(tables, spec, seen),
        derived=tuple(
            Derived(d.name, expr.to_text(d.expression), *seen.get(d.name, (None, None))) for d in spec.derived
        ),
        parameters=tuple(Parameter(p.name, p.type, p.optional) for p in spec.parameters if p.name in used),
        selectors=tuple(selectors),
        provenance=_provenance(tables, log, tools or {}),
    )


def _described(selector: Selector, table: CostTable) -> Selector:
    """A fitted selector with what only the table knows of its training data."""
    return replace(
        selector,
        device=table.device_name,
        devices=tuple(sorted(set(table.device))),
        ranges=_ranges(table),
        n_scenarios=table.n_scenarios,
        n_measurements=table.n_measurements,
        costs_known=table.costs_known,
    )


def _ranges(table: CostTable) -> Ranges:
    ranges: Ranges = {}
    for column, values in zip(table.columns, table.X.T, strict=True):
        if column.type == "category":
            continue
        low, high = float(values.min()), float(values.max())
        whole = column.type != "float"
        ranges[column.name] = (int(low), int(high)) if whole else (low, high)
    return ranges


def _union(parts: Sequence[Mapping[str, tuple[float, float]]]) -> Ranges:
    names = dict.fromkeys(name for part in parts for name in part)
    pairs = {name: [part[name] for part in parts if name in part] for name in names}
    return {name: (min(p[0] for p in pair), max(p[1] for p in pair)) for name, pair in pairs.items()}


def _features(tables: Sequence[CostTable], spec: KernelSpec, seen: Ranges) -> tuple[Feature, ...]:
    categories = {c.name: c.values for table in tables for c in table.columns}
    return tuple(
        Feature(f.name, f.type, f.unit, f.doc, categories[f.name], *seen.get(f.name, (None, None)))
        for f in spec.features
    )


def _provenance(
    tables: Sequence[CostTable], log: TuningLog, tools: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    whole = [t for t in tables if t.device_name is None]
    return {
        "heurgen": __version__,
        "schema_version": SCHEMA_VERSION,
        "log_hash": log.content_hash,
        "n_measurements": log.n_measurements,
        "n_failures": log.n_failures,
        "n_scenarios": sum(t.n_scenarios for t in whole),
        "devices": sorted({d for t in whole for d in t.device}),
        "tools": {tool: list(versions) for tool, versions in tools.items()},
    }
