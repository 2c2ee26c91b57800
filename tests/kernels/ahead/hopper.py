"""A GPU that is not there, of Hopper where no other is asked for: Triton believes in it and compiles for it, tensors
stay on the CPU.

For programs of their own, in which Triton was not imported with its interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from heurgen_kernels.ahead import linear, warm
from heurgen_kernels.ahead.compiling import instead_of_compiling
from heurgen_kernels.gemm import call as gemm_call
from heurgen_kernels.host import call, launch
from heurgen_kernels.host.hardware import Device
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

TARGET = GPUTarget("cuda", 90, 32)
H200 = Device("nvidia", (9, 0), 132)
L40S = Device("nvidia", (8, 9), 142, "", 99 * 1024)


def pretend(device: Device = H200) -> None:
    """From here on, launches of CPU tensors are laid out for one such GPU, and compiled for Hopper."""
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: TARGET, get_current_device=lambda: 0, get_current_stream=lambda _: 0
        )
    )
    call.device_of = warm.device_of = gemm_call.device_of = linear.device_of = lambda _: device
    torch._C._cuda_getCurrentRawStream = lambda _: 0
    launch.resident_programs = lambda *_: 2


class Seen(NamedTuple):
    """compiled: each (kernel, key) once; launched: of each launch, whether it went past Triton's dispatch, and the
    address of its first tensor.
    """

    compiled: list[tuple[str, Any]]
    launched: list[tuple[bool, int]]


@contextmanager
def watching() -> Iterator[Seen]:
    """Inside, kernels are remembered as compiled and as launched, and neither; launches are bound as on a GPU."""
    seen = Seen([], [])

    def run(*given: Any) -> None:
        """What Triton's launcher is called with: hooks, the last one at 8, then the arguments."""
        first = given[9][0] if isinstance(given[9], tuple) else given[9]
        seen.launched.append((given[8] is None, first if isinstance(first, int) else first.data_ptr()))

    def compile(kernel: Any, original: Any, key: Any, signature: Any, device: Any, *_: Any) -> Any:
        seen.compiled.append((kernel.fn.__qualname__, key))
        done = SimpleNamespace(launch_metadata=lambda *_: None, run=run, function=None, packed_metadata=())
        kernel.device_caches[device][0][key] = done
        return done

    with instead_of_compiling(compile):
        yield seen
