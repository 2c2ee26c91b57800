"""Checks of the plugin under what vLLM wraps around a backend; run by vllm_child.py.

Local attention in chunks (Llama 4), shared pages with prompts cut short (Gemma 3n), pooled tokens (Whisper), sinks
before all other tokens: each builds metadata of its own from the batch's.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields

import numpy as np
import torch
from heurgen_kernels.servers.vllm import backend
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends import utils

from tests.kernels.servers.vllm_batch import PAGE, Batch, error_of
from tests.kernels.servers.vllm_calls import DECODES, MIXED, PROMPTS, Spied, builder_of, impl_of, recorded

NAMES = {field.name for field in fields(CommonAttentionMetadata)}


def common_of(batch, **more):
    """vLLM's own class of metadata, of a batch."""
    found = CommonAttentionMetadata(
        **{name: value for name, value in vars(batch.common).items() if name in NAMES}
    )
    for name, value in more.items():
        setattr(found, name, value)
    return found


def check_lengths_from_numpy_are_taken():
    for lengths in (MIXED, PROMPTS, DECODES):
        batch = Batch(lengths)
        common = common_of(
            batch,
            max_query_len=np.int32(batch.common.max_query_len),
            max_seq_len=np.int64(batch.common.max_seq_len),
        )
        with Spied() as calls:
            batch.forward(impl_of(), builder_of().build(0, common))
        assert {type(calls[0][1][name]) for name in ("max_seqlen_q", "max_seqlen_k")} == {int}
        assert error_of(batch.output, batch.reference()) < 2e-3


def check_local_attention_in_chunks():
    """Each chunk of 32 tokens is a sequence: its tokens see those of their chunk alone."""
    utils.gpu_sync_allowed = nullcontext
    utils.async_tensor_h2d = lambda given, **_: torch.as_tensor(given)
    for lengths in (MIXED, PROMPTS, [(70, 70), (1, 65), (40, 72)]):
        batch = Batch(lengths)
        common = common_of(batch, _seq_lens_cpu=batch.lens)
        local, _ = utils.make_local_attention_virtual_batches(32, common, PAGE)
        batch.forward(impl_of(), builder_of().build(0, local))
        batch.table, batch.starts, batch.lens = (
            local.block_table_tensor,
            local.query_start_loc,
            local.seq_lens,
        )
        assert error_of(batch.output, batch.reference()) < 2e-3
        assert batch.written()


def check_fast_prefill_over_shared_pages():
    """Of prompts the last token alone is asked for, and where queries start is still on its way to the host."""
    wrapped = utils.create_fast_prefill_custom_backend("FastPrefill", backend.HeurgenAttentionBackend)
    batch, impl = Batch(MIXED), impl_of(kv_sharing_target_layer_name="other")
    batch.kv_cache.copy_(batch.expected)
    expected = batch.reference()[[0, 17, 22]]
    told = {
        "logits_indices_padded": torch.tensor([0, 17, 22, 22]),
        "num_logits_indices": 3,
        "max_logits_per_req": 1,
    }
    common, arrived = common_of(batch, **told), torch.Tensor.to
    torch.Tensor.to = lambda tensor, *given, **more: (
        torch.zeros_like(tensor) if more.get("non_blocking") else arrived(tensor, *given, **more)
    )
    try:
        metadata = builder_of(impl, wrapped.get_builder_cls()).build(0, common)
    finally:
        torch.Tensor.to = arrived
    assert int(metadata.num_actual_tokens) == 3
    batch.query, batch.output = batch.query[[0, 17, 22, 22]], batch.output[:4]
    batch.key = batch.value = None
    batch.forward(impl, metadata)
    assert error_of(batch.output[:3], expected) < 2e-3


def check_lengths_that_a_wrapper_changed_are_not_the_bound_s():
    """A pooled token is four tokens; and there are tokens before all others, which the bound leaves out."""
    for lengths, bound in (([(4, 16)], [4]), ([(4, 20), (5, 21)], [4, 5])):
        batch = Batch(lengths)
        batch.common.seq_lens_cpu_upper_bound = torch.tensor(bound, dtype=torch.int32)
        metadata = builder_of().build(0, batch.common)
        assert not metadata.heurgen.fresh
        assert metadata.heurgen.total_seqlen_k is None
        batch.forward(impl_of(), metadata)
        assert error_of(batch.output, batch.reference()) < 2e-3


def check_a_recorded_batch_is_the_one_that_a_wrapper_makes_of_it():
    """Two decodes of an encoder that pools: four tokens for each that vLLM counts."""
    batch = Batch([(4, 16), (4, 40)])
    pooled = common_of(batch)
    counted = common_of(
        batch, num_actual_tokens=2, max_query_len=1, max_seq_len=10, query_start_loc_cpu=batch.starts // 4
    )

    class Pooling(backend.HeurgenAttentionMetadataBuilder):
        def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
            assert common_attn_metadata is counted
            return super().build(common_prefix_len, pooled, fast_build)

    told = recorded(batch, impl_of(), builder_of(builder=Pooling), counted)
    assert told["slot_mapping"].shape[0] == batch.tokens
    assert error_of(batch.output, batch.reference()) < 2e-3
    assert batch.written()


def check_what_the_host_says_of_an_encoder_s_tokens_is_not_used():
    """vLLM 0.26 hands over the decoder's lengths."""
    impl = impl_of(attn_type="encoder_decoder")
    assert impl.stock is None
    batch = Batch([(1, 40), (1, 40)])
    batch.common.causal, batch.common.seq_lens_cpu_upper_bound = False, torch.tensor([60, 2])
    assert builder_of(impl).build(0, batch.common).heurgen.total_seqlen_k is None


def check_a_batch_of_nothing_is_left_alone():
    batch = Batch([(1, 5)])
    common, nothing = batch.common, torch.zeros(0, dtype=torch.int32)
    common.num_reqs = common.num_actual_tokens = common.max_query_len = common.max_seq_len = 0
    common.query_start_loc = common.query_start_loc_cpu = torch.zeros(1, dtype=torch.int32)
    common.seq_lens = common.seq_lens_cpu_upper_bound = nothing
    common.block_table_tensor, common.slot_mapping = batch.table[:0], batch.slots[:0]
    batch.forward(impl_of(), builder_of().build(0, common))
    assert bool(batch.output.isnan().all())
