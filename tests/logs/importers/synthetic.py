"""AutoHeuristic logs made up for the tests: the format of PyTorch's mm logs, invented numbers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

METADATA: dict[str, Any] = {
    "shared_memory": 166912,
    "device_capa": [8, 0],
    "name": "mm",
    "numerical_features": ["m", "k", "n", "mat1_stride_0", "m*k", "arith_intensity"],
    "categorical_features": ["mat1_dtype", "mat1_iscontig", "using_tf32"],
}
COLUMNS = (
    "m",
    "k",
    "n",
    "mat1_dtype",
    "mat1_stride_0",
    "mat1_iscontig",
    "m*k",
    "arith_intensity",
    "using_tf32",
)


def choices(n: int = 20) -> list[str]:
    """A bare name and Triton choices."""
    tiles = [(a, b, c) for a in (16, 32, 64, 128) for b in (32, 64) for c in (32, 64, 128)]
    return ["extern_mm"] + [
        f"type=triton_BLOCK-M={a}_BLOCK-K={b}_BLOCK-N={c}_numstages={2 + i % 4}_numwarps={4 + 4 * (i % 2)}"
        for i, (a, b, c) in enumerate(tiles[: n - 1])
    ]


def lines(n_shapes: int, *, n_choices: int = 20, repeats: int = 1, seed: int = 0) -> list[str]:
    """Metadata, header, then `n_shapes * n_choices * repeats` rows."""
    rng = random.Random(seed)
    out = [json.dumps(METADATA), ",".join((*COLUMNS, "choice", "feedback"))]
    for _ in range(n_shapes):
        m, k, n = (rng.randint(1, 8192) for _ in range(3))
        dtype = rng.choice(["torch.bfloat16", "torch.float16", "torch.float32"])
        tf32 = str(rng.random() < 0.5) if dtype == "torch.float32" else "not_float_32"
        intensity = m * k * n / (m * k + k * n + m * n)
        shape = f"{m},{k},{n},{dtype},{k * 4096},{rng.random() < 0.8},{m * k},{intensity},{tf32}"
        for choice in choices(n_choices):
            for _ in range(repeats):
                time = "inf" if rng.random() < 0.02 else repr(rng.uniform(0.005, 20.0))
                out.append(f"{shape},{choice},{time}")
    return out


def write(path: Path, n_shapes: int, **options: int) -> Path:
    path.write_text("\n".join(lines(n_shapes, **options)) + "\n")
    return path
