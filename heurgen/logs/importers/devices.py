"""The device of a file that another tool wrote, and its vendor."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.logs.vendors import vendor_of
from heurgen.spec.kernel_spec import vendor_problem


@lru_cache(maxsize=256)
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


def check_one_place(told: Collection[str], device: str | None, vendor: str | None) -> None:
    """What is said of all files holds for one device: it would make one of those that they tell (`told`).

    Of one device some may tell less than others: "A100" beside "NVIDIA A100-PCIE-40GB".

    Raises:
        UsageError: a device is said, and they tell several, or a vendor, and they tell devices of several.
    """
    by_words = {_words(d): d for d in sorted(told)}
    devices = {d for words, d in by_words.items() if not any(words < others for others in by_words)}
    vendors = {v for d in told if (v := vendor_of(d)) is not None}
    for option, said, known in (("--device", device, devices), ("--vendor", vendor, vendors)):
        if said is not None and len(known) > 1:
            names = ", ".join(map(printable, sorted(known)))
            raise UsageError(
                f"the files tell {len(known)} {option[2:]}s ({names}), and {option} would make them one",
                hint="import them one at a time; train takes several logs",
            )


def _words(device: str) -> frozenset[str]:
    """What tells a device from others, whatever its makers write around it: "AMD GPU, 304 CUs" says 304 CUs."""
    return frozenset(re.findall(r"[a-z0-9.]+", device.lower())) - {"nvidia", "amd", "gpu"}


def amd_device(architecture: str, compute_units: int | None = None) -> str:
    """ "gfx942" with 304 compute units: "gfx942, 304 CUs"."""
    return architecture if compute_units is None else f"{architecture}, {compute_units} CUs"


def device_in(name: str) -> tuple[str | None, str]:
    """The device that words of a file's name tell ("convolution_A100": A100), and the other words ("convolution").

    A brand takes the number after it along ("rtx_4090"). None where no word or several of them tell one.
    """
    words = [w for w in name.split("_") if w]
    told = [vendor_of(w) is not None for w in words]
    for i in range(1, len(words)):  # a brand alone is no device yet
        told[i] |= told[i - 1] and not any(c.isdigit() for c in words[i - 1]) and words[i][:1].isdigit()
    first = told.index(True) if any(told) else 0
    n = sum(told)
    device = " ".join(words[first : first + n])
    if not n or not all(told[first : first + n]) or vendor_of(device) is None:
        return None, "_".join(words)
    return device, "_".join(words[:first] + words[first + n :])
