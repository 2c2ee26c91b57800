"""How many programs of a kernel a processor holds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.host.occupancy import fitting, resident_programs

H200 = {
    "shared_memory_per_multiprocessor": 233472, "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "expected"),
    [
        (168, 21504, 2, 6),  # 5,376 registers a warp: 6.09 programs
        (255, 21504, 2, 4),
        (32, 200_000, 4, 1),
        (16, 0, 1, 16),
        (255, 1024, 16, 1),
        (64, 57344, 4, 4),  # 58,368 bytes with the driver's: exactly four
        (64, 57345, 4, 3),
        (65, 0, 4, 7),  # 2,304 registers a warp, 2,080 rounded up
        (32, 0, 8, 8),  # 2,048 threads
        (0, 300_000, 4, 1),
    ],
)
def test_programs_that_fit_a_processor(registers, shared, warps, expected):
    assert fitting(registers, shared, warps, 65536, 233472, 2048) == expected


@pytest.mark.parametrize(
    ("hip", "has", "expected"),
    [
        (None, H200, 6),
        ("7.0", H200, 2),
        (None, H200 | {"shared_memory_per_multiprocessor": 0}, 2),
        (None, {"max_threads_per_multi_processor": 2048}, 2),
        (None, {k: v for k, v in H200.items() if k != "regs_per_multiprocessor"}, 6),
        (None, H200 | {"regs_per_multiprocessor": 32768}, 3),
        (None, H200 | {"shared_memory_per_multiprocessor": 2 * 22528}, 2),
        (None, H200 | {"max_threads_per_multi_processor": 128}, 2),
    ],
)
def test_what_the_device_says_is_asked(monkeypatch, hip, has, expected):
    compiled = SimpleNamespace(n_regs=168, metadata=SimpleNamespace(shared=21504))
    place = torch.device("cuda", 3)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_properties", {place: SimpleNamespace(**has)}.__getitem__)
    assert resident_programs(compiled, 2, place) == expected
