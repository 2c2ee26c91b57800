"""A program that compiles in many processes: (jobs, how many processes) come pickled on stdin.

python -m heurgen_kernels.ahead.worker

It is the first process's copies that compile: torch and Triton take seconds to import, beside others of their kind on
the same processors more than most kernels take to compile.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from contextlib import suppress
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


def compile(job: Job) -> None:
    """The kernel and its launcher go to Triton's cache on disk; what does not compile is the launch's to say."""
    try:
        source, target = parts(job)
        compiled = triton.compile(source, target=target, options=job.options)
    except Exception:
        return
    if target.backend == "cuda":
        make_launcher(compiled)


def make_launcher(compiled: Any) -> None:
    """Compiles the C function that launches; where that is not possible without a driver, the launch does it."""
    try:
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(compiled.src, compiled.metadata)
    except Exception:
        return


def work(jobs: list[Job], numbers: int, first: int) -> None:
    """Compiles the jobs whose numbers this process is the first to read from a pipe, while the first process lives."""
    while os.getppid() == first and (number := os.read(numbers, 4)):
        compile(jobs[int.from_bytes(number, "little")])


def main() -> None:
    server, first = os.getppid(), os.getpid()
    jobs, processes = pickle.load(sys.stdin.buffer)
    for job in jobs:
        with suppress(Exception):  # a kernel that is not to be imported here: its launch compiles it
            find(*job.kernel)
    numbers, given = os.pipe()
    for _ in range(processes):
        if os.fork() == 0:
            os.close(given)
            work(jobs, numbers, first)
            os._exit(0)
    os.close(numbers)
    with suppress(BrokenPipeError), open(given, "wb") as pipe:
        pipe.write(b"".join(number.to_bytes(4, "little") for number in range(len(jobs))))
    with suppress(ChildProcessError):  # none is left
        while os.getppid() == server:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)


if __name__ == "__main__":
    main()
