"""Kernel tests run in Triton's interpreter on the CPU, or on the GPU where there is one.

The interpreter must be chosen before Triton is first imported, hence here. Everything is skipped,
with the reason,
where torch or Triton are not installed.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import pytest


def turned(visible: str, worker: str) -> str:
    """CUDA_VISIBLE_DEVICES of a worker of pytest-xdist ("gw5"): all that are visible, another one first for each."""
    devices = visible.split(",")
    first = int(worker.removeprefix("gw")) % len(devices)
    return ",".join(devices[first:] + devices[:first])


# Before CUDA starts. Where several devices are listed (gpu_check.py does) the tests' "cuda" is spread over them.
if "PYTEST_XDIST_WORKER" in os.environ and "," in os.environ.get("CUDA_VISIBLE_DEVICES", ""):
    os.environ["CUDA_VISIBLE_DEVICES"] = turned(
        os.environ["CUDA_VISIBLE_DEVICES"], os.environ["PYTEST_XDIST_WORKER"]
    )

_NEED_TORCH = (
    "api", "gpu", "gpu_check", "gpu_fp8", "gpu_llama", "gpu_matmul", "gpu_matmul_fp8", "gpu_transformers",
    "inference", "llama", "llama_benchmark", "untraced",
)  # fmt: skip
_MISSING = [name for name in ("torch", "triton") if find_spec(name) is None]
collect_ignore = (
    [*(f"test_{name}.py" for name in _NEED_TORCH), "host", "device", "gemm", "tools"] if _MISSING else []
)


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


if not _MISSING and not _has_gpu() and "triton" not in sys.modules:
    os.environ.setdefault("TRITON_INTERPRET", "1")

if not _MISSING and os.environ.get("TRITON_INTERPRET") == "1":
    from tests.kernels import interpreter

    interpreter.mend()
    interpreter.hasten()


@pytest.fixture(scope="session")
def device() -> str:
    """ "cuda", or "cpu" with the interpreter."""
    if _has_gpu():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip(
            "no GPU, and Triton was imported before the interpreter could be chosen (TRITON_INTERPRET=1)"
        )
    return "cpu"


@pytest.fixture
def gpu() -> str:
    if _MISSING:
        pytest.skip(f"{' and '.join(_MISSING)} not installed")
    if not _has_gpu():
        pytest.skip("needs an NVIDIA GPU; this machine has none")
    return "cuda"
