"""A Hopper GPU that is not there: Triton believes in it and compiles for it, tensors stay on the CPU.

For programs of their own, in which Triton was not imported with its interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from heurgen_kernels.ahead import linear, warm
from heurgen_kernels.ahead.compiling import instead_of
from heurgen_kernels.gemm import call as gemm_call
from heurgen_kernels.host import call
from heurgen_kernels.host.hardware import Device
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

TARGET = GPUTarget("cuda", 90, 32)
H200 = Device("nvidia", (9, 0), 132)


def pretend() -> None:
    """From here on, launches of CPU tensors are for one H200."""
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: TARGET, get_current_device=lambda: 0, get_current_stream=lambda _: 0
        )
    )
    call.device_of = warm.device_of = gemm_call.device_of = linear.device_of = lambda _: H200


@contextmanager
def watching() -> Iterator[list[tuple[str, Any]]]:
    """Inside, kernels are not compiled but remembered as compiled; the list gets each (kernel, key) once."""
    compiled: list[tuple[str, Any]] = []

    def compile(kernel: Any, original: Any, key: Any, signature: Any, device: Any, *_: Any) -> Any:
        compiled.append((kernel.fn.__qualname__, key))
        done = SimpleNamespace(  # what no launch is bound to
            launch_metadata=lambda *_: None, run=lambda *_: None, function=None, packed=None
        )
        kernel.device_caches[device][0][key] = done
        return done

    with instead_of("_do_compile", compile):
        yield compiled
