"""A made-up AutoHeuristic log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

TRITON = "type=triton_BLOCK-M=64_BLOCK-K=32_BLOCK-N=64_numstages=3_numwarps=4"
METADATA = {
    "shared_memory": 232448,
    "device_capa": [9, 0],
    "name": "mixed_mm",
    "numerical_features": ["m", "k/(m*n)"],
    "categorical_features": ["dtype"],
}
HEADER = "m,k/(m*n),dtype,choice,feedback"
ROWS = (
    f"16,0.5,torch.float16,{TRITON},0.25",
    "16,0.5,torch.float16,extern_mm,inf",
    f"16,0.5,torch.float16,{TRITON},0.26",
    "4294967296,1e-05,torch.bfloat16,extern_mm,1.5",
)
WriteHeuristic = Callable[..., Path]
