"""The whole flow in one call: tuning log -> cost tables -> fitted trees -> IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from heurgen._version import __version__
from heurgen.base.errors import LogError
from heurgen.ir import SCHEMA_VERSION, Derived, Feature, HeuristicModule, Parameter, Selector, expr, tested
from heurgen.logs.card import INTERPRETER
from heurgen.ship.products import with_products, with_trial

if TYPE_CHECKING:
    from heurgen.logs.card import DeviceFacts
    from heurgen.logs.costs import CostTable
    from heurgen.logs.tuning_log import TuningLog
    from heurgen.spec.kernel_spec import KernelSpec
    from heurgen.trees import FitOptions
    from heurgen.trees.products import Trial

GroupBy = Literal["auto", "vendor", "device"]
Ranges = dict[str, tuple[float, float]]
Progress = Callable[[int, int], None]
Job = Callable[[Progress], Sequence[Selector]]


def train(
    log: TuningLog,
    spec: KernelSpec,
    *,
    options: FitOptions | None = None,
    group_by: GroupBy = "auto",
    tools: Mapping[str, Sequence[str]] | None = None,
    devices: Mapping[str, DeviceFacts] | None = None,
) -> HeuristicModule:
    """Learn a module from a log.

    Args:
        log: what `read_logs` gave.
        spec: the spec it was read with.
        options: strategy and limits; default: `FitOptions()`, chosen by cross-validation.
        group_by: one selector per vendor, or one per device beside them; "auto" compares these, and one selector
            that knows features of the device, for a vendor with several devices.
        tools: what the data cards say of the measuring tools (`heurgen.logs.card.read_tools`).
        devices: what they say of the devices (`heurgen.logs.card.read_devices`).

    Raises:
        LogError: the times are those of Triton's interpreter.
        UsageError: the options do not fit together, or need a package that is not installed; or there is no such
            `group_by`.
    """
    from heurgen.logs.costs import cost_tables

    tables = cost_tables(log, spec, group_by=group_by)
    return from_tables(tables, log, spec, options=options, group_by=group_by, tools=tools, devices=devices)


def from_tables(
    tables: Iterable[CostTable],
    log: TuningLog,
    spec: KernelSpec,
    *,
    options: FitOptions | None = None,
    group_by: GroupBy = "auto",
    tools: Mapping[str, Sequence[str]] | None = None,
    devices: Mapping[str, DeviceFacts] | None = None,
    progress: Progress = lambda done, total: None,
) -> HeuristicModule:
    """`train`, for a caller that has the cost tables already, those of the same `group_by`.

    `progress(done, total)` counts steps.
    """
    from heurgen.trees import FitOptions

    tables = tuple(tables)
    _check_measured(tables, log)
    options, named = options or FitOptions(), {d.name for d in spec.derived}
    trials: Mapping[str, Trial] = {}
    if options.strategy == "auto":
        progress(0, 1)  # it may take as long as the learning
        spec, tables, trials = with_products(spec, tables)
    found = _fitted(_jobs(tables, spec, options, group_by, devices or {}), progress)
    table_of = {(t.vendor, t.device_name): t for t in tables}
    named |= {name for s in found for name in tested(s.tree)}
    spec = replace(spec, derived=tuple(d for d in spec.derived if d.name in named))
    described = [_described(s, table_of[s.vendor, s.device], named) for s in found]
    selectors = [with_trial(s, trials) for s in described]
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


def _check_measured(tables: Sequence[CostTable], log: TuningLog) -> None:
    """LogError where times are those of Triton's interpreter."""
    if any(INTERPRETER in t.device for t in tables):
        path, line = log.cells.place(int((log.device.codes == log.device.values.index(INTERPRETER)).argmax()))
        said = "holds times of Triton's interpreter, which say nothing about a GPU"
        raise LogError(said, file=path, row=line, hint="measure on the device")


def _fitted(jobs: Sequence[Job], progress: Progress) -> list[Selector]:
    found: list[Selector] = []
    for i, job in enumerate(jobs):

        def tell(done: int, of: int, before: int = i) -> None:
            progress(before * of + done, len(jobs) * of)

        found += job(tell)
    return found


def _jobs(
    tables: Sequence[CostTable],
    spec: KernelSpec,
    options: FitOptions,
    group_by: GroupBy,
    facts: Mapping[str, DeviceFacts],
) -> list[Job]:
    """A fit for every vendor, of all its devices where it has tables of them."""
    from heurgen.ship.devices import device_tables
    from heurgen.trees import fit
    from heurgen.trees.devices import fit_devices

    def alone(table: CostTable, progress: Progress) -> tuple[Selector, ...]:
        return (fit(table, options, progress),)

    jobs: list[Job] = []
    for table in (t for t in tables if t.device_name is None):
        own = [t for t in tables if t.vendor == table.vendor and t.device_name is not None]
        if own:
            forms = device_tables(table, own, spec, facts)
            jobs.append(partial(fit_devices, forms, options, compare=group_by == "auto"))
        else:
            jobs.append(partial(alone, table))
    return jobs


def _described(selector: Selector, table: CostTable, named: Set[str]) -> Selector:
    """A fitted selector with what only the table knows of its training data. named: derived features that stay."""
    return replace(
        selector,
        device=table.device_name,
        devices=tuple(sorted(set(table.device))),
        ranges=_ranges(table, named),
        n_scenarios=table.n_scenarios,
        n_measurements=table.n_measurements,
        costs_known=table.costs_known,
    )


def _ranges(table: CostTable, named: Set[str]) -> Ranges:
    ranges: Ranges = {}
    for column, values in zip(table.columns, table.X.T, strict=True):
        if column.type == "category" or (column.derived and column.name not in named):
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
        replace(
            Feature(f.name, f.type, f.unit, f.doc, categories[f.name], *seen.get(f.name, (None, None))),
            unknown=f.unknown,
            aliases=f.aliases,
        )
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
