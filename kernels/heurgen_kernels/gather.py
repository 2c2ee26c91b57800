"""Repack small pages into pages of 128 tokens before a long prompt reads them many times.

Attention over n keys reads each key about n / BLOCK_Q times; copying it once costs next to nothing beside
that, and pages of 128 tokens can be read by the tensor memory accelerator, 16-token pages cannot.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

PAGE = 128


@triton.jit(do_not_specialize=["table_stride", "pages_per_seq"])
def gather_kernel(
    k_ptr, v_ptr, new_k_ptr, new_v_ptr, new_table_ptr, table_ptr, cu_ptr, lens_ptr, table_stride,
    pages_per_seq,
    PAGE: tl.constexpr, ROWS: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    K_PAGE: tl.constexpr, K_TOK: tl.constexpr, K_HEAD: tl.constexpr, V_PAGE: tl.constexpr,
    V_TOK: tl.constexpr,
    V_HEAD: tl.constexpr, FRESH: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """Grid: (KV heads, pages_per_seq, sequences). With FRESH only the cached prefix; sequences of at most
    SHORT query tokens are skipped."""
    head = tl.program_id(0)
    sequence = tl.program_id(2)
    q_len = tl.load(cu_ptr + sequence + 1) - tl.load(cu_ptr + sequence)
    cached = tl.load(lens_ptr + sequence)
    if FRESH:
        cached = cached - q_len
    position = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    offs_d = tl.arange(0, D_PAD)
    if (tl.program_id(1) * ROWS < cached) & (q_len > SHORT):
        if head == 0:
            number = sequence * pages_per_seq + tl.program_id(1)
            tl.store(new_table_ptr + number, number)
        old = position < cached
        page = tl.load(table_ptr + sequence.to(tl.int64) * table_stride + position // PAGE, mask=old, other=0)
        page = page.to(tl.int64)
        slot = position % PAGE
        keep = old[:, None] & (offs_d < D)[None, :]
        row = (sequence * pages_per_seq + tl.program_id(1)).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        target = row[:, None] * (HKV * D) + head * D + offs_d[None, :]
        k = tl.load(
            k_ptr + (page * K_PAGE + slot * K_TOK + head * K_HEAD)[:, None] + offs_d[None, :], mask=keep
        )
        v = tl.load(
            v_ptr + (page * V_PAGE + slot * V_TOK + head * V_HEAD)[:, None] + offs_d[None, :], mask=keep
        )
        tl.store(new_k_ptr + target, k, mask=keep)
        tl.store(new_v_ptr + target, v, mask=keep)


def repack(
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    max_cached: int,
    fresh: bool,
    short: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(keys, values, block table) with pages of 128 tokens; max_cached bounds the cached tokens of a
    sequence.
    """
    num_seqs, heads, size = seq_lens.shape[0], key_cache.shape[2], key_cache.shape[3]
    pages = max(-(-max_cached // PAGE), 1)
    new_k = torch.empty((num_seqs * pages, PAGE, heads, size), dtype=key_cache.dtype, device=key_cache.device)
    new_v = torch.empty_like(new_k)
    table = torch.empty((num_seqs, pages), dtype=torch.int32, device=key_cache.device)
    gather_kernel[(heads, pages, num_seqs)](
        key_cache, value_cache, new_k, new_v, table, block_table, cu_seqlens_q, seq_lens,
        block_table.stride(0), pages,
        PAGE=key_cache.shape[1], ROWS=PAGE, HKV=heads, D=size, D_PAD=triton.next_power_of_2(size),
        K_PAGE=key_cache.stride(0), K_TOK=key_cache.stride(1), K_HEAD=key_cache.stride(2),
        V_PAGE=value_cache.stride(0), V_TOK=value_cache.stride(1), V_HEAD=value_cache.stride(2),
        FRESH=fresh, SHORT=short,
    )  # fmt: skip
    return new_k, new_v, table
