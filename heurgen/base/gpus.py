"""What is known of GPUs by their names: the compute capability, where nothing measured says it."""

from __future__ import annotations

import re

# NVIDIA: https://developer.nvidia.com/cuda-gpus; AMD: https://rocm.docs.amd.com/projects/install-on-linux/en/latest/
# reference/system-requirements.html. A word of the device's name -> `heurgen.machine`'s capability.
_PRODUCTS = {
    "7.0": ("V100",),
    "7.5": ("T4", "T400", "T600", "T1000", "2060", "2070", "2080"),
    "8.0": ("A100", "A30", "A800"),
    "8.6": (
        "A2",
        "A10",
        "A10G",
        "A16",
        "A40",
        "A2000",
        "A4000",
        "A4500",
        "A5000",
        "A5500",
        "A6000",
        "3050",
        "3060",
        "3070",
        "3080",
        "3090",
    ),
    "8.9": ("L4", "L20", "L40", "L40S", "4050", "4060", "4070", "4080", "4090"),
    "9.0": ("H20", "H100", "H200", "H800", "GH200"),
    "10.0": ("B100", "B200", "GB200"),
    "10.3": ("B300", "GB300"),
    "12.0": ("5050", "5060", "5070", "5080", "5090"),
    "12.1": ("GB10",),
    "gfx906": ("MI50", "MI60"),
    "gfx908": ("MI100",),
    "gfx90a": ("MI200", "MI210", "MI250", "MI250X"),
    "gfx942": ("MI300", "MI300A", "MI300X", "MI308X", "MI325X"),
    "gfx950": ("MI350", "MI350P", "MI350X", "MI355X"),
    "gfx1100": ("W7800", "W7900", "7900"),
    "gfx1200": ("9060",),
    "gfx1201": ("9070", "R9700"),
}
# A target of LLVM's wherever it stands as a word; MIOpen's files write the compute units behind it ("gfx942130").
_TARGET = re.compile(r"(?<![a-z0-9])(gfx(?:1[0-9]{3}|[2-9][0-9][0-9a-f]))(?:[0-9a-f]{2,3})?(?![a-z0-9])")
# Workstation cards share their numbers with older ones ("Quadro RTX 6000", "RTX 6000 Ada", "RTX PRO 6000 Blackwell").
_RTX = {"ADA": "8.9", "BLACKWELL": "12.0"}
_CAPABILITY = {product: capability for capability, products in _PRODUCTS.items() for product in products}


def capability_of(device: str) -> str | None:
    """`9.0` of "NVIDIA H100 80GB HBM3", `gfx942` of "AMD gfx942, 304 CUs" or "AMD Instinct MI300X"; else None."""
    if targets := set(_TARGET.findall(device.lower())):
        return targets.pop() if len(targets) == 1 else None
    words = re.split(r"[^A-Za-z0-9]+", device.upper())
    known = {_CAPABILITY[word] for word in words if word in _CAPABILITY}
    if not known and "RTX" in words:
        known = {_RTX[word] for word in words if word in _RTX}
    return known.pop() if len(known) == 1 else None
