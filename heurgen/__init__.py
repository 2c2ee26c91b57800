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

from heurgen._version import __version__ as __version__

if TYPE_CHECKING:
    from heurgen.audit.advise import advise as advise
    from heurgen.audit.diff import diff as diff
    from heurgen.audit.explain import Explanation as Explanation
    from heurgen.audit.explain import explain as explain
    from heurgen.audit.score import Score as Score
    from heurgen.audit.score import score as score
    from heurgen.base.errors import EmitError as EmitError
    from heurgen.base.errors import HeurgenError as HeurgenError
    from heurgen.base.errors import LogError as LogError
    from heurgen.base.errors import ModelError as ModelError
    from heurgen.base.errors import SpecError as SpecError
    from heurgen.base.errors import UsageError as UsageError
    from heurgen.base.figures import Summary as Summary
    from heurgen.base.writing import write_atomic as write_atomic
    from heurgen.ir import Derived as Derived
    from heurgen.ir import Feature as Feature
    from heurgen.ir import HeuristicModule as HeuristicModule
    from heurgen.ir import Leaf as Leaf
    from heurgen.ir import Membership as Membership
    from heurgen.ir import Node as Node
    from heurgen.ir import Parameter as Parameter
    from heurgen.ir import Selector as Selector
    from heurgen.ir import Split as Split
    from heurgen.ir import select as select
    from heurgen.ir import shortlist as shortlist
    from heurgen.ir.schema import from_json as from_json
    from heurgen.ir.schema import json_schema as json_schema
    from heurgen.ir.schema import read_model as read_model
    from heurgen.ir.schema import to_json as to_json
    from heurgen.logs.costs import CostTable as CostTable
    from heurgen.logs.costs import cost_tables as cost_tables
    from heurgen.logs.tuning_log import TuningLog as TuningLog
    from heurgen.logs.tuning_log import read_logs as read_logs
    from heurgen.logs.validation import Validation as Validation
    from heurgen.logs.validation import validate as validate
    from heurgen.render.cpp import render_cpp as render_cpp
    from heurgen.render.flat import render_flat as render_flat
    from heurgen.render.python import render_python as render_python
    from heurgen.render.reader import read_module as read_module
    from heurgen.render.triton import render_triton as render_triton
    from heurgen.ship.training import train as train
    from heurgen.spec.kernel_spec import KernelSpec as KernelSpec
    from heurgen.spec.kernel_spec import read_spec as read_spec
    from heurgen.trees import FitOptions as FitOptions
    from heurgen.trees import evaluate as evaluate
    from heurgen.trees import fit as fit
    from heurgen.trees import suggest_derived as suggest_derived
    from heurgen.trees.from_sklearn import from_sklearn as from_sklearn

_HOME = {
    "audit.advise": ("advise",),
    "audit.diff": ("diff",),
    "audit.explain": ("Explanation", "explain"),
    "audit.score": ("Score", "score"),
    "base.figures": ("Summary",),
    "logs.costs": ("CostTable", "cost_tables"),
    "base.writing": ("write_atomic",),
    "base.errors": ("EmitError", "HeurgenError", "LogError", "ModelError", "SpecError", "UsageError"),
    "ir": (
        *("Derived", "Feature", "HeuristicModule", "Leaf", "Membership"),
        *("Node", "Parameter", "Selector", "Split", "select", "shortlist"),
    ),
    "logs.tuning_log": ("TuningLog", "read_logs"),
    "render.cpp": ("render_cpp",),
    "render.flat": ("render_flat",),
    "render.python": ("render_python",),
    "render.triton": ("render_triton",),
    "render.reader": ("read_module",),
    "ir.schema": ("from_json", "json_schema", "read_model", "to_json"),
    "spec.kernel_spec": ("KernelSpec", "read_spec"),
    "ship.training": ("train",),
    "trees": ("FitOptions", "evaluate", "fit", "suggest_derived"),
    "trees.from_sklearn": ("from_sklearn",),
    "logs.validation": ("Validation", "validate"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heurgen' has no attribute {name!r}")
    value = getattr(import_module(f"heurgen.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["__version__", *sorted(_MODULE_OF)]
