"""Parallel tiled softmax (section 4.5): the keys of a Q block are cut into segments, one program each.

FUSED: the program that finishes last combines the parts in the same launch. Otherwise a second launch does.
"""

import triton
import triton.language as tl

from .block import run_block, segment_count, segment_span, store_rows, tiles_per_segment
from .q_block import locate_block
from .tiles import finish, longest, reduce_parts


@triton.jit
def locate(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q: tl.constexpr, DECODE: tl.constexpr):
    """As `locate_block`; with DECODE every sequence has at most one Q block and no search is needed."""
    if DECODE:
        token0 = tl.load(cu_ptr + number)
        q_len = tl.load(cu_ptr + number + 1) - token0
        return number, 0, token0, q_len, tl.load(lens_ptr + number)
    return locate_block(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q)


@triton.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows", "max_segments"])
def split_kv_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr, part_ptr,
    count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, max_segments, G: tl.constexpr,
    HKV: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, O_TOK: tl.constexpr, O_HEAD: tl.constexpr,
    K_PAGE: tl.constexpr, K_TOK: tl.constexpr, K_HEAD: tl.constexpr, V_PAGE: tl.constexpr, V_TOK: tl.constexpr,
    V_HEAD: tl.constexpr, NEW_TOK: tl.constexpr, NEW_HEAD: tl.constexpr, FRESH: tl.constexpr, PREFIX: tl.constexpr,
    TMA: tl.constexpr, TMA_NEW: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
    ALIBI: tl.constexpr, COMPUTE: tl.constexpr, FP8_MAX: tl.constexpr, KEPT: tl.constexpr, CHUNK: tl.constexpr,
    FUSED: tl.constexpr, DECODE: tl.constexpr,
):  # fmt: skip
    """Grid: (KV heads, sequences (DECODE) or Q blocks, max_segments)."""
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    head = tl.program_id(0)
    number = tl.program_id(1)
    if not DECODE:
        number = tl.num_programs(1) - 1 - number
    sequence, block, token0, q_len, k_len = locate(
        cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q, DECODE
    )  # fmt: skip
    if block * BLOCK_Q < q_len:
        segment_tiles = tiles_per_segment(
            longest(lens_ptr, num_seqs, 256), max_segments, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW
        )  # fmt: skip
        run_block(
            q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr,
            cu_ptr, blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr,
            out_scale_ptr, part_ptr, count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs,
            sequence, token0, q_len, k_len, block, head, tl.program_id(2), segment_tiles, number * HKV + head,
            max_segments, G, HKV, BLOCK_M, TILE, PAGE, D, D_PAD, Q_TOK, Q_HEAD, O_TOK, O_HEAD, K_PAGE, K_TOK,
            K_HEAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK, NEW_HEAD, FRESH, PREFIX, TMA, TMA_NEW, CAUSAL, WINDOW, SOFTCAP,
            ALIBI, COMPUTE, FP8_MAX, KEPT, CHUNK, FUSED,
        )  # fmt: skip


@triton.jit(do_not_specialize=["left", "right", "num_seqs", "part_rows", "max_segments"])
def reduce_kernel(
    out_ptr, cu_ptr, blocks_ptr, lens_ptr, sinks_ptr, v_scale_ptr, out_scale_ptr, part_ptr, part_rows, left, right,
    num_seqs, max_segments, G: tl.constexpr, HKV: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
    D: tl.constexpr, D_PAD: tl.constexpr, O_TOK: tl.constexpr, O_HEAD: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, FRESH: tl.constexpr, FP8_MAX: tl.constexpr, KEPT: tl.constexpr, CHUNK: tl.constexpr,
    DECODE: tl.constexpr,
):  # fmt: skip
    """Combine the parts of one row. Grid: (KEPT, sequences or Q blocks, KV heads). One vector step per
    CHUNK.
    """
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    number = tl.program_id(1)
    head = tl.program_id(2)
    _, block, token0, q_len, k_len = locate(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q, DECODE)
    row = tl.program_id(0)
    token = block * BLOCK_Q + row // G
    if (token < q_len) & (row < BLOCK_Q * G):
        begin, end = segment_span(block, q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
        length = TILE * tiles_per_segment(
            longest(lens_ptr, num_seqs, 256), max_segments, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW
        )  # fmt: skip
        segments = segment_count(end - begin, length, max_segments)
        if segments > 1:
            part = (number * HKV + head).to(tl.int64) * (max_segments * KEPT)
            m_ptr = part_ptr + part_rows.to(tl.int64) * D_PAD
            acc, m, total = reduce_parts(
                part_ptr + part * D_PAD,
                m_ptr + part,
                m_ptr + part_rows + part,
                row,
                segments,
                1,
                KEPT,
                CHUNK,
                D_PAD,
            )
            rows = row + tl.arange(0, 1)
            heads = head * G + rows % G
            acc = finish(
                acc, m, total, heads, rows >= 0, sinks_ptr, v_scale_ptr, out_scale_ptr, FRESH, FP8_MAX
            )
            store_rows(
                acc, out_ptr, token0, block * BLOCK_Q + rows // G, heads, rows >= 0, O_TOK, O_HEAD, D, D_PAD
            )
