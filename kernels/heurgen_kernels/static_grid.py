"""A fixed number of programs that loop over the work (sections 4.7 and 6.2), for recorded CUDA graphs.

Grid and config are frozen in a graph while the lengths change on the device. So the amount of work,
and into how
many segments to cut the keys,
is found inside the kernel from the lengths: CHOOSE is a @triton.jit function of
runtime integers, `default_segments` below or one that `heurgen emit --target triton` generated from a tree.
"""

import triton
import triton.language as tl

from .block import run_block, tiles_per_segment
from .split_kv import locate
from .tiles import longest


@triton.jit
def default_segments(num_seqs, total_query_tokens, max_seqlen_k, num_kv_heads, num_programs):
    """Segments for decode batches: enough work items to fill the programs, each at least 256 keys long."""
    items = num_seqs * num_kv_heads
    wanted = tl.minimum(tl.cdiv(num_programs, tl.maximum(items, 1)), tl.cdiv(max_seqlen_k, 256))
    return tl.where(total_query_tokens > 2 * num_seqs, 1, wanted)


@triton.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows"])
def static_grid_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr,
    cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr,
    part_ptr, count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    G: tl.constexpr, HKV: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, PAGE: tl.constexpr,
    D: tl.constexpr, D_PAD: tl.constexpr, Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, O_TOK: tl.constexpr,
    O_HEAD: tl.constexpr, K_PAGE: tl.constexpr, K_TOK: tl.constexpr, K_HEAD: tl.constexpr,
    V_PAGE: tl.constexpr,
    V_TOK: tl.constexpr, V_HEAD: tl.constexpr, NEW_TOK: tl.constexpr, NEW_HEAD: tl.constexpr,
    FRESH: tl.constexpr,
    PREFIX: tl.constexpr, TMA: tl.constexpr, TMA_NEW: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr, ALIBI: tl.constexpr, COMPUTE: tl.constexpr, FP8_MAX: tl.constexpr,
    SEGMENTS: tl.constexpr, KEPT: tl.constexpr, CHUNK: tl.constexpr, DECODE: tl.constexpr,
    CHOOSE: tl.constexpr,
):  # fmt: skip
    """Grid: (programs,). SEGMENTS bounds what CHOOSE may return; it sizes the scratch."""
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    programs = tl.num_programs(0)
    total_q = tl.load(cu_ptr + num_seqs)
    numbers = num_seqs
    if not DECODE:
        if blocks_ptr is not None:  # noqa: SIM108
            numbers = tl.load(blocks_ptr + num_seqs)
        else:
            numbers = total_q // BLOCK_Q + num_seqs
    segments = 1
    segment_tiles = 1
    if SEGMENTS > 1:
        longest_k = longest(lens_ptr, num_seqs, 256)
        segments = tl.minimum(tl.maximum(CHOOSE(num_seqs, total_q, longest_k, HKV, programs), 1), SEGMENTS)
        segment_tiles = tiles_per_segment(longest_k, segments, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
    for work in range(tl.program_id(0), numbers * HKV * segments, programs):
        head = work % HKV
        segment = (work // HKV) % segments
        number = numbers - 1 - work // (HKV * segments)
        sequence, block, token0, q_len, k_len = locate(
            cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q, DECODE
        )  # fmt: skip
        if block * BLOCK_Q < q_len:
            run_block(
                q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr,
                table_ptr, cu_ptr,
                blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr,
                out_scale_ptr,
                part_ptr, count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs,
                sequence, token0, q_len, k_len, block, head, segment, segment_tiles, number * HKV + head,
                G, HKV, BLOCK_M, TILE, PAGE, D, D_PAD, Q_TOK, Q_HEAD, O_TOK, O_HEAD, K_PAGE, K_TOK, K_HEAD,
                V_PAGE, V_TOK,
                V_HEAD, NEW_TOK, NEW_HEAD, FRESH, PREFIX, TMA, TMA_NEW, CAUSAL, WINDOW, SOFTCAP, ALIBI,
                COMPUTE, FP8_MAX,
                SEGMENTS, KEPT, CHUNK, True,
            )  # fmt: skip
