"""Checks of speculative decoding; run by vllm_child.py."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from heurgen_kernels.ahead import warm as ahead
from heurgen_kernels.host import pages
from heurgen_kernels.servers.vllm import warm

from tests.kernels.servers.vllm_batch import HEADS_KV, SIZE, Batch
from tests.kernels.servers.vllm_calls import DECODES, LAYER, MIXED, PROMPTS, builder_of, impl_of

DRAFTS = SimpleNamespace(speculative_config=SimpleNamespace(num_speculative_tokens=3))


def warmed_writes(impl, cache, config):
    """Arguments of the writes of pages that a warm-up compiles."""
    layouts = warm.layouts_of([SimpleNamespace(impl=impl, kv_cache=cache)], config)
    return [ahead.stored(layout, torch.device("cpu")) for layout in layouts if layout.stored]


def compiled_for(run):
    """What kernels that write pages are compiled for while run() is."""
    pages._plans.clear()
    run()
    return set(pages._plans)


def check_what_drafts_write_before_they_are_called_is_warmed_up():
    """DFlash writes the K and V of all layers, contiguous, of any number of tokens, from a part of its slots."""
    batch, impl = Batch(PROMPTS), impl_of()
    batch.forward(impl, None)
    found = warmed_writes(impl, batch.kv_cache, DRAFTS)
    assert len(found) == 1 + len(warmed_writes(impl, batch.kv_cache, None))

    def warm_up():
        for given in found:
            pages.write_pages(*given)

    def serve():
        for count in (1, 2, 20):
            every = torch.randn((2, 3, count, HEADS_KV, SIZE)).half()
            slots = torch.zeros(40, dtype=torch.int64)[7:][:count]
            for key, value in zip(*every, strict=True):
                impl.do_kv_cache_update(LAYER, key, value, batch.kv_cache, slots)
        for lengths in (MIXED, DECODES):
            other = Batch(lengths)
            other.forward(impl, builder_of().build(0, other.common))

    assert compiled_for(serve) <= compiled_for(warm_up)
