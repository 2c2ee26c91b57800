"""What a launch knows of a device, and on which one it launches."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.caches import Cache
from heurgen_kernels.host import hardware
from heurgen_kernels.host.hardware import INTERPRETER, Device, device_of, on_device

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, an H200 and an A100, and how often torch was asked; the first is the current one."""
    asked = []
    has = {
        FIRST: ((9, 0), 132, 232448, "NVIDIA H200"),
        SECOND: ((8, 0), 108, 166912, "NVIDIA A100"),
    }

    def properties(place):
        asked.append(place)
        _, processors, shared_memory, name = has[place]
        return SimpleNamespace(
            multi_processor_count=processors, gcnArchName="gfx90a:sramecc+", name=name,
            **({"shared_memory_per_block_optin": shared_memory} if hardware.VENDOR == "nvidia" else {}),
        )  # fmt: skip

    monkeypatch.setattr(hardware, "_devices", Cache())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: has[place][0])
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda place: ("guard", place))
    return asked


def test_each_gpu_is_asked_for_once(gpus):
    for _ in range(2):
        assert device_of(FIRST) == Device("nvidia", (9, 0), 132, "", 232448, "NVIDIA H200")
        assert device_of(SECOND) == Device("nvidia", (8, 0), 108, "", 166912, "NVIDIA A100")
    assert gpus == [FIRST, SECOND]


def test_amd_has_a_name_and_no_capability(gpus, monkeypatch):
    monkeypatch.setattr(hardware, "VENDOR", "amd")
    assert device_of(FIRST) == Device("amd", None, 132, "gfx90a:sramecc+", 0, "NVIDIA H200")
    assert device_of(FIRST).told == "gfx90a"
    assert device_of(FIRST).fp8 == Device("amd", None, 104, "gfx90a").fp8


def test_what_is_no_gpu_is_interpreted(gpus):
    assert device_of(torch.device("cpu")) is device_of(torch.device("meta")) is INTERPRETER
    assert Device(hardware.VENDOR, None, 132) == INTERPRETER
    assert gpus == []


@pytest.mark.parametrize(
    ("capability", "hopper", "from_registers"),
    [(None, False, False), ((7, 5), False, True), ((8, 0), False, True), ((8, 9), False, True), ((9, 0), True, False),
     ((10, 0), False, False), ((10, 3), False, False), ((11, 0), False, True), ((12, 0), False, True),
     ((12, 1), False, True)],
)  # fmt: skip
def test_what_generations_can(capability, hopper, from_registers):
    """Descriptors exist on Blackwell, too, see `Device.descriptors`."""
    device = Device("nvidia", capability, 132)
    assert (device.hopper, device.descriptors, device.from_registers) == (hopper, hopper, from_registers)


@pytest.mark.parametrize(
    ("vendor", "capability", "shared_memory", "room"),
    [
        ("nvidia", (8, 6), 101376, 101376), ("nvidia", (12, 0), 101376, 101376), ("nvidia", (8, 0), 166912, None),
        ("nvidia", (8, 7), 166912, None), ("nvidia", (9, 0), 232448, None), ("nvidia", (8, 9), 0, None),
        ("nvidia", None, 0, None), ("amd", None, 65536, None),
    ],
)  # fmt: skip
def test_configs_are_fitted_to_less_memory_than_an_a100_has(vendor, capability, shared_memory, room):
    assert Device(vendor, capability, 132, "", shared_memory).room == room


def test_a_launch_enters_another_gpu_alone(gpus):
    assert on_device(SECOND) == ("guard", SECOND)
    for place in (FIRST, torch.device("cpu")):
        assert isinstance(on_device(place), nullcontext)
