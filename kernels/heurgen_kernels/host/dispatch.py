"""Triton's dispatch: whether launches may go past it, what goes through it, in which order kernels are hashed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from types import ModuleType
from typing import Any

import torch
from triton import knobs
from triton.language import constexpr, dtype
from triton.runtime.jit import JITFunction

# Whether launches of this thread or task launch: see `compiling`.
launching: ContextVar[bool] = ContextVar("launching", default=True)
# Triton's launch hooks: a profiler adds to these chains, or puts something else in their place. The settings are read
# through their dict, since Triton's own attributes cost half a microsecond.
_ENTER, _EXIT, _KNOBS = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook, vars(knobs.runtime)
current_device = getattr(torch._C, "_cuda_getDevice", lambda: -1)  # torch for a CPU has none


def bindable() -> bool:
    """Whether a compiled kernel may be launched past Triton's dispatch now, which alone tells profilers of launches."""
    return launching.get() and not (
        _ENTER.calls
        or _EXIT.calls
        or _KNOBS.get("launch_enter_hook", _ENTER) is not _ENTER
        or _KNOBS.get("launch_exit_hook", _EXIT) is not _EXIT
    )


@contextmanager
def compiling() -> Iterator[None]:
    """Inside, launches of this thread or task compile and load, and launch nothing: none goes past `through_triton`,
    and none is bound.
    """
    token = launching.set(False)
    try:
        yield
    finally:
        launching.reset(token)


def through_triton(
    kernel: Any, grid: tuple[int, ...], arguments: Iterable[Any], options: dict[str, Any]
) -> Any:
    """The one place where the launch path gives a kernel to Triton's own dispatch. Returns what Triton does: the
    compiled kernel, None where there is none (interpreted, or a tool compiles nothing).
    """
    hear(kernel)
    try:
        if launching.get():
            return kernel[grid](*arguments, **options)
        compiled = kernel.run(*arguments, grid=grid, warmup=True, **options)
    except RuntimeError as error:
        if "active drivers" not in str(error):
            raise
        raise RuntimeError(
            "Triton finds no GPU; with TRITON_INTERPRET=1, set before Triton is imported, a CPU interprets kernels"
        ) from error
    getattr(compiled, "run", None)  # Triton loads a kernel when first asked for its launcher
    return compiled


def hear(kernel: Any) -> None:
    """Lets hooks of compilation, as vLLM's monitor is one, hear of a kernel whatever its constants are.

    Triton tells a hook of them in JSON, in which it writes a type that is a constant of its own, but none within a
    named tuple, and no @triton.jit function: the launch ended in a TypeError.
    """
    if "_call_hook" in vars(kernel) or not hasattr(kernel, "_call_hook"):
        return
    original = kernel._call_hook
    asked = signature(original)

    def call_hook(*args: Any, **kwargs: Any) -> Any:
        given = asked.bind(*args, **kwargs)
        constants = given.arguments.get("constants", {})
        if unwritten := {name: repr(value) for name, value in constants.items() if not _written(value)}:
            given.arguments["constants"] = {**constants, **unwritten}
        return original(*given.args, **given.kwargs)

    kernel._call_hook = call_hook


def _written(constant: Any) -> bool:
    """Whether Triton writes a constant of a kernel to JSON: it names a type that is one."""
    try:
        json.dumps(constant.value if isinstance(constant, constexpr) else constant)
    except TypeError:
        return isinstance(constant, dtype)
    return True


def hash_in_turn(modules: Iterable[ModuleType]) -> None:
    """Hash the modules' kernels in one order, callees first, before the first of them is compiled.

    Triton 3.6 takes the constexpr globals of a callee into the hash of its caller only where the callee was hashed
    before: the key in the disk cache then depends on which kernel a process compiled first, and kernels compiled in
    parallel by a tuner's workers would be compiled again.
    """
    for module in modules:
        for function in vars(module).values():
            if isinstance(function, JITFunction):
                function.cache_key  # noqa: B018
