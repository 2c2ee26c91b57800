"""Batch metadata of section 6.1: how many sequences decode, and where each sequence's Q blocks start.

Built once per batch and shared by all layers. The host builder needs lengths that the host already has; the device
builder is one launch and never synchronises, so its decode count stays on the device. Kernels work without either:
they then derive an upper bound of the Q blocks from the cumulative query lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
import triton
import triton.language as tl

from .call import Call
from .dispatch import through_triton
from .hardware import on_device


@dataclass(frozen=True, slots=True)
class Metadata:
    """block_q: query tokens per Q block. cu_q_blocks: int32 [num_seqs + 1] on the device.

    num_decodes and num_q_blocks are host ints where the lengths were known there, else None; `decodes` is the
    decode count on the device (int32 [1]). A decode is a sequence with exactly one query token.

    What it was built from, for `check_metadata`: the query tokens and the longest query, where the lengths were known
    on the host, else the address of cu_seqlens_q.
    """

    block_q: int
    cu_q_blocks: torch.Tensor
    decodes: torch.Tensor
    num_decodes: int | None = None
    num_q_blocks: int | None = None
    tokens: int | None = None
    max_seqlen_q: int | None = None
    address: int | None = None


def check_metadata(metadata: Metadata, call: Call) -> None:
    """ValueError where the metadata is not of the call's batch, as far as the host can see without reading the device:
    a batch that is changed where it lies needs metadata that is built anew.
    """
    if not isinstance(metadata, Metadata):  # a server has its own by that name
        raise ValueError(
            f"metadata is {metadata!r:.80}; expected what build_metadata_host or _device returns"
        )
    blocks, layout = metadata.cu_q_blocks, call.layout
    if metadata.block_q < 1:
        raise ValueError(f"metadata.block_q is {metadata.block_q}; expected 1 or more query tokens")
    if blocks.dtype != torch.int32 or not blocks.is_contiguous():
        raise ValueError(
            f"metadata.cu_q_blocks is {blocks.dtype}, strides {blocks.stride()}; expected int32, contiguous"
        )
    if blocks.device != layout.place:
        raise ValueError(f"metadata.cu_q_blocks is on {blocks.device} and q on {layout.place}")
    if tuple(blocks.shape) != (layout.num_seqs + 1,):
        raise ValueError(
            f"metadata.cu_q_blocks has shape {tuple(blocks.shape)}; expected ({layout.num_seqs + 1},): it is "
            "another batch's"
        )
    if metadata.tokens is not None and metadata.tokens != layout.tokens:
        raise ValueError(
            f"metadata was built for {metadata.tokens} query tokens; q holds {layout.tokens}: it is another batch's"
        )
    if metadata.max_seqlen_q is not None and metadata.max_seqlen_q > call.max_q:
        raise ValueError(
            f"metadata was built for queries of up to {metadata.max_seqlen_q} tokens; max_seqlen_q is {call.max_q}: it "
            "is another batch's"
        )
    if metadata.address is not None and metadata.address != call.cu.data_ptr():
        raise ValueError("metadata was built from another cu_seqlens_q than the one of this call")
    if call.cu.device.type == "cpu":
        lengths = call.cu.diff()
        right = ((lengths + metadata.block_q - 1) // metadata.block_q).cumsum(0)
        if not torch.equal(blocks[1:], right.to(torch.int32)):
            raise ValueError(
                "metadata.cu_q_blocks does not count the Q blocks of cu_seqlens_q: it is another batch's"
            )


def check_block_q(block_q: int) -> None:
    if not isinstance(block_q, Integral) or block_q < 1:
        raise ValueError(f"block_q is {block_q!r}; expected 1 or more query tokens")


def check_starts(starts: Any) -> None:
    """As a launch takes them: of strided ones the kernel would count what lies between."""
    if not isinstance(starts, torch.Tensor):
        raise ValueError(f"cu_seqlens_q is {starts!r:.80}; expected a tensor")
    if not (starts.dtype == torch.int32 and starts.dim() == 1 and len(starts) and starts.is_contiguous()):
        raise ValueError(
            f"cu_seqlens_q is {starts.dtype} of shape {tuple(starts.shape)}, strides {starts.stride()}; expected "
            "contiguous int32, [num_seqs + 1]"
        )


def build_metadata_host(query_lens: Sequence[int], block_q: int, device: torch.device | str) -> Metadata:
    """From query lengths on the host (tokens per sequence); one asynchronous copy to the device."""
    check_block_q(block_q)
    cumulative, decodes = [0], 0
    for length in query_lens:
        if length < 0:
            raise ValueError(f"query_lens holds {length}; lengths are 0 or more tokens")
        cumulative.append(cumulative[-1] + -(-length // block_q))
        decodes += length == 1
    packed = torch.tensor([*cumulative, decodes], dtype=torch.int32, device="cpu")
    if torch.device(device).type == "cuda":
        packed = packed.pin_memory()
    packed = packed.to(device, non_blocking=True)
    return Metadata(
        block_q,
        packed[:-1],
        packed[-1:],
        decodes,
        cumulative[-1],
        sum(query_lens),
        max(query_lens, default=0),
    )


def build_metadata_device(cu_seqlens_q: torch.Tensor, block_q: int) -> Metadata:
    """From cumulative query lengths on the device (int32 [num_seqs + 1]): one launch, no synchronisation.

    The launches that use it take the same tensor.
    """
    check_block_q(block_q)
    check_starts(cu_seqlens_q)
    num_seqs = cu_seqlens_q.shape[0] - 1
    packed = torch.empty(num_seqs + 2, dtype=torch.int32, device=cu_seqlens_q.device)
    with on_device(cu_seqlens_q.device):
        through_triton(metadata_kernel, (1,), (cu_seqlens_q, packed, num_seqs, block_q, 1024), {})
    return Metadata(block_q, packed[:-1], packed[-1:], address=cu_seqlens_q.data_ptr())


@triton.jit(do_not_specialize=["num_seqs"])
def metadata_kernel(cu_ptr, out_ptr, num_seqs, BLOCK_Q: tl.constexpr, WIDTH: tl.constexpr):
    """out[0 .. num_seqs]: cumulative Q blocks; out[num_seqs + 1]: decode count. One program."""
    blocks = 0
    decodes = 0
    tl.store(out_ptr, 0)
    for first in range(0, num_seqs, WIDTH):
        index = first + tl.arange(0, WIDTH)
        there = index < num_seqs
        length = tl.load(cu_ptr + index + 1, mask=there, other=0) - tl.load(
            cu_ptr + index, mask=there, other=0
        )
        count = tl.cdiv(length, BLOCK_Q)
        tl.store(out_ptr + 1 + index, blocks + tl.cumsum(count, 0), mask=there)
        blocks += tl.sum(count, 0)
        decodes += tl.sum((length == 1).to(tl.int32), 0)
    tl.store(out_ptr + num_seqs + 1, decodes)
