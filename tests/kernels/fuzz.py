"""Random calls of `paged_attention` and `matmul` as they ship, each beside its reference, on a GPU: `make gpu-fuzz`.

    python -m tests.kernels.fuzz [SECONDS] [--first 0]      # until the time is up
    python -m tests.kernels.fuzz --only SEED                # one call again

All of a call follows from its seed; the shipped selectors choose how it is launched. What is wrong, or raises, is
printed with its seed and ends the run with status 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

SIZES = (*range(16, 129, 8), 128, 128, 136, 144, 160, 176, 192, 208, 224, 240, 256)
PAGES = (8, 16, 16, 16, 24, 32, 48, 64, 80, 128, 256, 528, 784)
SCORES = 4e8  # of all heads of a batch: what a reference in float64 takes a second for
OPERATIONS = 4e10  # of a product
APART = 10**6  # seeds from one process to the next


def drawn(seed: int, small: bool) -> dict[str, Any]:
    """What a call is; small: for an interpreter, without what needs a GPU."""
    r = random.Random(seed)
    found = _attention(r, small) if r.random() < 0.6 else _product(r, small)
    return {**found, "dtype": "float16" if small else r.choice(["bfloat16", "float16"]), "seed": seed}


def _attention(r: random.Random, small: bool) -> dict[str, Any]:
    heads_kv = r.choice([1, 1, 2, 3, 4, 8, 8, 16])
    heads = heads_kv * r.choice([1, 2, 3, 4, 4, 5, 7, 8, 12, 16])
    heads, heads_kv = (heads, heads_kv) if heads <= 128 else (32, 8)
    features: dict[str, Any] = {}
    if r.random() < 0.3:
        features["window"] = (r.choice([0, 3, 63, 64, 127, 128, 1023, r.randint(0, 3000)]), -1)
    if r.random() < 0.2:
        features["softcap"] = r.choice([8.0, 30.0, 50.0])
    if r.random() < 0.06:
        features["causal"] = False
    return {
        "call": "attention", "heads": (heads, heads_kv), "size": r.choice(SIZES), "page": r.choice(PAGES),
        "lengths": _lengths(r, heads, small), "features": features, "fp8": not small and r.random() < 0.2,
        "scales": (r.choice([0.5, 0.37, 1.0]), r.choice([0.75, 0.61, 1.0])),
        **{name: r.random() < share for name, share in
           (("fresh", 0.4), ("sinks", 0.2), ("alibi", 0.08), ("halves", 0.4), ("told", 0.5), ("apart", 0.3),
            ("shifted", 0.1))},
        "graph": not small and r.random() < 0.2,
    }  # fmt: skip


def _lengths(r: random.Random, heads: int, small: bool) -> list[tuple[int, int]]:
    """(new tokens, tokens attended to) of each sequence: of one kind or of several, at the edges of tiles or not."""
    kinds = ("decode", "few", "prompt", "chunk")
    kind, top = r.choice([*kinds, "mixed"]), 60 if small else r.choice([1, 100, 700, 3000, 9000])
    found: list[tuple[int, int]] = []
    for _ in range(r.randint(1, 3 if small else r.choice([1, 3, 12, 60, 300]))):
        k = r.randint(1, top)
        k = max(1, r.choice([k, k, k, k - k % 16, k - k % 128, k - k % 64 + 1, k - k % 128 + 127]))
        own = r.choice(kinds) if kind == "mixed" else kind
        q = {"decode": 1, "few": min(k, r.randint(1, 9)), "prompt": k, "chunk": r.randint(1, k)}[own]
        found.append((q, k))
        if sum(a * b for a, b in found) * heads > SCORES:
            break
    return found


def _product(r: random.Random, small: bool) -> dict[str, Any]:
    step = r.choice([1, 2, 8, 8, 16, 64, 128])
    top = 60 if small else r.choice([300, 3000, 9000])
    n, k = (max(step, r.randint(1, top) // step * step) for _ in "nk")
    rows = r.randint(1, 20) if small else round(3000 ** r.random())
    scaled = r.choice(["one", "row", "column", "block"]) if r.random() < 0.35 else None
    rows = min(rows, max(1, int(OPERATIONS / n / k)))
    return {"call": "matmul", "M": rows, "N": n, "K": k, "apart": r.random() < 0.3, "scaled": scaled}


def run(asked: dict[str, Any], device: str) -> None:
    """Raises AssertionError where a result is wrong."""
    import torch

    dtype = getattr(torch, asked["dtype"])
    if asked["call"] == "attention":
        error, limit = _attention_error(asked, dtype, device)
        assert error < limit, f"relative error {error}, at most {limit}"
        return
    from tests.kernels import test_gpu_matmul, test_gpu_matmul_fp8

    shape = device, None, asked["M"], asked["N"], asked["K"]
    if asked["scaled"]:
        test_gpu_matmul_fp8.check(*shape, asked["scaled"], dtype, asked["apart"])
    else:
        test_gpu_matmul.check(*shape, dtype, asked["apart"])


def _attention_error(asked: dict[str, Any], dtype: Any, device: str) -> tuple[float, float]:
    """(relative error, the most that it may be) of a launch, or of a graph's replay."""
    import torch

    from tests.kernels.batches import LIMITS, apart, error_of, halves, make_batch, replayed, shifted

    torch.manual_seed(asked["seed"])
    features, heads = dict(asked["features"]), asked["heads"][0]
    if asked["sinks"]:
        features["sinks"] = torch.randn(heads, device=device).to(dtype)
    if asked["alibi"]:
        features["alibi_slopes"] = torch.rand(heads, device=device)
    limit = 1.5 * LIMITS[dtype]
    if asked["fp8"]:
        limit = max(limit, 0.03)
        names = ("k_scale", "v_scale")
        features |= {n: torch.tensor(s, device=device) for n, s in zip(names, asked["scales"], strict=True)}
    batch = make_batch(
        asked["lengths"], asked["heads"], asked["size"], asked["page"], dtype, asked["fresh"], device=device,
        cache=torch.float8_e4m3fn if asked["fp8"] else None, seed=asked["seed"],
    )  # fmt: skip
    batch = halves(batch) if asked["halves"] else batch
    batch = apart(batch) if asked["apart"] and asked["fresh"] else batch
    if asked["shifted"]:
        batch["q"] = shifted(batch["q"])
    if asked["told"]:
        batch["total_seqlen_k"] = sum(k for _, k in asked["lengths"])
    launch = {"launch": replayed} if asked["graph"] else {}
    return error_of(batch, None, **launch, **features), limit


def _calls(first: int, end: float) -> tuple[Counter[str], int]:
    """Calls from this seed on until the time is up: how many of which, and how many were wrong."""
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + APART):
        if time.time() > end:
            break
        asked = drawn(seed, small=False)
        counts[asked["call"]] += 1
        try:
            run(asked, "cuda")
        except Exception:
            wrong += 1
            print(f"{asked}\n{traceback.format_exc()}", flush=True)
            if "CUDA" in traceback.format_exc():  # nothing runs in this process any more
                break
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("seconds", type=float, nargs="?", default=180.0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first process's first call")
    parser.add_argument("--only", type=int, help="the seed of one call")
    given = parser.parse_args()
    if given.only is not None:
        run(drawn(given.only, small=False), "cuda")
        return
    end, workers = time.time() + given.seconds, min(14, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        asked = [pool.submit(_calls, given.first + number * APART, end) for number in range(workers)]
        found = [future.result() for future in asked]  # a process that died raises
    counts, wrong = sum((one for one, _ in found), Counter[str]()), sum(one for _, one in found)
    print(f"{counts.total()} calls ({dict(counts)}), {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
