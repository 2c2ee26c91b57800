"""Logs of several devices of one vendor, with a known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

A100, H100, H200 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200"
SPEC = """\
[kernel]
name = "gemm"

[features]
m = { type = "int", min = 1 }
n = { type = "int", min = 1 }
SPARE
[parameters]
BLOCK = { type = "int" }
num_warps = { type = "int" }
"""
CONFIGS = [(b, w) for b in (16, 32, 64, 128) for w in (4, 8)]


def spec_text(*device_columns: str) -> str:
    """The spec; with device columns as int features."""
    return SPEC.replace(
        "SPARE", "\n".join(f'{c} = {{ type = "int", min = 1 }}' for c in device_columns) + "\n"
    )


def times(m: NDArray[np.float64], n: NDArray[np.float64], wish: float) -> NDArray[np.float64]:
    """Times [S, C] on a device that wants blocks of the size `wish` times that of other devices, for large m * n."""
    best = np.clip(np.log2(m * n) / 4 - 0.5, 4, 7)[:, None] + np.log2(wish) * (m * n > 2**18)[:, None]
    block = np.log2([b for b, _ in CONFIGS])[None, :]
    warps = np.array([w for _, w in CONFIGS])[None, :]
    right = np.where(best > 5.5, 8, 4)
    return 0.01 * (m * n)[:, None] ** 0.5 * (1 + 0.25 * np.abs(block - best) + 0.1 * (warps != right))


def log_text(
    wishes: Mapping[str, float],
    n_scenarios: int = 60,
    noise: float = 0.01,
    seed: int = 0,
    facts: Mapping[str, Sequence[int]] | None = None,
    columns: Sequence[str] = (),
) -> str:
    """A log of the same shapes on every device. `facts`: values of `columns` on every device."""
    rng = np.random.RandomState(seed)
    m, n = (np.floor(2.0 ** (4 + 10 * rng.rand(n_scenarios))) for _ in range(2))
    lines = [",".join(["vendor", "device", "m", "n", *columns, "BLOCK", "num_warps", "status", "time_ms"])]
    for device, wish in wishes.items():
        found = times(m, n, wish) * np.exp(noise * rng.randn(n_scenarios, len(CONFIGS)))
        extra = [str(v) for v in (facts or {}).get(device, ())]
        for s in range(n_scenarios):
            for c, (block, warps) in enumerate(CONFIGS):
                cells = [
                    "nvidia",
                    device,
                    int(m[s]),
                    int(n[s]),
                    *extra,
                    block,
                    warps,
                    "ok",
                    f"{found[s, c]:.6f}",
                ]
                lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"
