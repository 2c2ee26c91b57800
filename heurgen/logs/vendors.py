"""The vendor of a log that has no column of it: as said, or as the names of its devices tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heurgen.base.errors import UsageError, quoted
from heurgen.spec.kernel_spec import vendor_problem

_WORDS = {
    "nvidia": (
        r"nvidia|tesla|geforce|quadro|jetson|orin|xavier|[rg]tx([0-9]{4}[a-z]*)?|titan|cuda|sm_?[0-9]{2,3}[a-z]?|"
        r"(a10g?|a100x?|a30|a40|a800|h20|h100|h200|h800|b100|b200|b300|gb10|gb200|gb300|gh200|l4|l20|l40s?|v100s?|p100|t4g?)|"
        r"a[246]000"
    ),
    "amd": r"amd|radeon|instinct|rocm|gfx[0-9a-f]{3,4}|mi[0-9]{2,3}[a-z]?|w[5-9][0-9]{3}|rx|r9[0-9]{3}",
    "intel": r"intel|arc|xpu|(intel\(r\))",
}
# The vendors that a name can tell; a log may call others as it likes.
TOLD = frozenset(_WORDS)
_PATTERNS = {vendor: re.compile(words) for vendor, words in _WORDS.items()}


def vendor_of(device: str) -> str | None:
    """The vendor that a word of a device's name tells ("gfx942, 304 CUs": amd); None where none does."""
    words = [device.lower(), *re.split(r"[\s_,:;/+®™©-]+", device.lower())]
    found = {v for v, pattern in _PATTERNS.items() if any(map(pattern.fullmatch, words))}
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class VendorGuess:
    """What [log] says of the vendor instead of a column: one for all rows, or that each device's name tells its own.

    Where neither is known, the remark says what is missing.
    """

    remark: str
    constant: str | None = None
    by_name: bool = False

    @property
    def constants(self) -> tuple[tuple[str, str], ...]:
        return () if self.constant is None else (("vendor", self.constant),)


def guessed_vendor(devices: Sequence[str], said: str | None) -> VendorGuess:
    """The vendor of a log without a column of vendors; `devices` are the texts of its column of devices, if any.

    Raises:
        UsageError: `said` is no vendor.
    """
    if said is not None:
        if (problem := vendor_problem(said)) is not None:
            raise UsageError(f"found --vendor {quoted(said)}, expected a column, or {problem}")
        return VendorGuess("as said", said)
    vendors = {vendor_of(d) for d in devices}
    if len(vendors) == 1 and (vendor := vendors.pop()) is not None:
        return VendorGuess(f"guess: {devices[0]} is of {vendor}; confirm", vendor)
    if vendors and None not in vendors:
        return VendorGuess("guess: the names of the devices tell it; confirm", by_name=True)
    return VendorGuess(
        'guess: the log has no such column, and needs one; add it, or write { const = "nvidia" }'
    )
