"""The warm-up inside vLLM's own: after its kernels, before graphs are recorded and its compile monitor watches."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from vllm.logger import init_logger

from ...ahead.layouts import Layout
from ...ahead.warm import WarmUp, warm_up
from .batch import LONG_CHUNK, graph_config

logger = init_logger("vllm.heurgen")
WORKER = "vllm.v1.worker.gpu_worker"


def hook() -> None:
    """Puts `after` behind vLLM's `kernel_warmup`, once; the module of its GPU worker is there when layers are built."""
    module = sys.modules.get(WORKER)
    stock = getattr(module, "kernel_warmup", None)
    if stock is None or hasattr(stock, "heurgen"):
        return

    @wraps(stock)
    def kernel_warmup(worker: Any) -> None:
        stock(worker)
        after(worker)

    kernel_warmup.heurgen = True  # type: ignore[attr-defined]
    module.kernel_warmup = kernel_warmup  # type: ignore[union-attr]


def after(worker: Any) -> WarmUp | None:
    """Compiles what the worker's layers can launch. Failing here costs time later, so it stops no server."""
    config = worker.vllm_config
    scheduler, model = config.scheduler_config, config.model_config
    layers = config.compilation_config.static_forward_context.values()
    layouts = layouts_of(layers, scheduler.max_num_seqs)
    if not layouts:
        return None
    sizes = config.compilation_config.cudagraph_capture_sizes or []
    try:
        done = warm_up(
            layouts, max_num_seqs=scheduler.max_num_seqs, max_num_batched_tokens=scheduler.max_num_batched_tokens,
            max_seqlen=model.max_model_len, graphs=graphs_of(layouts[0], sizes, scheduler.max_num_seqs),
            processes=max(1, len(os.sched_getaffinity(0)) // config.parallel_config.local_world_size),
        )  # fmt: skip
    except Exception:
        logger.exception("heurgen's warm-up failed; kernels compile as requests come")
        return None
    logger.info(
        "heurgen warmed up %d kinds of launch in %.1f s, %d of their kernels compiled anew",
        done.launches, done.seconds, done.compiled,
    )  # fmt: skip
    return done


def layouts_of(layers: Any, max_num_seqs: int) -> list[Layout]:
    """Of all layers that our kernels serve, once each kind."""
    found: dict[Layout, None] = {}
    for layer in layers:
        impl, cache = getattr(layer, "impl", None), getattr(layer, "kv_cache", None)
        if getattr(impl, "stock", "") is None and isinstance(cache, torch.Tensor) and cache.dim() == 4:
            found |= dict.fromkeys(layouts_of_layer(impl, cache))
    return list(found)


def layouts_of_layer(impl: Any, cache: torch.Tensor) -> list[Layout]:
    """What a layer's calls will look like: its pages as they are, its tensors as they were noted."""
    k, _ = impl.pages(cache)
    seen = impl.seen
    dtype, out_dtype = seen.dtypes or (torch.get_default_dtype(),) * 2
    lies: tuple[Any, ...] = tuple(seen.all) or ((None,) * 3,)
    found = [
        Layout(
            impl.num_heads, impl.num_kv_heads, impl.head_size, k.shape[1], dtype=dtype,
            cache_dtype=k.dtype if k.dtype != dtype else None, out_dtype=out_dtype if out_dtype != dtype else None,
            fresh=(False,) if impl.takes_new else (), fresh_from=2,
            causal=impl.attn_type == "decoder", window=impl.sliding_window[0] >= 0,
            softcap=impl.logits_soft_cap > 0, alibi=impl.alibi_slopes is not None,
            sinks=None if impl.sinks is None else impl.sinks.dtype,
            written=impl.writes, stored=impl.takes_new, q_strides=q, new_strides=new, out_strides=out,
            page_strides=tuple(k.stride()[:3]),
        )
        for q, new, out in lies
    ]  # fmt: skip
    if impl.reads_both:
        found += [
            replace(layout, fresh=(True,), fresh_from=LONG_CHUNK, pages=False, written=False, stored=False)
            for layout in found
        ]
    return found


def graphs_of(layout: Layout, sizes: list[int], max_num_seqs: int) -> list[Any]:
    """The configs of recorded decodes, of one token and of a few."""
    made = [
        graph_config(min(size, max_num_seqs), max_q, layout.num_query_heads, layout.num_kv_heads, layout.head_size)
        for size in sizes
        for max_q in (1, 2, 4, 8)
    ]  # fmt: skip
    return [config for config in dict.fromkeys(made) if config is not None]
