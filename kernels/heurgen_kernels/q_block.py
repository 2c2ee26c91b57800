"""Q Blocks (section 4.4): one program per block of successive tokens and the query heads of one KV head.

The tile size is independent of the page size (section 4.6). KV heads lie on grid axis 0 and later blocks come
first: under a causal mask they are the longest.
"""

import triton
import triton.language as tl

from .block import run_block
from .tiles import find_sequence


@triton.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows"])
def q_block_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr, part_ptr,
    count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, G: tl.constexpr, HKV: tl.constexpr,
    BLOCK_M: tl.constexpr, TILE: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, O_TOK: tl.constexpr, O_HEAD: tl.constexpr, K_PAGE: tl.constexpr,
    K_TOK: tl.constexpr, K_HEAD: tl.constexpr, V_PAGE: tl.constexpr, V_TOK: tl.constexpr, V_HEAD: tl.constexpr,
    NEW_TOK: tl.constexpr, NEW_HEAD: tl.constexpr, FRESH: tl.constexpr, PREFIX: tl.constexpr, TMA: tl.constexpr,
    TMA_NEW: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr,
    COMPUTE: tl.constexpr, FP8_MAX: tl.constexpr,
):  # fmt: skip
    """Grid: (KV heads, Q blocks or an upper bound of them)."""
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    head = tl.program_id(0)
    number = tl.num_programs(1) - 1 - tl.program_id(1)
    sequence, block, token0, q_len, k_len = locate_block(
        cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q
    )
    if block * BLOCK_Q < q_len:
        run_block(
            q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr,
            cu_ptr, blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr,
            out_scale_ptr, None, count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs,
            sequence, token0, q_len, k_len, block, head, 0, 0, 0, 1, G, HKV, BLOCK_M, TILE, PAGE, D, D_PAD, Q_TOK,
            Q_HEAD, O_TOK, O_HEAD, K_PAGE, K_TOK, K_HEAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK, NEW_HEAD, FRESH, PREFIX,
            TMA, TMA_NEW, CAUSAL, WINDOW, SOFTCAP, ALIBI, COMPUTE, FP8_MAX, BLOCK_M, 1, False,
        )  # fmt: skip


@triton.jit
def locate_block(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q: tl.constexpr):
    """(sequence, block inside it, its first token, its query length, its key length) of Q block `number`."""
    if blocks_ptr is not None:
        sequence = find_sequence(blocks_ptr, number, num_seqs, BLOCK_Q, False)
        first = tl.load(blocks_ptr + sequence)
    else:
        sequence = find_sequence(cu_ptr, number, num_seqs, BLOCK_Q, True)
        first = tl.load(cu_ptr + sequence) // BLOCK_Q + sequence
    token0 = tl.load(cu_ptr + sequence)
    q_len = tl.load(cu_ptr + sequence + 1) - token0
    return sequence, number - first, token0, q_len, tl.load(lens_ptr + sequence)
