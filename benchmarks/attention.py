"""Attention side by side in one run: FlashAttention-3, vLLM's Triton kernel, and ours.

    PYTHONPATH=kernels:benchmarks python benchmarks/attention.py -o results [--budget 400] \\
        [--heuristics MODULE]

Scenarios are drawn with a fixed seed that no training workload uses. Ours is timed with every config of a short list
(the best of them is `oracle`, the best over all scenarios `single`), as `paged_attention` chooses by itself
(`selector`), and as it chooses where nobody says `total_seqlen_k`, as vLLM calls (`without total`). Times are medians
of interleaved launches, the cache flushed before each, the GPU kept behind the host by a spin, so that host time is
in none of them; host time of a launch is a column of its own. `graph` columns replay a recorded CUDA graph.
FlashAttention-3's scheduler metadata is computed outside the timing. Writes attention.csv, attention.json (summary),
attention.png where matplotlib is installed; prints the table.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib
import json
import math
import multiprocessing
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import peers
import torch
from clock import Clock, ceilings, host_time, recorded
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.tools.tunable import make_inputs

Lengths = tuple[tuple[int, int], ...]
FEATURES = {"num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16"}
DECODE = [
    Config("split_kv", 16, tile, warps, stages, segments)
    for tile, warps, stages in ((16, 1, 3), (16, 1, 4), (32, 2, 5), (64, 4, 2), (128, 4, 2))
    for segments in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
] + [Config("q_block", 16, 64, 4, 2), Config("q_block", 16, 128, 4, 2)]
SPECIALISED = [Config("warp_specialized", 128, t, 4, s) for t, s in ((64, 3), (64, 4), (128, 2))]
PROMPT = SPECIALISED + [Config("q_block", 64, t, 4, s) for t, s in ((32, 2), (32, 3), (64, 2), (64, 3))]
CHUNK = PROMPT + [c._replace(num_segments=n) for c in SPECIALISED for n in (2, 3, 4)]
MIXED = CHUNK + [
    Config("mixed", 64, t, 4, s, n) for t, s in ((32, 2), (64, 2), (64, 3)) for n in (1, 2, 4, 8)
]
STAIRCASE = {
    "naive": Config("naive", 16, 16, 4, 1),
    "q_block": Config("q_block", 16, 16, 4, 2),
    "split_kv": Config("split_kv", 16, 16, 4, 2, 16),
    "free tile": Config("split_kv", 16, 64, 4, 2, 16),
}


def scenarios(seed: int) -> list[tuple[str, str, Lengths]]:
    """(class, name, lengths): decode, prefill (fresh and chunked) and mixed, Llama-3-8B shapes, 256 to
    65536 tokens.
    """
    random = Random(seed)

    def draw(count: int, top: int, low: float = 0.5) -> list[int]:
        return [max(1, int(top * random.uniform(low, 1))) for _ in range(count)]

    found: list[tuple[str, str, Lengths]] = []
    for count, top in (
        (1, 700), (1, 5000), (1, 50000), (3, 2500), (6, 12000), (12, 700), (12, 3000), (24, 6000), (48, 1500),
        (96, 3000), (192, 900),
    ):  # fmt: skip
        found.append(("decode", f"{count}x{top}", tuple((1, k) for k in draw(count, top))))
    for count, top in ((1, 400), (1, 900), (2, 1500), (6, 700), (24, 350), (3, 3000)):
        found.append(("prefill", f"{count}x{top}", tuple((k, k) for k in draw(count, top))))
    for count, top in ((1, 6000), (1, 15000), (4, 5500), (1, 30000)):
        found.append(("long", f"{count}x{top}", tuple((k, k) for k in draw(count, top, 0.9))))
    for count, top, share in ((1, 12000, 0.94), (3, 6000, 0.9), (6, 2000, 0.75)):
        found.append(("chunk", f"{count}x{top}", tuple((k - int(k * share), k) for k in draw(count, top))))
    for decodes, k, prompts, q, share in (
        (24, 1500, 2, 900, 0.0), (48, 800, 6, 300, 0.0), (6, 6000, 1, 3000, 0.0), (12, 3000, 2, 6000, 0.9),
        (96, 1000, 1, 2000, 0.0), (28, 4000, 3, 1200, 0.5),
    ):  # fmt: skip
        lengths = [(1, n) for n in draw(decodes, k)]
        lengths += [(n - int(n * share), n) for n in draw(prompts, q)]
        found.append(("mixed", f"{decodes}x{k}+{prompts}x{q}", tuple(lengths)))
    return found


def floor_ms(lengths: Lengths, rates: tuple[float, float]) -> float:
    """The larger of bytes over bandwidth and operations over the matrix rate, causal."""
    keys = sum(k for _, k in lengths)
    queries = sum(q for q, _ in lengths)
    moved = 2 * (2 * keys * 8 * 128 + 2 * queries * 32 * 128)
    pairs = sum(q * k - q * (q - 1) // 2 for q, k in lengths)
    return max(moved / rates[0], 4 * pairs * 32 * 128 / rates[1]) * 1e3


def configs_of(kind: str) -> list[Config]:
    return {"decode": DECODE, "prefill": PROMPT, "long": PROMPT, "chunk": CHUNK, "mixed": MIXED}[kind]


def inputs_of(lengths: Lengths, page: int, fresh: bool, seed: int) -> Any:
    """Pages hold all keys, for the peers; fresh K and V are further tensors of the same shape."""
    inputs = make_inputs(lengths, {**FEATURES, "page_size": page, "fresh": False}, "cuda", seed)
    for cache in (inputs.key_cache, inputs.value_cache):
        cache.nan_to_num_()  # FlashAttention-3 multiplies page tails of 128-token pages by 0
    if fresh:
        shape = (inputs.q.shape[0], 8, 128)
        for name in ("key", "value"):
            inputs.arguments[name] = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        inputs.arguments["has_prefix"] = any(q < k for q, k in lengths)
    return inputs


def our_call(inputs: Any, config: Config | None, heuristics: Any = None) -> Callable[[], torch.Tensor]:
    out = torch.empty_like(inputs.q)

    def call() -> torch.Tensor:
        return paged_attention(
            inputs.q, inputs.key_cache, inputs.value_cache, inputs.block_table, inputs.cu_seqlens_q,
            inputs.seq_lens,
            out=out, config=config, heuristics=heuristics, **inputs.arguments,
        )  # fmt: skip

    return call


def measure(kind: str, lengths: Lengths, page: int, fresh: bool, clock: Clock, tools: Any, heuristics: Any,
            stairs: bool) -> dict[str, float]:  # fmt: skip
    """Milliseconds by name: peers, `selector`, each config, `graph ...` of the first three."""
    inputs = inputs_of(lengths, page, fresh, sum(k for _, k in lengths))
    calls: dict[str, Callable[[], Any]] = {}
    if tools["fa3"]:
        calls["fa3"] = peers.fa3_call(inputs)
    if tools["vllm"]:
        calls["vllm"] = peers.vllm_call(tools["vllm"], inputs)
    calls["selector"] = our_call(inputs, None, heuristics)
    less = {name: value for name, value in inputs.arguments.items() if name != "total_seqlen_k"}
    calls["without total"] = our_call(replace(inputs, arguments=less), None, heuristics)
    hosts = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        hosts[f"host {name}"] = host_time(call)
    for name, call in list(calls.items()):
        replay = recorded(call)
        if replay is not None:
            calls[f"graph {name}"] = replay
    if not fresh:
        expected = calls["fa3"]() if tools["fa3"] else None
        got = calls["selector"]()
        if expected is not None and not relative(got, expected) < 1e-2:
            raise RuntimeError(f"{kind}: the selector's result differs from FlashAttention-3's")
    tiles = max(k for _, k in lengths) // 16
    for config in configs_of(kind):
        if config.num_segments <= max(tiles, 1):
            calls[repr(tuple(config[:6]))] = our_call(inputs, config)
    if stairs:
        calls |= {f"stair {name}": our_call(inputs, config) for name, config in STAIRCASE.items()}
        grid = recorded(our_call(inputs, GRAPH))
        if grid is not None:
            calls["stair static grid, graph"] = grid
    working = {}
    for name, call in calls.items():
        try:
            call()
            torch.cuda.synchronize()
            working[name] = call
        except Exception as error:  # a config that does not fit is left out, and said
            print(f"  {name}: {type(error).__name__}: {str(error)[:80]}")
    return dict(zip(working, clock.medians(list(working.values())), strict=True)) | hosts


def compile_one(job: tuple[Config, int, bool]) -> str | None:
    """Launch a config once in a process of its own, on a small batch, so that its kernel is in Triton's
    cache.
    """
    config, page, fresh = job
    small: Lengths = ((40, 400), (300, 300)) if config.BLOCK_M > 16 else ((1, 400), (1, 30))
    try:
        inputs = inputs_of(small, page, fresh, 0)
        our_call(inputs, config)()
        if fresh:
            inputs.arguments["has_prefix"] = False
            our_call(inputs, config)()
        torch.cuda.synchronize()
    except Exception as error:  # the measurement meets it again, and says so
        return f"{config}: {type(error).__name__}"
    return None


def kernels_of(configs: Sequence[Config]) -> list[Config]:
    """Configs that differ in more than the number of segments, which is no part of a compiled kernel."""
    return list(dict.fromkeys(c._replace(num_segments=min(c.num_segments, 2)) for c in configs))


def compile_all() -> None:
    jobs = [(c, 16, False) for c in kernels_of([*DECODE, *PROMPT, *CHUNK, *MIXED, *STAIRCASE.values()])]
    jobs += [(c, 16, True) for c in kernels_of([*PROMPT, *CHUNK, *MIXED])]
    jobs += [(c, 128, False) for c in kernels_of([*DECODE, *PROMPT, *CHUNK, *MIXED])]
    workers = max(1, min(14, (os.cpu_count() or 2) - 2))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for failure in pool.map(compile_one, jobs):
            if failure:
                print(failure)


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.float() - expected.float()).norm() / expected.float().norm())


def mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means by (class, page, fresh): speed-up of the selector and of the oracle over each peer."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[f"{row['class']} page {row['page']}{' fresh' if row['fresh'] else ''}"].append(row)
        if row["class"] in ("prefill", "long", "chunk"):
            groups[f"all prefill page {row['page']}{' fresh' if row['fresh'] else ''}"].append(row)
    found = {}
    for name, group in groups.items():
        line: dict[str, float] = {"count": len(group)}
        for peer in ("fa3", "vllm", "graph fa3", "graph vllm"):
            ours = "graph selector" if peer.startswith("graph") else "selector"
            both = [row for row in group if row.get(peer) and row.get(ours)]
            line[f"{peer} / selector"] = mean([row[peer] / row[ours] for row in both])
            line[f"{peer} / selector, least"] = min((row[peer] / row[ours] for row in both), default=math.nan)
            if not peer.startswith("graph"):
                line[f"{peer} / oracle"] = mean([row[peer] / row["oracle"] for row in both])
        line["selector / oracle"] = mean([row["selector"] / row["oracle"] for row in group])
        line["without total / oracle"] = mean([row["without total"] / row["oracle"] for row in group])
        line["selector / oracle, most"] = max(row["selector"] / row["oracle"] for row in group)
        line["single / oracle"] = mean([row["single"] / row["oracle"] for row in group if row.get("single")])
        line["oracle / floor"] = mean([row["oracle"] / row["floor"] for row in group])
        for who in ("fa3", "vllm", "selector"):
            hosts = [row[f"host {who}"] for row in group if f"host {who}" in row]
            line[f"host us {who}"] = statistics.median(hosts) if hosts else math.nan
        found[name] = line
    return found


def finish_rows(rows: list[dict[str, Any]]) -> None:
    """oracle: the best of our times in a scenario. single: the config that is best on average over its
    group.
    """
    groups = defaultdict(list)
    for row in rows:
        configs = {k: v for k, v in row.items() if k.startswith("(")}
        row["oracle"] = min([*configs.values(), row["selector"]])
        groups[row["class"], row["page"], row["fresh"]].append(row)
    for group in groups.values():
        shared = set.intersection(*({k for k in row if k.startswith("(")} for row in group))
        if shared:
            best = min(sorted(shared), key=lambda name: mean([row[name] / row["oracle"] for row in group]))
            for row in group:
                row["single"] = row[best]


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """The staircase as a share of FlashAttention-3's speed, one line per scenario class."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [*(f"stair {name}" for name in STAIRCASE), "selector", "stair static grid, graph"]
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for kind in dict.fromkeys(row["class"] for row in rows):
        chosen = [
            row
            for row in rows
            if row["class"] == kind and row["page"] == 16 and not row["fresh"] and "fa3" in row
        ]
        heights = [mean([row["fa3"] / row[step] for row in chosen if row.get(step)]) for step in steps]
        axes.plot(range(len(steps)), heights, marker="o", label=kind)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_xticks(range(len(steps)), [step.removeprefix("stair ") for step in steps])
    axes.set_ylabel("speed, FlashAttention-3 = 1")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("results"))
    parser.add_argument(
        "--budget", type=float, default=400.0, help="seconds; scenarios that do not fit are left out"
    )
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument(
        "--heuristics", help="a generated module; default: what paged_attention uses by itself"
    )
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/attention.py needs a GPU: torch sees none")
    chosen.output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    reason = peers.load_fa3()
    vllm, other = peers.load_vllm()
    for message in (reason, other):
        if message:
            print(f"skipped: {message}")
    heuristics = importlib.import_module(chosen.heuristics) if chosen.heuristics else None
    gc.disable()  # a collection between two events would count as a launch's time
    compile_all()
    print(f"compiled after {time.monotonic() - start:.0f} s", flush=True)
    clock = Clock()
    rates = ceilings(clock)
    print(f"copy {rates[0] / 1e12:.2f} TB/s, bf16 product {rates[1] / 1e12:.0f} TFLOP/s")
    rows: list[dict[str, Any]] = []
    for page, fresh in ((16, False), (16, True), (128, False)):
        for kind, name, lengths in scenarios(chosen.seed):
            if fresh and kind == "decode":
                continue
            if time.monotonic() - start > chosen.budget:
                print(f"left out for want of time: page {page} fresh {fresh} {kind} {name}")
                continue
            stairs = page == 16 and not fresh
            times = measure(
                kind, lengths, page, fresh, clock, {"fa3": reason is None, "vllm": vllm}, heuristics, stairs
            )
            row = {
                "class": kind,
                "name": name,
                "page": page,
                "fresh": fresh,
                "floor": floor_ms(lengths, rates),
                **times,
            }
            rows.append(row)
            ours = {k: v for k, v in times.items() if k.startswith("(")}
            best = min(ours, key=lambda k: ours[k])
            print(f"{time.monotonic() - start:4.0f} s", line_of(row, best), flush=True)
            gc.collect()
            torch.cuda.empty_cache()
    write(rows, chosen.output)


def line_of(row: dict[str, Any], best: str) -> str:
    source = "fresh" if row["fresh"] else "pages"
    times = [f"{name} {row.get(name, math.nan):8.4f}" for name in ("fa3", "vllm", "selector", best)]
    return f"{row['page']:4d} {source} {row['class']:8s} {row['name']:18s} " + "  ".join(times)


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    finish_rows(rows)
    names = list(dict.fromkeys(key for row in rows for key in row))
    with (folder / "attention.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    found = summary(rows)
    (folder / "attention.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    for name, line in found.items():
        print(name, "  ".join(f"{key} {value:.3g}" for key, value in line.items()))
    plot(rows, folder / "attention.png")


if __name__ == "__main__":
    main()
