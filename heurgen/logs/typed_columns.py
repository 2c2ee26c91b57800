"""The typed columns of a log that have a role, and the hash of what they hold."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heurgen.logs.cells import Codes
from heurgen.logs.coded import Coded, combine, first_rows
from heurgen.spec.kernel_spec import KernelSpec


@dataclass(frozen=True, slots=True, eq=False)
class TypedColumns:
    """One value a row, N rows. `scenario_id` holds None where a file has no ids."""

    vendor: Coded
    device: Coded
    features: tuple[Coded, ...]
    parameters: tuple[Coded, ...]
    status: Coded
    time: NDArray[np.float64]
    scenario_id: Coded


def content_hash(spec: KernelSpec, columns: TypedColumns, scenario: Codes, scenario_row: Codes) -> str:
    """sha256 of what was measured: the values of the columns that the spec names, as parsed.

    One digest a scenario, over its vendor, device, features, and sorted (config, status, time) rows; then one
    over the sorted digests. File names, splits into files, the order of rows and columns, line ends, quotes,
    number formats, times of failures and the texts of scenario ids do not matter; which rows make up a
    scenario does.
    """
    features = sorted(zip((f.name for f in spec.features), columns.features, strict=True), key=lambda p: p[0])
    parameters = sorted(
        zip((p.name for p in spec.parameters), columns.parameters, strict=True), key=lambda p: p[0]
    )
    heads = [("vendor", columns.vendor), ("device", columns.device), *features]
    config = combine([c for _, c in parameters])
    table = np.column_stack([c.codes for _, c in parameters])[first_rows(config)]
    whole = hashlib.sha256()
    for role, members in (("head", heads), ("config", parameters), ("status", [("status", columns.status)])):
        for name, coded in members:
            whole.update(json.dumps([role, name, coded.values]).encode() + b"\n")
    whole.update(table.astype("<i8").tobytes())

    order = np.lexsort((columns.time, columns.status.codes, config, scenario))
    rows = np.empty(len(order), dtype=[("config", "<i8"), ("status", "<i8"), ("time", "<f8")])
    rows["config"], rows["status"] = config[order], columns.status.codes[order]
    rows["time"] = np.nan_to_num(columns.time[order], nan=0.0)
    head = np.column_stack([c.codes[scenario_row] for _, c in heads]).astype("<i8")
    ends = np.searchsorted(scenario[order], np.arange(len(scenario_row) + 1)).tolist()
    digests = sorted(
        hashlib.sha256(head[s].tobytes() + rows[ends[s] : ends[s + 1]].tobytes()).digest()
        for s in range(len(scenario_row))
    )
    whole.update(b"".join(digests))
    return whole.hexdigest()
