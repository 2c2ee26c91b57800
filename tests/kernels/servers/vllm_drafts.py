"""Checks of speculative decoding; run by vllm_child.py."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from heurgen_kernels.ahead import warm as ahead
from heurgen_kernels.config import Config
from heurgen_kernels.host import pages
from heurgen_kernels.servers.vllm import warm
from vllm.v1.attention.backends.triton_attn import TritonAttentionMetadataBuilder

from tests.kernels.servers.vllm_batch import HEADS_KV, SIZE, Batch, error_of
from tests.kernels.servers.vllm_calls import DECODES, LAYER, MIXED, PROMPTS, builder_of, impl_of, recorded

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


ADAPTIVE = SimpleNamespace(
    num_speculative_tokens=12, parallel_drafting=False, enable_adaptive_verification=True
)


def trimmed(lengths, host, most):
    """A batch whose drafts were dropped on the device. host: new tokens of each sequence, as the host has them;
    most: the longest query, as it says.
    """
    batch = Batch(lengths)
    common = batch.common
    common.query_start_loc_cpu = torch.tensor([0, *host]).cumsum(0).int()
    common.max_query_len = most
    scheduled = [total + 1 + ADAPTIVE.num_speculative_tokens - new for new, total in lengths]
    common.seq_lens_cpu_upper_bound = torch.tensor(scheduled, dtype=torch.int32)
    common.max_seq_len = max(scheduled)
    return batch


def one_block_a_sequence():
    """A layer whose launches lose what a sequence has beyond one block, where the host says that none has more."""
    impl = impl_of()
    impl.heuristics = lambda **_: Config("split_kv", 16, 16, 4, 2, 2)
    return impl


def check_drafts_that_were_dropped_on_the_device():
    """The host counts all of them together right. A target's batch says the most that a sequence may have, a draft
    model's what each has if all lost as many.
    """
    for lengths, host in (
        ([(13, 40), (1, 30)], [7, 7]), ([(1, 40), (12, 50), (2, 20)], [5, 5, 5]), ([(3, 40), (1, 30)], [2, 2]),
        ([(1, 40), (1, 30)], [1, 1]), ([(13, 40), (13, 30)], [13, 13]),
    ):  # fmt: skip
        for most in (13, max(host)):
            batch = trimmed(lengths, host, most)
            batch.forward(one_block_a_sequence(), builder_of(drafts=ADAPTIVE).build(0, batch.common))
            assert error_of(batch.output, batch.reference()) < 2e-3
            assert batch.written()


def check_prompts_beside_dropped_drafts():
    batch = trimmed([(13, 40), (1, 30), (20, 20)], [7, 7, 20], 20)
    batch.forward(one_block_a_sequence(), builder_of(drafts=ADAPTIVE).build(0, batch.common))
    assert error_of(batch.output, batch.reference()) < 2e-3


def check_recorded_batches_of_any_number_of_drafts():
    """Recorded with one token of each sequence and the most that there may be, replayed with any up to it."""
    batch = trimmed([(13, 40), (1, 30), (0, 0)], [5, 5, 4], 13)
    recorded(batch, impl_of(), builder_of(drafts=ADAPTIVE))
    assert error_of(batch.output, batch.reference()) < 2e-3
    assert batch.written()


def check_other_speculation_is_as_the_host_says():
    batch = Batch([(3, 40), (1, 30)])
    fixed = SimpleNamespace(
        num_speculative_tokens=12, parallel_drafting=False, enable_adaptive_verification=False
    )
    for drafts in (None, fixed):
        assert builder_of(drafts=drafts).build(0, batch.common).max_query_len == 3


def check_drafts_after_the_first_are_of_no_known_sum():
    """0.33 builds metadata for the first one, and counts lengths up on the device."""
    batch = Batch([(1, 40), (1, 30)])
    builder = builder_of()
    metadata = builder.build(0, batch.common)
    if not hasattr(TritonAttentionMetadataBuilder, "update_draft_decode_metadata"):
        return
    assert builder.supports_draft_decode_metadata_update
    assert metadata.heurgen.total_seqlen_k == 70
    builder.update_draft_decode_metadata(metadata)
    assert metadata.heurgen.total_seqlen_k is None
    batch.forward(impl_of(), metadata)
    assert error_of(batch.output, batch.reference()) < 2e-3
