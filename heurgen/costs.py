"""Tuning log -> cost table: scenario x config log-slowdowns; repeats, failures and missing cells resolved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heurgen import expr
from heurgen.errors import LogError
from heurgen.ir import ColumnType, Config
from heurgen.logs import Coded, TuningLog, combine
from heurgen.spec import KernelSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of `CostTable.X`: a feature, or a derived feature (type float).

    Categories are coded as their index in `values` (all of the spec's values, or those seen in the log, sorted,
    where the spec lists none); bools as 0 and 1.
    """

    name: str
    type: ColumnType
    derived: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """What one selector is trained on: S scenarios x C configs of one vendor (or of one device).

    Canonical: the same measurements give the same table whatever the order of rows and columns. Scenarios are
    sorted by their features in spec order, then device, then times, and only then scenario id; configs by their
    values, None first. Scenarios in which nothing succeeded are left out, and so are their measurements.

    X             float64 [S, F]  feature values, ints exact up to 2**53
    times         float64 [S, C]  median time in ms; NaN never measured, inf measured and failed
    log_slowdown  float64 [S, C]  ln(time / best time of the scenario); NaN and inf as in `times`
    noise         float64 [S]     relative noise of a time in that scenario (0.02: two percent)
    group         int64 [S]       scenarios equal in all features (derived left out) share a number; numbers
                                  are in the sorted order of the features, from 0
    scenario      ids, "" where the log has none
    device_name   the device of a device's table; None for a vendor's
    costs_known   False for winners-only logs: no scenario has two configs with a time
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

    @property
    def n_scenarios(self) -> int:
        return len(self.scenario)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Measured (scenario, config) pairs, sorted; `time` inf where the config failed."""

    scenario: Ints
    config: Ints
    rows: Ints
    time: Floats


def cost_tables(
    log: TuningLog, spec: KernelSpec, *, group_by: Literal["vendor", "device"] = "vendor"
) -> tuple[CostTable, ...]:
    """One cost table per vendor, in sorted order; `group_by="device"` adds one per device after its vendor's.

    A config measured several times in a scenario has the median of its successful times if more than half of the
    measurements succeeded, and counts as failed otherwise. See `_noise` for the noise.

    Raises:
        LogError: a derived feature is not finite.
    """
    cells = _cells(log)
    noise = _noise(log, cells, spec.log.noise)
    X = _feature_matrix(log, spec)
    scenario_vendor = log.vendor.codes[log.scenario_row]
    scenario_device = log.device.codes[log.scenario_row]
    tables: list[CostTable] = []
    for code, vendor in enumerate(log.vendor.values):
        mask = (scenario_vendor == code) & ~log.dropped
        if not mask.any():
            continue
        tables.append(_table(log, spec, str(vendor), None, mask, cells, noise, X))
        for device in np.unique(scenario_device[mask]).tolist() if group_by == "device" else ():
            name = str(log.device.values[device])
            own = mask & (scenario_device == device)
            tables.append(_table(log, spec, str(vendor), name, own, cells, noise, X))
    return tuple(tables)


# --- repeats ----------------------------------------------------------------------------------------------


def _sorted_rows(log: TuningLog) -> tuple[Ints, Ints]:
    """Rows by scenario, config and time (failures last), and where in them each cell begins."""
    order = np.lexsort((log.time, log.config, log.scenario))
    scenario, config = log.scenario[order], log.config[order]
    new = np.concatenate([[True], (scenario[1:] != scenario[:-1]) | (config[1:] != config[:-1])])
    return order, np.flatnonzero(new).astype(np.int64)


def _cells(log: TuningLog) -> _Cells:
    order, starts = _sorted_rows(log)
    time = log.time[order]
    n = np.diff(np.append(starts, len(order)))
    good = np.add.reduceat((~np.isnan(time)).astype(np.int64), starts)
    low, high = starts + np.maximum(good - 1, 0) // 2, starts + np.minimum(good // 2, n - 1)
    # Halving first cannot overflow and rounds as the mean of two does.
    median = np.where(good % 2 == 1, time[low], time[low] * 0.5 + time[high] * 0.5)
    median = np.where(2 * good > n, median, np.inf)
    return _Cells(log.scenario[order][starts], log.config[order][starts], n, median)


def _noise(log: TuningLog, cells: _Cells, default: float) -> Floats:
    """Relative noise per scenario [S]: the pooled coefficient of variation of its repeats, else `default`.

    sqrt(sum over cells and repeats of (t / mean of the cell - 1)**2  /  sum over cells of (repeats - 1)),
    over the cells with at least two successful repeats.
    """
    noise = np.full(log.n_scenarios, default)
    order, starts = _sorted_rows(log)
    time = log.time[order]
    good = np.add.reduceat((~np.isnan(time)).astype(np.int64), starts)
    repeated = np.flatnonzero(good > 1)
    squares: dict[int, list[float]] = {}
    degrees: dict[int, int] = {}
    for cell in repeated.tolist():
        scenario, count = int(cells.scenario[cell]), int(good[cell])
        times = time[starts[cell] : starts[cell] + count].tolist()
        mean = math.fsum(times) / count
        squares.setdefault(scenario, []).extend((t / mean - 1.0) ** 2 for t in times)
        degrees[scenario] = degrees.get(scenario, 0) + count - 1
    for scenario, terms in squares.items():
        noise[scenario] = math.sqrt(math.fsum(terms) / degrees[scenario])
    return noise


# --- features ---------------------------------------------------------------------------------------------


def _columns(log: TuningLog, spec: KernelSpec) -> tuple[TableColumn, ...]:
    columns = []
    for feature, coded in zip(spec.features, log.features, strict=True):
        seen = tuple(str(v) for v in coded.values) if feature.type == "category" else ()
        columns.append(TableColumn(feature.name, feature.type, values=feature.values or seen))
    return (*columns, *(TableColumn(d.name, "float", derived=True) for d in spec.derived))


def _feature_matrix(log: TuningLog, spec: KernelSpec) -> Floats:
    """Features and derived features of all scenarios [S, F]."""
    columns = []
    for column, coded in zip(_columns(log, spec), log.features, strict=False):
        codes = coded.codes[log.scenario_row]
        known = {v: i for i, v in enumerate(column.values)}
        values = [float(known[str(v)] if column.type == "category" else v or 0) for v in coded.values]
        columns.append(np.array(values)[codes])
    rows = [
        dict(zip((f.name for f in spec.features), row, strict=True))
        for row in zip(*(c.tolist() for c in columns), strict=True)
    ]
    for derived in spec.derived:
        values = [expr.evaluate(derived.expression, row) for row in rows]
        bad = next((i for i, v in enumerate(values) if not math.isfinite(v)), None)
        if bad is not None:
            used = {n: rows[bad][n] for n in sorted(expr.names(derived.expression))}
            given = ", ".join(f"{n} = {v!r}" for n, v in used.items())
            raise LogError(f"the derived feature is {values[bad]} for {given}", column=derived.name)
        columns.append(np.array(values) + 0.0)
    return np.column_stack(columns)


# --- one table --------------------------------------------------------------------------------------------


def _table(
    log: TuningLog,
    spec: KernelSpec,
    vendor: str,
    device: str | None,
    mask: NDArray[np.bool_],
    cells: _Cells,
    noise: Floats,
    X: Floats,
) -> CostTable:
    members = np.flatnonzero(mask)
    own = mask[cells.scenario]
    configs, column = np.unique(cells.config[own], return_inverse=True)
    row = np.searchsorted(members, cells.scenario[own])
    times = np.full((len(members), len(configs)), np.nan)
    times[row, column] = cells.time[own]
    order = _canonical_order(log, spec, members, X[members], times)
    members, times = members[order], times[order]
    n_features = len(spec.features)
    rows = log.scenario_row[members]
    return CostTable(
        kernel=spec.name,
        vendor=vendor,
        columns=_columns(log, spec),
        parameters=tuple(p.name for p in spec.parameters_of(vendor)),
        configs=_configs(log, spec, vendor, configs),
        X=X[members],
        times=times,
        log_slowdown=_log_slowdown(times),
        noise=noise[members],
        group=np.unique(X[members][:, :n_features], axis=0, return_inverse=True)[1]
        .reshape(-1)
        .astype(np.int64),
        scenario=tuple(log.scenario_id[m] for m in members.tolist()),
        device=tuple(str(log.device.values[c]) for c in log.device.codes[rows].tolist()),
        n_measurements=int(cells.rows[own].sum()),
        costs_known=bool((np.isfinite(times).sum(axis=1) > 1).any()),
        device_name=device,
    )


def _canonical_order(log: TuningLog, spec: KernelSpec, members: Ints, X: Floats, times: Floats) -> list[int]:
    """By features, device, times, id. Times come before the id so that renaming ids changes nothing else."""
    device = Coded(log.device.values, log.device.codes[log.scenario_row[members]])
    features = [_coded(X[:, i]) for i in range(len(spec.features))]
    place = combine([*features, device])
    order = np.argsort(place, kind="stable")
    counts = np.bincount(place)

    def key(member: int) -> tuple[int, list[float], str]:
        tied = counts[place[member]] > 1
        filled = np.nan_to_num(times[member], nan=-1.0, posinf=np.inf).tolist() if tied else []
        return int(place[member]), filled, log.scenario_id[members[member]]

    return sorted(order.tolist(), key=key)


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
