"""The forms of a vendor's table: what is known of its devices from the log, from cards, by their names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from heurgen.logs.card import DeviceFacts
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.ship.devices import device_tables
from heurgen.spec.kernel_spec import KernelSpec, parse_spec
from tests.trees.synthetic import table

A100, H100 = "NVIDIA A100", "NVIDIA H100"
SPEC = """[kernel]
name = "k"
[features]
m = { type = "int" }
sms = { type = "int" }
[derived]
share = "m / sms"
twice = "m * 2"
[parameters]
BLOCK = { type = "int" }
"""


def spec(sms: bool = True) -> KernelSpec:
    text = SPEC if sms else SPEC.replace('sms = { type = "int" }\n', "").replace('share = "m / sms"\n', "")
    return parse_spec(text, "k.toml")


def pooled(*names: str) -> tuple[CostTable, list[CostTable]]:
    """Two scenarios on each device, of the given columns, and the devices' own tables."""
    values = {
        "m": [1.0, 1, 8, 8],
        "sms": [108.0, 132, 108, 132],
        "share": [0.0, 0.1, 0.2, 0.3],
        "twice": [2.0, 2, 16, 16],
    }
    columns = [TableColumn(n, "int", derived=n in ("share", "twice")) for n in names]
    whole = table(columns, np.array([values[n] for n in names]).T, np.ones((4, 2)))
    whole = replace(whole, device=(A100, H100, A100, H100))
    return whole, [replace(whole, device_name=name) for name in (A100, H100)]


def facts(capability: str | None = None, **numbers: tuple[Any, Any]) -> dict[str, DeviceFacts]:
    return {
        device: DeviceFacts(capability, {name: pair[i] for name, pair in numbers.items()})
        for i, device in enumerate((A100, H100))
    }


def test_columns_of_the_device_and_what_reads_them_are_no_part_of_the_pooled_form() -> None:
    whole, own = pooled("m", "sms", "share", "twice")
    found = device_tables(whole, own, spec(), {})
    assert [c.name for c in found.pooled.columns] == ["m", "twice"]
    assert found.pooled.X.tolist() == [[1, 2], [1, 2], [8, 16], [8, 16]]
    assert found.featured is not None
    assert [c.name for c in found.featured.columns] == ["m", "sms", "share", "twice"]
    assert (found.looked_up, found.own) == ({}, tuple(own))


def test_a_log_of_features_of_the_device_alone_keeps_them() -> None:
    whole, own = pooled("sms")
    assert [c.name for c in device_tables(whole, own, spec(), {}).pooled.columns] == ["sms"]
    columns = (*whole.columns, TableColumn("cores", "int"))
    two = replace(whole, columns=columns, X=np.hstack([whole.X, whole.X]))
    found = device_tables(two, own, spec(), {})
    assert ([c.name for c in found.pooled.columns], found.featured) == (["sms", "cores"], None)


def test_numbers_of_the_cards_join_where_all_devices_have_them_and_they_tell_them_apart() -> None:
    whole, own = pooled("m")
    cards = facts(l2_cache=(40, 50), gpus=(8, 8), bandwidth=(1.5, 3.5), clock=(1900.0, 1700.0), m=(1, 2))
    found = device_tables(whole, own, spec(False), cards)
    # gpus are equal; m is a feature of the launch; l2_cache orders the devices as bandwidth does, which comes first
    assert found.looked_up == {"bandwidth": {A100: 1.5, H100: 3.5}, "clock": {A100: 1900.0, H100: 1700.0}}
    assert found.featured is not None
    assert [(c.name, c.type) for c in found.featured.columns] == [
        ("m", "int"),
        ("bandwidth", "float"),
        ("clock", "int"),
    ]
    assert found.featured.X[:2].tolist() == [[1, 1.5, 1900], [1, 3.5, 1700]]
    assert found.pooled is whole


def test_one_device_without_a_card_leaves_all_without() -> None:
    whole, own = pooled("m")
    found = device_tables(whole, own, spec(False), {A100: DeviceFacts(None, {"l2_cache": 40})})
    assert (found.featured, found.looked_up) == (None, {})


def test_the_capability_is_the_cards_else_by_name() -> None:
    whole, own = pooled("m")
    assert device_tables(whole, own, spec(False), {}).capability == {A100: "8.0", H100: "9.0"}
    assert device_tables(whole, own, spec(False), facts("9.9")).capability == {A100: "9.9", H100: "9.9"}
    own = [replace(t, device_name=f"X{i}") for i, t in enumerate(own)]
    assert device_tables(whole, own, spec(False), {}).capability == {}
