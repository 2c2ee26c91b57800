"""Is what ships still right? A tenth of a log's scenarios measured again, after an upgrade of the driver or of Triton.

In each of them the shipped selector's configs are measured, and those that were near the best in the log. A scenario's
loss is the time of the selector's choice over the best time there, then and now over the same configs; the verdict is
the geometric mean of now / then with a 95 % interval over the scenarios (Student's t, of the logarithms).
In simulations (tests/tune/test_drift.py) it holds a loss of all scenarios or of three in ten in 9 of 10 cases and more;
a loss that one scenario in ten has may be missed by a dozen of them.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heurgen import ir
from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.intervals import student
from heurgen.base.reading import read_text
from heurgen.base.text import counted
from heurgen.ir.schema import read_model
from heurgen.spec.kernel_spec import is_time, number
from heurgen.tune.cards import Card, cards_of
from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.resume import RowFormat
from heurgen.tune.run import TuneOptions, run_tune, scenarios_of, target_of
from heurgen.tune.space import config_key, enumerate_configs, read_space, spread_key
from heurgen.tune.sweep import Progress

# Of the scenarios that can be measured again: this share, and at least so many.
SHARE, AT_LEAST = 0.1, 12
# Configs within this factor of a scenario's best, at most so many, stand for all that could have won since.
NEAR, MOST_NEAR = 1.15, 12
_MAX_BYTES = 1 << 31

Device = tuple[str, str]
# (vendor, device), scenario -> config, as its cells -> median time in ms; None where it failed.
Times = Mapping[tuple[Device, str], Mapping[tuple[str, ...], float | None]]


@dataclass(frozen=True, slots=True)
class Loss:
    """One scenario: slowdown of the selector's choice in the log and now; None where the choice has no time now."""

    scenario: str
    device: str
    features: Mapping[str, Any]
    chosen: Mapping[str, ir.Value]
    best: tuple[str, ...]
    before: float
    now: float | None


@dataclass(frozen=True, slots=True)
class Verification:
    """`lost` is the geometric mean of slowdown now / then, `low` to `high` its 95 % interval; worst scenarios first.

    `faster` is the median of old time / new time over all configs that were measured both times.
    """

    losses: tuple[Loss, ...]
    lost: float
    low: float
    high: float
    faster: float
    changed: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "lost": self.lost,
            "interval": [self.low, self.high] if math.isfinite(self.high) else None,
            "faster": self.faster if math.isfinite(self.faster) else None,
            "changed": list(self.changed),
            "scenarios": [
                {
                    "scenario": loss.scenario,
                    "device": loss.device,
                    "features": dict(loss.features),
                    "chosen": dict(loss.chosen),
                    "slowdown_before": loss.before,
                    "slowdown_now": loss.now,
                }
                for loss in self.losses
            ],
        }

    def to_text(self, most: int = 5) -> str:
        lines = [f"changed since: {', '.join(self.changed) or 'nothing that the cards know'}"]
        lines.append(
            f"over {counted(len(self.losses), 'scenario')} the selector lost {self.lost:.4f}x, "
            f"95 % interval {self.low:.4f} to {self.high:.4f}; all configs run {self.faster:.3f} times as fast"
        )
        for loss in self.losses[:most]:
            now = "fails" if loss.now is None else f"{loss.now:.3f}"
            where = " ".join(f"{k}={v}" for k, v in loss.features.items())
            lines.append(f"  {loss.before:.3f} -> {now}  {loss.scenario}: {where}")
        return "\n".join(lines)


def read_times(path: Path, format_: RowFormat) -> Times:
    """A log's median times.

    Raises:
        LogError: it cannot be read, has not the columns of this kernel, or a row is no measurement.
    """
    try:
        rows = csv.DictReader(io.StringIO(read_text(path, LogError, _MAX_BYTES), newline=""), strict=True)
        missing = sorted(set(format_.header) - set(rows.fieldnames or ()))
        if missing:
            raise LogError("the header lacks this column", file=path, row=1, column=missing[0])
        found: dict[tuple[Device, str], dict[tuple[str, ...], list[float | None]]] = defaultdict(dict)
        for row in rows:
            if None in row or None in row.values():  # more cells than the header, or fewer
                message = "the row has another number of cells than the header"
                raise LogError(message, file=path, row=rows.line_num)
            key = (row["vendor"], row["device"]), row["scenario"]
            config = tuple(row[p] for p in format_.parameters)
            time = number(row["time_ms"]) if row["status"] == "ok" else None
            if row["status"] == "ok" and (time is None or not is_time(time)):
                message = f"found {quoted(row['time_ms'])}, expected a time above 0 in ms"
                raise LogError(message, file=path, row=rows.line_num, column="time_ms")
            found[key].setdefault(config, []).append(time)
    except csv.Error as error:
        raise LogError(f"this is no tuning log: {error}", file=path) from error
    return {key: {c: _median(t) for c, t in cells.items()} for key, cells in found.items()}


def _median(times: Sequence[float | None]) -> float | None:
    good = [t for t in times if t is not None]
    return statistics.median(good) if 2 * len(good) > len(times) else None


def choice(module: ir.HeuristicModule, device: Device, scenario: Scenario) -> dict[str, ir.Value]:
    """What the shipped selector answers."""
    return ir.select(module, device[0], scenario.features, device[1])


def tenth(
    module: ir.HeuristicModule,
    scenarios: Sequence[Scenario],
    configs: Sequence[Settings],
    times: Times,
    format_: RowFormat,
) -> tuple[Scenario, ...]:
    """The scenarios to measure again, spread by hash, with their configs.

    Raises:
        UsageError: none of the workload's scenarios is in the log with a time of the selector's choice.
    """
    by_cells = {format_.key(c): c for c in configs}
    shipped = [dict(zip(s.parameters, values, strict=True)) for s in module.selectors for values in s.configs]
    found: list[Scenario] = []
    for scenario in scenarios:
        wanted: dict[str, Settings] = {}
        for (device, name), cells in times.items():
            if name != scenario.id or device[0] not in module.vendors:
                continue
            if cells.get(format_.key(choice(module, device, scenario))) is None:
                continue
            near = sorted((t, c) for c, t in cells.items() if t is not None and c in by_cells)
            near = [(t, c) for t, c in near if t <= NEAR * near[0][0]][:MOST_NEAR]
            wanted |= {config_key(c): c for c in (*shipped, *(by_cells[c] for _, c in near))}
        if wanted:
            found.append(replace(scenario, configs=tuple(wanted.values())))
    if not found:
        hint = "give the workload, the space and the model that belong to the log"
        raise UsageError("no scenario of the workload is in the log with the selector's choice", hint=hint)
    order = sorted(found, key=lambda s: spread_key(s.id))
    return tuple(order[: max(AT_LEAST, math.ceil(SHARE * len(order)))])


def compare(
    module: ir.HeuristicModule,
    scenarios: Sequence[Scenario],
    before: Times,
    now: Times,
    format_: RowFormat,
    cards: tuple[Mapping[Path, Card], Mapping[Path, Card]],
) -> Verification:
    """What the selector lost between two logs of the same scenarios.

    Raises:
        UsageError: they share no scenario on one device.
    """
    losses: list[Loss] = []
    speeds: list[float] = []
    for scenario in scenarios:
        for (device, name), new in now.items():
            old = before.get((device, name))
            if name != scenario.id or old is None:
                continue
            chosen = choice(module, device, scenario)
            cell = format_.key(chosen)
            common = {c: (old[c], new[c]) for c in new if old.get(c) is not None}
            speeds += [a / b for a, b in common.values() if a and b]
            if cell not in common:
                continue
            was = old[cell] / min(a for a, _ in common.values() if a)  # type: ignore[operator]
            times = {c: t for c, t in new.items() if t is not None and c in old}
            best = min(times, key=lambda c: (times[c], c)) if times else ()
            is_ = times[cell] / times[best] if cell in times else None
            losses.append(Loss(name, device[1], scenario.features, chosen, best, was, is_))
    if not losses:
        raise UsageError("the log holds no scenario of the devices that are here")
    logs = [math.log((x.now if x.now is not None else 20.0) / x.before) for x in losses]
    mean = math.fsum(logs) / len(logs)
    half = student(len(logs)) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    worst = sorted(losses, key=lambda x: (-(x.now or math.inf) / x.before, x.scenario))
    faster = statistics.median(speeds) if speeds else math.nan
    low, high = math.exp(mean - half), math.exp(min(mean + half, 700.0))
    return Verification(tuple(worst), math.exp(mean), low, high, faster, _changed(*cards))


def _changed(before: Mapping[Path, Card], now: Mapping[Path, Card]) -> tuple[str, ...]:
    """Tools whose version is another one, by the cards of the same devices."""
    old = {str(c["device"].get("name")): c["tools"] for c in before.values()}
    found = {
        f"{tool} {printable(old[name].get(tool, 'none'))} -> {printable(card['tools'].get(tool, 'none'))}"
        for card in now.values()
        if (name := str(card["device"].get("name"))) in old
        for tool in {*old[name], *card["tools"]}
        if old[name].get(tool) != card["tools"].get(tool)
    }
    return tuple(sorted(found))


def run_verify(
    options: TuneOptions,
    log: Path,
    model: Path,
    progress: Callable[[Progress], None] | None = None,
    **engine: Any,
) -> Verification:
    """Measure a chosen tenth of `log` again, into `options.output`: what has the model's selector lost since?

    Raises:
        HeurgenError: the log, the model, the workload and the space do not belong together, or as `run_tune`.
        KeyboardInterrupt: Ctrl-C; what was measured is in `options.output`.
    """
    target = target_of(options)
    space = target.tunable.space if options.space is None else read_space(options.space)
    names = list(target.tunable.features)
    vendors = {vendor for values in space.vendors.values() for vendor in values} | {"nvidia", "amd"}
    configs = [c for vendor in sorted(vendors) for c in enumerate_configs(space, vendor, names).configs]
    format_ = RowFormat(tuple(names), tuple(space.parameters))
    module, scenarios, before = read_model(model), scenarios_of(options, target), read_times(log, format_)
    chosen = tenth(module, scenarios, configs, before, format_)
    devices = tuple(dict.fromkeys(device for device, _ in before))
    done = run_tune(replace(options, scenarios=chosen, devices=devices), progress, **engine)
    if done.state == "interrupted":
        raise KeyboardInterrupt
    if done.state != "finished":
        raise UsageError(f"the sweep is {done.state}", hint="--resume continues it")
    cards = cards_of(log), cards_of(options.output)
    return compare(module, chosen, before, read_times(options.output, format_), format_, cards)
