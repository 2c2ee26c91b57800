"""What a tunable is given: frozen records that travel to the child processes and to other machines."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from heurgen.tune.protocol import DeviceInfo, Scenario, Space

RECORDS = [
    Scenario("s", {"M": 8}, ((1, 5),), 3, ({"BLOCK_M": 16},)),
    Space({"BLOCK_M": (16, None)}, {"BLOCK_M": ("amd",)}, ("BLOCK_M <= M",), 4),
    DeviceInfo("nvidia", "H200", tools={"torch": "2.11"}),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_records_travel_and_stay_as_they_are(record: Any) -> None:
    assert pickle.loads(pickle.dumps(record)) == record
    with pytest.raises(FrozenInstanceError):
        setattr(record, fields(record)[0].name, "another")


def test_what_is_not_said() -> None:
    scenario = Scenario("s", {"M": 8})
    assert (scenario.lengths, scenario.seed, scenario.configs) == ((), 0, ())
    space = Space({"BLOCK_M": (16,)})
    assert (space.vendors, space.constraints, space.limit) == ({}, (), 0)
    device = DeviceInfo("amd", "MI300X")
    assert (device.driver, device.shared_memory, device.memory, device.gpus) == ("", 0, 0, 1)
