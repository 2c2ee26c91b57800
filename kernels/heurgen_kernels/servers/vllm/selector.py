"""Whose selector the layers ask: HEURGEN_SELECTOR=FILE.py, a module that `heurgen build` wrote, or the shipped one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from ...config import Config
from ...host.hardware import VENDOR
from ...host.select import FEATURES, SHIPPED_FP8
from ...selecting import picker, selector_for

KERNEL, KERNEL_FP8 = "paged_attention", SHIPPED_FP8.get(VENDOR)


def selector_of(environment: Mapping[str, str], fp8: bool) -> ModuleType | None:
    """The module, for layers over pages of the type that it was learnt from; None where the shipped one is asked.

    fp8: whether pages are. ValueError for a file that is no module of this vendor's selectors for paged attention: a
    launch that refused them would be left to vLLM's kernels, with a line in the log.
    """
    path = environment.get("HEURGEN_SELECTOR")
    if not path:
        return None
    module = _load(path)
    return module if (module.PROVENANCE["kernel"] == KERNEL_FP8) == fp8 else None


@cache
def _load(path: str) -> ModuleType:
    """Once: what is bound to a module is kept by its identity."""
    try:
        module = _run(path)
        check(module)
    except ValueError as error:
        raise ValueError(
            f"HEURGEN_SELECTOR is {path!r}, expected a Python module that `heurgen build` wrote: {error}"
        ) from error
    return module


def _run(path: str) -> ModuleType:
    """The module of a file. ValueError for what is no Python, or does not run."""
    spec = spec_from_file_location("heurgen_selector", path)
    if spec is None or spec.loader is None:
        raise ValueError("its name does not end in .py")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error}") from error
    except (Exception, SystemExit) as error:  # whatever a file does
        raise ValueError(f"it does not run: {type(error).__name__}: {error}") from error
    return module


def check(module: Any) -> None:
    """ValueError for what launches of this vendor cannot ask."""
    provenance = getattr(module, "PROVENANCE", None)
    kernel = provenance.get("kernel") if isinstance(provenance, Mapping) else None
    if kernel not in (KERNEL, KERNEL_FP8) or kernel is None:
        wanted = " or ".join(name for name in (KERNEL, KERNEL_FP8) if name)
        raise ValueError(f"its PROVENANCE names the kernel {kernel!r}; expected {wanted}")
    select = selector_for(module, VENDOR) if hasattr(module, "SELECTORS") else None
    if select is None:
        raise ValueError(f"it has no selector for {VENDOR}")
    picker(select, FEATURES)
    fields = getattr(getattr(module, "Config", None), "_fields", ())
    unknown = [name for name in fields if name not in Config._fields]
    if unknown:
        raise ValueError(
            f"its configs have {', '.join(unknown)}; the parameters of a launch are {', '.join(Config._fields)}"
        )
