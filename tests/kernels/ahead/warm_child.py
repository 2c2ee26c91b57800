"""After a warm-up no launch compiles: thousands of random launches on a GPU that Triton believes in.

    python -m tests.kernels.ahead.warm_child

Prints a JSON object. Of each layout and linear layer: what `warmed` says. "disk": how many of three jobs Triton's cache
has before and after two processes shared them. "own chooser", "again", "peaks", "heard": see these.
"""

from __future__ import annotations

import gc
import json
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from tests.kernels.ahead.hopper import L40S, pretend, watching

pretend()

import torch  # noqa: E402
import triton  # noqa: E402
from heurgen_kernels import (  # noqa: E402
    Layout,
    Linear,
    caches,
    matmul,
    paged_attention,
    warm_up,
    warm_up_matmul,
)
from heurgen_kernels.ahead import compiling as ahead  # noqa: E402
from heurgen_kernels.ahead.compiling import not_on_disk, share  # noqa: E402
from heurgen_kernels.ahead.layouts import example  # noqa: E402
from heurgen_kernels.config import Config  # noqa: E402
from heurgen_kernels.defaults import GRAPH  # noqa: E402
from heurgen_kernels.gemm import launch as gemm_launch  # noqa: E402
from heurgen_kernels.gemm.call import scale_shapes  # noqa: E402
from heurgen_kernels.host.dispatch import compiling  # noqa: E402
from heurgen_kernels.host.pages import write_pages  # noqa: E402
from triton import knobs  # noqa: E402

LIMITS = {"max_num_seqs": 128, "max_num_batched_tokens": 4096, "max_seqlen": 65536}
FP8 = torch.float8_e4m3fn
# as vLLM lays them out: views of a fused projection, K and V of one tensor, pages by token or by head
FUSED = {"q_strides": (6144, 128), "new_strides": ((6144, 128),) * 2, "page_strides": (16 * 2048, 2048, 256)}
# K is what a compiler made of it, V a view of the projection
APART = {**FUSED, "new_strides": ((1024, 128), (6144, 128))}
LAYOUTS = {
    "contiguous": Layout(32, 8, 128, 16, fresh=(False, True)),
    "fused": Layout(32, 8, 128, 16, fresh=(False,), fresh_from=2, stored=True, **FUSED),
    "written": Layout(32, 8, 128, 16, fresh=(False,), written=True, **APART),
    "by head": Layout(
        16, 8, 64, 64, dtype=torch.float16, page_strides=(8 * 64 * 128, 128, 64 * 128), window=True
    ),
    "one KV head": Layout(8, 1, 128, 16, fresh=(False,), fresh_from=2, softcap=True, sinks=torch.bfloat16),
    "fp8": Layout(64, 8, 128, 128, cache_dtype=FP8, alibi=True),
    "fp8, copied": Layout(
        32, 8, 128, 16, cache_dtype=FP8, fresh=(False, True), stored=True, page_strides=(16 * 2048, 2048, 256)
    ),
    "fp8, a window": Layout(16, 2, 96, 48, cache_dtype=FP8, fresh=(True,), window=True, sinks=torch.bfloat16),
    "wide": Layout(8, 4, 256, 32, fresh=(True,), pages=False),
    "28 to 4": Layout(28, 4, 80, 16),
    "12 to 1": Layout(24, 2, 128, 16, fresh=(False, True)),
    "encoder": Layout(12, 12, 64, 16, causal=False),
    "decodes that have no room for all parts": Layout(32, 32, 128, 16),
}
# Before Hopper blocks of 32 rows become ones of 64.
ADA = {"fp8, before Hopper": Layout(8, 4, 256, 16, cache_dtype=FP8)}

ROWS = 8192
LAYERS = (
    Linear(6144, 4096), Linear(2 * 14336, 4096, gated=True, bias=True), Linear(4096, 1792, residual=True),
    Linear(1000, 3000, bias=True, dtype=torch.float16), Linear(77, 52, residual=True, dtype=torch.float16),
    Linear(4096, 4096, scaled="row"), Linear(2 * 1500, 2056, gated=True, scaled="block"),
)  # fmt: skip


def launches(layout, count, seed=0):
    """Random batches within LIMITS: all features of a selector vary, and decodes may be for a graph."""
    rng, cpu = Random(seed), torch.device("cpu")
    kinds = ([None] if layout.pages else []) + list(layout.fresh)
    calls = {fresh: example(layout, cpu, fresh) for fresh in {kind is not None for kind in kinds}}
    large = {
        name: _many(calls, name, LIMITS["max_num_batched_tokens"]) for name in ("q", "out", "key", "value")
    }
    written = {"": example(layout, cpu, False, True)} if layout.written or layout.stored else {}
    new = {name: _many(written, name, LIMITS["max_num_batched_tokens"]) for name in ("key", "value")}
    slots = torch.zeros(LIMITS["max_num_batched_tokens"] + 1, dtype=torch.int64)
    table = torch.zeros((LIMITS["max_num_seqs"], LIMITS["max_seqlen"] // layout.page_size), dtype=torch.int32)
    for _ in range(count):
        has_prefix = rng.choice(kinds)
        fresh = has_prefix is not None
        num_seqs, longest = _size(rng, LIMITS["max_num_seqs"]), _size(rng, LIMITS["max_seqlen"])
        most = min(LIMITS["max_num_batched_tokens"], longest)
        query = 1 if rng.random() < 0.4 else _size(rng, most)
        query = min(max(query, layout.fresh_from), LIMITS["max_num_batched_tokens"]) if fresh else query
        tokens = min(rng.randint(1, num_seqs * query), LIMITS["max_num_batched_tokens"])
        call = dict(calls[fresh])
        for name, tensor in large.items():
            if call[name] is not None:
                call[name] = tensor[:tokens]
        recorded = (
            not fresh and query <= 16 * layout.num_kv_heads // layout.num_query_heads and rng.random() < 0.3
        )
        if recorded and layout.written:
            call |= {name: tensor[:tokens] for name, tensor in new.items()} | {"slot_mapping": slots[:tokens]}
        if layout.stored:
            pages = [written[""][name] for name in ("key_cache", "value_cache")]
            scales = [written[""][name] for name in ("k_scale", "v_scale")]
            some = slots[rng.randrange(2) :][:tokens]  # of drafts, which begin anywhere
            write_pages(new["key"][:tokens], new["value"][:tokens], *pages, some, *scales)
        paged_attention(
            **call
            | {
                "block_table": table[:num_seqs], "cu_seqlens_q": torch.zeros(num_seqs + 1, dtype=torch.int32),
                "seq_lens": torch.zeros(num_seqs, dtype=torch.int32), "max_seqlen_q": query, "max_seqlen_k": longest,
                "total_seqlen_k": rng.choice([None, rng.randint(1, num_seqs * longest)]), "has_prefix": has_prefix,
                "config": GRAPH if recorded else None, "softcap": 30 if layout.softcap else 0,
            }
        )  # fmt: skip


def products(layer, count):
    """Products of the layer with random rows, half of them few."""
    rng = Random(0)

    def tensor(*shape):
        return torch.empty(shape, dtype=layer.dtype)

    width = layer.n // 2 if layer.gated else layer.n
    w, bias, scale = tensor(layer.n, layer.k), tensor(layer.n) if layer.bias else None, None
    if layer.scaled:
        w, scale = w.to(FP8), torch.empty(scale_shapes(layer.n, layer.k)[layer.scaled])
    for _ in range(count):
        rows = rng.choice((_size(rng, ROWS), rng.randint(1, ROWS)))
        residual = tensor(rows, width) if layer.residual else None
        matmul(tensor(rows, layer.k), w, bias, w_scale=scale, residual=residual, gated=layer.gated)


def _size(rng, most):
    return min(most, max(1, round(most ** rng.random())))


def _many(calls, name, tokens):
    """A tensor of so many tokens that lies as the example's one does."""
    one = next((call[name] for call in calls.values() if call[name] is not None), None)
    if one is None:
        return None
    heads, size = one.shape[1:]
    room = (tokens - 1) * one.stride(0) + (heads - 1) * one.stride(1) + size
    return torch.zeros(room, dtype=one.dtype).as_strided((tokens, heads, size), one.stride())


def shared():
    """Two of a layout's jobs and one of a layer's, compiled by two processes: how many are on disk before and after."""
    jobs = []
    ahead.share = lambda missing, processes: jobs.extend(missing)
    with watching(), compiling():
        warm_up([Layout(2, 2, 16, 16, dtype=torch.float16)], **LIMITS, device="cpu", graphs=(), processes=2)
        jobs = [job for job in jobs if job.kernel[1] == "q_block_kernel"][:2]
        warm_up_matmul([Linear(64, 512)], [1], device="cpu", processes=2)
    ahead.share = share
    before = len(jobs) - len(not_on_disk(jobs))
    with another_ptxas():
        share(jobs, 2)
    return before, len(jobs) - len(not_on_disk(jobs))


def own_chooser():
    """Of a warm-up whose static grids ask a function that no other process can import: how many jobs hold it, and how
    many kernels were compiled.
    """

    @triton.jit
    def few(num_seqs, total_query_tokens, max_seqlen_k, total_seqlen_k, num_kv_heads, multiprocessors):
        return 3

    jobs = []
    ahead.share = lambda missing, processes: jobs.extend(missing)
    heuristics = SimpleNamespace(select=lambda **_: GRAPH, choose_segments=few)
    with watching() as seen:
        warm_up([Layout(8, 2, 64, 16)], **LIMITS, device="cpu", heuristics=heuristics, processes=2)
    ahead.share = share
    return sum(few.fn.__qualname__ in str(job.constants) for job in jobs), len(seen.compiled)


@contextmanager
def another_ptxas():
    """Inside, Triton is told of another ptxas, after it has asked its own what it is: as Inductor does it."""
    with TemporaryDirectory() as folder:
        path, own = Path(folder, "ptxas"), knobs.nvidia.ptxas
        said = f"another, release {own.version}, V{own.version}.999"
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{said}" || exec "{own.path}" "$@"\n')
        path.chmod(0o755)
        os.environ["TRITON_PTXAS_PATH"] = str(path)
        try:
            yield
        finally:
            del os.environ["TRITON_PTXAS_PATH"]


def peaks():
    """Most objects that Python holds in the first and in the last three of ten times 1,000 batches, no two alike.

    Caches forget at 256 entries here, not 4096, so that all of them are full early.
    """
    layout = LAYOUTS["fused"]
    for cache in caches._shared:
        cache.most = 256
    held = []
    with watching() as seen:
        warm_up([layout], **LIMITS, device="cpu")
        for seed in range(10):
            launches(layout, 1000, seed)
            seen.launched.clear()
            held.append(len(gc.get_objects()))
    return max(held[:3]), max(held[-3:])


def kept():
    """What launches of `matmul` find of those before."""
    return len(gemm_launch._plans) + len(gemm_launch._launches)


def warmed(seen, warm, use):
    """What a warm-up and launches after it did: kernels that the first asked for, its launches, what it kept for
    products though of tensors on no GPU, kernels that the others had to compile, and whether these launched, at
    addresses, past Triton's dispatch but for the first of each kernel.
    """
    first = len(seen.compiled)
    products_kept = kept()
    warm()
    before, during, products_kept = len(seen.compiled), len(seen.launched), kept() - products_kept
    use()
    after = seen.launched[during:]
    dispatched = sum(not past for past, _ in after)
    found = {
        "asked": before - first, "during": during, "kept": products_kept,
        "late": [kernel for kernel, _ in seen.compiled[before:]],
        "kernels": sorted({kernel for kernel, _ in seen.compiled[first:before]}),
        "launched": 0 < dispatched < len(after) / 2 and all(address for _, address in after),
    }  # fmt: skip
    seen.launched.clear()
    return found


def heard():
    """Kernels that a hook of compilation hears of, as vLLM's monitor sets one, of a layout that nothing was compiled
    for; in the place of compiling nothing is done.
    """
    names = []
    for kernel in ahead.KERNELS:
        kernel.device_caches[0]  # before it Triton puts its compiler there
        kernel.compile = lambda *_, **__: SimpleNamespace(run=None)
    knobs.runtime.jit_post_compile_hook = lambda **told: names.append(told["fn"].name)
    call = example(Layout(6, 2, 48, 32), torch.device("cpu"), False)
    with compiling():
        for config in (GRAPH, Config("q_block"), Config("split_kv", num_segments=4), Config("naive")):
            paged_attention(**call, max_seqlen_q=1, max_seqlen_k=1, config=config)
        vector = {"variant": "vector", "BLOCK_M": 2, "BLOCK_N": 8, "BLOCK_K": 512}
        x, w = (torch.empty(rows, 72, dtype=torch.bfloat16) for rows in (3, 40))
        matmul(x, w, config=vector)
    knobs.runtime.jit_post_compile_hook = None
    return sorted({name.rsplit(".", 1)[-1] for name in names})


def again(seen):
    """What warm-ups launch and compile that find all launches bound, and layers that share kernels."""
    compiled = len(seen.compiled)
    warm_up(LAYOUTS.values(), **LIMITS, device="cpu")
    warm_up_matmul(LAYERS, range(1, ROWS + 1), device="cpu")
    return len(seen.launched), len(seen.compiled) - compiled


def main():
    found = {"disk": shared(), "own chooser": own_chooser()}
    ahead.share = lambda jobs, processes: None
    with watching() as seen:
        for name, layout in LAYOUTS.items():
            warm = partial(warm_up, [layout], **LIMITS, device="cpu")
            found[name] = warmed(seen, warm, partial(launches, layout, 1500))
        for layer in LAYERS:
            warm = partial(warm_up_matmul, [layer], range(1, ROWS + 1), device="cpu")
            found[str(layer)] = warmed(seen, warm, partial(products, layer, 500))
        found["again"] = again(seen)
        pretend(L40S)
        for name, layout in ADA.items():
            warm = partial(warm_up, [layout], **LIMITS, device="cpu")
            found[name] = warmed(seen, warm, partial(launches, layout, 1500))
        pretend()
    found["peaks"], found["heard"] = peaks(), heard()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
