"""Whose kernels a GPU ran: Triton's, ours and what torch.compile wrote, or a library's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

OURS = ("heurgen_kernels", "llama")  # modules whose @triton.jit functions are taken for ours
INDUCTOR = ("triton_poi_", "triton_red_", "triton_per_", "triton_for_", "triton_tem_", "triton_unk_")
COPIES = ("Memcpy", "Memset")  # the driver's; no kernels


def foreign(names: Iterable[str], ours: Iterable[str]) -> list[str]:
    """Kernels, in order and once each, that are neither ours nor torch.compile's in Triton: those of cuBLAS (nvjet,
    gemm, gemv, splitK), CUTLASS, cuDNN, FlashAttention, PyTorch itself.

    A kernel of Triton's bears its function's name and nothing else; those of C++ may have signatures.
    """
    known = frozenset(ours)
    return [
        name
        for name in dict.fromkeys(names)
        if name not in known and not (name.isidentifier() and name.startswith(INDUCTOR))
        and not name.startswith(COPIES)
    ]  # fmt: skip


def our_kernels() -> set[str]:
    """Names of the @triton.jit functions of modules that are loaded, their helpers among them."""
    from triton.runtime.jit import KernelInterface

    return {
        value.fn.__name__
        for name, module in list(sys.modules.items())
        if name.split(".")[0] in OURS
        for value in list(vars(module).values())
        if isinstance(value, KernelInterface)
    }


def launched(call: Callable[[], Any]) -> list[str]:
    """Names of the kernels and copies that a call runs on the GPU, one for each run, in the order of their start.

    RuntimeError where the profiler sees none.
    """
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    events = [event for event in seen.events() if event.device_type == DeviceType.CUDA]
    if not events:
        raise RuntimeError("the profiler saw nothing on the GPU")
    return [event.name for event in sorted(events, key=lambda event: event.time_range.start)]
