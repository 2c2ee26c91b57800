"""What launches would compile, and compilation shared among processes.

What a launch compiles is taken from Triton itself, at the point where it found nothing in memory: so what is compiled
here and what a launch asks for cannot differ.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from random import Random
from typing import Any

from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.compiler.compiler import make_backend
from triton.runtime.cache import get_cache_key, get_cache_manager
from triton.runtime.jit import JITFunction

from ..device.combine import combine_kernel, static_combine_kernel
from ..device.mixed import mixed_kernel
from ..device.naive import naive_kernel
from ..device.pages import write_pages_kernel
from ..device.q_block import q_block_kernel
from ..device.split_kv import split_kv_kernel
from ..device.static_grid import static_grid_kernel
from ..device.warp_specialized import combine_prompts_kernel, warp_specialized_kernel
from ..device.widen import widen_kernel
from ..gemm.device.pad import pad_kernel, pad_words_kernel
from ..gemm.device.stream_k import stream_k_matmul
from ..gemm.device.vector import vector_matmul
from ..gemm.device.warp_specialized import warp_specialized_matmul
from ..host.dispatch import compiling

KERNELS = (
    naive_kernel, q_block_kernel, split_kv_kernel, static_grid_kernel, mixed_kernel, warp_specialized_kernel,
    combine_kernel, static_combine_kernel, combine_prompts_kernel, write_pages_kernel, widen_kernel,
    stream_k_matmul, vector_matmul, warp_specialized_matmul, pad_kernel, pad_words_kernel,
)  # fmt: skip
# Methods of these are replaced by one thread at a time: each puts back what it found.
_replacing = threading.RLock()


def compile_ahead(calls: Sequence[Callable[[], Any]], processes: int | None) -> int:
    """Compiles what the calls would launch, in so many processes (None: one for each processor at hand; 1: this one
    alone), and loads it.

    Returns how many kernels were not in Triton's cache on disk. A kernel that does not compile, or does not fit the
    GPU, is no reason to leave out the others: what was wrong with the first one is raised at the end.
    """
    if not all(hasattr(kernel, "_do_compile") for kernel in KERNELS):
        raise RuntimeError("Triton's interpreter is on (TRITON_INTERPRET): there is nothing to compile")
    if processes is not None and not (isinstance(processes, Integral) and processes >= 1):
        raise ValueError(f"processes is {processes!r}; expected a whole number of 1 and more, or None")
    with collecting() as jobs:
        make(calls)
    missing = not_on_disk(jobs)
    processes = len(os.sched_getaffinity(0)) if processes is None else processes
    shared = processes > 1 and share(missing, processes)
    with compiling(), refused_once() if shared else nullcontext():
        wrong = make(calls)
    if wrong:
        raise wrong[0]
    return len(missing)


def make(calls: Sequence[Callable[[], Any]]) -> list[Exception]:
    """Makes all calls; returns what was wrong with some. A ValueError, which comes before any kernel, is raised."""
    wrong: list[Exception] = []
    for call in calls:
        try:
            call()
        except ValueError:
            raise
        except Exception as error:
            wrong.append(error)
    return wrong


@dataclass(frozen=True, slots=True)
class Job:
    """One compilation as Triton asks for it. kernel: (module, name). constants may hold @triton.jit functions, by
    (module, name) too.
    """

    kernel: tuple[str, str]
    signature: dict[str, Any]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    options: dict[str, Any]
    target: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A @triton.jit function on its way to another process."""

    module: str
    name: str


def refer(value: Any) -> Any:
    return Reference(value.module, value.fn.__qualname__) if isinstance(value, JITFunction) else value


def importable(value: Any) -> bool:
    """Whether another process finds a constant: no function, or one that its module has under its name."""
    if not isinstance(value, JITFunction):
        return True
    return getattr(sys.modules.get(value.module), value.fn.__qualname__, None) is value


@contextmanager
def instead_of_compiling(act: Callable[..., Any]) -> Iterator[None]:
    """Inside, `act(kernel, original, *args)` takes the place of what Triton compiles a kernel with, for launches of
    this thread; other threads that replace it too wait.
    """
    thread = threading.get_ident()

    def replacement(kernel: Any) -> Callable[..., Any]:
        original = kernel._do_compile

        def method(*args: Any) -> Any:
            return act(kernel, original, *args) if threading.get_ident() == thread else original(*args)

        return method

    with _replacing:
        before = [(kernel, vars(kernel).get("_do_compile")) for kernel in KERNELS]
        for kernel in KERNELS:
            kernel._do_compile = replacement(kernel)
        try:
            yield
        finally:
            for kernel, method in before:
                if method is None:
                    del kernel._do_compile
                else:
                    kernel._do_compile = method


@contextmanager
def collecting() -> Iterator[list[Job]]:
    """Inside, launches of this thread neither compile nor launch; the list gets what they would have compiled and other
    processes can.
    """
    jobs: dict[Any, Job] = {}

    def compile(kernel: Any, original: Any, key: Any, *args: Any) -> None:
        job = job_of(kernel, *args)
        if job is not None:
            jobs[kernel.fn.__qualname__, key] = job

    collected: list[Job] = []
    with compiling(), instead_of_compiling(compile):
        yield collected
    collected.extend(jobs.values())


def job_of(
    kernel: Any, signature: Any, device: Any, constants: Any, options: Any, attributes: Any, warmup: bool
) -> Job | None:
    """Of what Triton hands to `_do_compile`. None for what no other process finds, a caller's own chooser of a static
    grid: the launch compiles it.
    """
    if not all(importable(value) for value in constants.values()):
        return None
    target = kernel.device_caches[device][2]
    return Job(
        (kernel.module, kernel.fn.__qualname__), signature, {k: refer(v) for k, v in constants.items()},
        attributes, dict(options.__dict__), (target.backend, target.arch, target.warp_size),
    )  # fmt: skip


@contextmanager
def refused_once() -> Iterator[None]:
    """Inside, one launch of each kernel says why it does not compile; others that are not on disk, where processes have
    tried them all, are not tried again. With a Triton that refuses a kernel they took minutes, one after the other.
    """
    refusals: dict[Any, Exception] = {}

    def compile(kernel: Any, original: Any, key: Any, *args: Any) -> Any:
        name = kernel.fn.__qualname__
        if name in refusals and (job := job_of(kernel, *args)) and not_on_disk([job]):
            raise refusals[name]
        try:
            return original(key, *args)
        except Exception as refusal:
            refusals[name] = refusal
            raise

    with instead_of_compiling(compile):
        yield


def not_on_disk(jobs: list[Job]) -> list[Job]:
    """The jobs that Triton's cache on disk has no kernel for."""
    from .worker import parts

    variables = get_cache_invalidating_env_vars()
    missing = []
    for job in jobs:
        source, target = parts(job)
        backend = make_backend(target)
        options = backend.parse_options({**job.options, **source.parse_options()})
        key = get_cache_key(source, backend, options, env_vars=variables)
        folder = get_cache_manager(hashlib.sha256(key.encode()).hexdigest())
        if not folder.get_group(f"{source.name[:150]}.json"):
            missing.append(job)
    return missing


def told(jobs: list[Job]) -> dict[str, str]:
    """What processes must be told to find the cache keys that this one has.

    A key holds what ptxas said of itself when this process first asked. Inductor asks, then puts PyTorch's own ptxas
    in the place of Triton's (TRITON_PTXAS_PATH): whoever asks later would compile for keys that nobody here has.
    """
    if jobs[0].target[0] != "cuda":
        return {}
    from triton.backends.nvidia.compiler import get_ptxas_version

    return {"TRITON_MOCK_PTX_VERSION": get_ptxas_version(jobs[0].target[1])}


def share(jobs: list[Job], processes: int) -> bool:
    """Compiles into Triton's cache on disk, in so many processes; what one fails at is left to whoever launches it.
    Whether all were tried.

    The processes are of a program of their own (`worker.py`), which a server's daemonic workers may start too. They use
    no GPU. The order differs from caller to caller: the workers of a model on several GPUs, which all begin now, find
    much of it done.
    """
    if not jobs:
        return True
    # imports from where this process does: `-m` alone would look for every module in the working directory first
    places = {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path), "PYTHONSAFEPATH": "1"}
    environment = {**os.environ, **told(jobs), **places, "CUDA_VISIBLE_DEVICES": ""}
    mixed = Random(os.getpid()).sample(jobs, len(jobs))
    ordered = sorted(mixed, key=lambda job: "combine" in job.kernel[1])  # short ones last: all end together
    given = pickle.dumps((ordered, min(processes, len(jobs))))
    worker = [sys.executable, "-m", "heurgen_kernels.ahead.worker"]
    try:
        ended = subprocess.run(worker, input=given, env=environment, stdout=subprocess.DEVNULL, check=False)
    except OSError:  # it cannot start
        return False
    return ended.returncode == 0
