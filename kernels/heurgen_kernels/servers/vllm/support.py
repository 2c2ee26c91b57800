"""What the kernels take over from vLLM's Triton attention, and what they leave to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

DTYPES = (torch.float16, torch.bfloat16)
CACHES = ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3")
# Pages of the model's own type by another name than "auto".
PLAIN = {"float16": torch.float16, "bfloat16": torch.bfloat16}
# Causal self-attention, and decoders' attention over an encoder's output, which lies in pages too.
LAYERS = ("decoder", "encoder_decoder")
# What fp8 caches need; bfloat16's matrix products came with 8.0.
CAPABILITY, FP8_CAPABILITY = (8, 0), (8, 9)
# Numbers that may lie between the first and the last KV head of a page, and between two pages.
REACH = 1 << 31


@dataclass(frozen=True, slots=True)
class LayerTraits:
    """An attention layer, as vLLM builds it. kv_cache_dtype and attn_type in vLLM's words.

    capability: of the CUDA device, None for others. dtype: the model's. batch_invariant: results must not depend on the
    batch around.
    """

    head_size: int
    kv_cache_dtype: str
    attn_type: str
    capability: tuple[int, int] | None
    dtype: torch.dtype
    alibi_sqrt: bool = False
    chunk_lookback: int = -1
    batch_invariant: bool = False


def why_stock(layer: LayerTraits) -> str | None:
    """Why vLLM's own kernels serve a layer; None where ours do.

    Windows, soft caps, ALiBi, sinks and pages of any size need no reason. Configs differ with the batch, so the order
    of sums does, and no result is the same in every batch.
    """
    if layer.capability is None or layer.capability < CAPABILITY:
        return "CUDA GPUs of compute capability 8.0 and above alone are supported"
    if layer.attn_type not in LAYERS:
        return f"layers of type {layer.attn_type} have no pages"
    if not (16 <= layer.head_size <= 256 and layer.head_size % 8 == 0):
        return f"heads of {layer.head_size}: multiples of 8 up to 256 are supported"
    if layer.kv_cache_dtype not in CACHES:
        return f"a {layer.kv_cache_dtype} cache: {', '.join(CACHES)} are supported"
    if layer.dtype != PLAIN.get(layer.kv_cache_dtype, layer.dtype):
        return f"a {layer.kv_cache_dtype} cache of a model in {layer.dtype}"
    if layer.kv_cache_dtype.startswith("fp8") and layer.capability < FP8_CAPABILITY:
        return "fp8 caches need compute capability 8.9"
    if layer.alibi_sqrt:
        return "square roots of ALiBi distances"
    if layer.chunk_lookback > -1:
        return "chunks that look back"
    return "batch-invariant results" if layer.batch_invariant else None


def check_value_heads(size: int, head_size: int) -> None:
    """ValueError where V's heads are of another size than K's: vLLM's Triton kernel, too, writes beyond its output."""
    if size != head_size:
        raise ValueError(
            f"a layer has heads of {head_size} in K and of {size} in V; choose the attention backend FLASH_ATTN_DIFFKV "
            "or TRITON_ATTN_DIFFKV for this model"
        )


def why_stock_cache(shape: Sequence[int], strides: Sequence[int]) -> str | None:
    """Why vLLM's own kernels serve a layer over such a cache; None where ours do.

    shape, strides: of [pages, KV heads, tokens of a page, K and V of a head].
    """
    within = [(count - 1) * stride for count, stride in zip(shape[1:], strides[1:], strict=True)]
    if sum(within) >= REACH or strides[0] >= REACH:
        return "a cache with heads or pages 2^31 numbers and more apart"
    return None
