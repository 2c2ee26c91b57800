"""Checks of caches that our kernels do not read or write; run by vllm_child.py."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from heurgen_kernels.servers.vllm import support, warm

from tests.kernels.servers.vllm_batch import HEADS_KV, PAGE, SIZE, Batch
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


def check_heads_of_v_that_differ_from_k_s_are_vllms():
    """Its one tensor holds K and V of a token side by side."""
    for size in (SIZE // 2, 2 * SIZE):
        for lengths in (MIXED, DECODES):
            batch = Batch(lengths)
            pages = batch.kv_cache.shape[0]
            batch.kv_cache = torch.zeros((pages, HEADS_KV, PAGE, SIZE + size), dtype=torch.float16)
            batch.value = torch.zeros((batch.tokens, HEADS_KV, size), dtype=torch.float16)
            assert left_to_vllm(batch) == f"V of another head size than K: {size} and {SIZE}"


def check_drafts_that_write_such_pages_themselves_use_vllms_kernel():
    batch, impl = Batch(MIXED), impl_of()
    cache = torch.zeros((9, HEADS_KV, PAGE, SIZE + 16), dtype=torch.float16)
    with no_writes_of_ours():
        impl.do_kv_cache_update(LAYER, batch.key, batch.value[..., :16], cache, batch.slots)


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
    assert support.why_stock_cache((3, 2, PAGE, row), (PAGE * row, head, row, 1), SIZE) is None
    assert support.why_stock_cache((3, 2, PAGE, row), (PAGE * row, head + 1, row, 1), SIZE) is not None
    assert support.why_stock_cache((3, 2, PAGE, row), (support.REACH - 1, row, 2 * row, 1), SIZE) is None
