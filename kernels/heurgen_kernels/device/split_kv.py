"""Parallel tiled softmax (section 4.5): the keys of a Q block are cut into segments, one program each.

FUSED: the program that finishes last combines the parts in the same launch. Otherwise a second launch does.
"""

import triton
import triton.language as tl

from .block import run_block, segment_count, segment_span, store_rows, tiles_per_segment
from .q_block import locate_block
from .tiles import longest, reduce_parts


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
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    max_segments,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
    KEPT: tl.constexpr, CHUNK: tl.constexpr, FUSED: tl.constexpr, DECODE: tl.constexpr,
):  # fmt: skip
    """Grid: (KV heads * (sequences (DECODE) or Q blocks), max_segments)."""
    BLOCK_Q: tl.constexpr = BLOCK_M // sizes.G
    HKV: tl.constexpr = sizes.HKV
    head = tl.program_id(0) % HKV
    number = tl.program_id(0) // HKV
    if not DECODE:
        number = tl.num_programs(0) // HKV - 1 - number
    sequence, block, token0, q_len, k_len = locate(
        tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q, DECODE
    )  # fmt: skip
    here = block * BLOCK_Q < q_len
    if features.APART > 0:
        here = here & (q_len <= features.APART)
    if here:
        segment_tiles = tiles_per_segment(
            longest(tensors.lens, num_seqs, 256), max_segments, left, right, BLOCK_Q, TILE, features.CAUSAL,
            features.WINDOW,
        )  # fmt: skip
        run_block(
            tensors, tensors.part, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right,
            table_stride, sequence, token0, q_len, k_len, block, head, tl.program_id(1), segment_tiles,
            number * HKV + head, max_segments, sizes, strides, features, BLOCK_M, TILE, KEPT, CHUNK, FUSED,
        )  # fmt: skip


@triton.jit(do_not_specialize=["left", "right", "num_seqs", "part_rows", "max_segments"])
def reduce_kernel(
    tensors, part_rows, left, right, num_seqs, max_segments, sizes: tl.constexpr, strides: tl.constexpr,
    features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, KEPT: tl.constexpr, CHUNK: tl.constexpr,
    DECODE: tl.constexpr,
):  # fmt: skip
    """Combine the parts of one row. Grid: (KV heads * (sequences or Q blocks), KEPT). One vector step per CHUNK."""
    G: tl.constexpr = sizes.G
    HKV: tl.constexpr = sizes.HKV
    D_PAD: tl.constexpr = sizes.D_PAD
    CAUSAL: tl.constexpr = features.CAUSAL
    WINDOW: tl.constexpr = features.WINDOW
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    number = tl.program_id(0) // HKV
    head = tl.program_id(0) % HKV
    _, block, token0, q_len, k_len = locate(
        tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q, DECODE
    )
    row = tl.program_id(1)
    token = block * BLOCK_Q + row // G
    if (token < q_len) & (row < BLOCK_Q * G):
        begin, end = segment_span(block, q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
        length = TILE * tiles_per_segment(
            longest(tensors.lens, num_seqs, 256), max_segments, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW
        )  # fmt: skip
        segments = segment_count(end - begin, length, max_segments)
        if segments > 1:
            part = (number * HKV + head).to(tl.int64) * (max_segments * KEPT)
            m_ptr = tensors.part + part_rows.to(tl.int64) * D_PAD
            acc, m, total = reduce_parts(
                tensors.part + part * D_PAD, m_ptr + part, m_ptr + part_rows + part, row, segments, 1, KEPT, CHUNK,
                D_PAD,
            )  # fmt: skip
            rows = row + tl.arange(0, 1)
            store_rows(
                acc, m, total, tensors, token0, block * BLOCK_Q + rows // G, head * G + rows % G, rows >= 0, sizes,
                strides, features,
            )  # fmt: skip
