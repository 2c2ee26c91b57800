"""Cost table -> fitted trees. The only place that imports scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heurgen.trees.compare import evaluate as evaluate
    from heurgen.trees.learn import fit as fit
    from heurgen.trees.options import FitOptions as FitOptions
    from heurgen.trees.suggest import suggest_derived as suggest_derived

_HOME = {"FitOptions": "options", "evaluate": "compare", "fit": "learn", "suggest_derived": "suggest"}
__all__ = ["FitOptions", "evaluate", "fit", "suggest_derived"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'heurgen.trees' has no attribute {name!r}")
    value = getattr(import_module(f"heurgen.trees.{_HOME[name]}"), name)
    globals()[name] = value
    return value
