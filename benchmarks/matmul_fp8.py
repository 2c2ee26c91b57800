"""`matmul` with fp8 weights as it chooses, beside itself with bf16 weights and cuBLAS (torch.mm), eagerly, on one GPU.

    PYTHONPATH=kernels python benchmarks/matmul_fp8.py -o FOLDER [--budget 60]

x is bf16; weights are e4m3 with a float32 scale for each row, or for each block of 128 x 128. Layers of Llama-3 8B and
70B, of Qwen2.5 7B, and one that no model has. First, processes of their own compile what will be launched. Medians of
interleaved launches, cache cleared, host time excluded (`clock.Clock`). Writes matmul_fp8.json: milliseconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch  # noqa: E402
from clock import Clock  # noqa: E402
from heurgen_kernels import matmul  # noqa: E402

# N, K, whether N rows of gate lie beside N rows of up.
LAYERS = {
    "Llama-3 8B qkv": (6144, 4096, False), "Llama-3 8B output": (4096, 4096, False),
    "Llama-3 8B gate and up": (14336, 4096, True), "Llama-3 8B down": (4096, 14336, False),
    "Llama-3 70B qkv": (10240, 8192, False), "Llama-3 70B output": (8192, 8192, False),
    "Llama-3 70B gate and up": (28672, 8192, True), "Llama-3 70B down": (8192, 28672, False),
    "Qwen2.5 7B down": (3584, 18944, False), "5000 x 3008": (5000, 3008, False),
}  # fmt: skip
ROWS = (1, 2, 5, 8, 16, 20, 32, 64, 100, 128, 256, 500, 1000, 2048, 4096, 8192)
LARGEST = 6e11  # M * N * K of a cell: some five milliseconds
BLOCK = 128


def calls_of(m: int, layer: str) -> dict[str, Any]:
    """What is timed of a cell, by name; cuBLAS computes the product of a gated layer alone, without SiLU."""
    n, k, gated = LAYERS[layer]
    wide = 2 * n if gated else n
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(wide, k, device="cuda", dtype=torch.bfloat16) / k**0.5
    fp8 = (w * 30).to(torch.float8_e4m3fn)
    row = torch.rand(wide, device="cuda") + 0.5
    block = torch.rand(-(-wide // BLOCK), -(-k // BLOCK), device="cuda") + 0.5
    return {
        "cublas": lambda: torch.mm(x, w.T),
        "bf16": lambda: matmul(x, w, gated=gated),
        "row": lambda: matmul(x, fp8, w_scale=row, gated=gated),
        "block": lambda: matmul(x, fp8, w_scale=block, gated=gated),
    }


def compile_cell(cell: tuple[int, str]) -> None:
    for call in calls_of(*cell).values():
        call()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds after which no cell begins")
    given = parser.parse_args()
    began = time.monotonic()
    cells = [(m, layer) for m in ROWS for layer, (n, k, _) in LAYERS.items() if m * n * k <= LARGEST]
    workers = max(1, min(14, (os.cpu_count() or 1) - 2))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_cell, cells))
    clock, found = Clock(), []
    for m, layer in cells:
        if time.monotonic() - began > given.budget:
            break
        calls = calls_of(m, layer)
        for call in calls.values():
            call()
        times = clock.medians(list(calls.values()), rounds=9, loser=9)
        found.append(
            {"M": m, "layer": layer} | {name: round(t, 5) for name, t in zip(calls, times, strict=True)}
        )
    given.output.mkdir(parents=True, exist_ok=True)
    record = {"device": torch.cuda.get_device_name(), "cells": found}
    (given.output / "matmul_fp8.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
