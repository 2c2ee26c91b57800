"""Batches that mix prompts and decodes, in one launch: two kinds of program share the grid.

The first programs take Q blocks of BLOCK_M rows of the prompts, the rest take the decodes with small blocks and split
keys. Decodes are bound by memory and prompts by arithmetic, so they overlap well on one processor.
"""

import triton
import triton.language as tl

from .block import run_block, tiles_per_segment
from .q_block import locate_block
from .split_kv import locate
from .tiles import longest


@triton.jit(
    do_not_specialize=[
        "left",
        "right",
        "table_stride",
        "num_seqs",
        "part_rows",
        "max_segments",
        "prompt_blocks",
    ]
)
def mixed_kernel(
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    max_segments, prompt_blocks,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
    KEPT: tl.constexpr, CHUNK: tl.constexpr, SMALL_M: tl.constexpr,
):  # fmt: skip
    """Grid: (HKV * (prompt_blocks + num_seqs * max_segments),). Sequences of at most SMALL_M // G tokens are
    decodes.
    """
    G: tl.constexpr = sizes.G
    HKV: tl.constexpr = sizes.HKV
    SMALL_Q: tl.constexpr = SMALL_M // G
    head = tl.program_id(0) % HKV
    number = tl.program_id(0) // HKV
    if number < prompt_blocks:
        number = prompt_blocks - 1 - number
        sequence, block, token0, q_len, k_len = locate_block(
            tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_M // G
        )
        if (q_len > SMALL_Q) & (block * (BLOCK_M // G) < q_len):
            run_block(
                tensors, None, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right,
                table_stride, sequence, token0, q_len, k_len, block, head, 0, 0, 0, 1,
                sizes, strides, features, BLOCK_M, TILE, BLOCK_M, 1, None,
            )  # fmt: skip
    else:
        number = number - prompt_blocks
        segment = number // num_seqs
        number = number % num_seqs
        sequence, block, token0, q_len, k_len = locate(
            tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, SMALL_Q, True
        )  # fmt: skip
        if (q_len > 0) & (q_len <= SMALL_Q):
            segment_tiles = tiles_per_segment(
                longest(tensors.lens, num_seqs, 256), max_segments, left, right, SMALL_Q, TILE, features.CAUSAL,
                features.WINDOW,
            )  # fmt: skip
            run_block(
                tensors, tensors.part, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left,
                right, table_stride, sequence, token0, q_len, k_len, block, head, segment, segment_tiles,
                number * HKV + head, max_segments, sizes, strides, features, SMALL_M, TILE, KEPT, CHUNK, None,
            )  # fmt: skip
