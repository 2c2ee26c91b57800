"""The targets of `heurgen emit`: a name, what it takes, and the module whose `emit` renders it.

A target is one module of this folder (or a folder of its own) with

    def emit(module: ir.HeuristicModule, request: Request) -> Rendered

that checks its own output before it returns it. A new one is a line here and a section of docs/targets.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from heurgen import ir
from heurgen.base.errors import UsageError
from heurgen.render.target import Rendered, Request


@dataclass(frozen=True, slots=True)
class EmitTarget:
    """`takes`: the fields of `Request` beside `command` that mean something to it."""

    name: str
    home: str
    takes: frozenset[str] = frozenset()


_SELECTOR = frozenset(("vendor", "device", "capability"))
_FILES = _SELECTOR | {"at", "names"}
TARGETS = {
    target.name: target
    for target in (
        EmitTarget("python", "python"),
        EmitTarget("triton", "triton", _SELECTOR | {"parameters"}),
        EmitTarget("cpp", "cpp"),
        EmitTarget("json", "flat"),
        EmitTarget("triton-autotune", "triton_autotune", _SELECTOR),
        EmitTarget("inductor", "inductor", _SELECTOR | {"names"}),
        EmitTarget("vllm-moe", "vllm_moe", _FILES),
        EmitTarget("aiter-json", "aiter_json", _FILES | {"approximate"}),
    )
}
_OPTIONS = {
    "vendor": "--vendor",
    "device": "--device",
    "capability": "--capability",
    "parameters": "--parameter",
    "at": "--at",
    "names": "--map",
    "approximate": "--approximate",
}


def emit(module: ir.HeuristicModule, target: str, request: Request) -> Rendered:
    """Render a model for a target.

    Raises:
        UsageError: the target is unknown, or takes no such option.
        EmitError: the model cannot be said in the target's form, or the text must not be written.
        ModelError: the vendor is unknown.
    """
    if target not in TARGETS:
        raise UsageError(f"unknown target {target!r}", hint=f"known targets: {', '.join(TARGETS)}")
    found = TARGETS[target]
    for name, option in _OPTIONS.items():
        if getattr(request, name) and name not in found.takes:
            users = ", ".join(t.name for t in TARGETS.values() if name in t.takes)
            raise UsageError(f"--target {target} takes no {option}", hint=f"{option} goes with {users}")
    rendered = import_module(f"heurgen.render.{found.home}").emit(module, request)
    assert isinstance(rendered, Rendered)
    return rendered
