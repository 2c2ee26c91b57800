"""Checks of caches that our kernels do not read or write; run by vllm_child.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.servers.vllm import support, warm

from tests.kernels.servers.vllm_batch import HEADS, HEADS_KV, PAGE, SIZE, Batch, error_of
from tests.kernels.servers.vllm_calls import (
    DECODES,
    LAYER,
    MIXED,
    Spied,
    builder_of,
    impl_of,
    inherited_writes,
    stock_calls,
)


def left_to_vllm(batch):
    """Why neither launch, write nor warm-up over a batch's cache is ours."""
    impl, said = impl_of(), []
    impl._tell = said.append
    for build in ("build", "build_for_cudagraph_capture"):
        given = (0, batch.common) if build == "build" else (batch.common,)
        calls, restore = stock_calls()
        with no_writes_of_ours(), Spied() as ours:
            batch.forward(impl, getattr(builder_of(), build)(*given))
        restore()
        assert (len(calls), len(ours)) == (1, 0)
    assert warm.layouts_of([SimpleNamespace(impl=impl, kv_cache=batch.kv_cache)], None) == []
    assert len(set(said)) == 1
    return said[0]


class no_writes_of_ours:
    """Inside, each write goes to the inherited kernel; one of ours fails."""

    def __enter__(self):
        self.calls, self.restore = inherited_writes()

    def __exit__(self, *_):
        self.restore()
        assert len(self.calls) == 1


def check_heads_of_v_that_differ_from_k_s_are_refused():
    """While vLLM measures memory, before there is a server: its own kernel writes beyond its output, or fails."""
    for size in (SIZE // 2, 2 * SIZE):
        impl, batch = impl_of(), Batch(MIXED)
        said = f"heads of {SIZE} in K and of {size} in V; choose the attention backend FLASH_ATTN_DIFFKV or TRITON_"
        value = torch.zeros((batch.tokens, HEADS_KV, size), dtype=torch.float16)
        output = torch.zeros((batch.tokens, HEADS, size), dtype=torch.float16)
        cache = torch.zeros((9, HEADS_KV, PAGE, SIZE + size), dtype=torch.float16)
        metadata = builder_of().build(0, batch.common)
        for given in (None, metadata):
            with pytest.raises(ValueError, match=said):
                impl.forward(LAYER, batch.query, batch.key, value, cache, given, output)
        with pytest.raises(ValueError, match=said):  # as a draft model does
            impl.do_kv_cache_update(LAYER, batch.key, value, cache, batch.slots)


def check_an_e5m2_cache_is_vllms_without_its_assertion():
    """Of queries quantised beside e4m3 caches alone, which ends a server. Its kernels take such bytes for e4m3."""
    batch, impl = Batch(MIXED), impl_of(kv_cache_dtype="fp8_e5m2")
    assert impl.stock is not None
    assert not impl.supports_quant_query_input
    assert impl_of(kv_cache_dtype="fp8", head_size=320).supports_quant_query_input
    cache, batch.key, batch.value = batch.expected.to(torch.float8_e4m3fn), None, None
    batch.expected, batch.kv_cache = cache.half(), cache.view(torch.uint8)
    with Spied() as ours:
        batch.forward(impl, builder_of().build(0, batch.common))
    assert ours == []
    assert error_of(batch.output, batch.reference()) < 2e-3


def check_heads_and_pages_far_apart_are_vllms():
    """A layout with all pages of a head together has them as far apart as the cache is large."""
    far = support.REACH
    for strides in ((PAGE * 2 * SIZE, far, 2 * SIZE, 1), (far, PAGE * 2 * SIZE, 2 * SIZE, 1)):
        batch = Batch(DECODES)
        shape = (3, HEADS_KV, PAGE, 2 * SIZE)
        batch.kv_cache = torch.empty_strided(shape, strides, dtype=torch.float16, device="meta")
        assert left_to_vllm(batch) == "a cache with heads or pages 2^31 numbers and more apart"


def check_caches_that_end_just_within_reach_are_ours():
    row, head = 2 * SIZE, support.REACH - PAGE * 2 * SIZE
    shape = 3, 2, PAGE, row
    assert support.why_stock_cache(shape, (PAGE * row, head, row, 1)) is None
    assert support.why_stock_cache(shape, (PAGE * row, head + 1, row, 1)) is not None
    assert support.why_stock_cache(shape, (support.REACH - 1, row, 2 * row, 1)) is None
