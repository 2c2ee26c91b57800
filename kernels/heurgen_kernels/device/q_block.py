"""Q Blocks (section 4.4): one program per block of successive tokens and the query heads of one KV head.

The tile size is independent of the page size (section 4.6). KV heads lie innermost and later blocks come
first: under a causal mask they are the longest.
"""

import triton
import triton.language as tl

from .block import run_block
from .tiles import find_sequence


@triton.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows"])
def q_block_kernel(
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Grid: (KV heads * Q blocks or an upper bound of them,): one axis, since the others end at 65,535."""
    HKV: tl.constexpr = sizes.HKV
    BLOCK_Q: tl.constexpr = BLOCK_M // sizes.G
    head = tl.program_id(0) % HKV
    number = tl.num_programs(0) // HKV - 1 - tl.program_id(0) // HKV
    if features.REST:  # `blocks` numbers those of another launch
        sequence, block, token0, q_len, k_len = locate_block(
            tensors.cu, None, tensors.lens, number, num_seqs, BLOCK_Q
        )
    else:
        sequence, block, token0, q_len, k_len = locate_block(
            tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q
        )
    here = block * BLOCK_Q < q_len
    if features.REST:
        first = tl.load(tensors.blocks + sequence)
        here = here & (q_len > features.ABOVE) & (first == tl.load(tensors.blocks + sequence + 1))
    if here:
        run_block(
            tensors, None, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right,
            table_stride, sequence, token0, q_len, k_len, block, head, 0, 0, 0, 1,
            sizes, strides, features, BLOCK_M, TILE, BLOCK_M, 1, None,
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
