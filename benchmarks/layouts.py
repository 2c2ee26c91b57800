"""Layouts and lengths that nobody chose: ours beside FlashAttention-3 (pages, contiguous) and vLLM's Triton defaults.

    PYTHONPATH=kernels:benchmarks python benchmarks/layouts.py -o benchmarks/h200 [--seed 1] [--points 140] [--served]

A point is an attention layer drawn at random (heads, their group, head size, page, window, soft cap, sinks) and one
batch of a class, its lengths drawn too. What is timed, and how, is `models.py`'s; so are the columns. The same seed
draws the same points. Says the worst points by name; writes layouts.json.

--served: batches as a server's steps have them, of such layers and those of `models.py` in turn; writes served.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from pathlib import Path
from random import Random
from typing import Any

import peers
import torch
from attention import Lengths, mean
from clock import Clock, ceilings
from models import CLASSES, MODELS, Model, cell, compile_all, launch_once, measure_cell

SIZES = (64, 80, 96, 112, 128, 128, 128, 160, 192, 256)
GROUPS = (1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 10, 12, 16, 24, 32)
HEADS_KV = (1, 2, 3, 4, 5, 8, 10, 16, 32)
PAGES = (16, 16, 32, 64, 128, 256)
WINDOWS = (0, 0, 0, 0, 128, 512, 1024, 4096)
MOST_HEADS = 96
MOST_BYTES = 3e9  # of K and V
MOST_PAIRS = 3e12  # of query elements and keys: 12 teraoperations

SERVED = "served"

Point = tuple[str, Model, Lengths]


def points(seed: int, count: int, kinds: tuple[str, ...] = CLASSES) -> list[Point]:
    """(class, layer, lengths), the classes in turn."""
    random = Random(seed)
    found: list[Point] = []
    while len(found) < count:
        kind = kinds[len(found) % len(kinds)]
        model, lengths = _layer(random), _lengths(kind, random)
        if kind == SERVED and len(found) % 2:
            model = random.choice([known for known in MODELS.values() if known.dtype == "bfloat16"])
        keys = sum(k for _, k in lengths)
        pairs = sum(q * k for q, k in lengths) * model.heads * model.size
        if (
            model.heads <= MOST_HEADS
            and keys * model.heads_kv * model.size * 4 <= MOST_BYTES
            and pairs <= MOST_PAIRS
        ):
            found.append((kind, model, lengths))
    return found


def _layer(random: Random) -> Model:
    group, heads_kv = random.choice(GROUPS), random.choice(HEADS_KV)
    size = random.choice(SIZES)
    return Model(
        group * heads_kv, heads_kv, size, random.choice(WINDOWS), random.random() < 0.1, random.random() < 0.1,
        random.choice(PAGES),
    )  # fmt: skip


def _between(random: Random, low: float, high: float) -> int:
    """Uniform in the logarithm."""
    return round(math.exp(random.uniform(math.log(low), math.log(high))))


def _lengths(kind: str, random: Random) -> Lengths:
    def draw(count: int, top: int) -> list[int]:
        low = random.choice((0.05, 0.5, 0.95))
        return [max(1, int(top * random.uniform(low, 1))) for _ in range(count)]

    def asks(most: int, lengths: list[int]) -> list[tuple[int, int]]:
        return [(min(most, k), k) for k in lengths]

    if kind == SERVED:
        found = _served(random)
    elif kind == "single":
        found = asks(1, [_between(random, 50, 60000)])
    elif kind == "decode":
        found = asks(1, draw(_between(random, 2, 256), _between(random, 100, 20000)))
    elif kind == "speculation":
        found = asks(random.randint(2, 8), draw(_between(random, 1, 96), _between(random, 200, 16000)))
    elif kind == "prompts":
        found = asks(10**6, draw(_between(random, 1, 24), _between(random, 50, 2000)))
    elif kind == "long":
        found = asks(10**6, draw(_between(random, 1, 4), _between(random, 4000, 30000)))
    elif kind == "chunks":
        found = asks(_between(random, 64, 4000), draw(_between(random, 1, 6), _between(random, 2000, 30000)))
    else:
        found = asks(1, draw(_between(random, 4, 128), _between(random, 200, 6000)))
        found += asks(_between(random, 100, 4000), draw(_between(random, 1, 4), _between(random, 200, 10000)))
    return tuple(found)


def _served(random: Random) -> list[tuple[int, int]]:
    """A step as vLLM's scheduler fills it with up to so many new tokens: what decodes, some with drafts, the rest of a
    long prompt, then new prompts, the last one cut, of which a prefix may be cached.
    """
    left, found = random.choice((2048, 8192, 8192, 16384)), []
    if random.random() < 0.7:
        drafts, longest = random.choice((1, 1, 1, 4)), _between(random, 200, 8000)
        lengths = [round(longest * random.uniform(0.1, 1)) for _ in range(_between(random, 1, 200))]
        found = [(drafts, length) for length in lengths]
        left -= drafts * len(found)
    if random.random() < 0.6:
        rest = min(_between(random, 100, 16000), left)
        found.append((rest, rest + _between(random, 2000, 20000)))
        left -= rest
    cached, longest, most = random.random() < 0.4, _between(random, 100, 8000), _between(random, 1, 40)
    while left > 0 and most > 0:
        new = min(round(longest * random.uniform(0.05, 1)), left)
        found.append((new, new + (_between(random, 100, 8000) if cached and random.random() < 0.7 else 0)))
        left, most = left - new, most - 1
    return found


def compile_one(point: Point) -> str | None:
    """Launch all but FlashAttention-3 once in a process of its own, so that kernels are in Triton's cache."""
    kind, model, lengths = point
    return launch_once(str(model), model, kind, [lengths], False)


def described(kind: str, model: Model, lengths: Lengths) -> str:
    queries, keys = [q for q, _ in lengths], [k for _, k in lengths]
    more = [f"page {model.page}", *([f"window {model.window}"] if model.window else [])]
    more += [name for name, has in (("soft cap", model.softcap), ("sinks", model.sinks)) if has]
    return (
        f"{kind}: {model.heads}/{model.heads_kv} of {model.size}, {', '.join(more)}; {len(lengths)} sequences, "
        f"{max(queries)} new tokens at most, {sum(queries)} in all, {max(keys)} keys at most, {sum(keys)} in all"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("results"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=140)
    parser.add_argument("--served", action="store_true", help="batches as a server's steps have them")
    parser.add_argument(
        "--budget", type=float, default=300.0, help="seconds; points that do not fit are left out"
    )
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/layouts.py needs a GPU: torch sees none")
    start = time.monotonic()
    reason, (unified, other) = peers.load_fa3(), peers.load_vllm()
    if reason or other:
        raise SystemExit(reason or other)
    drawn = points(chosen.seed, chosen.points, (SERVED,) if chosen.served else CLASSES)
    compile_all(compile_one, drawn)
    print(f"compiled after {time.monotonic() - start:.0f} s", flush=True)
    gc.disable()  # a collection between two events would count as a launch's time
    clock = Clock()
    rates = ceilings(clock)
    rows: list[dict[str, Any]] = []
    for kind, model, lengths in drawn:
        if time.monotonic() - start > chosen.budget:
            print(f"left out for want of time: {len(drawn) - len(rows)} points")
            break
        point = described(kind, model, lengths)
        (times,) = measure_cell(point, model, kind, [lengths], clock, rates, unified, False)
        row = {"class": kind, "point": point, "lengths": lengths, **cell([times])}
        rows.append(row | {name: round(value, 5) for name, value in times.items()})
    write(chosen.output / f"{SERVED if chosen.served else 'layouts'}.json", chosen.seed, rates, rows)
    say(rows)


def write(path: Path, seed: int, rates: tuple[float, float], rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "device": torch.cuda.get_device_name(), "copy TB/s": round(rates[0] / 1e12, 3),
        "matrix TFLOP/s": round(rates[1] / 1e12, 1), "seed": seed, "points": rows,
    }  # fmt: skip
    path.write_text(json.dumps(result) + "\n")


def say(rows: list[dict[str, Any]]) -> None:
    """Means by class, and the worst points beside FlashAttention-3."""
    names = (
        "fa3 / ours",
        "graph fa3 / graph ours",
        "vllm / ours",
        "contiguous fa3 / ours fresh",
        "untold / ours",
    )
    for name in names:
        print(name)
        for kind in (*CLASSES, SERVED, "all"):
            found = [row[name] for row in rows if name in row and kind in (row["class"], "all")]
            if found:
                print(f"  {kind:12s} {mean(found):.3f} ({min(found):.3f} to {max(found):.3f}), {len(found)}")
    beside = [row for row in rows if "fa3 / ours" in row]  # it refuses sinks of more than 64 heads
    for row in sorted(beside, key=lambda row: float(row["fa3 / ours"]))[:40]:
        print(row["fa3 / ours"], row["graph fa3 / graph ours"], row["vllm / ours"], row["point"])


if __name__ == "__main__":
    main()
