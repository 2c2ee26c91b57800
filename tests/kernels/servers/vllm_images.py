"""Checks of requests whose images' tokens see each other (PrefixLM); run by vllm_child.py."""

from __future__ import annotations

from functools import partial

import torch
from heurgen_kernels.servers.vllm import backend
from vllm.v1.attention.backends import utils
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl, TritonAttentionMetadataBuilder

from tests.kernels.servers.vllm_batch import Batch, error_of
from tests.kernels.servers.vllm_calls import LAYER, Spied, builder_of, impl_of, stock_calls
from tests.kernels.servers.vllm_wrapped import common_of

utils.async_tensor_h2d = lambda given, **_: torch.as_tensor(given)


def whose(lengths, images, bound=None, **traits):
    """ "ours" or "stock", after the launch of a batch with such images, first and last token of each."""
    batch, impl = Batch(lengths), impl_of(**traits)
    common = common_of(batch, mm_req_doc_ranges=images)
    if bound is not None:
        common.seq_lens_cpu_upper_bound = torch.tensor(bound, dtype=torch.int32)
    metadata = builder_of().build(0, common)
    assert common.mm_req_doc_ranges is images  # other groups' builders are handed the same
    calls, restore = stock_calls()
    with Spied() as ours:
        batch.forward(impl, metadata)
    restore()
    assert len(calls) + len(ours) == 1
    if ours:
        window = (traits.get("sliding_window", 0) - 1, 0 if traits else -1)
        assert error_of(batch.output, batch.reference(window=window)) < 2e-3
    return "ours" if ours else "stock"


def check_decodes_behind_images_are_ours():
    """Of one token and of drafts, under a window too, and beside prompts without images."""
    images = {0: [(2, 9), (12, 38)], 1: [], 2: [(0, 30)]}
    for lengths in ([(1, 40), (1, 3), (1, 64)], [(1, 40), (4, 9), (3, 64)], [(1, 40), (17, 17), (3, 64)]):
        assert whose(lengths, images) == "ours"
        assert whose(lengths, images, sliding_window=8) == "ours"


def check_chunks_behind_and_before_images_are_ours():
    assert whose([(20, 40)], {0: [(2, 19)]}) == "ours"
    assert whose([(20, 40)], {0: [(40, 60)]}) == "ours"


def check_batches_with_a_token_of_an_image_are_vllms():
    """The first and the last one, and all that decodes beside it."""
    decode, images = (1, 40), [(2, 9)]
    for chunk, image in (((20, 40), (2, 20)), ((20, 40), (39, 60)), ((20, 20), (3, 5)), ((1, 10), (4, 9))):
        assert whose([decode, chunk], {0: images, 1: [image]}) == "stock"
        assert whose([chunk], {0: [image]}, sliding_window=8) == "stock"


def check_lengths_that_count_drafts_refused_since_are_behind_images_too():
    assert whose([(4, 40), (1, 30)], {0: [(2, 35)], 1: [(2, 28)]}, bound=[44, 34]) == "ours"


def check_images_of_unknown_lengths_are_vllms():
    batch = Batch([(1, 40)])
    common = common_of(batch, mm_req_doc_ranges={0: [(2, 9)]})
    common.seq_lens_cpu_upper_bound = None
    assert builder_of().build(0, common).mm_prefix_range_tensor is not None


def check_vllms_kernel_gives_the_same_behind_images():
    """With the images, which it looks at whenever a request has any."""
    images = {0: [(2, 9), (12, 38)], 1: [], 2: [(0, 30)]}
    for traits in ({}, {"sliding_window": 8}):
        outputs = []
        for builder in (TritonAttentionMetadataBuilder, backend.HeurgenAttentionMetadataBuilder):
            batch, impl = Batch([(1, 40), (17, 17), (3, 64)]), impl_of(**traits)
            common = common_of(batch, mm_req_doc_ranges=images)
            metadata = builder_of(builder=builder).build(0, common)
            assert (metadata.mm_prefix_range_tensor is None) == hasattr(metadata, "heurgen")
            forward = (
                impl.forward if hasattr(metadata, "heurgen") else partial(TritonAttentionImpl.forward, impl)
            )
            forward(LAYER, batch.query, None, None, batch.expected, metadata, batch.output)
            outputs.append(batch.output.float())
        assert error_of(*outputs) < 2e-3
