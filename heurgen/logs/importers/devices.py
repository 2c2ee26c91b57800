"""Device names -> vendors, as far as a name tells."""

from __future__ import annotations

import re

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.spec.kernel_spec import vendor_problem

_WORDS = {
    "nvidia": (
        r"nvidia|tesla|geforce|quadro|rtx|gtx|titan|cuda|sm_?[0-9]{2,3}[a-z]?|"
        r"(a10|a100|a30|a40|a800|h20|h100|h200|h800|b100|b200|b300|gb200|gb300|gh200|l4|l40s?|v100|p100|t4)|"
        r"a[246]000"
    ),
    "amd": r"amd|radeon|instinct|rocm|gfx[0-9a-f]{3,4}|mi[0-9]{2,3}[a-z]?|w[5-9][0-9]{3}|rx",
    "intel": r"intel|arc|xpu|(intel\(r\))",
}
_PATTERNS = {vendor: re.compile(words) for vendor, words in _WORDS.items()}


def vendor_of(device: str) -> str | None:
    """The vendor that a word of a device's name tells ("gfx942, 304 CUs": amd); None where none does."""
    words = [device.lower(), *re.split(r"[\s_,/-]+", device.lower())]
    found = {v for v, pattern in _PATTERNS.items() if any(map(pattern.fullmatch, words))}
    return found.pop() if len(found) == 1 else None


def device_and_vendor(
    file: str, found: str | None, device: str | None, vendor: str | None
) -> tuple[str, str]:
    """The device (`device` before what was `found` in the file) and its vendor.

    Raises:
        UsageError: either is unknown, or no device or vendor name.
    """
    device = device or found
    if not device:
        raise UsageError(f"{printable(file)} does not say the device", hint="say which: --device NAME")
    if printable(device) != device or device != device.strip():
        raise UsageError(f"{printable(file)}: {quoted(device)} is no device name", hint="--device NAME")
    vendor = vendor or vendor_of(device)
    if not vendor:
        raise UsageError(
            f"{printable(file)}: the vendor of the device {quoted(device)} is unknown",
            hint="say which: --vendor nvidia",
        )
    if (problem := vendor_problem(vendor)) is not None:
        raise UsageError(f"found the vendor {quoted(vendor)}, expected {problem}")
    return device, vendor


def amd_device(architecture: str, compute_units: int | None = None) -> str:
    """ "gfx942" with 304 compute units: "gfx942, 304 CUs"."""
    return architecture if compute_units is None else f"{architecture}, {compute_units} CUs"
