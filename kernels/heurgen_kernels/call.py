"""One attention call, validated, and what there is to know of its device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .static_grid import default_segments

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


@dataclass(slots=True)
class Call:
    """The tensors and numbers of one call, validated. Shapes as `paged_attention`; scales are tensors or
    None.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    cu: torch.Tensor
    lens: torch.Tensor
    out: torch.Tensor
    max_q: int
    max_k: int
    scale: float
    new_k: torch.Tensor | None = None
    new_v: torch.Tensor | None = None
    left: int = -1
    right: int = 0
    softcap: float = 0.0
    alibi: torch.Tensor | None = None
    sinks: torch.Tensor | None = None
    q_scale: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None
    out_scale: torch.Tensor | None = None
    blocks: torch.Tensor | None = None
    block_q: int = 0
    choose: Any = default_segments
    forced: int = 0
    prefix: bool = True
    fused: bool = True


_processors: dict[int, int] = {}


def multiprocessors(device: int) -> int:
    """Streaming multiprocessors or compute units of a device number; 132 (an H100 or H200) for -1, a CPU."""
    found = _processors.get(device)
    if found is None:
        found = 132
        if device >= 0:
            found = torch.cuda.get_device_properties(device).multi_processor_count
        _processors[device] = found
    return found


def hopper(device: torch.device) -> bool:
    """Whether the device is an NVIDIA GPU of compute capability 9."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device)[0] == 9
