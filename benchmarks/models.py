"""Real models' layers, model x class: ours beside FlashAttention-3 (pages and contiguous) and vLLM's Triton defaults.

    PYTHONPATH=kernels:benchmarks python benchmarks/models.py -o benchmarks/h200 [--budget 300] [--configs]

One run, one device. Lengths are drawn with a seed that no training workload uses. A cell is a model and a class of
batches; its time is the geometric mean over its batches, its speed another's time / ours: above 1 ours is faster. Ours
is what `paged_attention` chooses by itself, told total_seqlen_k, and (`untold`) not told. `graph` replays recorded CUDA
graphs. fp8 caches are compared with vLLM's kernel. FlashAttention-3 wants Q in fp8 too and rounds the weights to fp8:
another computation, with a column of its own (`fp8 fa3 / ours`) that no mean has. --configs also times
every config of a short list, whose best is the oracle. Writes models.json, and models.png where matplotlib is there.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import peers
import torch
from attention import Lengths, mean, our_call, relative
from clock import Clock, ceilings, recorded
from heurgen_kernels.config import Config
from heurgen_kernels.host.select import NO_WINDOW
from heurgen_kernels.tools.tunable import make_inputs

SEED = 20261122


@dataclass(frozen=True, slots=True)
class Model:
    """A layer. window: keys that a token sees, 0 for all; page: tokens of a page."""

    heads: int
    heads_kv: int
    size: int = 128
    window: int = 0
    softcap: bool = False
    sinks: bool = False
    page: int = 16
    dtype: str = "bfloat16"

    def features(self, fresh: bool) -> dict[str, Any]:
        return {
            "num_query_heads": self.heads, "num_kv_heads": self.heads_kv, "head_size": self.size,
            "page_size": self.page, "dtype": self.dtype, "window": self.window or NO_WINDOW,
            "softcap": self.softcap, "sinks": self.sinks, "fresh": fresh,
        }  # fmt: skip


MODELS = {
    "Llama-3 8B": Model(32, 8),
    "Llama-3 70B": Model(64, 8),
    "Llama-3 70B, 4 ways": Model(16, 2),
    "Llama-3 70B, 8 ways": Model(8, 1, page=32),
    "Qwen2.5 7B": Model(28, 4),
    "Qwen3 235B, 4 ways": Model(16, 1),
    "Gemma-2 9B": Model(16, 8, 256, softcap=True),
    "Gemma-2 9B, window": Model(16, 8, 256, window=4096, softcap=True),
    "Gemma-3 4B": Model(8, 4, 256, page=32),
    "Gemma-3 4B, window": Model(8, 4, 256, window=1024),
    "gpt-oss": Model(64, 8, 64, sinks=True),
    "gpt-oss, window": Model(64, 8, 64, window=128, sinks=True),
    "Mistral 7B, window": Model(32, 8, window=4096, page=64),
    "Phi 32/32": Model(32, 32),
    "GPT 16/16 of 64": Model(16, 16, 64, page=128),
    "40/10 of 96": Model(40, 10, 96),
    "Llama-3 8B, fp8": Model(32, 8, dtype="float8_e4m3fn"),
}
CLASSES = ("single", "decode", "speculation", "prompts", "long", "chunks", "mixed")
SPLIT = [
    Config("split_kv", 16, tile, warps, stages, 1, programs)
    for tile, warps, stages in ((16, 1, 3), (32, 2, 3), (32, 2, 5), (64, 4, 2), (128, 4, 2))
    for programs in (1, 2, 4, 8, 16)
] + [Config("q_block", 16, 64, 4, 2), Config("q_block", 16, 128, 4, 2)]
FEW = SPLIT + [
    Config("split_kv", rows, 64, 4, stages, 1, programs)
    for rows, stages in ((32, 2), (64, 2), (64, 3)) for programs in (1, 2, 4)
]  # fmt: skip
SPECIALISED = [
    Config("warp_specialized", 128, tile, 4, stages, 1, programs)
    for tile, stages in ((64, 3), (128, 2)) for programs in (0, 1, 2)
]  # fmt: skip
BLOCKS = [Config("q_block", 64, tile, 4, 2) for tile in (32, 64)]
CONFIGS = {
    "single": [*SPLIT, *SPECIALISED[1:3]], "decode": [*SPLIT, *SPECIALISED[1:3]],
    "speculation": [*FEW, *SPECIALISED[:3]],
    "prompts": SPECIALISED + BLOCKS, "long": SPECIALISED, "chunks": SPECIALISED,
    "mixed": SPECIALISED + [Config("mixed", 64, 64, 4, 2, 1, programs) for programs in (1, 4)],
}  # fmt: skip


def batches(seed: int) -> dict[str, list[Lengths]]:
    """Lengths by class; the same for every model."""
    random = Random(seed)

    def draw(count: int, top: int, low: float = 0.5) -> list[int]:
        return [max(1, int(top * random.uniform(low, 1))) for _ in range(count)]

    def asks(q: int, lengths: list[int]) -> Lengths:
        return tuple((min(q, k), k) for k in lengths)

    return {
        "single": [asks(1, draw(1, 1800)), asks(1, draw(1, 9000))],
        "decode": [asks(1, draw(7, 3500)), asks(1, draw(28, 5000)), asks(1, draw(110, 1300))],
        "speculation": [asks(5, draw(4, 5000)), asks(4, draw(18, 2600)), asks(3, draw(70, 1700))],
        "prompts": [asks(10**6, draw(2, 1300)), asks(10**6, draw(7, 900))],
        "long": [asks(10**6, draw(1, 12500, 0.9)), asks(10**6, draw(3, 6100, 0.9))],
        "chunks": [asks(1100, draw(1, 12000, 0.9)), asks(500, draw(4, 5200, 0.8))],
        "mixed": [
            (*asks(1, draw(24, 2200)), *asks(10**6, draw(2, 1500))),
            (*asks(1, draw(40, 1100)), (700, 6900)),
        ],
    }


def floor_ms(model: Model, lengths: Lengths, rates: tuple[float, float]) -> tuple[float, float]:
    """(bytes over the copy rate, operations over the matrix rate) of what the tokens see."""
    width = 1 if model.dtype.startswith("float8") else 2
    window = model.window or NO_WINDOW
    keys = sum(min(k, window + q - 1) for q, k in lengths)
    queries = sum(q for q, _ in lengths)
    moved = model.size * (2 * keys * model.heads_kv * width + 2 * queries * model.heads * 2)
    pairs = sum(sum(min(position + 1, window) for position in range(k - q, k)) for q, k in lengths)
    return moved / rates[0] * 1e3, 4 * pairs * model.heads * model.size / rates[1] * 1e3


def inputs_of(model: Model, lengths: Lengths, fresh: bool) -> Any:
    """Pages hold all keys, for the peers; fresh K and V are further tensors of the same values' shape."""
    inputs = make_inputs(lengths, model.features(False), "cuda", sum(k for _, k in lengths))
    for cache in (inputs.key_cache, inputs.value_cache):
        if cache.element_size() > 1:
            cache.nan_to_num_()  # FlashAttention-3 multiplies page tails of 128-token pages by 0
    if fresh:
        shape = (inputs.q.shape[0], model.heads_kv, model.size)
        for name in ("key", "value"):
            inputs.arguments[name] = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        inputs.arguments["has_prefix"] = any(q < k for q, k in lengths)
    return inputs


def callables(
    model: Model, kind: str, lengths: Lengths, unified: Any, configs: bool
) -> dict[str, Callable[[], Any]]:
    """What is timed of one batch, by name."""
    inputs = inputs_of(model, lengths, False)
    calls: dict[str, Callable[[], Any]] = {}
    if model.dtype == "bfloat16":
        calls["fa3"] = peers.fa3_call(inputs)
    else:
        calls["fp8 fa3"] = peers.fa3_fp8_call(inputs)
    calls["vllm"] = peers.vllm_call(unified, inputs)
    calls["ours"] = our_call(inputs, None)
    less = {name: value for name, value in inputs.arguments.items() if name != "total_seqlen_k"}
    calls["untold"] = our_call(replace(inputs, arguments=less), None)
    if kind in ("prompts", "long"):
        fresh = inputs_of(model, lengths, True)
        calls["contiguous fa3"] = peers.contiguous_fa3_call(fresh)
        calls["ours fresh"] = our_call(fresh, None)
    for config in CONFIGS[kind] if configs else ():
        calls[repr(tuple(config[:7]))] = our_call(inputs, config)
        if "ours fresh" in calls:
            calls["fresh " + repr(tuple(config[:7]))] = our_call(fresh, config)
    return calls


def works(name: str, call: Callable[[], Any]) -> bool:
    try:
        call()
        torch.cuda.synchronize()
    except Exception as error:  # what does not run is left out, and said
        print(f"  {name}: {type(error).__name__}: {str(error)[:160]}")
        return False
    return True


def measure(
    model: Model, kind: str, lengths: Lengths, clock: Clock, unified: Any, configs: bool
) -> dict[str, float]:
    calls = callables(model, kind, lengths, unified, configs)
    calls = {name: call for name, call in calls.items() if works(name, call)}
    wrong = 0.0
    for ours, other in (("ours", "fa3" if "fa3" in calls else "vllm"), ("ours fresh", "contiguous fa3")):
        if ours in calls and other in calls:
            wrong = max(wrong, relative(calls[ours](), calls[other]()))
    if not wrong < 2e-2:
        print(f"  WRONG: relative difference {wrong:.3g}")
    for name in ("fa3", "vllm", "ours", "ours fresh", "contiguous fa3"):
        replay = recorded(calls[name]) if name in calls else None
        if replay is not None:
            calls[f"graph {name}"] = replay
    return dict(zip(calls, clock.medians(list(calls.values()), 5), strict=True)) | {"difference": wrong}


def compile_one(job: tuple[str, str]) -> str | None:
    """Launch all of a cell once in a process of its own, so that its kernels are in Triton's cache."""
    name, kind = job
    return launch_once(name, MODELS[name], kind, batches(SEED)[kind], "--configs" in sys.argv)


def launch_once(name: str, model: Model, kind: str, drawn: Sequence[Lengths], configs: bool) -> str | None:
    """None, or what went wrong before a launch."""
    try:
        unified, _ = peers.load_vllm()
        for lengths in drawn:
            calls = callables_but_fa3(model, kind, lengths, unified, configs)
            for label, call in calls.items():
                works(f"{name} {kind} {label}", call)
            del calls
    except Exception as error:  # the measurement meets it again, and says so
        return f"{name} {kind}: {type(error).__name__}: {str(error)[:160]}"
    return None


def callables_but_fa3(model: Model, kind: str, lengths: Lengths, unified: Any, configs: bool) -> Any:
    found = callables(model, kind, lengths, unified, configs)
    return {name: call for name, call in found.items() if "fa3" not in name}


def compile_all(compile_one: Callable[[Any], str | None], jobs: Sequence[Any]) -> None:
    """Each job in one of several processes; says what failed."""
    workers = max(1, min(14, (os.cpu_count() or 2) - 2))
    try:
        with ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), initializer=peers.load_fa3
        ) as pool:
            for failure in pool.map(compile_one, jobs, timeout=300):
                if failure:
                    print(failure)
    except (TimeoutError, BrokenProcessPool) as error:
        print(f"compiling ended: {type(error).__name__}")


def cell(rows: list[dict[str, float]]) -> dict[str, float]:
    """Geometric means over the batches of a cell."""

    def over(top: str, bottom: str, least: bool = False) -> float | None:
        found = [row[top] / row[bottom] for row in rows if top in row and bottom in row]
        return round(min(found) if least else mean(found), 3) if found else None

    line = {
        "fa3 / ours": over("fa3", "ours"), "fa3 / ours, least": over("fa3", "ours", True),
        "fp8 fa3 / ours": over("fp8 fa3", "ours"),
        "vllm / ours": over("vllm", "ours"), "vllm / ours, least": over("vllm", "ours", True),
        "contiguous fa3 / ours fresh": over("contiguous fa3", "ours fresh"),
        "fa3 / ours fresh": over("fa3", "ours fresh"),
        "graph fa3 / graph ours": over("graph fa3", "graph ours"),
        "graph vllm / graph ours": over("graph vllm", "graph ours"),
        "untold / ours": over("untold", "ours"), "oracle / ours": over("oracle", "ours"),
        "fa3 / oracle": over("fa3", "oracle"), "contiguous fa3 / oracle fresh": over("contiguous fa3", "oracle fresh"),
        "share of the copy rate": over("bytes floor", "ours"), "share of the matrix rate": over("matrix floor", "ours"),
    }  # fmt: skip
    return {name: value for name, value in line.items() if value is not None}


def summary(cells: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    every = [
        line["fa3 / ours"] for kinds in cells.values() for line in kinds.values() if "fa3 / ours" in line
    ]
    models = {
        name: round(mean([line["fa3 / ours"] for line in kinds.values() if "fa3 / ours" in line]), 3)
        for name, kinds in cells.items() if any("fa3 / ours" in line for line in kinds.values())
    }  # fmt: skip
    return {"fa3 / ours": round(mean(every), 3) if every else None, "models": models}


def plot(cells: dict[str, dict[str, dict[str, float]]], device: str, path: Path) -> None:
    """A heat map: FlashAttention-3's time over ours (vLLM's for fp8 caches), red below 1."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def value(line: dict[str, float]) -> float:
        return line.get("fa3 / ours", line.get("vllm / ours", math.nan))

    numbers = [[value(kinds.get(kind, {})) for kind in CLASSES] for kinds in cells.values()]
    figure, axes = pyplot.subplots(figsize=(8, 0.42 * len(cells) + 1.6))
    axes.imshow(
        [[math.log(v) for v in row] for row in numbers], cmap="RdYlGn", vmin=-0.7, vmax=0.7, aspect="auto"
    )
    for y, row in enumerate(numbers):
        for x, v in enumerate(row):
            axes.text(x, y, "" if math.isnan(v) else f"{v:.2f}", ha="center", va="center", fontsize=8)
    axes.set_xticks(range(len(CLASSES)), CLASSES)
    axes.set_yticks(range(len(cells)), [f"{n} (vLLM)" if MODELS[n].dtype != "bfloat16" else n for n in cells])
    axes.set_title(f"{device}: FlashAttention-3's time from pages / ours", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("results"))
    parser.add_argument(
        "--budget", type=float, default=300.0, help="seconds; cells that do not fit are left out"
    )
    parser.add_argument("--configs", action="store_true", help="also time a list of configs: the oracle")
    parser.add_argument("--models", default="", help="names' parts, separated by commas; all without it")
    parser.add_argument(
        "--classes", default=",".join(CLASSES), help="names, separated by commas; all without it"
    )
    return parser.parse_args()


def measure_cell(
    name: str,
    model: Model,
    kind: str,
    drawn: Sequence[Lengths],
    clock: Clock,
    rates: tuple[float, float],
    unified: Any,
    configs: bool,
) -> list[dict[str, float]]:
    """A row of times (ms) for each batch that was drawn, with its floors and the best of the configs tried."""
    rows = []
    for number, lengths in enumerate(drawn):
        row = measure(model, kind, lengths, clock, unified, configs)
        row["bytes floor"], row["matrix floor"] = floor_ms(model, lengths, rates)
        for side in ("", "fresh "):
            tried = {n: t for n, t in row.items() if n.startswith(f"{side}(")}
            if tried:
                best = min(tried, key=lambda n: tried[n])
                row[f"oracle {side}".strip()] = tried[best]
                print(f"    {name} {kind} {number}: best {best}")
        rows.append(row)
        gc.collect()
        torch.cuda.empty_cache()
    return rows


def main() -> None:
    chosen = arguments()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/models.py needs a GPU: torch sees none")
    chosen.output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    reason, (unified, other) = peers.load_fa3(), peers.load_vllm()
    if reason or other:
        raise SystemExit(reason or other)
    wanted = [part for part in chosen.models.split(",") if part]
    names = [name for name in MODELS if not wanted or any(part in name for part in wanted)]
    # classes in turn, so that a budget that ends early has seen every model
    jobs = [(name, kind) for kind in chosen.classes.split(",") for name in names]
    compile_all(compile_one, jobs)
    print(f"compiled after {time.monotonic() - start:.0f} s", flush=True)
    gc.disable()  # a collection between two events would count as a launch's time
    clock = Clock()
    rates = ceilings(clock)
    print(f"copy {rates[0] / 1e12:.2f} TB/s, bf16 product {rates[1] / 1e12:.0f} TFLOP/s", flush=True)
    cells: dict[str, dict[str, dict[str, float]]] = {name: {} for name in names}
    lines: list[dict[str, Any]] = []
    drawn = batches(SEED)
    for name, kind in jobs:
        if time.monotonic() - start > chosen.budget:
            print(f"left out for want of time: {name} {kind}")
            continue
        rows = measure_cell(name, MODELS[name], kind, drawn[kind], clock, rates, unified, chosen.configs)
        for number, row in enumerate(rows):
            times = {n: round(t, 5) for n, t in row.items()}
            lines.append({"model": name, "class": kind, "batch": number, **times})
        cells[name][kind] = cell(rows)
        print(f"{time.monotonic() - start:4.0f} s {name:22s} {kind:12s} {cells[name][kind]}", flush=True)
        write(cells, lines, rates, chosen.output)  # each time: what a time limit cuts off is kept
    plot(cells, torch.cuda.get_device_name(), chosen.output / "models.png")
    print(json.dumps(summary(cells), indent=1))


def write(
    cells: dict[str, dict[str, dict[str, float]]],
    lines: list[dict[str, Any]],
    rates: tuple[float, float],
    folder: Path,
) -> None:
    device = torch.cuda.get_device_name()
    result = {
        "device": device, "copy TB/s": round(rates[0] / 1e12, 3), "matrix TFLOP/s": round(rates[1] / 1e12, 1),
        "seed": SEED, "summary": summary(cells), "cells": cells, "batches": lines,
    }  # fmt: skip
    (folder / "models.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
