"""Tuning log -> cost table: scenario x config slowdowns, with repeats, failures and gaps resolved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heurgen.ir import ColumnType, Config


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of `CostTable.X`: a feature, or a derived feature (type float).

    Categories are coded as their index in `values` (all of the spec's values, or those seen, sorted, where
    the spec lists none); bools as 0 and 1.
    """

    name: str
    type: ColumnType
    derived: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """What one selector is trained on: S scenarios x C configs of one vendor (or of one device).

    Canonical: the same measurements give the same table whatever the order of rows and columns. Scenarios are
    sorted by their features in spec order, then device, then scenario id; configs by their values.

    X             float64 [S, F]  feature values, ints exact up to 2**53
    times         float64 [S, C]  median time in ms; NaN never measured, inf measured and failed
    log_slowdown  float64 [S, C]  ln(time / best time of the scenario); NaN and inf as in `times`
    noise         float64 [S]     relative noise of a time in that scenario (0.02: two percent)
    group         int64 [S]       scenarios equal in all features (derived left out) share a number; numbers
                                  are in the sorted order of the features, from 0
    """

    kernel: str
    vendor: str
    columns: tuple[TableColumn, ...]
    parameters: tuple[str, ...]
    configs: tuple[Config, ...]
    X: NDArray[np.float64]
    times: NDArray[np.float64]
    log_slowdown: NDArray[np.float64]
    noise: NDArray[np.float64]
    group: NDArray[np.int64]
    scenario: tuple[str, ...]
    device: tuple[str, ...]
    n_measurements: int
    costs_known: bool

    @property
    def n_scenarios(self) -> int:
        return len(self.scenario)
