"""The vendor of a log without a column of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heurgen.base.errors import UsageError
from heurgen.logs.vendors import guessed_vendor, vendor_of


@pytest.mark.parametrize(
    ("device", "vendor"),
    [
        ("NVIDIA A100-SXM4-80GB", "nvidia"),
        ("Tesla V100", "nvidia"),
        ("H200", "nvidia"),
        ("NVIDIA® H100™ 80GB", "nvidia"),
        ("Radeon™", "amd"),
        ("sm_90", "nvidia"),
        ("L40S", "nvidia"),
        ("RTX4090 24G", "nvidia"),
        ("gfx90a:sramecc+:xnack-", "amd"),
        ("AMD Instinct MI300X", "amd"),
        ("gfx942, 304 CUs", "amd"),
        ("W7800", "amd"),
        ("Orin (nvgpu)", "nvidia"),
        ("Intel(R) Arc", "intel"),
        ("Alien 3000", None),
        ("NVIDIA or AMD", None),
        ("", None),
    ],
)
def test_vendors(device: str, vendor: str | None) -> None:
    assert vendor_of(device) == vendor


@pytest.mark.parametrize(
    ("devices", "said", "constants", "by_name", "remark"),
    [
        (["H200", "A100"], None, (("vendor", "nvidia"),), False, "guess: H200 is of nvidia; confirm"),
        (["H200", "MI300X"], None, (), True, "guess: the names of the devices tell it; confirm"),
        (["H200", "X1"], None, (), False, "guess: the log has no such column, and needs one; add it, or "),
        (["X1"], None, (), False, "guess: the log has no such column, and needs one; add it, or "),
        ([], None, (), False, "guess: the log has no such column, and needs one; add it, or "),
        (["H200", "MI300X"], "acme", (("vendor", "acme"),), False, "as said"),
    ],
)
def test_guesses(
    devices: Sequence[str], said: str | None, constants: tuple[object, ...], by_name: bool, remark: str
) -> None:
    found = guessed_vendor(devices, said)
    assert (found.constants, found.by_name) == (constants, by_name)
    assert found.remark.startswith(remark)


def test_what_is_said_must_be_a_vendor() -> None:
    with pytest.raises(
        UsageError, match="found --vendor 'N V', expected a column, or a vendor in lower-case"
    ):
        guessed_vendor(["H200"], "N V")
