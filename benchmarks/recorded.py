"""Recorded decodes with the kernels of two checkouts, between products that push all else out of the L2 cache.

    PYTHONPATH=kernels python benchmarks/recorded.py OTHER/kernels/heurgen_kernels [--seconds 60] [-o FILE.csv]

32/8 heads of 128, pages of 16 in vLLM's layout, the new tokens written by the launch: `defaults.GRAPH`. A graph holds
LAYERS layers, each a product and a launch; a launch's time is the graph's less that of one of products alone, a layer.
Rounds go on until the time is up, each with other lengths and all tensors and counters elsewhere: where they lie
alone moves a decode of one sequence by 2 us. By batch: median times, geometric mean of the ratios, mean difference.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LAYERS, REPLAYS = 16, 10
HEADS, HEADS_KV, SIZE, PAGE, LONGEST = 32, 8, 128, 16, 32768
# Columns of a product of 4096 rows: 218 MB of weights.
WIDTH = 26624
# Name: (sequences, fewest keys, most keys).
BATCHES = {
    "1 x 500": (1, 400, 600), "1 x 1,000": (1, 900, 1100), "1 x 30,000": (1, 29000, 31000),
    "4 x 1,000": (4, 300, 1700), "16 x 1,000": (16, 100, 2000), "40 x 1,000": (40, 100, 2000),
    "64 x 1,000": (64, 100, 2000), "90 x 700": (90, 100, 1400), "128 x 1,000": (128, 100, 2000),
    "192 x 800": (192, 100, 1500), "256 x 500": (256, 50, 1000), "256 x 1,000": (256, 500, 1500),
}  # fmt: skip
# Of a package of kernels: the function to call, its config of recorded decodes, what keeps its counters.
Kernels = tuple[Callable[..., Any], Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        both = {"before": another(options.before, Path(folder)), "now": kernels("heurgen_kernels")}
        rows = list(rounds(both, options.seconds))
    if options.output:
        with options.output.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("batch", "keys", "before_us", "now_us"), *rows])
    print("\n".join(summary(rows)))


def kernels(package: str) -> Kernels:
    made = [importlib.import_module(f"{package}.{name}") for name in ("api", "defaults", "host.scratch")]
    return made[0].paged_attention, made[1].GRAPH, made[2]


def another(package: Path, folder: Path) -> Kernels:
    """A package of kernels under another name, beside the one that is installed. They import one another relatively."""
    shutil.copytree(package, folder / "kernels_before", ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(folder))
    return kernels("kernels_before")


def rounds(both: dict[str, Kernels], seconds: float) -> Any:
    """(batch, keys, microseconds before and now) of each batch of each round."""
    weights = [torch.randn(4096, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    until, random_, kept = time.monotonic() + seconds, random.Random(0), []
    while time.monotonic() < until:
        for name, (count, fewest, most) in BATCHES.items():
            kept.append(torch.empty(random_.randint(1, 16) * 1_000_003, dtype=torch.uint8, device="cuda"))
            for _, _, scratch in both.values():  # held, so that those to come lie elsewhere
                kept.append((dict(scratch._arenas), dict(scratch._counters)))
                scratch._arenas.clear()
                scratch._counters.clear()
            lengths = [random_.randint(fewest, most) for _ in range(count)]
            batch = batch_of(lengths)
            order = random_.sample(sorted(both), len(both))
            graphs = {"products": recorded(weights, batch, None)}
            graphs |= {which: recorded(weights, batch, both[which]) for which in order}
            times = medians(graphs)
            yield name, sum(lengths), *(times[which] - times["products"] for which in ("before", "now"))


def batch_of(lengths: list[int]) -> dict[str, Any]:
    """Keywords of `paged_attention` but config and out: one new token a sequence, written to its page."""
    count, pages = len(lengths), [-(-length // PAGE) for length in lengths]
    order = iter((torch.randperm(sum(pages)) + 1).tolist())
    table = torch.zeros(count, LONGEST // PAGE, dtype=torch.int32)
    for row, number in zip(table, pages, strict=True):
        row[:number] = torch.tensor([next(order) for _ in range(number)])
    last = torch.tensor(lengths) - 1
    slots = table.gather(1, (last // PAGE)[:, None])[:, 0].long() * PAGE + last % PAGE

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    cache = normal(sum(pages) + 1, 2, PAGE, HEADS_KV, SIZE)
    return {
        "q": normal(count, HEADS, SIZE), "key_cache": cache[:, 0], "value_cache": cache[:, 1],
        "key": normal(count, HEADS_KV, SIZE), "value": normal(count, HEADS_KV, SIZE), "slot_mapping": slots.cuda(),
        "block_table": table.cuda(), "cu_seqlens_q": torch.arange(count + 1, dtype=torch.int32, device="cuda"),
        "seq_lens": torch.tensor(lengths, dtype=torch.int32, device="cuda"), "max_seqlen_q": 1,
        "max_seqlen_k": LONGEST, "scale": SIZE**-0.5,
    }  # fmt: skip


def recorded(weights: list[torch.Tensor], batch: dict[str, Any], own: Kernels | None) -> Callable[[], None]:
    """The replay of LAYERS products, with a launch behind each. What they read and write lives as long as it does."""
    x = torch.randn(len(batch["q"]), 4096, device="cuda", dtype=torch.bfloat16)
    y, out = x.new_empty(len(x), WIDTH), torch.empty_like(batch["q"])

    def layers() -> None:
        for layer in range(LAYERS):
            torch.mm(x, weights[layer % len(weights)], out=y)
            if own:
                attention, config, _ = own
                attention(**batch, config=config, out=out)

    layers()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layers()

    def replay(_held: Any = (weights, batch, x, y, out)) -> None:
        graph.replay()

    return replay


def medians(graphs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Microseconds a layer of each, replayed in turn."""
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(REPLAYS + 2):
        for name, replay in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1000 / LAYERS)
    return {name: statistics.median(taken[2:]) for name, taken in times.items()}


def summary(rows: list[tuple[str, int, float, float]]) -> list[str]:
    """A line for each batch, and one for all."""
    by_batch = defaultdict(list)
    for name, _, before, now in rows:
        by_batch[name].append((before, now))
    lines = [
        f"{name}: {statistics.median(b for b, _ in pairs):.1f} us before, {statistics.median(n for _, n in pairs):.1f} "
        f"now, {ratio(pairs):.3f}, {statistics.mean(n - b for b, n in pairs):+.2f} us, {len(pairs)} rounds"
        for name, pairs in by_batch.items()
    ]
    return [*lines, f"all: {ratio([pair for pairs in by_batch.values() for pair in pairs]):.3f}"]


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Geometric mean of now over before."""
    return math.exp(statistics.mean(math.log(now / before) for before, now in pairs))


if __name__ == "__main__":
    main()
