"""Which config a product is launched with: the caller's, else the generated selector's, else the documented default."""

from __future__ import annotations

from typing import Any

from ..caches import Cache, shared
from ..host.hardware import VENDOR, Device
from ..selecting import Selector, bind_given, by_name, generated
from .call import Product
from .config import Config, normalise
from .defaults import default_config, default_fp8

# N: columns of the output, half the weight's rows for a gated product.
FEATURES = ("M", "N", "K", "gated", "multiprocessors")
SHIPPED = {"nvidia": "matmul"}
SHIPPED_FP8 = {"nvidia": "matmul_fp8"}  # fp8 weights: half the bytes, and instructions that widen them

# By the heuristics' id, whether weights are fp8, and the kind of GPU.
_selectors: Cache[tuple[int, bool, str], tuple[Any, Selector]] = shared()


def choose(call: Product, heuristics: Any, vendor: str = VENDOR) -> Config:
    """The config for a call. vendor: whose selector is asked; that of another than this machine's is bound anew."""
    device = call.layout.device
    asked = (id(heuristics), call.scale is not None, device.model)
    known = _selectors.get(asked)
    if known is None or vendor != VENDOR:
        known = (heuristics, bind(heuristics, vendor, asked[1], device))
        if vendor == VENDOR:
            _selectors.keep(asked, known)
    return normalise(known[1](call.layout.features))


def bind(heuristics: Any, vendor: str, fp8: bool = False, device: Device | None = None) -> Selector:
    """The selector of heuristics (None: the shipped ones, of fp8 weights where these are) for a vendor, as a callable
    of the values of FEATURES. device: see `bind_given`.
    """
    if heuristics is None:
        shipped = SHIPPED_FP8 if fp8 else SHIPPED
        heuristics = generated(shipped[vendor]) if vendor in shipped else None
    default = by_name(default_fp8 if fp8 and vendor == "nvidia" else default_config, vendor, FEATURES)
    return default if heuristics is None else bind_given(heuristics, vendor, FEATURES, default, device)
