"""Triton's interpreter in a fifth of the time: what it works out anew at every operation is remembered.

Nothing that a kernel computes changes. Of Triton 3.6; a version that lacks one of these names fails at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy
from triton.language import core
from triton.runtime import interpreter


def hasten() -> None:
    """Call it once in a process that interprets."""
    # Each sum is checked for overflow by ten operations, whose answer is dropped where `debug` is off.
    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = replace(builder.options, sanitize_overflow=False)
    interpreter._patch_lang = _once_a_launch(interpreter._patch_lang)
    interpreter._get_np_dtype = _by_name(interpreter._get_np_dtype)
    core.block_type.__init__ = _block_types(core.block_type.__init__)
    core.tensor.__init__ = _tensors(core.tensor.__init__)


def mend() -> None:
    """NumPy 2.4 turns no array of one element into an int; the interpreter expects it to."""
    if tuple(int(part) for part in numpy.__version__.split(".")[:2]) < (2, 4):
        return
    original = interpreter._patch_lang_tensor

    def patch(tensor, *scope):
        original(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patch


def _once_a_launch(patch_lang: Any) -> Any:
    """`tl` is patched for functions of a module when a launch first comes to one, and not at every call."""
    nothing, launch, modules = interpreter._LangPatchScope(), interpreter._LangPatchScope(), set()

    def patch(function):
        nonlocal launch
        if not launch._changes:  # no launch runs: the last one has restored them
            modules.clear()
            launch = patch_lang(function)
            modules.add(function.__module__)
            return launch
        if function.__module__ not in modules:
            modules.add(function.__module__)
            patch_lang(function)
        return nothing

    return patch


def _by_name(np_dtype: Any) -> Any:
    """It makes a table of all types to look one up."""
    known: dict[str, Any] = {}

    def look_up(kind):
        scalar = kind.element_ty if isinstance(kind, core.block_type) else kind
        if scalar.name not in known:
            known[scalar.name] = np_dtype(scalar)
        return known[scalar.name]

    return look_up


def _block_types(init: Any) -> Any:
    known: dict[Any, dict[str, Any]] = {}

    def remembered(self, element_ty, shape):
        key = element_ty.name, *(getattr(size, "value", size) for size in shape)
        if key not in known:
            init(self, element_ty, shape)
            known[key] = dict(vars(self))
        vars(self).update(known[key])

    return remembered


def _tensors(init: Any) -> Any:
    """The shape and the number of elements as constants of the language."""
    known: dict[Any, tuple[Any, Any]] = {}

    def remembered(self, handle, type):
        shape = tuple(type.shape) if type.is_block() else ()
        if shape not in known:
            init(self, handle, type)
            known[shape] = self.shape, self.numel
        self.shape, self.numel = known[shape]
        self.handle, self.type, self.dtype = handle, type, type.scalar

    return remembered
