"""The real sessions: CUDA or ROCm through torch, and Triton's interpreter. Imported in child processes."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heurgen.base.errors import UsageError
from heurgen.base.text import counted
from heurgen.logs.card import INTERPRETER
from heurgen.machine import nvidia_driver
from heurgen.tune.conditions import Reading, nvml_reader
from heurgen.tune.graphs import GraphTimer
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.target import Target, first_line

# Read before every timed launch: 18 times the L2 of an H200, and 0.25 ms during which the host runs ahead. Zeros
# written there would stay in the cache as lines to write back, at the cost of what is timed.
FLUSH_BYTES = 1 << 30
MAX_FLUSHES = 20
_TOLERANCE = {"torch.bfloat16": 1e-2, "torch.float16": 2e-3, "torch.float32": 1e-3, "torch.float64": 1e-6}
_TOLERANCE |= {"torch.complex64": 1e-3, "torch.complex128": 1e-6}
_FP8_TOLERANCE = 6e-2


class TorchSession:
    """Launches on the first GPU that the process sees.

    Times are device events around one launch, after a flush of the cache; with `graphs`, in a recorded graph.
    """

    def __init__(self, target: Target, graphs: bool = False) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UsageError(
                "there is no GPU that torch can use", hint="--interpret runs a tiny sweep without one"
            )
        self._torch, self._tunable = torch, target.tunable
        torch.set_grad_enabled(False)
        self._device = _device(torch)
        self._inputs: Any = None
        self._expected: Any = None
        self._flush: Any = None
        self._flush_ms = 0.0
        self._flushes: dict[str, int] = {}
        self._graphs = GraphTimer(torch) if graphs else None
        self._read = nvml_reader(str(getattr(torch.cuda.get_device_properties(0), "uuid", "")))

    def device(self) -> DeviceInfo:
        return self._device

    def reading(self) -> Reading | None:
        return self._read()

    def open(self, scenario: Scenario) -> None:
        """Build the inputs; those of the scenario before are let go first."""
        self._inputs = self._expected = None
        self._flushes.clear()
        if self._graphs is not None:
            self._graphs.clear()
        self._inputs = inputs_of(self._tunable, scenario, "cuda")
        self._torch.cuda.synchronize()

    def check(self, config: Settings) -> str | None:
        """None where the launch gives the reference's answer, or what is wrong."""
        if self._expected is None:
            self._expected = reference_of(self._tunable, self._inputs)
        _reset(self._tunable, self._inputs)
        output = self._tunable.launch(self._inputs, config)
        self._torch.cuda.synchronize()
        return difference(self._tunable, output, self._expected)

    def sample(self, config: Settings) -> float:
        """Milliseconds of one launch. The host must be done before the flush is, or its lag is timed too."""
        self._warm_up()
        key = repr(config)
        if self._graphs is not None:
            return self._graphs.sample(
                key, self._flush.sum, lambda: self._tunable.launch(self._inputs, config)
            )
        flushes = self._flushes.get(key, 1)
        for attempt in range(4):
            elapsed, late = self._launch(config, flushes)
            if late <= 0.01 * elapsed:
                break
            if attempt:  # the first stall may be a kernel being loaded: it does not come again
                flushes = min(MAX_FLUSHES, flushes + 1 + math.ceil(late / self._flush_ms))
                self._flushes[key] = flushes
        return elapsed

    def _launch(self, config: Settings, flushes: int) -> tuple[float, float]:
        """Time of one launch, and by how much the host was late, in ms."""
        torch = self._torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        started = time.perf_counter()
        for _ in range(flushes):
            self._flush.sum()
        begin.record()
        self._tunable.launch(self._inputs, config)
        end.record()
        host = 1e3 * (time.perf_counter() - started)
        torch.cuda.synchronize()
        return begin.elapsed_time(end), host - flushes * self._flush_ms

    def _warm_up(self) -> None:
        if self._flush is not None:
            return
        torch = self._torch
        free, _ = torch.cuda.mem_get_info()
        self._flush = torch.zeros(min(FLUSH_BYTES, free // 4) // 4, dtype=torch.float32, device="cuda")
        times = []
        for _ in range(12):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            self._flush.sum()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        self._flush_ms = 0.9 * sorted(times)[2]

    def compile(self, config: Settings) -> str | None:
        """Compile without launching; gives the reason where a kernel needs more than a block may have."""
        compile_ = getattr(self._tunable, "compile", None)
        with compiling_only() as kernels:
            (compile_ or self._tunable.launch)(self._inputs, config)
        limit = self._device.shared_memory
        for kernel in kernels:
            shared = int(getattr(getattr(kernel, "metadata", None), "shared", 0) or 0)
            if limit and shared > limit:
                return f"needs {shared} bytes of shared memory, the device has {limit}"
        return None

    def broken(self) -> bool:
        """Whether the device's context is beyond use (an illegal access stays with it)."""
        try:
            self._torch.cuda.synchronize()
            self._torch.cuda.empty_cache()
        except Exception:  # any error here is the broken context speaking
            return True
        return False


class InterpreterSession:
    """Launches in Triton's interpreter: the worker was started with TRITON_INTERPRET=1. Host times."""

    def __init__(self, target: Target) -> None:
        import torch

        _mend_interpreter()
        self._torch, self._tunable = torch, target.tunable
        torch.set_grad_enabled(False)
        self._inputs: Any = None
        self._expected: Any = None

    def device(self) -> DeviceInfo:
        tools = tool_versions(self._torch)
        return DeviceInfo(vendor="nvidia", name=INTERPRETER, capability="9.0", tools=tools)

    def open(self, scenario: Scenario) -> None:
        self._expected = None
        self._inputs = inputs_of(self._tunable, scenario, "cpu")

    def check(self, config: Settings) -> str | None:
        if self._expected is None:
            self._expected = reference_of(self._tunable, self._inputs)
        _reset(self._tunable, self._inputs)
        return difference(self._tunable, self._tunable.launch(self._inputs, config), self._expected)

    def sample(self, config: Settings) -> float:
        started = time.perf_counter()
        self._tunable.launch(self._inputs, config)
        return 1e3 * (time.perf_counter() - started)

    def compile(self, config: Settings) -> str | None:
        return None

    def broken(self) -> bool:
        return False


def inputs_of(tunable: Any, scenario: Scenario, device: str) -> Any:
    """The tunable's inputs. An error says that it is theirs, but for one of memory: then the scenario does not fit."""
    try:
        return tunable.inputs(scenario, device)
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":
            raise
        raise RuntimeError(f"the tunable's inputs raised {first_line(error)}") from error


def reference_of(tunable: Any, inputs: Any) -> Any:
    """The tunable's reference. Its error says so, of memory too: it is none of the config's, which may well fit."""
    try:
        return tunable.reference(inputs)
    except Exception as error:
        raise RuntimeError(f"the tunable's reference raised {first_line(error)}") from error


def difference(tunable: Any, output: Any, expected: Any) -> str | None:
    """What is wrong with an output: None, or a text. NaN and a wrong shape are wrong."""
    check = getattr(tunable, "check", None)
    if check is not None:
        reason = check(output, expected)
        return None if reason is None else str(reason)
    if isinstance(output, list | tuple):
        if not isinstance(expected, list | tuple) or len(output) != len(expected):
            found = len(expected) if isinstance(expected, list | tuple) else type(expected).__name__
            return f"launch returned {counted(len(output), 'output')}, reference {found}"
        pairs = zip(output, expected, strict=True)
        return next((d for d in (difference(tunable, o, e) for o, e in pairs) if d is not None), None)
    for function, value in (("launch", output), ("reference", expected)):
        if not hasattr(value, "shape"):
            return f"{function} returned {type(value).__name__}, expected a tensor"
    if output.shape != expected.shape:
        return f"the output has shape {tuple(output.shape)}, expected {tuple(expected.shape)}"
    dtype = str(output.dtype)
    default = _FP8_TOLERANCE if "float8" in dtype else _TOLERANCE.get(dtype, 0.0)
    given = getattr(tunable, "tolerance", None)
    limit = default if given is None else float(given)
    widen = "cdouble" if "complex" in f"{dtype} {expected.dtype}" else "double"
    exact = getattr(expected, widen)()
    norm = float(exact.norm())
    if not math.isfinite(norm):
        return "the reference holds NaN or infinity, to which no error is small: give the tunable a check"
    error = float((getattr(output, widen)() - exact).norm()) / (norm if norm > 0 else 1.0)
    return None if error <= limit else f"relative error {error:.3g}, allowed {limit:g}"


@contextmanager
def compiling_only() -> Iterator[list[Any]]:
    """Inside, Triton compiles launched kernels and launches none; the list collects what it compiled.

    A launch gives None instead of the compiled kernel, so that no caller keeps it and launches it past Triton.
    """
    from triton.runtime.jit import JITFunction

    kernels: list[Any] = []
    original = JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        kernels.append(original(self, *arguments, grid=grid, warmup=True, **options))

    JITFunction.run = run
    try:
        yield kernels
    finally:
        JITFunction.run = original


def _device(torch: Any) -> DeviceInfo:
    """What is known of the first GPU. Asking for the driver starts a process: once is enough."""
    found = torch.cuda.get_device_properties(0)
    hip = torch.version.hip is not None
    return DeviceInfo(
        vendor="amd" if hip else "nvidia",
        name=found.name,
        driver=nvidia_driver(),
        capability=found.gcnArchName if hip else f"{found.major}.{found.minor}",
        multiprocessors=found.multi_processor_count,
        shared_memory=int(getattr(found, "shared_memory_per_block_optin", 0)) or _shared_memory(),
        memory=found.total_memory,
        gpus=torch.cuda.device_count(),
        tools=tool_versions(torch),
    )


def tool_versions(torch: Any) -> dict[str, str]:
    """Versions that a time depends on."""
    tools = {"torch": str(torch.__version__), "python": platform.python_version()}
    runtime = torch.version.hip or torch.version.cuda
    if runtime:
        tools["hip" if torch.version.hip else "cuda"] = str(runtime)
    try:
        import triton

        tools["triton"] = str(triton.__version__)
    except ImportError:
        pass
    return tools


def _mend_interpreter() -> None:
    """NumPy 2.4 turns no array of one element into an int; the interpreter of Triton 3.6 expects it to. And it keeps
    bfloat16 as the upper halves of float32, whose products are none.
    """
    import numpy as np
    from triton.language import bfloat16, float32
    from triton.runtime import interpreter

    original, dot = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder.create_dot

    def patch(tensor: Any, *scope: Any) -> None:
        original(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), float32)

    def create_dot(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot(builder, widened(a), widened(b), *rest)

    interpreter._patch_lang_tensor = patch
    interpreter.InterpreterBuilder.create_dot = create_dot


def _reset(tunable: Any, inputs: Any) -> None:
    reset = getattr(tunable, "reset", None)
    if reset is not None:
        reset(inputs)


def _shared_memory() -> int:
    from triton.runtime import driver

    return int(driver.active.utils.get_device_properties(0)["max_shared_mem"])
