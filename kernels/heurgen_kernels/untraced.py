"""torch.compile calls the entry points between its graphs: traced, they end in an error inside the launch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def untraced(operator: str) -> Callable[[Function], Function]:
    """Decorates a function whose place in a graph `operator` takes, one of torch.ops.heurgen.

    It does what torch.compiler.disable does, without its wrapper, which costs each call 230 ns and more, and without
    importing Dynamo, which takes a second. The names are torch's own: one that lacks them traces the function.
    """

    def decorate(function: Function) -> Function:
        marked: Any = function
        place = f"in a graph call torch.ops.heurgen.{operator}, after import heurgen_kernels.ops"
        marked._torchdynamo_disable = True
        marked._torchdynamo_disable_msg = f"it launches a kernel: {place}"
        with suppress(AttributeError):
            frames: Any = torch._C._dynamo.eval_frame
            skip = frames._FrameAction.SKIP
            frames.set_code_exec_strategy(marked.__code__, frames._FrameExecStrategy(skip, skip))
        return function

    return decorate
