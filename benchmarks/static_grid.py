"""Decode under a recorded CUDA graph while the lengths change on the device between replays.

    PYTHONPATH=kernels:benchmarks python benchmarks/static_grid.py -o results      # the comparison
    PYTHONPATH=kernels:benchmarks python benchmarks/static_grid.py --constants     # what to record a graph with

Graphs are recorded once per batch size, at LONGEST keys a sequence; then each set of lengths is written to the
device and everything is timed on it: static_grid with the generated chooser, what the selector answers for the
recorded lengths, FlashAttention-3 (its splits, too, are those of the recorded lengths), and, launched eagerly with
the lengths known, the best of a list of configs, the selector, FlashAttention-3 with its metadata.
`static best` is static_grid with the best forced number of segments. Kernel times alone: see clock.Clock.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import attention
import peers
import torch
import triton
import triton.language as tl
from clock import Clock, recorded
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.host import launch
from heurgen_kernels.host.hardware import device_of
from heurgen_kernels.host.select import choose_segments
from heurgen_kernels.tools.static_tunable import Forced

LONGEST = 32768
BATCHES = (1, 4, 16, 64, 128)
SEGMENTS = (1, 2, 4, 8, 16, 32, 64)
CONSTANTS = ((16, 1, 3), (32, 1, 2), (32, 2, 2), (32, 2, 3), (64, 2, 2), (64, 4, 2))
Call = Callable[[], Any]


def lengths_of(count: int) -> dict[str, list[int]]:
    """Sets of keys per sequence, with a seed that no training uses."""
    random = Random(20_000 + count)

    def draw(top: int) -> list[int]:
        return [max(1, int(top * random.uniform(0.5, 1))) for _ in range(count)]

    sets = {f"up to {top}": draw(top) for top in (200, 1500, 8000, LONGEST)}
    if count > 1:
        sets["one long"] = [LONGEST, *draw(1000)[1:]]
        sets["tail"] = [min(LONGEST, max(1, int(random.lognormvariate(7, 1.2)))) for _ in range(count)]
    return sets


@triton.jit
def _ask(out, a, b, c, d, e, f, CHOOSE: tl.constexpr):
    tl.store(out, CHOOSE(a, b, c, d, e, f))


def chosen(lengths: list[int]) -> int:
    """What the chooser answers on the device."""
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    count, processors = len(lengths), device_of(out.device).processors
    _ask[(1,)](out, count, count, max(lengths), sum(lengths), 8, processors, choose_segments(None))
    return min(int(out), GRAPH.num_segments)


class Batch:
    """The tensors of one batch size and what was recorded on them. `inputs` are those of the longest lengths."""

    def __init__(self, count: int) -> None:
        self.inputs = attention.inputs_of(((1, LONGEST),) * count, 16, False, count)
        self.out = torch.empty_like(self.inputs.q)

    def call(self, config: Config | None, heuristics: Any = None, lengths: list[int] | None = None) -> Call:
        """lengths: what the host knows; without them that all are the longest."""
        i = self.inputs
        arguments = i.arguments | ({} if lengths is None else known(lengths))

        def run() -> torch.Tensor:
            return paged_attention(
                i.q, i.key_cache, i.value_cache, i.block_table, i.cu_seqlens_q, i.seq_lens,
                out=self.out, config=config, heuristics=heuristics, **arguments,
            )  # fmt: skip

        return run

    def at(self, lengths: list[int]) -> Any:
        """Write the lengths to the device; inputs of an eager launch that knows them."""
        self.inputs.seq_lens.copy_(torch.tensor(lengths, dtype=torch.int32))
        return dataclasses.replace(self.inputs, arguments=self.inputs.arguments | known(lengths))


def known(lengths: list[int]) -> dict[str, int]:
    return {"max_seqlen_k": max(lengths), "total_seqlen_k": sum(lengths)}


def graphs_of(batch: Batch, fa3: bool) -> dict[str, Call]:
    calls = {"static_grid": batch.call(GRAPH), "selector": batch.call(None)}
    if fa3:
        calls["fa3"] = peers.fa3_call(batch.inputs, metadata=False)
    found = {name: recorded(call) for name, call in calls.items()}
    return {f"graph {name}": replay for name, replay in found.items() if replay is not None}


def check(batch: Batch, replay: Call, name: str) -> None:
    batch.out.fill_(float("nan"))
    replay()
    got = batch.out.clone()
    expected = batch.call(Config("q_block", 16, 64, 4, 2))()
    error = attention.relative(got, expected)
    if not error < 1e-2:
        raise RuntimeError(f"{name}: relative error {error:.3g}")


def measure(
    batch: Batch, graphs: dict[str, Call], lengths: list[int], clock: Any, fa3: bool
) -> dict[str, float]:
    inputs = batch.at(lengths)
    for name in ("graph static_grid", "graph selector"):
        check(batch, graphs[name], name)
    calls: dict[str, Call] = dict(graphs)
    calls["eager selector"] = batch.call(None, None, lengths)
    if fa3:
        calls["eager fa3"] = peers.fa3_call(inputs)
    calls |= {f"static {n}": batch.call(GRAPH, Forced(n)) for n in SEGMENTS}
    tiles = max(max(lengths) // 16, 1)
    calls |= {
        f"{tuple(c[:6])}": batch.call(c, None, lengths) for c in attention.DECODE if c.num_segments <= tiles
    }
    for call in calls.values():
        call()
    torch.cuda.synchronize()
    taken = dict(zip(calls, clock.medians(list(calls.values()), loser=3.0), strict=True))
    row = {name: taken[name] for name in taken if name.startswith(("graph", "eager"))}
    row["eager best"] = min(t for name, t in taken.items() if name.startswith("("))
    row["static best"] = min(taken[f"static {n}"] for n in SEGMENTS)
    return row


def compare(out: Path | None) -> None:
    problem = peers.load_fa3()
    if problem:
        print(problem)
    compile_all([GRAPH, *attention.DECODE])
    clock, rows = Clock(), []
    for count in BATCHES:
        batch = Batch(count)
        graphs = graphs_of(batch, not problem)
        for name, lengths in lengths_of(count).items():
            row = measure(batch, graphs, lengths, clock, not problem)
            rows.append({"sequences": count, "lengths": name, "segments": chosen(lengths), **row})
        del batch, graphs
        torch.cuda.empty_cache()
    names = [n for n in rows[0] if n not in ("sequences", "lengths", "segments")]
    print("us; segments: what the chooser answers")
    print(f"{'seqs':>4} {'lengths':<12} {'segments':>8}" + "".join(f"{n:>18}" for n in names))
    for row in rows:
        times = "".join(f"{1e3 * row[n]:18.1f}" for n in names)
        print(f"{row['sequences']:4} {row['lengths']:<12} {row['segments']:8}{times}")
    print("geometric means of the time over that of graph static_grid (above 1: static_grid is faster)")
    for name in names:
        ratios = [row[name] / row["graph static_grid"] for row in rows]
        print(f"  {name:<20} {attention.mean(ratios):.3f}  {min(ratios):.3f} to {max(ratios):.3f}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "static_grid.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def compile_one(config: Config) -> None:
    """Launch a config once in a process of its own, so that its kernel is in Triton's cache."""
    attention.our_call(attention.inputs_of(((1, 400), (1, 30)), 16, False, 0), config)()
    torch.cuda.synchronize()


def compile_all(configs: list[Config]) -> None:
    workers = max(1, min(14, (os.cpu_count() or 2) - 2))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_one, configs))


def constants() -> None:
    """Each setting at its best number of segments, against the best setting of the same lengths."""
    settings = [Config("static_grid", 16, *setting, GRAPH.num_segments) for setting in CONSTANTS]
    compile_all(settings)
    clock, slowdowns = Clock(), defaultdict(list)
    for count in BATCHES:
        batch = Batch(count)
        for lengths in lengths_of(count).values():
            batch.at(lengths)
            pairs = list(itertools.product(settings, SEGMENTS))
            calls = [batch.call(config, Forced(n)) for config, n in pairs]
            for call in calls:
                call()
            torch.cuda.synchronize()
            best: dict[Config, float] = {}
            for (config, _), ms in zip(pairs, clock.medians(calls, rounds=5, loser=1.5), strict=True):
                best[config] = min(ms, best.get(config, ms))
            for config, ms in best.items():
                slowdowns[config].append(ms / min(best.values()))
        del batch
        torch.cuda.empty_cache()
    programs = {
        (p.tile, p.options["num_warps"], p.options["num_stages"]): p.resident
        for p in launch._plans.values()
        if p.variant == "static_grid"
    }
    print("tile warps stages  programs/SM  geomean   worst  (slowdown, segments free)")
    for config, found in sorted(slowdowns.items(), key=lambda item: attention.mean(item[1])):
        setting = (config.TILE_SIZE, config.num_warps, config.num_stages)
        said = "{:4} {:5} {:6}".format(*setting) + f" {programs[setting]:12}"
        print(f"{said} {attention.mean(found):8.3f} {max(found):7.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--constants", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    with torch.inference_mode():
        constants() if options.constants else compare(options.output)


if __name__ == "__main__":
    main()
