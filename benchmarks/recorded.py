"""Recorded decodes with the kernels of two checkouts, between products that push all else out of the L2 cache.

    PYTHONPATH=.:kernels:benchmarks python benchmarks/recorded.py OTHER/kernels/heurgen_kernels [--seconds 60] [-o CSV]

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from clock import Clock, recorded
from heurgen_kernels.tools.tunable import make_inputs

from tests.kernels.batches import halves, slots_of

LAYERS, REPLAYS = 16, 10
LAYOUT = {
    "num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, "dtype": "bfloat16", "fresh": True
}  # fmt: skip
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
# A batch's name, its keys, microseconds of a launch before and now.
Row = tuple[str, int, float, float]


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


def rounds(both: dict[str, Kernels], seconds: float) -> Iterator[Row]:
    """Each batch of each round."""
    clock, until, random_, kept = Clock(), time.monotonic() + seconds, random.Random(0), []
    weights = [torch.randn(4096, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    while time.monotonic() < until:
        for name, (count, fewest, most) in BATCHES.items():
            kept.append(torch.empty(random_.randint(1, 16) * 1_000_003, dtype=torch.uint8, device="cuda"))
            for _, _, scratch in both.values():  # held, so that those to come lie elsewhere
                kept.append((dict(scratch._arenas), dict(scratch._counters)))
                scratch._arenas.clear()
                scratch._counters.clear()
            lengths = [random_.randint(fewest, most) for _ in range(count)]
            batch = batch_of(lengths, random_.randrange(1 << 30))
            calls = [recorded(layers(weights, batch, own)) for own in (None, *both.values())]
            products, before, now = (time * 1000 / LAYERS for time in clock.medians(calls, REPLAYS))
            yield name, sum(lengths), before - products, now - products


def batch_of(lengths: list[int], seed: int) -> dict[str, Any]:
    """Keywords of `paged_attention` but config and out: one new token a sequence, written to its page."""
    made = make_inputs(tuple((1, length) for length in lengths), LAYOUT, "cuda", seed)
    names = ("q", "key_cache", "value_cache", "block_table", "cu_seqlens_q", "seq_lens")
    batch = halves({**{name: getattr(made, name) for name in names}, **made.arguments})
    return batch | {"slot_mapping": slots_of(batch)}


def layers(weights: list[torch.Tensor], batch: dict[str, Any], own: Kernels | None) -> Callable[[], None]:
    """LAYERS products, with a launch behind each."""
    x = torch.randn(len(batch["q"]), 4096, device="cuda", dtype=torch.bfloat16)
    y, out = x.new_empty(len(x), WIDTH), torch.empty_like(batch["q"])

    def run() -> None:
        for layer in range(LAYERS):
            torch.mm(x, weights[layer % len(weights)], out=y)
            if own:
                attention, config, _ = own
                attention(**batch, config=config, out=out)

    return run


def summary(rows: list[Row]) -> list[str]:
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
