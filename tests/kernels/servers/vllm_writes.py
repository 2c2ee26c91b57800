"""Checks of where and by what new K and V are written; run by vllm_child.py."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import torch
from heurgen_kernels.servers.vllm import backend, warm
from heurgen_kernels.servers.vllm.batch import LONG_CHUNK
from vllm.config import CUDAGraphMode
from vllm.v1.attention.backends import triton_attn

from tests.kernels.servers.vllm_batch import PAGE, SIZE, Batch, error_of
from tests.kernels.servers.vllm_calls import (
    DECODES,
    LAYER,
    MIXED,
    PROMPTS,
    Spied,
    builder_of,
    impl_of,
    inherited_writes,
    no_writes,
    recorded,
)


def check_new_tokens_are_written_where_they_are_read():
    for layout in ("NHD", "HND"):
        batch, impl = Batch(MIXED, layout, padding=3), impl_of()
        assert not batch.written()
        calls, restore = inherited_writes()
        impl.do_kv_cache_update(LAYER, batch.key, batch.value, batch.kv_cache, batch.slots)
        restore()
        assert calls == []
        assert batch.written()


def check_pages_of_the_model_s_type_by_its_name_are_ours():
    batch = Batch(MIXED)
    torch.set_default_dtype(torch.float16)  # as vLLM sets it while it builds a model
    try:
        impl = impl_of(kv_cache_dtype="float16")
    finally:
        torch.set_default_dtype(torch.float32)
    assert impl.stock is None
    impl.do_kv_cache_update(LAYER, batch.key, batch.value, batch.kv_cache, batch.slots)
    assert batch.written()


def check_other_pages_are_written_by_the_inherited_kernel():
    def inherited(impl, change):
        batch = Batch(DECODES, padding=5)
        calls, restore = inherited_writes()
        new = change(batch.key), change(batch.value)
        impl.do_kv_cache_update(None, *new, batch.kv_cache, batch.slots[: batch.tokens])
        restore()
        return [len(tensor) for tensor in (*calls[0][2:4], calls[0][5])] == [batch.tokens] * 3

    assert inherited(impl_of(use_alibi_sqrt=True), lambda new: new)
    assert inherited(impl_of(), lambda new: new.float())
    assert inherited(impl_of(kv_cache_dtype="fp8"), lambda new: new.to(torch.float8_e4m3fn))


def check_fp8_pages_are_written_with_the_layer_s_scales():
    """As vLLM has them, bytes; the interpreter rounds in its own way, so to within a step."""
    batch, impl = Batch(MIXED, padding=3), impl_of(kv_cache_dtype="fp8")
    batch.kv_cache = batch.kv_cache.to(torch.float8_e4m3fn).view(torch.uint8)
    layer = SimpleNamespace(_k_scale=torch.tensor(0.5), _v_scale=torch.tensor(2.0))
    calls, restore = inherited_writes()
    impl.do_kv_cache_update(layer, batch.key, batch.value, batch.kv_cache, batch.slots)
    restore()
    assert calls == []
    found = batch.kv_cache.view(torch.float8_e4m3fn).float().transpose(1, 2)
    found[..., :SIZE] *= layer._k_scale
    found[..., SIZE:] *= layer._v_scale
    page, place = batch.slots[: batch.tokens] // PAGE, batch.slots[: batch.tokens] % PAGE
    want = batch.expected.float().transpose(1, 2)[page, place]
    assert error_of(found[page, place], want) < 0.1


SPECULATED = [(2, 40), (2, 17), (1, 3), (2, 2)]


def check_forward_says_that_it_writes():
    assert backend.HeurgenAttentionBackend.forward_includes_kv_cache_update
    assert not triton_attn.TritonAttentionBackend.forward_includes_kv_cache_update


def check_recorded_decodes_run_the_static_grid_which_writes():
    for lengths in (DECODES, SPECULATED):
        for layout in ("NHD", "HND"):
            batch = Batch(lengths, layout)
            with no_writes():
                told = recorded(batch, impl_of())
            assert told["config"].variant == "static_grid"
            assert told["total_seqlen_k"] is None
            assert told["slot_mapping"].data_ptr() == batch.slots.data_ptr()  # where later batches' will be
            assert error_of(batch.output, batch.reference()) < 2e-3
            assert batch.written()


def check_recorded_sequences_that_are_padding_write_nothing():
    batch = Batch([*DECODES, (0, 0), (0, 0)], padding=2)
    with no_writes():
        recorded(batch, impl_of())
    assert error_of(batch.output[: batch.tokens], batch.reference()) < 2e-3
    assert bool(batch.output[batch.tokens :].isnan().all())
    assert batch.written()


def check_one_recorded_token_is_told_how_others_lay():
    batch, impl = Batch([(3, 3)]), impl_of()
    batch.key = batch.key.contiguous()
    batch.forward(impl, None)
    one = Batch([(1, 33)])
    told = recorded(one, impl)
    assert told["key"].stride() == (64, 32, 1)
    assert told["value"].stride() == (256, 32, 1)
    assert error_of(one.output, one.reference()) < 2e-3
    assert one.written()
    layout, long = warm.layouts_of([SimpleNamespace(impl=impl, kv_cache=one.kv_cache)], None)
    assert layout.written
    assert layout.stored
    told = {"fresh": (True,), "fresh_from": LONG_CHUNK, "pages": False, "written": False, "stored": False}
    assert long == replace(layout, **told)
    assert layout.new_strides == ((64, 32), (256, 32))


def check_one_token_whose_heads_lie_otherwise_than_others_did_is_read_where_it_is():
    """Noted of prompts, whose heads lay side by side; of the one token each head has a gap behind it."""
    for frozen in (False, True):
        batch, impl = Batch([(3, 3)]), impl_of()
        batch.forward(impl, None)
        one = Batch([(1, 33)])
        for name in ("query", "key", "value", "output"):
            wide = torch.zeros((1, getattr(one, name).shape[1], 2 * SIZE), dtype=torch.float16)
            setattr(one, name, wide[..., :SIZE].copy_(getattr(one, name)))
        recorded(one, impl) if frozen else one.forward(impl, builder_of().build(0, one.common))
        assert error_of(one.output, one.reference()) < 2e-3
        assert one.written()


def check_recorded_pages_of_another_type_are_written_before():
    batch, impl = Batch(DECODES), impl_of(kv_cache_dtype="fp8")
    batch.kv_cache = batch.kv_cache.to(torch.float8_e4m3fn)
    told = recorded(batch, impl)
    assert "slot_mapping" not in told
    assert error_of(batch.output, batch.reference()) < 0.1  # the interpreter rounds to fp8 in its own way
    page, place = batch.slots // PAGE, batch.slots % PAGE
    assert not bool(batch.kv_cache.float().transpose(1, 2)[page, place].isnan().any())


def check_a_recorded_mixed_batch_is_answered_by_the_selector():
    batch = Batch(MIXED)
    told = recorded(batch, impl_of())
    assert told["config"] is None
    assert "slot_mapping" not in told
    assert error_of(batch.output, batch.reference()) < 2e-3
    assert batch.written()


def check_a_graph_of_batches_of_any_lengths_serves_prompts():
    """As model runner V2 of 0.26 records those of the mode FULL: of one token of each of as many sequences. On a GPU
    nobody looks whether a sequence has more than the launch was told.
    """
    lengths = [(1, 40), (90, 90), (5, 37)]
    batch = Batch([*lengths, *[(0, 0)] * (96 - len(lengths))])
    batch.common.max_query_len = 1
    told = recorded(batch, impl_of(), builder_of(graphs=CUDAGraphMode.FULL))
    assert told["max_seqlen_q"] == 96
    assert error_of(batch.output, batch.reference()) < 2e-3
    assert batch.written()


def check_tokens_without_slots_behind_the_others_are_left_alone():
    """Where graphs end before attention tensors are padded and slots are not."""
    for frozen in (False, True):
        batch = Batch(DECODES, padding=5)
        batch.common.slot_mapping = batch.slots[: batch.tokens]
        batch.common.num_actual_tokens = batch.tokens
        recorded(batch, impl_of()) if frozen else batch.forward(
            impl_of(), builder_of().build(0, batch.common)
        )
        assert error_of(batch.output[: batch.tokens], batch.reference()) < 2e-3
        assert batch.written()


def check_a_model_that_wrote_its_keys_itself_hands_over_none():
    batch = Batch(DECODES)
    batch.kv_cache.copy_(batch.expected)
    batch.key = batch.value = None
    with no_writes():
        told = recorded(batch, impl_of())
    assert "slot_mapping" not in told
    assert error_of(batch.output, batch.reference()) < 2e-3


def check_pages_of_another_layer_are_never_replaced_by_new_tokens():
    for frozen in (False, True):
        batch, impl = Batch(DECODES), impl_of(kv_sharing_target_layer_name="other")
        before = batch.kv_cache.copy_(batch.expected).clone()
        batch.key.zero_()
        recorded(batch, impl) if frozen else batch.forward(impl, builder_of().build(0, batch.common))
        assert torch.equal(batch.kv_cache, before)
        assert error_of(batch.output, batch.reference()) < 2e-3
    batch, impl = Batch(PROMPTS), impl_of(kv_sharing_target_layer_name="other")
    with Spied() as calls:
        batch.forward(impl, builder_of().build(0, batch.common))
    assert "key" not in calls[0][1]
