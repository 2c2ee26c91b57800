"""Checks of ours beside vLLM's own kernel, of the same layer, batch and pages; run by vllm_child.py."""

from __future__ import annotations

import torch
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl

from tests.kernels.servers.vllm_batch import HEADS, Batch, error_of
from tests.kernels.servers.vllm_calls import DECODES, LAYER, MIXED, Spied, builder_of, impl_of

SLOPES, SINKS = [0.5, 0.25, 0.125, 0.0625], torch.linspace(-1, 2, HEADS)
LAYERS = (
    {}, {"sliding_window": 8}, {"sliding_window": 1}, {"logits_soft_cap": 5.0}, {"alibi_slopes": SLOPES},
    {"sinks": SINKS}, {"sliding_window": 8, "sinks": SINKS, "logits_soft_cap": 5.0},
    {"sliding_window": 8, "logits_soft_cap": 5.0, "alibi_slopes": SLOPES},
    {"kv_cache_dtype": "fp8", "logits_soft_cap": 5.0},
)  # fmt: skip


def answered(forward, lengths, traits, causal, scale):
    """The output of `forward` of a layer; pages hold the new tokens already. scale: of an output in fp8."""
    batch, impl = Batch(lengths), impl_of(**traits)
    batch.common.causal = causal
    batch.kv_cache = batch.expected.to(torch.float8_e4m3fn) if "kv_cache_dtype" in traits else batch.expected
    if scale is not None:
        batch.output = torch.zeros_like(batch.query).to(torch.float8_e4m3fn)
    metadata = builder_of(impl).build(0, batch.common)
    forward(impl, LAYER, batch.query, None, None, batch.kv_cache, metadata, batch.output, scale)
    return batch.output.float()


def same(lengths, traits, causal=True, scale=None):
    theirs = answered(TritonAttentionImpl.forward, lengths, traits, causal, scale)
    with Spied() as calls:
        ours = answered(lambda impl, *given: impl.forward(*given), lengths, traits, causal, scale)
    assert len(calls) == 1
    return error_of(ours, theirs) < 2e-3


def check_ours_and_vllms_kernel_agree():
    """But in two cases, in which ours are the reference's numbers: under a window, queries that see what follows them
    (vLLM's kernel zeroes V as the first query of a block sees it), and ALiBi beside sinks (its distances are from a
    chunk's first token, which shows where something else joins the denominator).
    """
    for traits in LAYERS:
        for lengths in (MIXED, DECODES):
            assert same(lengths, traits), traits


def check_ours_and_vllms_kernel_agree_on_queries_that_see_what_follows():
    assert same(MIXED, {}, causal=False)
    assert same(MIXED, {"alibi_slopes": SLOPES}, causal=False)


def check_ours_and_vllms_kernel_agree_on_quantised_outputs():
    assert same(MIXED, {}, scale=torch.tensor([0.25]))
