"""A made-up triton-dejavu cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

TAIL = "num_warps: 4, num_ctas: 1, num_stages: 2, maxnreg: None"
WriteCache = Callable[..., Path]


def cache(**changes: Any) -> dict[str, Any]:
    """A cache of two scenarios; `None` removes a key."""
    keys = ["('16', 'True', '0.5', 'torch.float16')", "('128', 'False', '0.5', 'torch.float16')"]
    data: dict[str, Any] = {
        "signature": "JITFunction(lib.kernels:my_kernel)",
        "total_bench_time_s": 1.5,
        "evaluated_configs": 3,
        "keys": ["MAX_SEQ_Q", "CAUSAL", "scale"],
        "cache": {keys[0]: f"BLOCK_N: 32, {TAIL}", keys[1]: f"BLOCK_N: 64, {TAIL}"},
        "timings": {keys[0]: [0.25], keys[1]: [1.5]},
        "timings_data": {"labels": ["ms"], "rep_t_ms": 100},
    }
    data |= changes
    return {k: v for k, v in data.items() if v is not None}
