"""Parallel tiled softmax (section 4.5): the keys of a Q block are cut into segments, one program each.

The program that finishes last combines the parts; blocks of at least `second_from` parts a second launch (`combine`).
"""

import triton
import triton.language as tl

from .block import run_block, tiles_per_segment
from .dependent import await_former, let_next_begin
from .q_block import locate_block
from .tiles import longest


@triton.jit
def locate(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q: tl.constexpr, DECODE: tl.constexpr):
    """As `locate_block`; with DECODE every sequence has at most one Q block and no search is needed."""
    if DECODE:
        token0 = tl.load(cu_ptr + number)
        q_len = tl.load(cu_ptr + number + 1) - token0
        return number, 0, token0, q_len, tl.load(lens_ptr + number)
    return locate_block(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q)


@triton.jit(
    do_not_specialize=[
        "left",
        "right",
        "table_stride",
        "num_seqs",
        "part_rows",
        "max_segments",
        "second_from",
    ]
)
def split_kv_kernel(
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    max_segments, second_from,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
    KEPT: tl.constexpr, CHUNK: tl.constexpr, DECODE: tl.constexpr,
):  # fmt: skip
    """Grid: (KV heads * (sequences (DECODE) or Q blocks), max_segments). second_from: None where no second launch may
    come.
    """
    if (second_from is not None) | (features.UPTO > 0):
        let_next_begin()
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
    if features.UPTO > 0:
        here = here & (q_len > features.ABOVE) & (q_len <= features.UPTO)
    if here:
        segment_tiles = tiles_per_segment(
            longest(tensors.lens, num_seqs, 256), max_segments, left, right, BLOCK_Q, TILE, features.CAUSAL,
            features.WINDOW,
        )  # fmt: skip
        run_block(
            tensors, tensors.part, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right,
            table_stride, sequence, token0, q_len, k_len, block, head, tl.program_id(1), segment_tiles,
            number * HKV + head, max_segments, sizes, strides, features, BLOCK_M, TILE, KEPT, CHUNK,
            second_from,
        )  # fmt: skip
    if features.UPTO > 0:  # it began while the launch before it ran, and ends after that
        last = (tl.program_id(0) == tl.num_programs(0) - 1) & (tl.program_id(1) == tl.num_programs(1) - 1)
        if last:
            await_former()
