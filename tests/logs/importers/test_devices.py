"""The device of a file, and its vendor."""

from __future__ import annotations

import pytest

from heurgen.base.errors import UsageError
from heurgen.logs.importers.devices import amd_device, check_one_place, device_and_vendor, device_in


def test_what_is_said_comes_before_what_was_found() -> None:
    assert device_and_vendor("f", "H100", None, None) == ("H100", "nvidia")
    assert device_and_vendor("f", "H100", "MI300X", None) == ("MI300X", "amd")
    assert device_and_vendor("f", "H100", None, "acme") == ("H100", "acme")


@pytest.mark.parametrize(
    ("found", "device", "vendor", "message"),
    [
        (None, None, None, "f does not say the device (say which: --device NAME)"),
        ("", None, None, "f does not say the device (say which: --device NAME)"),
        ("a\x1b", None, "amd", "f: 'a\\x1b' is no device name (--device NAME)"),
        ("H100", " X", "amd", "f: ' X' is no device name (--device NAME)"),
        ("X1", None, None, "f: the vendor of the device 'X1' is unknown (say which: --vendor nvidia)"),
        (
            "X1",
            None,
            "N V",
            "found the vendor 'N V', expected a vendor in lower-case letters, digits and underscores, such as nvidia",
        ),
    ],
)
def test_devices_that_are_none(
    found: str | None, device: str | None, vendor: str | None, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        device_and_vendor("f", found, device, vendor)
    assert str(error.value) == message


def test_amd_devices_by_architecture() -> None:
    assert amd_device("gfx942") == "gfx942"
    assert amd_device("gfx942", 304) == "gfx942, 304 CUs"


@pytest.mark.parametrize(
    ("name", "device", "rest"),
    [
        ("convolution_A100", "A100", "convolution"),
        ("W7800", "W7800", ""),
        ("gemm_NVIDIA_H100_4096", "NVIDIA H100", "gemm_4096"),
        ("gemm_rtx_4090_fp16", "rtx 4090", "gemm_fp16"),
        ("A100_gemm_H100", None, "A100_gemm_H100"),
        ("A100_MI250X", None, "A100_MI250X"),
        ("gemm", None, "gemm"),
    ],
)
def test_devices_in_the_names_of_files(name: str, device: str | None, rest: str) -> None:
    assert device_in(name) == (device, rest)


def test_what_is_said_of_all_files_is_no_name_for_several_devices() -> None:
    check_one_place(set(), "H200", "acme")
    check_one_place({"H100"}, "H200", "acme")
    check_one_place({"H100", "MI300X"}, None, None)
    check_one_place({"H100", "H200", "mine"}, None, "nvidia")
    check_one_place({"A100", "NVIDIA A100", "NVIDIA A100-PCIE-40GB"}, "A100", None)
    check_one_place({"AMD GPU, 304 CUs", "gfx942, 304 CUs", "gfx942"}, "MI300X", None)
    for others in (
        {"A100", "NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-80GB"},
        {"AMD GPU, 80 CUs", "gfx942, 304 CUs"},
    ):
        with pytest.raises(UsageError, match="the files tell 2 devices"):
            check_one_place(others, "A100", None)
    with pytest.raises(UsageError, match=r"the files tell 2 devices \(H100, H200\), and --device would make"):
        check_one_place({"H100", "H200"}, "H200", None)
    with pytest.raises(
        UsageError, match=r"the files tell 2 vendors \(amd, nvidia\), and --vendor would make"
    ):
        check_one_place({"H100", "MI300X"}, None, "acme")
