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
from .support import DTYPES

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
    seqs, compilation = config.scheduler_config.max_num_seqs, config.compilation_config
    layers, sizes = (
        list(compilation.static_forward_context.values()),
        compilation.cudagraph_capture_sizes or [],
    )
    try:
        kinds = {h: layouts_of(some, config) for h, some in by_selector(layers).items()}
        if not any(kinds.values()):
            return None
        parts = [
            warm_up(
                layouts, graphs=graphs_of(layouts, sizes, seqs), max_graph_seqlen_q=recorded_queries(config),
                heuristics=heuristics, **limits_of(layers, config),
                processes=max(1, len(os.sched_getaffinity(0)) // config.parallel_config.local_world_size),
            )
            for heuristics, layouts in kinds.items() if layouts
        ]  # fmt: skip
    except Exception:
        logger.exception("heurgen's warm-up failed; kernels compile as requests come")
        return None
    done = WarmUp(
        *(sum(getattr(part, name) for part in parts) for name in ("launches", "compiled", "seconds"))
    )
    logger.info(
        "heurgen warmed up %d kinds of launch in %.1f s, %d of their kernels compiled anew",
        done.launches, done.seconds, done.compiled,
    )  # fmt: skip
    return done


def recorded_queries(config: Any) -> int | None:
    """New tokens of a sequence in recorded decodes, at most; None where other batches are recorded too."""
    mode = config.compilation_config.cudagraph_mode
    if mode is None or mode.mixed_mode().has_full_cudagraphs():
        return None
    drafts = config.speculative_config
    return 1 + (0 if drafts is None else drafts.num_speculative_tokens or 0)


def limits_of(layers: list[Any], config: Any) -> dict[str, int]:
    """The largest batches that attention sees: more than the scheduler's where layers make several sequences of one
    (local attention in chunks) or tokens of one (Whisper's pooling), where drafts and sinks before all other tokens
    (openPangu's) add tokens, and over an encoder's.
    """
    scheduler, drafts = config.scheduler_config, config.speculative_config
    seqs, tokens = scheduler.max_num_seqs, scheduler.max_num_batched_tokens
    longest = config.model_config.max_model_len
    if drafts is not None:
        drafted = drafts.num_speculative_tokens or 0
        tokens += seqs * drafted
        longest += drafted + 1  # a draft model's queries (DFlash) are counted behind the longest context
    longest += max(getattr(layer, "sink_len", 0) for layer in layers)
    chunks = [layer.attention_chunk_size for layer in layers if getattr(layer, "attention_chunk_size", None)]
    if chunks:
        seqs += seqs + tokens // min(chunks)
    pooled = max(getattr(layer, "block_pool_size", 1) for layer in layers)
    if any(getattr(getattr(layer, "impl", None), "attn_type", "") == "encoder_decoder" for layer in layers):
        longest = max(longest, scheduler.max_num_encoder_input_tokens)
    return {"max_num_seqs": seqs, "max_num_batched_tokens": tokens * pooled, "max_seqlen": longest * pooled}


def by_selector(layers: Any) -> dict[Any, list[Any]]:
    """Layers by whose selector they ask: one, unless pages of some are of another type."""
    found: dict[Any, list[Any]] = {}
    for layer in layers:
        found.setdefault(getattr(getattr(layer, "impl", None), "heuristics", None), []).append(layer)
    return found


def layouts_of(layers: list[Any], config: Any) -> list[Layout]:
    """Of all layers that our kernels serve, once each kind. config: vLLM's."""
    found: dict[Layout, None] = {}
    for layer in layers:
        impl: Any = getattr(layer, "impl", None)
        cache = getattr(layer, "kv_cache", None)
        if getattr(impl, "stock", "") is not None or not isinstance(cache, torch.Tensor) or cache.dim() != 4:
            continue
        noted = impl.seen.dtypes
        if noted is not None and noted[0] not in DTYPES:  # every batch goes to vLLM's kernels
            continue
        if impl.pages(cache).stock is None:
            for causal in directions(layer, impl, config):
                found |= dict.fromkeys(layouts_of_layer(impl, cache, causal))
            if getattr(config, "speculative_config", None) is not None:
                found[drafted(impl, cache)] = None
    return list(found)


def directions(layer: Any, impl: Any, config: Any) -> tuple[bool, ...]:
    """Whether a layer's queries see what follows them: never, always (prompts as prefixes), or as a batch says."""
    if impl.attn_type != "decoder":
        return (False,)
    spec = layer.get_kv_cache_spec(config) if hasattr(layer, "get_kv_cache_spec") else None
    if getattr(spec, "non_causal", False):
        return (False,)
    return (True, False) if impl.both_ways else (True,)


def layouts_of_layer(impl: Any, cache: torch.Tensor, causal: bool) -> list[Layout]:
    """What a layer's calls will look like: its pages as they are, its tensors as they were noted."""
    k = impl.pages(cache).k
    seen = impl.seen
    dtype, out_dtype = seen.dtypes or (torch.get_default_dtype(),) * 2
    lies: tuple[Any, ...] = tuple(seen.all) or ((None,) * 3,)
    found = [
        Layout(
            impl.num_heads, impl.num_kv_heads, impl.head_size, k.shape[1], dtype=dtype,
            cache_dtype=k.dtype if k.dtype != dtype else None, out_dtype=out_dtype if out_dtype != dtype else None,
            fresh=(False,) if impl.takes_new else (), fresh_from=2,
            causal=causal, window=impl.sliding_window[0] >= 0,
            softcap=impl.logits_soft_cap > 0, alibi=impl.alibi_slopes is not None,
            sinks=None if impl.sinks is None else impl.sinks.dtype,
            written=impl.writes, stored=impl.kv_sharing_target_layer_name is None, q_strides=q, new_strides=new,
            out_strides=out, page_strides=tuple(k.stride()[:3]),
        )
        for q, new, out in lies
    ]  # fmt: skip
    if impl.reads_both:
        found += [
            replace(layout, fresh=(True,), fresh_from=LONG_CHUNK, pages=False, written=False, stored=False)
            for layout in found
        ]
    return found


def drafted(impl: Any, cache: torch.Tensor) -> Layout:
    """New K and V that a draft model (DFlash, DSpark) writes to a layer's pages before it is called: of all layers at
    once, contiguous, where those of the layer's own calls are views of a projection.
    """
    layout = layouts_of_layer(impl, cache, True)[0]
    return replace(
        layout,
        fresh=(),
        pages=False,
        written=False,
        stored=True,
        q_strides=None,
        new_strides=None,
        out_strides=None,
    )


def graphs_of(layouts: list[Layout], sizes: list[int], max_num_seqs: int) -> list[Any]:
    """The configs of decodes recorded for so many tokens, of one token a sequence and of a few.

    A draft model's layers may have other heads than the model's, and another number of parts with them.
    """
    most = min(max(sizes, default=0), max_num_seqs)
    made = [
        graph_config(num_seqs, max_q, layout.num_query_heads, layout.num_kv_heads, layout.head_size)
        for layout in layouts
        for num_seqs in range(1, most + 1)
        for max_q in (1, 2, 4, 8)
    ]
    return [config for config in dict.fromkeys(made) if config is not None]
