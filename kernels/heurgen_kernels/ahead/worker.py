"""A process that compiles: jobs come pickled on stdin, an answer to each goes to stdout.

python -m heurgen_kernels.ahead.worker
"""

from __future__ import annotations

import os
import pickle
import sys
from functools import cache
from importlib import import_module
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from .compiling import Job, Reference


def parts(job: Job) -> tuple[Any, GPUTarget]:
    """Triton's source and target of a job."""
    constants = {
        k: find(v.module, v.name) if isinstance(v, Reference) else v for k, v in job.constants.items()
    }
    kernel = find(*job.kernel)
    source = GluonASTSource if kernel.is_gluon() else ASTSource
    return source(kernel, job.signature, constants, job.attributes), GPUTarget(*job.target)


@cache
def find(module: str, name: str) -> Any:
    from ..gemm import launch as gemm
    from ..host import launch as attention

    attention.settle_cache_keys()
    gemm.settle_cache_keys()
    return getattr(import_module(module), name)


def compile(job: Job) -> str | None:
    """None, or why it failed. The kernel and its launcher go to Triton's cache on disk."""
    try:
        source, target = parts(job)
        compiled = triton.compile(source, target=target, options=job.options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if target.backend == "cuda":
        make_launcher(compiled)
    return None


def make_launcher(compiled: Any) -> None:
    """Compiles the C function that launches; where that is not possible without a driver, the launch does it."""
    try:
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(compiled.src, compiled.metadata)
    except Exception:
        return


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(compile(job), answers)
        answers.flush()


if __name__ == "__main__":
    main()
