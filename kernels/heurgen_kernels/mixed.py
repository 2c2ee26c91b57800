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
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr, part_ptr,
    count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, max_segments, prompt_blocks,
    G: tl.constexpr, HKV: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, PAGE: tl.constexpr,
    D: tl.constexpr, D_PAD: tl.constexpr, Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, O_TOK: tl.constexpr,
    O_HEAD: tl.constexpr, K_PAGE: tl.constexpr, K_TOK: tl.constexpr, K_HEAD: tl.constexpr, V_PAGE: tl.constexpr,
    V_TOK: tl.constexpr, V_HEAD: tl.constexpr, NEW_TOK: tl.constexpr, NEW_HEAD: tl.constexpr, FRESH: tl.constexpr,
    PREFIX: tl.constexpr, TMA: tl.constexpr, TMA_NEW: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr, ALIBI: tl.constexpr, COMPUTE: tl.constexpr, FP8_MAX: tl.constexpr, KEPT: tl.constexpr,
    CHUNK: tl.constexpr, SMALL_M: tl.constexpr,
):  # fmt: skip
    """Grid: (HKV * (prompt_blocks + num_seqs * max_segments),). Sequences of at most SMALL_M // G tokens are
    decodes.
    """
    SMALL_Q: tl.constexpr = SMALL_M // G
    head = tl.program_id(0) % HKV
    number = tl.program_id(0) // HKV
    if number < prompt_blocks:
        number = prompt_blocks - 1 - number
        sequence, block, token0, q_len, k_len = locate_block(
            cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_M // G
        )
        if (q_len > SMALL_Q) & (block * (BLOCK_M // G) < q_len):
            run_block(
                q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr,
                table_ptr, cu_ptr, blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr,
                v_scale_ptr, out_scale_ptr, None, count_ptr, part_rows, scale, softcap, left, right, table_stride,
                num_seqs, sequence, token0, q_len, k_len, block, head, 0, 0, 0, 1, G, HKV, BLOCK_M, TILE, PAGE, D,
                D_PAD, Q_TOK, Q_HEAD, O_TOK, O_HEAD, K_PAGE, K_TOK, K_HEAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK,
                NEW_HEAD, FRESH, PREFIX, TMA, TMA_NEW, CAUSAL, WINDOW, SOFTCAP, ALIBI, COMPUTE, FP8_MAX, BLOCK_M, 1,
                False,
            )  # fmt: skip
    else:
        number = number - prompt_blocks
        segment = number // num_seqs
        number = number % num_seqs
        sequence, block, token0, q_len, k_len = locate(
            cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, SMALL_Q, True
        )  # fmt: skip
        if (q_len > 0) & (q_len <= SMALL_Q):
            segment_tiles = tiles_per_segment(
                longest(lens_ptr, num_seqs, 256), max_segments, left, right, SMALL_Q, TILE, CAUSAL, WINDOW
            )  # fmt: skip
            run_block(
                q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr,
                table_ptr, cu_ptr, blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr,
                v_scale_ptr, out_scale_ptr, part_ptr, count_ptr, part_rows, scale, softcap, left, right,
                table_stride, num_seqs, sequence, token0, q_len, k_len, block, head, segment, segment_tiles,
                number * HKV + head, max_segments, G, HKV, SMALL_M, TILE, PAGE, D, D_PAD, Q_TOK, Q_HEAD, O_TOK,
                O_HEAD, K_PAGE, K_TOK, K_HEAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK, NEW_HEAD, FRESH, PREFIX, TMA,
                TMA_NEW, CAUSAL, WINDOW, SOFTCAP, ALIBI, COMPUTE, FP8_MAX, KEPT, CHUNK, True,
            )  # fmt: skip
