"""Which config a product is launched with: the caller's, else the generated selector's, else the documented default."""

from __future__ import annotations

from typing import Any

from ..caches import Cache, shared
from ..host.hardware import VENDOR
from ..selecting import Selector, bind_given, generated
from .call import Product
from .config import Config, normalise
from .defaults import default_config

# N: columns of the output, half the weight's rows for a gated product.
FEATURES = ("M", "N", "K", "gated", "multiprocessors")
SHIPPED = {"nvidia": "matmul"}

_selectors: Cache[int, tuple[Any, Selector]] = shared()


def choose(call: Product, heuristics: Any, vendor: str = VENDOR) -> Config:
    """The config for a call. vendor: whose selector is asked; that of another than this machine's is bound anew."""
    known = _selectors.get(id(heuristics))
    if known is None or vendor != VENDOR:
        known = (heuristics, bind(heuristics, vendor))
        if vendor == VENDOR:
            _selectors.keep(id(heuristics), known)
    return normalise(known[1](call.layout.features))


def bind(heuristics: Any, vendor: str) -> Selector:
    """The selector of heuristics (None: the shipped ones) for a vendor, as a callable of the values of FEATURES."""
    if heuristics is None:
        heuristics = generated(SHIPPED[vendor]) if vendor in SHIPPED else None
    default = _default(vendor)
    return default if heuristics is None else bind_given(heuristics, vendor, FEATURES, default)


def _default(vendor: str) -> Selector:
    return lambda values: default_config(vendor=vendor, **dict(zip(FEATURES, values, strict=True)))
