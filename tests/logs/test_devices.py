"""Devices that want opposite configs, and devices on which what ships fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import CostTable, TableColumn
from heurgen.logs.devices import TOLD, failing_devices, opposite_winners
from heurgen.trees import FitOptions, fit
from heurgen.trees.build import choices
from tests.trees.synthetic import table


def two_devices(a: list[list[float]], b: list[list[float]]) -> CostTable:
    """Scenarios at x = 1, 2, ... on device A and again on device B."""
    x = np.concatenate([np.arange(1.0, len(a) + 1), np.arange(1.0, len(b) + 1)])[:, None]
    made = table([TableColumn("x", "int")], x, np.array(a + b))
    order = np.lexsort(x.T)
    device = np.array(["A"] * len(a) + ["B"] * len(b))[order]
    return replace(made, device=tuple(device.tolist()))


def test_opposite_winners_are_named() -> None:
    found = list(opposite_winners(two_devices([[1.0, 2.0]] * 3, [[2.0, 1.0]] * 3)))
    assert found == [
        "A and B want different configs in 3 of 3 scenarios of equal features: `train` compares one tree for both with "
        "one a device"
    ]


def test_of_many_devices_the_pairs_that_differ_most_are_named() -> None:
    """Device 0 wants another config than the nine others; at x = 2 than the last alone."""
    x = np.repeat([1.0, 2.0], 10)[:, None]
    times = [[2.0, 1.0]] + [[1.0, 2.0]] * 9 + [[2.0, 1.0]] + [[2.0, 1.0]] * 8 + [[1.0, 2.0]]
    made = table([TableColumn("x", "int")], x, np.array(times))
    found = list(opposite_winners(replace(made, device=tuple("0123456789" * 2))))
    assert len(found) == TOLD + 1
    assert sum("0 and 9 want different configs in 2 of 2 " in line for line in found) == 1
    # 0 with each of nine, and at x = 2 the last with eight others
    assert found[-1] == f"the same holds for {9 + 8 - TOLD} more pairs of devices"


def test_near_ties_and_winners_of_one_device_alone_are_none() -> None:
    assert not list(opposite_winners(two_devices([[1.0, 1.05]] * 3, [[1.05, 1.0]] * 3)))
    assert not list(opposite_winners(two_devices([[1.0, 1.0]] * 3, [[2.0, 1.0]] * 3)))


def test_coverage_comes_first_whatever_the_slowdowns_sum_to() -> None:
    """Config 0 is 9x faster on device A and fails on every scenario of B: config 1 works everywhere and ships."""
    t = two_devices([[1.0, 9.0]] * 90, [[np.inf, 1.0]] * 10)
    selector = fit(t, FitOptions(strategy="joint"))
    chosen = choices(selector, t, np.arange(100))
    assert np.isfinite(t.log_slowdown[np.arange(100), chosen]).all()


def test_a_device_on_which_what_ships_fails_is_told() -> None:
    t = two_devices([[1.0, np.nan]] * 3, [[np.inf, 1.0]] * 2)
    assert list(failing_devices(t, np.arange(5), np.zeros(5, dtype=np.int64))) == [
        "on B what ships failed in 2 and was never measured in 0 of 2 scenarios"
    ]
    found = fit(t, FitOptions(strategy="joint", max_leaves=1)).choice["devices"]
    assert any("was never measured in" in line for line in found)
