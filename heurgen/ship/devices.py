"""What is known of the devices in a log: the tables of `heurgen.trees.devices`, from a spec and data cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from heurgen.base.gpus import capability_of
from heurgen.ir import expr
from heurgen.logs.card import DeviceFacts
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.logs.groups import device_columns
from heurgen.spec.kernel_spec import KernelSpec
from heurgen.trees.devices import DeviceTables

# Facts that tell a device's speed come first, and stand for others that order the devices alike.
_FIRST = ("multiprocessors", "bandwidth", "l2_cache")


def device_tables(
    table: CostTable, own: Sequence[CostTable], spec: KernelSpec, facts: Mapping[str, DeviceFacts]
) -> DeviceTables:
    """The forms of one vendor's table; `facts` are those of the data cards, by device.

    Features of the device are columns of the log that vary, but on no single device; then numbers of the cards.
    """
    columns = _device_columns(table, spec)
    kept = [i for i in range(len(table.columns)) if i not in columns]
    looked_up = _looked_up([str(t.device_name) for t in own], table, facts)
    capability = {
        str(t.device_name): found
        for t in own
        if (found := _capability(str(t.device_name), facts)) is not None
    }
    pooled = (
        replace(table, columns=tuple(table.columns[i] for i in kept), X=table.X[:, kept])
        if columns
        else table
    )
    featured = _with(table, looked_up) if columns or looked_up else None
    return DeviceTables(pooled, featured, tuple(own), looked_up, capability)


def _device_columns(table: CostTable, spec: KernelSpec) -> set[int]:
    """Columns that are features of the device, and derived ones that read such."""
    device = np.unique(np.array(table.device), return_inverse=True)[1].reshape(-1)
    given = [i for i, c in enumerate(table.columns) if not c.derived]
    found = set(device_columns(table.X[:, given], device)) if len(given) > 1 else set[int]()
    names = {table.columns[i].name for i in found}
    reads = {d.name for d in spec.derived if expr.names(d.expression) & names}
    found |= {i for i, c in enumerate(table.columns) if c.name in reads}
    # A table keeps a column.
    return found if len(found) < len(table.columns) else set()


def _looked_up(
    devices: Sequence[str], table: CostTable, facts: Mapping[str, DeviceFacts]
) -> dict[str, dict[str, float]]:
    """Numbers that the cards have for all the devices and that tell them apart, one for each order of the devices."""
    if any(device not in facts for device in devices):
        return {}
    shared = set.intersection(*(set(facts[d].numbers) for d in devices)) - {c.name for c in table.columns}
    found: dict[str, dict[str, float]] = {}
    orders: set[tuple[int, ...]] = set()
    for name in [*(n for n in _FIRST if n in shared), *sorted(shared - set(_FIRST))]:
        values = [facts[d].numbers[name] for d in devices]
        order = tuple(sorted(set(values)).index(v) for v in values)
        if len(set(values)) > 1 and order not in orders:
            orders.add(order)
            found[name] = dict(zip(devices, values, strict=True))
    return found


def _with(table: CostTable, looked_up: Mapping[str, Mapping[str, float]]) -> CostTable:
    if not looked_up:
        return table
    columns = tuple(
        TableColumn(name, "int" if all(float(v).is_integer() for v in by_device.values()) else "float")
        for name, by_device in looked_up.items()
    )
    added = np.array(
        [[by_device[d] for by_device in looked_up.values()] for d in table.device], dtype=np.float64
    )
    return replace(table, columns=(*table.columns, *columns), X=np.hstack([table.X, added]))


def _capability(device: str, facts: Mapping[str, DeviceFacts]) -> str | None:
    own = facts[device].capability if device in facts else None
    return own or capability_of(device)
