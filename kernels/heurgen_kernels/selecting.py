"""Selectors, the caller's or generated ones, as callables of a launch's features in their order."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from operator import itemgetter
from typing import Any

from . import heuristics as heuristics_folder

Selector = Callable[[tuple[Any, ...]], Any]


def generated(name: str) -> Any:
    """A generated module of this package, or None where there is none."""
    full = f"{heuristics_folder.__name__}.{name}"
    return import_module(full) if find_spec(full) else None


def by_name(select: Callable[..., Any], vendor: str, features: tuple[str, ...]) -> Selector:
    """Of a function that is told vendor and features by name."""
    return lambda values: select(vendor=vendor, **dict(zip(features, values, strict=True)))


def bind_given(heuristics: Any, vendor: str, features: tuple[str, ...], default: Selector) -> Selector:
    """heuristics: a generated module (SELECTORS bound once), an object with `select`, a callable.

    The default answers for a vendor that the module has no selector for.
    """
    selectors = getattr(heuristics, "SELECTORS", None)
    if selectors is not None and vendor not in selectors:
        return default
    if selectors is not None:
        select, pick = selectors[vendor], picker(selectors[vendor], features)
        return lambda values: select(*pick(values))
    select = getattr(heuristics, "select", heuristics)
    if not callable(select):
        raise ValueError(
            f"heuristics is {heuristics!r:.80}; expected a generated module or a callable of features"
        )
    return by_name(select, vendor, features)


def picker(
    select: Callable[..., Any], features: tuple[str, ...]
) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A generated selector takes its features by position; where they are in `features` is found once."""
    names = list(signature(select).parameters)
    unknown = [name for name in names if name not in features]
    if unknown:
        known = ", ".join(features)
        raise ValueError(f"the heuristics ask for {unknown[0]!r}; a launch knows {known}")
    if names == list(features[: len(names)]):
        return itemgetter(slice(len(names)))
    positions = [features.index(name) for name in names]
    return lambda values: tuple(values[position] for position in positions)
