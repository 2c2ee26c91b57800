"""What every target takes and gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen import ir
from heurgen.base.errors import ModelError, UsageError
from heurgen.render.target import Request, one_file, one_selector
from tests.render.examples import by_device, constant, listing2


def test_one_vendor_must_be_named_where_there_are_several() -> None:
    with pytest.raises(UsageError) as caught:
        one_selector(listing2(), Request())
    assert str(caught.value) == "the model has selectors for nvidia, amd (choose one with --vendor)"
    assert one_selector(listing2(), Request(vendor="amd")).vendor == "amd"
    with pytest.raises(ModelError):
        one_selector(listing2(), Request(vendor="intel"))


def test_the_one_vendor_of_a_model_need_not_be_named() -> None:
    assert one_selector(constant(), Request()).vendor == "any"


def test_a_device_has_its_own_selector() -> None:
    found = one_selector(by_device(), Request(vendor="nvidia", device="NVIDIA H200"))
    assert found.device == "NVIDIA H200"


def trained() -> ir.HeuristicModule:
    """`by_device`, and what its vendors' selectors were trained on."""
    seen = {"nvidia": ("NVIDIA H200",), "amd": ("Radeon 9000",)}
    module = by_device()
    return replace(module, selectors=tuple(replace(s, devices=seen[s.vendor]) for s in module.selectors))


def test_a_device_that_training_saw_tells_the_vendor() -> None:
    assert one_selector(trained(), Request(device="Radeon 9000")).vendor == "amd"
    assert one_selector(trained(), Request(device="NVIDIA H200")).device == "NVIDIA H200"
    with pytest.raises(UsageError, match="choose one with --vendor"):
        one_selector(trained(), Request(device="NVIDIA B200"))


@pytest.mark.parametrize(
    ("vendor", "device", "owner"),
    [
        ("nvidia", "Radeon 9000", "amd"),
        ("amd", "NVIDIA H200", "nvidia"),
        ("amd", "NVIDIA B200", "nvidia"),  # training did not see it, its name tells
    ],
)
def test_a_device_of_another_vendor_gets_no_answer(vendor: str, device: str, owner: str) -> None:
    with pytest.raises(UsageError) as caught:
        one_selector(trained(), Request(vendor=vendor, device=device))
    assert caught.value.message == f"the device '{device}' is of {owner}, not of {vendor}"


def test_a_name_says_nothing_where_the_model_calls_vendors_otherwise() -> None:
    assert one_selector(constant(), Request(device="NVIDIA H200")).vendor == "any"


def test_a_single_file_has_no_name() -> None:
    assert dict(one_file("text").files) == {"": "text"}
