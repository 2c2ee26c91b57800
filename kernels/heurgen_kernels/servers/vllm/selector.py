"""Whose selector the layers ask: HEURGEN_SELECTOR=FILE.py, a module that `heurgen build` wrote, or the shipped one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from ...host.hardware import VENDOR
from ...host.select import SHIPPED_FP8


def selector_of(environment: Mapping[str, str], fp8: bool) -> ModuleType | None:
    """The module, for layers over pages of the type that it was learnt from; None where the shipped one is asked.

    fp8: whether pages are. ValueError for a file that is no module of this vendor's selectors for paged attention.
    """
    path = environment.get("HEURGEN_SELECTOR")
    if not path:
        return None
    module = _load(path)
    kernels = ("paged_attention", SHIPPED_FP8.get(VENDOR))
    kernel = getattr(module, "PROVENANCE", {}).get("kernel")
    if kernel not in kernels or VENDOR not in getattr(module, "SELECTORS", {}):
        wanted = " or ".join(name for name in kernels if name)
        raise ValueError(f"HEURGEN_SELECTOR is {path!r}, which has no selector of {wanted} for {VENDOR}")
    return module if (kernel == kernels[1]) == fp8 else None


@cache
def _load(path: str) -> ModuleType:
    """Once: what is bound to a module is kept by its identity."""
    spec = spec_from_file_location("heurgen_selector", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"HEURGEN_SELECTOR is {path!r}, expected a Python module that `heurgen build` wrote")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise ValueError(f"HEURGEN_SELECTOR is {path!r}, which cannot be read: {error}") from error
    return module
