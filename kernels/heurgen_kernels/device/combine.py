"""The second launch of split keys: many programs combine what one, the last of its block, would combine alone.

A program that adds up many parts waits for memory again and again while all others have ended. Here each row of a block
has a program of its own, which begins while the parts are still computed, finds out how many there are, and waits.
"""

import triton
import triton.language as tl

from .block import segment_count, segment_span, store_rows, tiles_per_segment
from .dependent import await_former, let_next_begin
from .split_kv import locate
from .static_grid import choose_tiles, visible_keys
from .tiles import longest, reduce_parts


@triton.jit
def combine_row(
    tensors, part_rows, item, token0, q_len, block, head, row, segments, max_segments, second_from,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, KEPT: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Combine the parts of one row of a block and store it, where the block has at least second_from parts.

    item: number of the (Q block, KV head) pair. CHUNK: parts that are read at once.
    """
    G: tl.constexpr = sizes.G
    D_PAD: tl.constexpr = sizes.D_PAD
    token = block * (BLOCK_M // G) + row // G
    await_former()
    if (token < q_len) & (row < BLOCK_M // G * G) & (segments >= second_from):
        part = item.to(tl.int64) * (max_segments * KEPT)
        m_ptr = tensors.part + part_rows.to(tl.int64) * D_PAD
        acc, m, total = reduce_parts(
            tensors.part + part * D_PAD, m_ptr + part, m_ptr + part_rows + part, row, segments, 1, KEPT, CHUNK,
            D_PAD,
        )  # fmt: skip
        rows = row + tl.arange(0, 1)
        store_rows(
            acc, m, total, tensors, token0, block * (BLOCK_M // G) + rows // G, head * G + rows % G, rows >= 0, sizes,
            strides, features,
        )  # fmt: skip


@triton.jit(do_not_specialize=["left", "right", "num_seqs", "part_rows", "max_segments", "second_from"])
def combine_kernel(
    tensors, part_rows, left, right, num_seqs, max_segments, second_from, sizes: tl.constexpr, strides: tl.constexpr,
    features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, KEPT: tl.constexpr, CHUNK: tl.constexpr,
    DECODE: tl.constexpr,
):  # fmt: skip
    """Of split_kv. Grid: (KV heads * (sequences (DECODE) or Q blocks), KEPT)."""
    if features.UPTO > 0:
        let_next_begin()
    HKV: tl.constexpr = sizes.HKV
    BLOCK_Q: tl.constexpr = BLOCK_M // sizes.G
    number = tl.program_id(0) // HKV
    head = tl.program_id(0) % HKV
    _, block, token0, q_len, k_len = locate(
        tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q, DECODE
    )  # fmt: skip
    begin, end = segment_span(
        block, q_len, k_len, left, right, BLOCK_Q, TILE, features.CAUSAL, features.WINDOW
    )
    length = TILE * tiles_per_segment(
        longest(tensors.lens, num_seqs, 256), max_segments, left, right, BLOCK_Q, TILE, features.CAUSAL,
        features.WINDOW,
    )  # fmt: skip
    segments = segment_count(end - begin, length, max_segments)
    if features.UPTO > 0:  # shorter and longer sequences are other launches'
        segments = tl.where((q_len > features.ABOVE) & (q_len <= features.UPTO), segments, 0)
    combine_row(
        tensors, part_rows, number * HKV + head, token0, q_len, block, head, tl.program_id(1), segments, max_segments,
        second_from, sizes, strides, features, BLOCK_M, KEPT, CHUNK,
    )  # fmt: skip


@triton.jit(do_not_specialize=["left", "right", "num_seqs", "part_rows", "forced", "second_from"])
def static_combine_kernel(
    tensors, part_rows, left, right, num_seqs, forced, second_from, sizes: tl.constexpr, strides: tl.constexpr,
    features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, SEGMENTS: tl.constexpr, KEPT: tl.constexpr,
    CHUNK: tl.constexpr, PROCESSORS: tl.constexpr, CHOOSE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Of static_grid with DECODE. Grid: (KV heads * sequences, KEPT)."""
    HKV: tl.constexpr = sizes.HKV
    CAUSAL: tl.constexpr = features.CAUSAL
    WINDOW: tl.constexpr = features.WINDOW
    BLOCK_Q: tl.constexpr = BLOCK_M // sizes.G
    number = tl.program_id(0) // HKV
    head = tl.program_id(0) % HKV
    _, block, token0, q_len, k_len = locate(
        tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q, True
    )  # fmt: skip
    tiles = choose_tiles(
        tensors.cu, tensors.lens, num_seqs, forced, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, SEGMENTS, HKV,
        PROCESSORS, CHOOSE, WIDTH,
    )  # fmt: skip
    keys = visible_keys(q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, True)
    combine_row(
        tensors, part_rows, number * HKV + head, token0, q_len, block, head, tl.program_id(1),
        segment_count(keys, tiles * TILE, SEGMENTS), SEGMENTS, second_from, sizes, strides, features, BLOCK_M, KEPT,
        CHUNK,
    )  # fmt: skip
