"""heurgen: GPU autotuning logs in, small dependency-free launch heuristics out.

    spec = heurgen.read_spec("kernel.toml")
    log = heurgen.read_logs(["log.csv"], spec)
    module = heurgen.train(log, spec)                        # HeuristicModule, the IR
    text = heurgen.render_python(module)                     # the module that a kernel imports
    heurgen.score(module, heurgen.cost_tables(log, spec))    # slowdown on a log
    heurgen.select(module, "nvidia", {"num_seqs": 8, ...})   # the interpreter

Every name is imported when it is first used, so that `import heurgen` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heurgen._version import __version__

if TYPE_CHECKING:
    from heurgen.audit.explain import Explanation, explain
    from heurgen.audit.score import Score, Summary, score
    from heurgen.costs import CostTable, cost_tables
    from heurgen.emit import write_atomic
    from heurgen.errors import EmitError, HeurgenError, LogError, ModelError, SpecError, UsageError
    from heurgen.ir import (
        Derived,
        Feature,
        HeuristicModule,
        Leaf,
        Membership,
        Node,
        Parameter,
        Selector,
        Split,
        select,
    )
    from heurgen.logs import TuningLog, read_logs
    from heurgen.render import render_python
    from heurgen.render.reader import read_module
    from heurgen.schema import from_json, json_schema, read_model, to_json
    from heurgen.spec import KernelSpec, read_spec
    from heurgen.train import train
    from heurgen.trees import FitOptions, evaluate, fit, suggest_derived
    from heurgen.trees.from_sklearn import from_sklearn
    from heurgen.validate import Validation, validate

_HOME = {
    "audit.explain": ("Explanation", "explain"),
    "audit.score": ("Score", "Summary", "score"),
    "costs": ("CostTable", "cost_tables"),
    "emit": ("write_atomic",),
    "errors": ("EmitError", "HeurgenError", "LogError", "ModelError", "SpecError", "UsageError"),
    "ir": ("Derived", "Feature", "HeuristicModule", "Leaf", "Membership", "Node", "Parameter", "Selector")
    + ("Split", "select"),
    "logs": ("TuningLog", "read_logs"),
    "render": ("render_python",),
    "render.reader": ("read_module",),
    "schema": ("from_json", "json_schema", "read_model", "to_json"),
    "spec": ("KernelSpec", "read_spec"),
    "train": ("train",),
    "trees": ("FitOptions", "evaluate", "fit", "suggest_derived"),
    "trees.from_sklearn": ("from_sklearn",),
    "validate": ("Validation", "validate"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = ["__version__", *sorted(_MODULE_OF)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heurgen' has no attribute {name!r}")
    value = getattr(import_module(f"heurgen.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
