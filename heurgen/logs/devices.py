"""Devices of one vendor that want different configs for the same features: no tree without the device serves both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from heurgen.base.text import counted
from heurgen.logs.costs import CostTable, Ints
from heurgen.logs.groups import device_columns, settings

# A winner that costs the other device more than this, beyond the noise of both scenarios, is one that it does not want.
APART = math.log(1.1)


# Sixty devices have 1770 pairs: of more than these, those that differ most are named and the others counted.
TOLD = 6


def opposite_winners(table: CostTable) -> Iterator[str]:
    """A line for every two devices that differ in what is best for equal features, by more than 1.1x both ways."""
    if not table.costs_known:
        return
    found = list(_opposite(table))
    named = sorted(found, key=lambda pair: -pair[2] / pair[3])[:TOLD]
    for a, b, apart, shared in found:
        if (a, b, apart, shared) in named:
            yield (
                f"{a} and {b} want different configs in {apart} of {counted(shared, 'scenario')} of equal "
                "features: `train` compares one tree for both with one a device"
            )
    if len(found) > TOLD:
        yield f"the same holds for {counted(len(found) - TOLD, 'more pair')} of devices"


def _opposite(table: CostTable) -> Iterator[tuple[str, str, int, int]]:
    """Two devices, in how many scenarios of equal features they differ, and of how many."""
    rows: dict[str, dict[int, int]] = {}
    for row, (device, group) in enumerate(zip(table.device, _shapes(table).tolist(), strict=True)):
        rows.setdefault(device, {}).setdefault(group, row)
    for a, b in combinations(sorted(rows), 2):
        shared = rows[a].keys() & rows[b].keys()
        apart = sum(_apart(table, rows[a][g], rows[b][g]) for g in shared)
        if apart:
            yield a, b, apart, len(shared)


def _shapes(table: CostTable) -> Ints:
    """Scenarios equal in all given features but those of the device share a number."""
    device = np.unique(np.array(table.device), return_inverse=True)[1].reshape(-1)
    given = [i for i, c in enumerate(table.columns) if not c.derived]
    own = {given[i] for i in device_columns(table.X[:, given], device)}
    return settings(table.X, [i for i in given if i not in own])


def failing_configs(table: CostTable) -> Iterator[str]:
    """A line for every device on which configs never succeeded that did on others: what one tree for all may ship."""
    devices = np.array(table.device)
    ok = {d: np.isfinite(table.times[devices == d]).any(axis=0) for d in sorted(set(table.device))}
    for device, works in ok.items():
        tried = ~np.isnan(table.times[devices == device]).all(axis=0)
        elsewhere = np.any([w for d, w in ok.items() if d != device], axis=0) if len(ok) > 1 else works
        failing = int((tried & ~works & elsewhere).sum())
        if failing:
            yield (
                f"on {device} {counted(failing, 'config')} of {int(tried.sum())} always failed that succeeded on "
                "other devices"
            )


def _apart(table: CostTable, row: int, other: int) -> bool:
    limit = APART + math.log1p(float(table.noise[row])) + math.log1p(float(table.noise[other]))
    lost = (_lost(table, row, other), _lost(table, other, row))
    return min(lost) > limit


def _lost(table: CostTable, row: int, other: int) -> float:
    """Log-slowdown on `row` of what is best on `other`; infinite where it failed there, 0 where it was not measured."""
    found = float(table.log_slowdown[row, table.best(other)])
    return 0.0 if math.isnan(found) else found


def failing_devices(table: CostTable, rows: Ints, chosen: Ints) -> Iterator[str]:
    """A line for every device on which the table's columns `chosen` for `rows` failed or were never measured."""
    slowdown = table.log_slowdown[rows, chosen]
    devices = np.array([table.device[r] for r in rows.tolist()])
    for device in sorted(set(devices.tolist())):
        own = slowdown[devices == device]
        failed, missing = int(np.isinf(own).sum()), int(np.isnan(own).sum())
        if failed or missing:
            yield (
                f"on {device} what ships failed in {failed} and was never measured in {missing} of "
                f"{counted(len(own), 'scenario')}"
            )
