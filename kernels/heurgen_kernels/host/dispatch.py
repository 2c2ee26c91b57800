"""Whether launches go past Triton's dispatch, and in which order kernels are hashed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

import torch
from triton import knobs
from triton.runtime.jit import JITFunction

# Whether launches of this thread or task go past Triton's dispatch where they can.
binding: ContextVar[bool] = ContextVar("binding", default=True)
# Triton's launch hooks: a profiler adds to these chains, or puts something else in their place. The settings are read
# through their dict, since Triton's own attributes cost half a microsecond.
_ENTER, _EXIT, _KNOBS = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook, vars(knobs.runtime)
current_device = getattr(torch._C, "_cuda_getDevice", lambda: -1)  # torch for a CPU has none


def bindable() -> bool:
    """Whether a compiled kernel may be launched past Triton's dispatch now, which alone tells profilers of launches."""
    return binding.get() and not (
        _ENTER.calls
        or _EXIT.calls
        or _KNOBS.get("launch_enter_hook", _ENTER) is not _ENTER
        or _KNOBS.get("launch_exit_hook", _EXIT) is not _EXIT
    )


@contextmanager
def unbound() -> Iterator[None]:
    """Inside, launches of this thread or task go through Triton's own dispatch: for tools that turn it into
    compilation alone.
    """
    token = binding.set(False)
    try:
        yield
    finally:
        binding.reset(token)


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
