"""What a tuning log holds, what it lacks, and where it contradicts itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import printable
from heurgen.base.outline import outline
from heurgen.base.text import counted, table
from heurgen.ir import Value
from heurgen.logs.costs import CostTable
from heurgen.logs.groups import settings
from heurgen.logs.outcomes import OK, known_time
from heurgen.logs.outliers import StandOut, stand_out_notes, stand_outs
from heurgen.logs.tuning_log import TuningLog
from heurgen.spec.kernel_spec import KernelSpec

# A winner that leads by less than this is a near-tie.
NEAR_TIE = 0.02
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Counts of one vendor (`device` None) or of one device.

    `scenarios` are those of the cost table; `dropped` ones, in which no config succeeded, are not among them.
    `cells` are the (scenario, config) pairs of the table, `missing` those never measured, `failed` those that
    count as failed, `repeated` those measured more than once (in dropped scenarios too). `near_ties` are
    scenarios whose winner leads by less than NEAR_TIE. `noise` is the median over scenarios.
    """

    vendor: str
    device: str | None
    measurements: int
    failures: int
    scenarios: int
    dropped: int
    configs: int
    cells: int
    missing: int
    missing_share: float
    failed: int
    repeated: int
    near_ties: int
    noise: float | None


@dataclass(frozen=True, slots=True)
class ScenarioCounts:
    """One scenario of a cost table: configs measured, and failed among them; the best, and its relative lead
    over the second (None if there is none). `best_ms` is None for a winner whose log does not say its time.
    """

    vendor: str
    device: str
    scenario: str
    features: Mapping[str, Value]
    configs: int
    failed: int
    best_ms: float | None
    best_config: Mapping[str, Value]
    lead: float | None
    noise: float


@dataclass(frozen=True, slots=True)
class DroppedScenario:
    """A scenario in which no config succeeded."""

    vendor: str
    device: str
    scenario: str
    features: Mapping[str, Value]
    measurements: int


@dataclass(frozen=True, slots=True)
class ConfigCounts:
    """One config of one vendor: scenarios in which it was measured, failed, and won."""

    vendor: str
    config: Mapping[str, Value]
    scenarios: int
    failed: int
    wins: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Scenarios that no selector can tell apart and that need different configs.

    `scenarios` are two of the `n_scenarios` that share all features on a device. The other one's winner is
    slower than the scenario's own by `losses` (None: it fails), both times by more than the scenario's noise.
    """

    vendor: str
    device: str
    features: Mapping[str, Value]
    n_scenarios: int
    scenarios: tuple[str, str]
    winners: tuple[Mapping[str, Value], Mapping[str, Value]]
    losses: tuple[float | None, float | None]
    noise: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Validation:
    """The report of `heurgen validate`. Findings (exit 1) are `conflicts`; all else is information."""

    kernel: str
    content_hash: str
    measurements: int
    failures: int
    failures_by_status: Mapping[str, int]
    vendors: tuple[GroupCounts, ...]
    devices: tuple[GroupCounts, ...]
    scenarios: tuple[ScenarioCounts, ...]
    dropped: tuple[DroppedScenario, ...]
    configs: tuple[ConfigCounts, ...]
    conflicts: tuple[Conflict, ...]
    winners_only: tuple[str, ...]
    stand_out: tuple[StandOut, ...]
    notes: tuple[str, ...]

    __repr__ = outline

    def to_dict(self) -> dict[str, Any]:
        """JSON data with stable keys; every number is finite."""
        return {"schema_version": SCHEMA_VERSION, **_listed(asdict(self))}


def _listed(value: Any) -> Any:
    """Tuples as lists, so that the data equals what JSON gives back."""
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    return [_listed(v) for v in value] if isinstance(value, list | tuple) else value


def validate(log: TuningLog, tables: Sequence[CostTable], spec: KernelSpec) -> Validation:
    """Count and check. `tables` are the log's cost tables; those of single devices are not needed."""
    tables = [t for t in tables if t.device_name is None]
    disturbed = stand_outs(log)
    by_vendor = {t.vendor: t for t in tables}
    pairs = sorted({(t.vendor, d) for t in tables for d in t.device} | set(_vendor_devices(log)))
    return Validation(
        kernel=spec.name,
        content_hash=log.content_hash,
        measurements=log.n_measurements,
        failures=log.n_failures,
        failures_by_status=_failures(log),
        vendors=tuple(_group(log, by_vendor.get(v), v, None) for v in log.vendors),
        devices=tuple(_group(log, by_vendor.get(v), v, d) for v, d in pairs),
        scenarios=tuple(s for t in tables for s in _scenarios(t)),
        dropped=_dropped(log, spec),
        configs=tuple(c for t in tables for c in _configs(t)),
        conflicts=tuple(c for t in tables for c in _conflicts(t)),
        winners_only=tuple(t.vendor for t in tables if not t.costs_known),
        stand_out=disturbed,
        notes=(*log.notes, *stand_out_notes(disturbed, log)),
    )


# --- counts -----------------------------------------------------------------------------------------------


def _vendor_devices(log: TuningLog) -> list[tuple[str, str]]:
    codes = zip(
        log.vendor.codes[log.scenario_row].tolist(), log.device.codes[log.scenario_row].tolist(), strict=True
    )
    return sorted({(log.vendors[v], log.devices[d]) for v, d in codes})


def _failures(log: TuningLog) -> dict[str, int]:
    """Failed measurements by status, the most frequent first."""
    counts = np.bincount(log.status.codes, minlength=len(log.status.values)).tolist()
    named = [(str(s), n) for s, n in zip(log.status.values, counts, strict=True) if s != OK]
    return dict(sorted(named, key=lambda pair: (-pair[1], pair[0])))


def _group(log: TuningLog, table: CostTable | None, vendor: str, device: str | None) -> GroupCounts:
    rows = log.vendor.codes == log.vendors.index(vendor)
    if device is not None:
        rows &= log.device.codes == log.devices.index(device)
    own = rows[log.scenario_row]
    cells = np.unique(log.scenario[rows] * log.n_configs + log.config[rows], return_counts=True)[1]
    times = np.empty((0, 0)) if table is None else table.times
    noise = np.empty(0) if table is None else table.noise
    if table is not None and device is not None:
        members = np.array([d == device for d in table.device])
        times, noise = times[members], noise[members]
        times = times[:, ~np.isnan(times).all(axis=0)] if len(times) else np.empty((0, 0))
    missing = int(np.isnan(times).sum())
    return GroupCounts(
        vendor=vendor,
        device=device,
        measurements=int(rows.sum()),
        failures=int(np.isnan(log.time[rows]).sum()),
        scenarios=len(times),
        dropped=int(log.dropped[own].sum()),
        configs=times.shape[1],
        cells=times.size,
        missing=missing,
        missing_share=missing / times.size if times.size else 0.0,
        failed=int(np.isinf(times).sum()),
        repeated=int((cells > 1).sum()),
        near_ties=int((_leads(times) < NEAR_TIE).sum()),
        noise=float(np.median(noise)) if len(noise) else None,
    )


def _leads(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much slower than the best the second config is, relative, per scenario; inf where there is none."""
    if times.shape[1] < 2:
        return np.full(len(times), np.inf)
    best = np.sort(np.nan_to_num(times, nan=np.inf, posinf=np.inf), axis=1)[:, :2]
    return np.asarray(best[:, 1] / best[:, 0] - 1.0)


def _scenarios(table: CostTable) -> list[ScenarioCounts]:
    leads = _leads(table.times).tolist()
    winners = _winners(table).tolist()
    return [
        ScenarioCounts(
            vendor=table.vendor,
            device=table.device[row],
            scenario=table.scenario[row],
            features=table.features_of(row),
            configs=int((~np.isnan(table.times[row])).sum()),
            failed=int(np.isinf(table.times[row]).sum()),
            best_ms=known_time(float(table.times[row, winners[row]])),
            best_config=table.config_of(winners[row]),
            lead=leads[row] if math.isfinite(leads[row]) else None,
            noise=float(table.noise[row]),
        )
        for row in range(table.n_scenarios)
    ]


def _winners(table: CostTable) -> NDArray[np.int64]:
    """The fastest config of each scenario; of equal ones, the first."""
    return np.asarray(
        np.argmin(np.nan_to_num(table.times, nan=np.inf, posinf=np.inf), axis=1), dtype=np.int64
    )


def _dropped(log: TuningLog, spec: KernelSpec) -> tuple[DroppedScenario, ...]:
    n = np.bincount(log.scenario, minlength=log.n_scenarios)
    found = []
    for scenario in np.flatnonzero(log.dropped).tolist():
        row = log.scenario_row[scenario]
        features = {f.name: c.values[c.codes[row]] for f, c in zip(spec.features, log.features, strict=True)}
        vendor, device = log.vendors[log.vendor.codes[row]], log.devices[log.device.codes[row]]
        found.append(DroppedScenario(vendor, device, log.scenario_id[scenario], features, int(n[scenario])))
    return tuple(found)


def _configs(table: CostTable) -> list[ConfigCounts]:
    measured, failed = (~np.isnan(table.times)).sum(axis=0), np.isinf(table.times).sum(axis=0)
    wins = np.bincount(_winners(table), minlength=len(table.configs))
    return [
        ConfigCounts(table.vendor, table.config_of(c), int(measured[c]), int(failed[c]), int(wins[c]))
        for c in range(len(table.configs))
    ]


# --- conflicts --------------------------------------------------------------------------------------------


def _conflicts(table: CostTable) -> list[Conflict]:
    """The worst conflict of each set of scenarios that share all features on a device."""
    alike = settings(table.X, [i for i, c in enumerate(table.columns) if not c.derived])
    sets: dict[tuple[int, str], list[int]] = {}
    for row, place in enumerate(zip(alike.tolist(), table.device, strict=True)):
        sets.setdefault(place, []).append(row)
    winners = _winners(table)
    found = (_conflict(table, rows, winners) for rows in sets.values() if len(rows) > 1)
    return [c for c in found if c is not None]


def _conflict(table: CostTable, rows: list[int], winners: NDArray[np.int64]) -> Conflict | None:
    """Two scenarios conflict if the winner of each loses more than the noise in the other.

    A winner that was not measured in the other scenario proves nothing; one that failed there does.
    """
    candidates = np.unique(winners[rows])
    excess = table.log_slowdown[rows][:, candidates] - np.log1p(table.noise[rows])[:, None]
    excess = np.nan_to_num(excess, nan=-np.inf, posinf=np.inf)
    own = [np.flatnonzero(winners[rows] == w) for w in candidates]
    best: tuple[float, int, int] | None = None
    for w in range(len(candidates)):
        for v in range(w + 1, len(candidates)):
            a = int(own[w][np.argmax(excess[own[w], v])])
            b = int(own[v][np.argmax(excess[own[v], w])])
            margin = float(min(excess[a, v], excess[b, w]))
            if margin > 0 and (best is None or margin > best[0]):
                best = (margin, rows[a], rows[b])
    return None if best is None else _conflict_of(table, len(rows), sorted(best[1:]), winners)


def _conflict_of(table: CostTable, n: int, pair: list[int], winners: NDArray[np.int64]) -> Conflict:
    a, b = pair

    def loss(row: int, other: int) -> float | None:
        found = float(table.times[row, winners[other]] / table.times[row, winners[row]]) - 1.0
        return found if math.isfinite(found) else None

    return Conflict(
        vendor=table.vendor,
        device=table.device[a],
        features=table.features_of(a),
        n_scenarios=n,
        scenarios=(table.scenario[a], table.scenario[b]),
        winners=(table.config_of(int(winners[a])), table.config_of(int(winners[b]))),
        losses=(loss(a, b), loss(b, a)),
        noise=(float(table.noise[a]), float(table.noise[b])),
    )


# --- text -------------------------------------------------------------------------------------------------


def report(found: Validation) -> str:
    """The report as plain text, without a line end at its end. Strings from the log are made printable."""
    lines = [f"{found.kernel}: {counted(found.measurements, 'measurement')}, {found.failures} of them failed"]
    lines += _table_lines([*found.vendors, *found.devices])
    lines += _spread_lines(found)
    lines += [
        f"failures: {printable(s) or '(blank status)'} {n}" for s, n in found.failures_by_status.items()
    ]
    lines += [f"{v}: one config a scenario (winners only): slowdowns are unknown" for v in found.winners_only]
    lines.append(f"conflicts: {len(found.conflicts) or 'none'}")
    lines += [line for c in found.conflicts for line in _conflict_lines(c)]
    return "\n".join(lines)


def _table_lines(groups: Sequence[GroupCounts]) -> list[str]:
    head = ["", "scenarios", "dropped", "configs", "measurements", "failures", "missing", "repeated"]
    head += ["near ties", "noise"]
    rows = []
    for g in groups:
        name = g.vendor if g.device is None else f"  {g.vendor}, {printable(g.device)}"
        share = f"{g.missing} ({g.missing_share:.1%})"
        counts = [
            g.scenarios,
            g.dropped,
            g.configs,
            g.measurements,
            g.failures,
            share,
            g.repeated,
            g.near_ties,
        ]
        rows.append([name, *map(str, counts), "" if g.noise is None else f"{g.noise:.1%}"])
    return table(head, rows).split("\n")


def _spread_lines(found: Validation) -> list[str]:
    lines = []
    for vendor in (g.vendor for g in found.vendors if g.scenarios):
        per_scenario = sorted(s.configs for s in found.scenarios if s.vendor == vendor)
        per_config = sorted(c.scenarios for c in found.configs if c.vendor == vendor)
        winners = sum(c.wins > 0 for c in found.configs if c.vendor == vendor)
        lines.append(
            f"{vendor}: {_spread(per_scenario, 'config')} a scenario, {_spread(per_config, 'scenario')} a config, "
            f"{counted(winners, 'config')} win{'s' * (winners == 1)} somewhere"
        )
    return lines


def _spread(counts: list[int], noun: str) -> str:
    low, middle, high = counts[0], counts[len(counts) // 2], counts[-1]
    return counted(low, noun) if low == high else f"{low} to {high} (median {middle}) {noun}s"


def _conflict_lines(conflict: Conflict) -> list[str]:
    features = _pairs(conflict.features)
    lines = [
        f"  {conflict.vendor}, {printable(conflict.device)}: {conflict.n_scenarios} scenarios with {features}"
    ]
    for i in (0, 1):
        loss = conflict.losses[i]
        other = "fails" if loss is None else f"is {loss:.1%} slower"
        lines.append(
            f"    scenario {printable(conflict.scenarios[i])}: {_pairs(conflict.winners[i])} wins, "
            f"the other's winner {other} (noise {conflict.noise[i]:.1%})"
        )
    return lines


def _pairs(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={printable(value)}" for name, value in values.items())
