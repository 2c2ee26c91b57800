"""Tuning log -> cost table: scenario x config log-slowdowns; repeats, failures and missing cells resolved."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import LogError, UsageError, quoted
from heurgen.base.outline import outline
from heurgen.ir import ColumnType, Config, Value, expr
from heurgen.logs import frame
from heurgen.logs.coded import Coded, combine
from heurgen.logs.groups import grouped_features
from heurgen.logs.outcomes import UNTIMED
from heurgen.logs.tuning_log import TuningLog, cell_succeeds
from heurgen.spec.kernel_spec import DerivedColumn, KernelSpec

if TYPE_CHECKING:
    from pandas import DataFrame

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of `CostTable.X`: a feature, or a derived feature (type float).

    Categories are coded as their index in `values` (all of the spec's values, or those seen in the log,
    sorted, where the spec lists none); bools as 0 and 1. `expression`: what a derived feature follows from the given
    ones by, where that is known.
    """

    name: str
    type: ColumnType
    derived: bool = False
    values: tuple[str, ...] = ()
    expression: expr.Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """What one selector is trained on: S scenarios x C configs of one vendor (or of one device).

    Canonical: the same measurements give the same table whatever the order of rows and columns. Scenarios
    are sorted by their features in spec order, then device, times and noise, and only then scenario id;
    configs by their values, None first. Scenarios in which nothing succeeded are left out, with their
    measurements.

    X             float64 [S, F]  feature values, ints exact up to 2**53
    times         float64 [S, C]  median time in ms; NaN never measured, inf measured and failed
    log_slowdown  float64 [S, C]  ln(time / best time of the scenario); NaN and inf as in `times`
    noise         float64 [S]     relative noise of a time in that scenario (0.02: two percent)
    group         int64 [S]       scenarios equal in the features of `grouped` share a number; numbers are in the sorted
                                  order of these features, from 0
    scenario      ids, "" where the log has none
    device_name   the device of a device's table; None for a vendor's
    grouped       features that make a group: the spec's, else what `grouped_features` finds; empty: all given ones
    costs_known   False for winners-only logs: the spec says so, or no scenario has two configs that were measured
    pruned        what was not measured lost, says the spec; False where costs are not known
    """

    kernel: str
    vendor: str
    columns: tuple[TableColumn, ...]
    parameters: tuple[str, ...]
    configs: tuple[Config, ...]
    X: Floats
    times: Floats
    log_slowdown: Floats
    noise: Floats
    group: Ints
    scenario: tuple[str, ...]
    device: tuple[str, ...]
    n_measurements: int
    costs_known: bool
    device_name: str | None = None
    grouped: tuple[str, ...] = ()
    pruned: bool = False

    __repr__ = outline

    @property
    def n_scenarios(self) -> int:
        return len(self.scenario)

    def features_of(self, row: int) -> dict[str, Value]:
        """The features of a scenario (no derived ones) as a log or a caller of `select` would give them."""
        given = zip(self.columns, self.X[row].tolist(), strict=True)
        return {c.name: _decoded(c, x) for c, x in given if not c.derived}

    def to_frame(self) -> DataFrame:
        """A row a measured (scenario, config): vendor, device, scenario, features, derived ones, parameters, time_ms
        (inf: failed, NaN: a winner whose log does not say it), slowdown (NaN where costs are unknown).
        """
        rows, columns = np.nonzero(~np.isnan(self.times))
        features = [self.features_of(row) for row in range(self.n_scenarios)]
        given = {c.name: [features[r][c.name] for r in rows.tolist()] for c in self.columns if not c.derived}
        derived = {c.name: self.X[rows, i] for i, c in enumerate(self.columns) if c.derived}
        parameters = {
            name: [self.configs[c][i] for c in columns.tolist()] for i, name in enumerate(self.parameters)
        }
        slowdown = (
            np.exp(self.log_slowdown[rows, columns]) if self.costs_known else np.full(len(rows), np.nan)
        )
        place, times = {"scenario": self.scenario, "device": self.device}, self.times[rows, columns]
        return frame.make(
            {
                "vendor": [self.vendor] * len(rows),
                **{name: [values[r] for r in rows.tolist()] for name, values in place.items()},
                **given,
                **derived,
                **parameters,
                "time_ms": np.where(times == UNTIMED, np.nan, times),
                "slowdown": slowdown,
            }
        )

    def best(self, row: int) -> int:
        """The column of a scenario's fastest config; of equal ones the first."""
        return int(np.where(np.isfinite(self.times[row]), self.times[row], np.inf).argmin())

    def config_of(self, column: int) -> dict[str, Value]:
        return dict(zip(self.parameters, self.configs[column], strict=True))


def _decoded(column: TableColumn, value: float) -> Value:
    match column.type:
        case "category":
            return column.values[int(value)]
        case "float":
            return value
        case "int":
            return int(value)
        case "bool":
            return bool(value)


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """What the tables are cut from: measured (scenario, config) cells; noise and features per scenario.

    Cells are sorted by scenario, then config; `time` is inf where the config failed; `rows` counts
    measurements.
    """

    scenario: Ints
    config: Ints
    rows: Ints
    time: Floats
    noise: Floats
    X: Floats


def cost_tables(
    log: TuningLog, spec: KernelSpec, *, group_by: Literal["vendor", "device", "auto"] = "vendor"
) -> tuple[CostTable, ...]:
    """One cost table per vendor, in sorted order; `group_by="device"` adds one per device after its vendor's,
    `"auto"` where the vendor has several.

    A config measured several times in a scenario has the median of its successful times if more than half of
    the measurements succeeded, and counts as failed otherwise. See `_noise` for the noise.

    Raises:
        LogError: a derived feature is not finite.
        UsageError: `group_by` is none of the three, or the log is none; or it was read with another spec.
    """
    if not isinstance(log, TuningLog):
        raise UsageError(
            f"the log is a {type(log).__name__}, expected what read_logs gives",
            hint="read_logs takes files and pandas tables",
        )
    if group_by not in ("auto", "vendor", "device"):
        raise UsageError(f"unknown group_by {quoted(group_by)}", hint="one of auto, vendor, device")
    _check_read_with(log, spec)
    measured = _measured(log, spec)
    vendor_of, device_of = log.vendor.codes[log.scenario_row], log.device.codes[log.scenario_row]
    tables: list[CostTable] = []
    for code, vendor in enumerate(log.vendors):
        mask = (vendor_of == code) & ~log.dropped
        if not mask.any():
            continue
        grouped = spec.group or grouped_features(spec.features, measured.X[mask], device_of[mask])
        tables.append(_table(log, spec, measured, mask, vendor, None, grouped))
        devices = np.unique(device_of[mask]).tolist()
        if group_by == "device" or (group_by == "auto" and len(devices) > 1):
            tables += (
                _table(log, spec, measured, mask & (device_of == d), vendor, log.devices[d], grouped)
                for d in devices
            )
    return tuple(tables)


def _check_read_with(log: TuningLog, spec: KernelSpec) -> None:
    """UsageError for a spec of other columns than the log's: a log has them by their places, so that N would be M."""
    for role, own, given in (
        ("features", log.spec.features, spec.features),
        ("parameters", log.spec.parameters, spec.parameters),
    ):
        read, asked = ([f"{c.name} ({c.type})" for c in columns] for columns in (own, given))
        if read != asked:
            raise UsageError(
                f"the log was read with a spec of the {role} {', '.join(read)}, not {', '.join(asked)}",
                hint="read_logs(..., spec) reads it with this one",
            )


# --- repeats ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """The measurements of a log by cell (scenario and config), in order of the cells.

    order   int64 [N]      the log's rows by cell and time, failures last
    starts  int64 [cells]  where each begins in `order`
    n       int64 [cells]  how many it has
    good    int64 [cells]  how many of them succeeded
    median  float64 [cells]  of the successful times, ms; inf where the config counts as failed
    """

    order: Ints
    starts: Ints
    n: Ints
    good: Ints
    median: Floats


def repeats(log: TuningLog) -> Repeats:
    """Sort a log's measurements by cell."""
    order = np.lexsort((log.time, log.config, log.scenario))  # failures, which are NaN, last in their cell
    scenario, config, time = log.scenario[order], log.config[order], log.time[order]
    new = (scenario[1:] != scenario[:-1]) | (config[1:] != config[:-1])
    starts = np.flatnonzero(np.concatenate([[True], new]))
    n = np.diff(np.append(starts, len(order)))
    good = np.add.reduceat((~np.isnan(time)).astype(np.int64), starts)
    low, high = starts + np.maximum(good - 1, 0) // 2, starts + np.minimum(good // 2, n - 1)
    # Halving first cannot overflow, and rounds as the mean of two does.
    median = np.where(good % 2 == 1, time[low], time[low] * 0.5 + time[high] * 0.5)
    return Repeats(order, starts, n.astype(np.int64), good, np.where(cell_succeeds(good, n), median, np.inf))


def _measured(log: TuningLog, spec: KernelSpec) -> _Measured:
    cells = repeats(log)
    first = cells.order[cells.starts]
    scenario, time = log.scenario[first], log.time[cells.order]
    return _Measured(
        scenario=scenario,
        config=log.config[first],
        rows=cells.n,
        time=cells.median,
        noise=_noise(log.n_scenarios, scenario, cells.starts, cells.good, time, spec.log.noise),
        X=_feature_matrix(log, spec),
    )


def _noise(n: int, scenario: Ints, starts: Ints, good: Ints, time: Floats, default: float) -> Floats:
    """Relative noise per scenario [n]: the pooled coefficient of variation of its repeats, else `default`.

    sqrt(sum over cells and repeats of (t / mean of the cell - 1)**2  /  sum over cells of (repeats - 1)),
    over the cells with at least two successful repeats.
    """
    noise = np.full(n, default)
    squares: dict[int, list[float]] = {}
    degrees: dict[int, int] = {}
    for cell in np.flatnonzero(good > 1).tolist():
        times = time[starts[cell] : starts[cell] + good[cell]].tolist()
        mean = math.fsum(times) / len(times)
        own = int(scenario[cell])
        squares.setdefault(own, []).extend((t / mean - 1.0) ** 2 for t in times)
        degrees[own] = degrees.get(own, 0) + len(times) - 1
    for own, terms in squares.items():
        noise[own] = math.sqrt(math.fsum(terms) / degrees[own])
    return noise


# --- features ---------------------------------------------------------------------------------------------


def _columns(log: TuningLog, spec: KernelSpec) -> tuple[TableColumn, ...]:
    columns = []
    for feature, coded in zip(spec.features, log.features, strict=True):
        seen = tuple(str(v) for v in coded.values) if feature.type == "category" else ()
        columns.append(TableColumn(feature.name, feature.type, values=feature.values or seen))
    return (
        *columns,
        *(TableColumn(d.name, "float", derived=True, expression=d.expression) for d in spec.derived),
    )


def _feature_matrix(log: TuningLog, spec: KernelSpec) -> Floats:
    """Features and derived features of all scenarios [S, F]."""
    columns = []
    for column, coded in zip(_columns(log, spec), log.features, strict=False):
        known = {v: i for i, v in enumerate(column.values)}
        values = [float(known[str(v)] if column.type == "category" else v or 0) for v in coded.values]
        columns.append(np.array(values)[coded.codes[log.scenario_row]])
    names = [f.name for f in spec.features]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    columns += (_derived(d, rows, log) for d in spec.derived)
    return np.column_stack(columns)


def _derived(column: DerivedColumn, rows: list[dict[str, float]], log: TuningLog) -> Floats:
    """A derived feature by `expr.evaluate`, row by row, so that training sees the bits of generated code."""
    values = [expr.evaluate(column.expression, row) for row in rows]
    for scenario, (value, row) in enumerate(zip(values, rows, strict=True)):
        if not math.isfinite(value):
            given = ", ".join(f"{n} = {row[n]!r}" for n in sorted(expr.names(column.expression)))
            message = f"the derived feature is {value} where {given}"
            file, line = log.cells.place(int(log.scenario_row[scenario]))
            hint = "change it in the spec, or leave the row out"
            raise LogError(message, file=file, row=line, column=column.name, hint=hint)
    return np.array(values) + 0.0


# --- one table --------------------------------------------------------------------------------------------


def _table(
    log: TuningLog,
    spec: KernelSpec,
    measured: _Measured,
    mask: NDArray[np.bool_],
    vendor: str,
    device: str | None,
    grouped: tuple[str, ...],
) -> CostTable:
    """The table of the scenarios that `mask` [S] keeps."""
    members = np.flatnonzero(mask).astype(np.int64)
    own = mask[measured.scenario]
    configs, column = np.unique(measured.config[own], return_inverse=True)
    times = np.full((len(members), len(configs)), np.nan)
    times[np.searchsorted(members, measured.scenario[own]), column] = measured.time[own]
    order, group = _canonical_order(log, spec, measured, members, times, grouped)
    members, times = members[order], times[order]
    # A failure beside the success tells as much of a config as a time: where one config runs, the others are no losers.
    costs_known = not spec.log.winners_only and bool(((~np.isnan(times)).sum(axis=1) > 1).any())
    if not costs_known:  # of several winners of one scenario the fastest won
        times[np.isfinite(times) & (times > np.nanmin(times, axis=1, keepdims=True))] = np.nan
    return CostTable(
        kernel=spec.name,
        vendor=vendor,
        columns=_columns(log, spec),
        parameters=tuple(p.name for p in spec.parameters_of(vendor)),
        configs=_configs(log, spec, vendor, configs),
        X=measured.X[members],
        times=times,
        log_slowdown=_log_slowdown(times),
        noise=measured.noise[members],
        group=group[order],
        scenario=tuple(log.scenario_id[m] for m in members.tolist()),
        device=tuple(log.devices[c] for c in log.device.codes[log.scenario_row[members]].tolist()),
        n_measurements=int(measured.rows[own].sum()),
        costs_known=costs_known,
        pruned=spec.log.pruned and costs_known,
        device_name=device,
        grouped=grouped,
    )


def _canonical_order(
    log: TuningLog,
    spec: KernelSpec,
    measured: _Measured,
    members: Ints,
    times: Floats,
    grouped: tuple[str, ...],
) -> tuple[Ints, Ints]:
    """The order of a table's scenarios, and the group of each as it was before ordering.

    Times and noise come before the id, so that renaming ids moves nothing else.
    """
    features = [_coded(measured.X[members, i]) for i in range(len(spec.features))]
    device = Coded(log.device.values, log.device.codes[log.scenario_row[members]])
    place = combine([*features, device]).tolist()
    shared = {p for p, count in Counter(place).items() if count > 1}

    def key(member: int) -> tuple[int, list[float], float, str]:
        tied = place[member] in shared
        content = np.nan_to_num(times[member], nan=-1.0, posinf=np.inf).tolist() if tied else []
        return (
            place[member],
            content,
            float(measured.noise[members[member]]),
            log.scenario_id[members[member]],
        )

    together = [f for f, c in zip(features, spec.features, strict=True) if c.name in grouped]
    return np.array(sorted(range(len(members)), key=key), dtype=np.int64), combine(together)


def _coded(column: Floats) -> Coded:
    values, codes = np.unique(column, return_inverse=True)
    return Coded(tuple(values.tolist()), codes.astype(np.int64))


def _configs(log: TuningLog, spec: KernelSpec, vendor: str, configs: Ints) -> tuple[Config, ...]:
    columns = [
        [coded.values[c] for c in coded.codes[log.config_row[configs]].tolist()]
        for parameter, coded in zip(spec.parameters, log.parameters, strict=True)
        if parameter.exists_for(vendor)
    ]
    return tuple(zip(*columns, strict=True))


def _log_slowdown(times: Floats) -> Floats:
    """ln(time / best) by `math.log`: numpy's own logarithm differs in the last bit between processors."""
    with np.errstate(invalid="ignore"):
        ratio: Floats = times / np.nanmin(times, axis=1, keepdims=True)
    flat = ratio.reshape(-1)
    finite = np.isfinite(flat)
    flat[finite] = [math.log(r) for r in flat[finite].tolist()]
    return np.asarray(flat.reshape(times.shape))
