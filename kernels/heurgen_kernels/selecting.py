"""Selectors, the caller's or generated ones, as callables of a launch's features in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from operator import itemgetter
from typing import Any

from . import heuristics as heuristics_folder
from .host.hardware import Device

Selector = Callable[[tuple[Any, ...]], Any]


def generated(name: str) -> Any:
    """A generated module of this package, or None where there is none."""
    full = f"{heuristics_folder.__name__}.{name}"
    return import_module(full) if find_spec(full) else None


def by_name(select: Callable[..., Any], vendor: str, features: tuple[str, ...]) -> Selector:
    """Of a function that is told vendor and features by name."""
    return lambda values: select(vendor=vendor, **dict(zip(features, values, strict=True)))


def bind_given(
    heuristics: Any,
    vendor: str,
    features: tuple[str, ...],
    default: Selector,
    device: Device | None = None,
) -> Selector:
    """heuristics: a generated module (SELECTORS bound once), an object with `select`, a callable.

    The default answers for a vendor that the module has no selector for. device: whose own selector answers where a
    module has one.
    """
    if getattr(heuristics, "SELECTORS", None) is not None:
        generated_one = selector_for(heuristics, vendor, device)
        if generated_one is None:
            return default
        pick = picker(generated_one, features)
        return lambda values: generated_one(*pick(values))
    select = getattr(heuristics, "select", heuristics)
    if not callable(select):
        raise ValueError(
            f"heuristics is {heuristics!r:.80}; expected a generated module or a callable of features"
        )
    return by_name(select, vendor, features)


def selector_for(module: Any, vendor: str, device: Device | None = None) -> Callable[..., Any] | None:
    """A generated module's selector of a device, else of its capability, else of the vendor, as `heurgen.runtime.bind`
    finds it; None where it has none. ValueError for what no such module has.
    """
    selectors = module.SELECTORS
    if not isinstance(selectors, Mapping):
        raise ValueError(f"SELECTORS is {selectors!r:.80}; expected functions of features, by vendor")
    select = selectors.get(vendor)
    if select is not None and not callable(select):
        raise ValueError(f"SELECTORS[{vendor!r}] is {select!r:.80}; expected a function of features")
    if select is None or device is None:
        return select
    alike = getattr(module, "_BY_CAPABILITY", {}).get((vendor, device.told), select)
    own: Callable[..., Any] | None = getattr(module, "_BY_DEVICE", {}).get((vendor, device.model), alike)
    return own


def picker(
    select: Callable[..., Any], features: tuple[str, ...]
) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A generated selector takes its features by position; where they are in `features` is found once."""
    names = list(signature(select).parameters)
    unknown = [name for name in names if name not in features]
    if unknown:
        asked, known = ", ".join(map(repr, unknown)), ", ".join(features)
        raise ValueError(
            f"the heuristics ask for {asked}; a launch knows {known}: build them from a spec of these alone"
        )
    if names == list(features[: len(names)]):
        return itemgetter(slice(len(names)))
    positions = [features.index(name) for name in names]
    return lambda values: tuple(values[position] for position in positions)
