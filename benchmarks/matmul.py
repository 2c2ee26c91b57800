"""Linear layers: ours beside cuBLAS, eager and under recorded graphs, and what is left to the hardware's limits.

    PYTHONPATH=kernels:benchmarks python benchmarks/matmul.py -o benchmarks/h200 [--budget 200] [--few | --unread]

One run, one device. A cell is a layer (N, K) and M rows of x; its speed cuBLAS's time / ours, above 1 ours is faster.
cuBLAS is the faster of torch.matmul through cuBLAS and through cuBLASLt. Ours is what `matmul` chooses by itself.
`gated` compares the fused kernel with cuBLAS and an element-wise kernel of Inductor's, `residual` with addmm. --configs
also times every config of the tunable's space: the best is the oracle. Writes matmul.json and matmul.csv, or of
layers whose rows no descriptor reads or writes (--unread, plain products alone) matmul_unread.json and .csv.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from attention import mean, relative
from clock import Clock, ceilings, recorded
from heurgen_kernels.gemm.api import matmul
from heurgen_kernels.tools.matmul_tunable import make_inputs, tunable

LAYERS = {
    "Llama-3 8B qkv": (6144, 4096), "Llama-3 8B o": (4096, 4096), "Llama-3 8B gate up": (28672, 4096),
    "Llama-3 8B down": (4096, 14336), "Llama-3 8B head": (128256, 4096), "Llama-3 8B, 2 ways, qkv": (3072, 4096),
    "Llama-3 8B, 2 ways, down": (4096, 7168), "Llama-3 8B, 8 ways, qkv": (768, 4096),
    "Llama-3 70B qkv": (10240, 8192), "Llama-3 70B down": (8192, 28672), "Llama-3 70B, 8 ways, gate up": (7168, 8192),
    "Llama-3 70B, 8 ways, down": (8192, 3584), "Granite 8B down": (4096, 12800), "Qwen2.5 7B qkv": (4608, 3584),
    "Qwen2.5 7B down": (3584, 18944), "Gemma-2 9B qkv": (8192, 3584), "5000 x 3000": (5000, 3000),
    "1536 x 9216": (1536, 9216),
}  # fmt: skip
FEW = ("Llama-3 8B qkv", "Llama-3 8B o", "Llama-3 8B down", "Llama-3 8B gate up", "Llama-3 70B, 8 ways, down")
UNREAD = {
    f"{n} x {k}": (n, k) for n, k in (
        (4096, 4100), (4096, 4097), (11008, 4098), (1000, 1501), (2048, 3004), (5120, 2730), (50257, 1600),
    )
}  # fmt: skip
ROWS = {
    "1 to 16": (1, 2, 4, 8, 16),
    "17 to 128": (17, 32, 48, 64, 100, 128),
    "256 on": (256, 512, 1000, 2048, 4096, 8192),
}
ROTATED = 300_000_000  # bytes of weights that a graph goes through: five times an H200's cache
MOST = 3e12  # operations of a cell: larger ones are left out


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("results"))
    parser.add_argument(
        "--budget", type=float, default=300.0, help="seconds; cells that do not fit are left out"
    )
    parser.add_argument(
        "--configs", action="store_true", help="also time every config of the space: the oracle"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--few", action="store_true", help="five layers")
    group.add_argument(
        "--unread", action="store_true", help="layers of rows that no descriptor reads or writes"
    )
    return parser.parse_args()


def blas(library: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with torch's products by `library`; torch reads the setting at each call."""

    def run() -> Any:
        torch.backends.cuda.preferred_blas_library(library)
        return call()

    return run


def configs_of(features: dict[str, Any]) -> list[dict[str, Any]]:
    from heurgen.tune.space import enumerate_configs

    space = enumerate_configs(tunable.space, "nvidia", list(tunable.features))
    return [dict(config) for config in space.configs if space.applies(config, features)]


def compile_one(config: dict[str, Any]) -> None:
    """In a process of its own, so that the kernel is in Triton's cache: of every kind of cell that is measured."""
    for gated in (False, True):
        for k in (4096, 3000):
            features = {"M": 64, "N": 512, "K": k, "gated": gated}
            given = make_inputs(features, "cuda", 0)
            works(
                str(config),
                lambda given=given, gated=gated: matmul(given.x, given.weight, gated=gated, config=config),
            )  # type: ignore[misc]


def compile_space() -> None:
    from heurgen.tune.space import enumerate_configs

    configs = [
        dict(config) for config in enumerate_configs(tunable.space, "nvidia", list(tunable.features)).configs
    ]
    workers = max(1, min(14, (os.cpu_count() or 2) - 2))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_one, configs))


def works(name: str, call: Callable[[], Any]) -> bool:
    try:
        call()
        torch.cuda.synchronize()
    except Exception as error:  # what does not run is left out, and said
        print(f"  {name}: {type(error).__name__}: {str(error)[:160]}", flush=True)
        return False
    return True


@cache
def gate_up() -> Callable[[torch.Tensor], torch.Tensor]:
    """silu(gate) * up of a product [M, 2 * I], one kernel of Inductor's."""

    def both(product: torch.Tensor) -> torch.Tensor:
        gate, up = product.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    return torch.compile(both, dynamic=True)


def calls_of(
    kind: str, x: torch.Tensor, w: torch.Tensor, residual: torch.Tensor
) -> dict[str, Callable[[], Any]]:
    """Theirs by library, and ours."""
    theirs: Callable[[], Any] = lambda: torch.mm(x, w.T)  # noqa: E731
    if kind == "gated":
        theirs = lambda: gate_up()(torch.mm(x, w.T))  # noqa: E731
    elif kind == "residual":
        theirs = lambda: torch.addmm(residual, x, w.T)  # noqa: E731
    more = {"gated": {"gated": True}, "residual": {"residual": residual}}.get(kind, {})
    return {name: blas(name, theirs) for name in ("cublas", "cublaslt")} | {
        "ours": lambda: matmul(x, w, **more)
    }


def rotation(calls: list[Callable[[], Any]]) -> Callable[[], Any] | None:
    """All calls, each with a weight of its own, as one graph: as layers follow each other in a server, so that a launch
    overlaps the end of the one before and finds its weight in no cache.
    """
    return recorded(lambda: [call() for call in calls])


def measure(kind: str, n: int, k: int, rows: int, clock: Clock, configs: bool) -> dict[str, Any]:
    """Milliseconds by name, and the relative difference of the results."""
    gated = kind == "gated"
    features = {"M": rows, "N": n // 2 if gated else n, "K": k, "gated": gated, "multiprocessors": 132}
    given = make_inputs(features, "cuda", rows + n + k)
    residual = torch.randn_like(given.out)
    calls = calls_of(kind, given.x, given.weight, residual)
    calls = {name: call for name, call in calls.items() if works(name, call)}
    row: dict[str, Any] = {}
    if "ours" in calls and "cublas" in calls:
        row["difference"] = relative(calls["ours"](), calls["cublas"]())
        if not row["difference"] < 1e-2:
            print(
                f"  WRONG: {kind} {n} x {k}, {rows} rows: relative difference {row['difference']:.3g}",
                flush=True,
            )
    copies = min(16, max(2, -(-ROTATED // (given.weight.numel() * 2))))
    weights = [given.weight, *(given.weight.clone() for _ in range(copies - 1))]
    for name in list(calls):
        replay = rotation([calls_of(kind, given.x, w, residual)[name] for w in weights])
        if replay is not None:
            calls[f"graph {name}"] = replay
    tried: dict[str, Callable[[], Any]] = {}
    for config in configs_of(features) if configs and kind != "residual" else ():
        call = lambda config=config: matmul(given.x, given.weight, gated=gated, out=given.out, config=config)  # noqa: E731
        if works(str(tuple(config.values())), call):
            tried[str(tuple(config.values()))] = call
    times = dict(zip(calls, clock.medians(list(calls.values()), 9, math.inf), strict=True))
    row |= {name: time / copies if name.startswith("graph ") else time for name, time in times.items()}
    row |= dict(zip(tried, clock.medians(list(tried.values()), 7) if tried else [], strict=True))
    if tried:
        ranked = sorted(tried, key=lambda name: row[name])
        row["oracle"], row["best"] = row[ranked[0]], ranked[0]
        row["next"] = " ".join(f"{name} {row[name] / row['oracle']:.3f}" for name in ranked[1:6])
    return row


def speeds(
    row: dict[str, Any], moved: float, operations: float, rates: tuple[float, float]
) -> dict[str, float]:
    """cuBLAS's time / ours, eager and replayed; the shares of what the device reaches."""
    theirs = min(row[name] for name in ("cublas", "cublaslt") if name in row)
    replayed = [row[f"graph {name}"] for name in ("cublas", "cublaslt") if f"graph {name}" in row]
    found = {"cublas / ours": theirs / row["ours"]}
    if replayed and "graph ours" in row:
        found["graph cublas / graph ours"] = min(replayed) / row["graph ours"]
    if "oracle" in row:
        found |= {"ours / oracle": row["ours"] / row["oracle"], "cublas / oracle": theirs / row["oracle"]}
    for name in ("ours", "graph ours"):
        if name in row:
            found[f"{name}: share of the copy rate"] = moved / rates[0] * 1e3 / row[name]
            found[f"{name}: share of the matrix rate"] = operations / rates[1] * 1e3 / row[name]
    return {name: round(value, 3) for name, value in found.items()}


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By kind and class of M: geometric means, the least, and cells of at least 16 MB of weights for the copy rate."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(f"{row['kind']}, M {row['class']}", []).append(row)
    found = {}
    for name, group in groups.items():
        line: dict[str, Any] = {"cells": len(group)}
        for key in ("cublas / ours", "graph cublas / graph ours", "cublas / oracle"):
            values = [row[key] for row in group if key in row]
            if values:
                line |= {key: round(mean(values), 3), f"{key}, least": min(values)}
        values = [row["ours / oracle"] for row in group if "ours / oracle" in row]
        if values:
            line |= {"ours / oracle": round(mean(values), 3), "ours / oracle, most": max(values)}
        for key in ("ours: share of the copy rate", "graph ours: share of the copy rate"):
            heavy = [row[key] for row in group if key in row and row["N"] * row["K"] * 2 >= 16e6]
            line[f"{key}, least from 16 MB on"] = min(heavy, default=None)
        found[name] = line
    return found


def jobs(chosen: argparse.Namespace) -> list[tuple[str, str, str, int, int, int]]:
    """(kind, class of M, layer, N, K, M), classes in turn, so that a budget that ends early has seen every layer."""
    layers = UNREAD if chosen.unread else {name: LAYERS[name] for name in (FEW if chosen.few else LAYERS)}
    found = []
    for kind in ("plain",) if chosen.unread else ("plain", "gated", "residual"):
        for label, counts in ROWS.items():
            for rows in counts:
                for name, (n, k) in layers.items():
                    fits = (
                        ("gate up" in name)
                        if kind == "gated"
                        else kind == "plain" or name.endswith(("down", " o"))
                    )
                    if fits and 2.0 * rows * n * k <= MOST:
                        found.append((kind, label, name, n, k, rows))
    return found


def write(rows: list[dict[str, Any]], rates: tuple[float, float], output: Path) -> None:
    result = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "copy TB/s": round(rates[0] / 1e12, 3),
        "matrix TFLOP/s": round(rates[1] / 1e12, 1), "summary": summary(rows), "cells": rows,
    }  # fmt: skip
    output.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    names = list(dict.fromkeys(name for row in rows for name in row))
    with output.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    chosen = arguments()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/matmul.py needs a GPU: torch sees none")
    chosen.output.mkdir(parents=True, exist_ok=True)
    output = chosen.output / ("matmul_unread" if chosen.unread else "matmul")
    start = time.monotonic()
    if chosen.configs:
        compile_space()
        print(f"compiled after {time.monotonic() - start:.0f} s", flush=True)
    gc.disable()  # a collection between two events would count as a launch's time
    clock = Clock()
    rates = ceilings(clock)
    print(f"copy {rates[0] / 1e12:.2f} TB/s, bf16 product {rates[1] / 1e12:.0f} TFLOP/s", flush=True)
    rows: list[dict[str, Any]] = []
    left_out = 0
    for kind, label, name, n, k, m in jobs(chosen):
        if time.monotonic() - start > chosen.budget:
            left_out += 1
            continue
        row = measure(kind, n, k, m, clock, chosen.configs)
        times = {key: value for key, value in row.items() if not key.startswith("(")}
        if "ours" not in row:
            continue
        found = speeds(row, 2.0 * (m * k + n * k + m * n), 2.0 * m * n * k, rates)
        kept = {key: round(value, 5) if isinstance(value, float) else value for key, value in times.items()}
        rows.append({"kind": kind, "class": label, "layer": name, "M": m, "N": n, "K": k, **found, **kept})
        print(
            f"{time.monotonic() - start:4.0f} s {kind} {name} {m}: {found} {row.get('best', '')}", flush=True
        )
        if len(rows) % 20 == 0:
            write(rows, rates, output)
            gc.collect()
            torch.cuda.empty_cache()
    write(rows, rates, output)
    print(json.dumps(summary(rows), indent=1))
    if left_out:
        print(f"left out for want of time: {left_out} cells")


if __name__ == "__main__":
    main()
