"""Checks of what the warm-up inside vLLM's compiles; run by vllm_child.py."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import torch
from heurgen_kernels.ahead.layouts import Layout
from heurgen_kernels.servers.vllm import batch as batches
from heurgen_kernels.servers.vllm import warm
from vllm.config import CUDAGraphMode

from tests.kernels.servers.vllm_batch import PAGE, Batch
from tests.kernels.servers.vllm_calls import PROMPTS, builder_of, impl_of


def check_the_warm_up_stands_behind_vllms():
    order = []
    worker = sys.modules[warm.WORKER] = SimpleNamespace(kernel_warmup=lambda _: order.append("vLLM"))
    real, warm.after = warm.after, lambda _: order.append("heurgen")
    builder_of()
    builder_of()
    worker.kernel_warmup(None)
    warm.after = real
    del sys.modules[warm.WORKER]
    assert order == ["vLLM", "heurgen"]


def check_the_warm_up_knows_the_layers():
    impl, other = impl_of(sliding_window=8), impl_of(head_size=320)
    batch = Batch(PROMPTS)
    batch.forward(impl, None)
    layers = [SimpleNamespace(impl=one, kv_cache=batch.kv_cache) for one in (impl, other, impl)]
    (layout,) = warm.layouts_of([*layers, SimpleNamespace()], None)
    assert (layout.num_query_heads, layout.num_kv_heads, layout.head_size, layout.page_size) == (4, 2, 32, 16)
    assert layout.page_strides == (2 * 2 * 16 * 32, 2 * 2 * 32, 64)
    assert (layout.q_strides, layout.new_strides, layout.out_strides) == (
        (256, 32),
        ((256, 32),) * 2,
        (128, 32),
    )
    assert (layout.window, layout.fresh, layout.dtype) == (True, (False,), torch.float16)
    configs = warm.graphs_of([layout], [1, 8, 512], 256)
    assert {config.variant for config in configs} == {"static_grid"}


def check_the_warm_up_leaves_out_models_whose_batches_are_all_vllms():
    """In float32, say: no launch asks for such kernels."""
    batch, impl = Batch(PROMPTS), impl_of()
    for name in ("query", "key", "value", "output", "kv_cache"):
        setattr(batch, name, getattr(batch, name).float())
    batch.forward(impl, None)
    assert warm.layouts_of([SimpleNamespace(impl=impl, kv_cache=batch.kv_cache)], None) == []


def check_the_warm_up_knows_recorded_decodes_of_every_layer():
    """Of a draft model with more heads than the model, and of several tokens for each of fewer sequences."""
    few, many = (Layout(heads, heads, 128, PAGE) for heads in (2, 32))
    sizes, launched = [1, 512], batches.graph_config(170, 3, 32, 32, 128)
    assert launched in warm.graphs_of([few, many], sizes, 512)
    assert launched not in warm.graphs_of([few], sizes, 512)


def check_the_warm_up_knows_batches_that_layers_make_larger():
    """Sequences in chunks, tokens that are pooled or drafted, sinks before all others, an encoder's tokens."""
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(
            max_num_seqs=8, max_num_batched_tokens=64, max_num_encoder_input_tokens=1500
        ),
        model_config=SimpleNamespace(max_model_len=448), speculative_config=None,
    )  # fmt: skip
    plain = SimpleNamespace(impl=SimpleNamespace(attn_type="decoder"))
    asked = {"max_num_seqs": 8, "max_num_batched_tokens": 64, "max_seqlen": 448}
    assert warm.limits_of([plain, SimpleNamespace()], config) == asked
    over = SimpleNamespace(impl=SimpleNamespace(attn_type="encoder_decoder"))
    assert warm.limits_of([plain, over], config) == asked | {"max_seqlen": 1500}
    assert warm.limits_of([SimpleNamespace(sink_len=128), plain], config) == asked | {"max_seqlen": 576}
    in_chunks = SimpleNamespace(attention_chunk_size=16)
    assert warm.limits_of([in_chunks, plain], config) == asked | {"max_num_seqs": 20}
    pooling = SimpleNamespace(block_pool_size=4)
    assert warm.limits_of([pooling], config) == {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 256,
        "max_seqlen": 1792,
    }
    config.speculative_config = SimpleNamespace(num_speculative_tokens=3)
    assert warm.limits_of([plain], config) == asked | {"max_num_batched_tokens": 88, "max_seqlen": 452}


def check_the_warm_up_knows_queries_that_see_what_follows_them():
    """Prompts as prefixes, which a layer's cache says, and drafts, which a batch says."""
    batch, impl = Batch(PROMPTS), impl_of()
    impl.forward(None, batch.query, batch.key, batch.value, batch.kv_cache, None, batch.output)
    layer = SimpleNamespace(impl=impl, kv_cache=batch.kv_cache)

    def ways():
        return {layout.causal for layout in warm.layouts_of([layer], None)}

    assert ways() == {True}
    impl.both_ways = True
    assert ways() == {True, False}
    layer.get_kv_cache_spec = lambda _: SimpleNamespace(non_causal=True)
    assert ways() == {False}


def check_workers_of_one_model_share_the_processors_while_they_warm_up():
    batch, impl = Batch(PROMPTS), impl_of()
    batch.forward(impl, None)
    asked, real = [], (warm.warm_up, os.sched_getaffinity)
    warm.warm_up = lambda layouts, **given: asked.append(given) or warm.WarmUp(0, 0, 0.0)
    os.sched_getaffinity = lambda _: set(range(64))
    for workers in (1, 4, 128):
        config = SimpleNamespace(
            scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=64), speculative_config=None,
            model_config=SimpleNamespace(max_model_len=128),
            compilation_config=SimpleNamespace(
                static_forward_context={"layer": SimpleNamespace(impl=impl, kv_cache=batch.kv_cache)},
                cudagraph_capture_sizes=[1, 2], cudagraph_mode=CUDAGraphMode.FULL_DECODE_ONLY,
            ),
            parallel_config=SimpleNamespace(local_world_size=workers),
        )  # fmt: skip
        assert warm.after(SimpleNamespace(vllm_config=config)) is not None
    warm.warm_up, os.sched_getaffinity = real
    assert [given["processes"] for given in asked] == [64, 16, 1]
    assert {given["max_graph_seqlen_q"] for given in asked} == {1}


def check_what_recorded_decodes_have_of_new_tokens():
    """Elsewhere than in graphs of decodes alone as many as a block holds: what is recorded of a batch may be any."""
    modes = CUDAGraphMode

    def most(mode, drafts=None):
        drafts = None if drafts is None else SimpleNamespace(num_speculative_tokens=drafts)
        compilation = SimpleNamespace(cudagraph_mode=mode)
        return warm.recorded_queries(
            SimpleNamespace(compilation_config=compilation, speculative_config=drafts)
        )

    decodes = (modes.FULL_DECODE_ONLY, modes.FULL_AND_PIECEWISE, modes.PIECEWISE, modes.NONE)
    assert [most(mode) for mode in decodes] == [1] * 4
    assert [most(mode, 3) for mode in decodes] == [4] * 4
    assert [most(modes.FULL), most(modes.FULL, 3), most(None)] == [None] * 3
