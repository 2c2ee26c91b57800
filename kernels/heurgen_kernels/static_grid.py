"""A fixed number of programs that loop over the work (sections 4.7 and 6.2), for recorded CUDA graphs.

Grid and config are frozen in a graph while the lengths change on the device. So the amount of work, and into how
many segments to cut the keys, is found inside the kernel from the lengths: CHOOSE is a @triton.jit function of
the integers in CHOICE, `default_segments` below or one that heurgen generated from a tree.
"""

import triton
import triton.language as tl

from .block import run_block, segment_count, segment_span, tiles_per_segment
from .defaults import Config
from .split_kv import locate

# What a CHOOSE function is asked with, in this order. Of decode batches num_seqs counts the sequences that have
# a query, and the lengths are those of the keys that a window leaves visible.
CHOICE = (
    "num_seqs",
    "total_query_tokens",
    "max_seqlen_k",
    "total_seqlen_k",
    "num_kv_heads",
    "multiprocessors",
)
# Constants of decode launches to record, and the most segments that may be chosen. Tile, warps and stages: measured
# on an H200 by `benchmarks/static_grid.py --constants`, segments free: 1.012 of the best of each set of lengths.
GRAPH = Config("static_grid", 16, 16, 1, 3, 64)
# Lengths read in one vector step.
WIDTH = tl.constexpr(256)


@triton.jit
def default_segments(
    num_seqs, total_query_tokens, max_seqlen_k, total_seqlen_k, num_kv_heads, multiprocessors
):
    """About 6 work items a processor, of at least 64 keys each: the guess of `defaults.default_config`."""
    keys = tl.cast(total_seqlen_k, tl.int64) * num_kv_heads // (6 * multiprocessors)
    return tl.cdiv(max_seqlen_k, tl.maximum(keys.to(tl.int32), 64))


@triton.jit
def visible_keys(q_len, k_len, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr, CAUSAL: tl.constexpr,
                 WINDOW: tl.constexpr, DECODE: tl.constexpr):  # fmt: skip
    """Keys between the first and the last that a decode sees; all keys of a longer query. 0 without a query."""
    span = k_len
    if DECODE:
        begin, end = segment_span(0, q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
        span = end - begin
    return tl.where(q_len > 0, span, 0)


@triton.jit
def load_lengths(cu_ptr, lens_ptr, first, num_seqs):
    """(query tokens, keys) of WIDTH sequences from `first` on; zeros behind the last."""
    index = first + tl.arange(0, WIDTH)
    ok = index < num_seqs
    q_len = tl.load(cu_ptr + index + 1, mask=ok, other=0) - tl.load(cu_ptr + index, mask=ok, other=0)
    return q_len, tl.load(lens_ptr + index, mask=ok, other=0)


@triton.jit
def survey(cu_ptr, lens_ptr, num_seqs, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
           CAUSAL: tl.constexpr, WINDOW: tl.constexpr, DECODE: tl.constexpr):  # fmt: skip
    """(sequences that have a query, most keys that one of them sees, keys that all of them see)."""
    active = 0
    most = 0
    total = 0
    for first in range(0, num_seqs, WIDTH):
        q_len, k_len = load_lengths(cu_ptr, lens_ptr, first, num_seqs)
        keys = visible_keys(q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, DECODE)
        active += tl.sum((q_len > 0).to(tl.int32), 0)
        most = tl.maximum(most, tl.max(keys, 0))
        total += tl.sum(keys, 0)
    return active, most, total


@triton.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows", "forced"])
def static_grid_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr, part_ptr,
    count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, forced, G: tl.constexpr,
    HKV: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, O_TOK: tl.constexpr, O_HEAD: tl.constexpr,
    K_PAGE: tl.constexpr, K_TOK: tl.constexpr, K_HEAD: tl.constexpr, V_PAGE: tl.constexpr, V_TOK: tl.constexpr,
    V_HEAD: tl.constexpr, NEW_TOK: tl.constexpr, NEW_HEAD: tl.constexpr, FRESH: tl.constexpr, PREFIX: tl.constexpr,
    TMA: tl.constexpr, TMA_NEW: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
    ALIBI: tl.constexpr, COMPUTE: tl.constexpr, FP8_MAX: tl.constexpr, SEGMENTS: tl.constexpr, KEPT: tl.constexpr,
    CHUNK: tl.constexpr, DECODE: tl.constexpr, PROCESSORS: tl.constexpr, CHOOSE: tl.constexpr,
):  # fmt: skip
    """Grid: (programs,). SEGMENTS bounds what CHOOSE may return; it sizes the scratch. forced: segments for the
    longest sequence without asking CHOOSE, 0 to ask. DECODE: each sequence has at most one Q block.
    """
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    programs = tl.num_programs(0)
    total_q = tl.load(cu_ptr + num_seqs)
    segments = 1
    longest_k = 0
    # without DECODE, prompts fill the processors: only batches of almost nothing but decodes are split
    if SEGMENTS > 1 and (DECODE or total_q <= 2 * num_seqs):
        active, longest_k, total_k = survey(
            cu_ptr, lens_ptr, num_seqs, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, DECODE
        )  # fmt: skip
        segments = forced
        if forced == 0:
            segments = tl.cast(CHOOSE(active, total_q, longest_k, total_k, HKV, PROCESSORS), tl.int32)
        segments = tl.minimum(tl.maximum(segments, 1), SEGMENTS)
    if DECODE:
        # Only segments that exist are numbered, so that all programs get the same number of them, give or
        # take one; they go round the programs, chunk of sequences after chunk.
        segment_tiles = tl.maximum(tl.cdiv(tl.cdiv(longest_k, TILE), segments), 1)
        done = 0
        for first in range(0, num_seqs, WIDTH):
            q_lens, k_lens = load_lengths(cu_ptr, lens_ptr, first, num_seqs)
            counts = (q_lens > 0).to(tl.int32)
            if SEGMENTS > 1:
                keys = visible_keys(q_lens, k_lens, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, DECODE)
                counts *= segment_count(keys, segment_tiles * TILE, SEGMENTS)
            ends = tl.cumsum(counts, 0)
            items = tl.sum(counts, 0) * HKV
            for item in range((tl.program_id(0) + programs - done % programs) % programs, items, programs):
                head = item % HKV
                before = ends <= item // HKV
                segment = item // HKV - tl.max(tl.where(before, ends, 0), 0)
                number = first + tl.sum(before.to(tl.int32), 0)
                sequence, block, token0, q_len, k_len = locate(
                    cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q, DECODE
                )  # fmt: skip
                run_block(
                    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr,
                    table_ptr, cu_ptr, blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr,
                    v_scale_ptr, out_scale_ptr, part_ptr, count_ptr, part_rows, scale, softcap, left, right,
                    table_stride, num_seqs, sequence, token0, q_len, k_len, block, head, segment, segment_tiles,
                    number * HKV + head, SEGMENTS, G, HKV, BLOCK_M, TILE, PAGE, D, D_PAD, Q_TOK, Q_HEAD, O_TOK,
                    O_HEAD, K_PAGE, K_TOK, K_HEAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK, NEW_HEAD, FRESH, PREFIX, TMA,
                    TMA_NEW, CAUSAL, WINDOW, SOFTCAP, ALIBI, COMPUTE, FP8_MAX, KEPT, CHUNK, True,
                )  # fmt: skip
            done += items
    else:
        segment_tiles = tiles_per_segment(longest_k, segments, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
        if segments == 1:  # one segment whatever the lengths, which were not looked at
            segment_tiles = 1 << 20
        if blocks_ptr is not None:  # noqa: SIM108
            numbers = tl.load(blocks_ptr + num_seqs)
        else:
            numbers = total_q // BLOCK_Q + num_seqs
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
                    table_ptr, cu_ptr, blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr,
                    v_scale_ptr, out_scale_ptr, part_ptr, count_ptr, part_rows, scale, softcap, left, right,
                    table_stride, num_seqs, sequence, token0, q_len, k_len, block, head, segment, segment_tiles,
                    number * HKV + head, SEGMENTS, G, HKV, BLOCK_M, TILE, PAGE, D, D_PAD, Q_TOK, Q_HEAD, O_TOK,
                    O_HEAD, K_PAGE, K_TOK, K_HEAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK, NEW_HEAD, FRESH, PREFIX, TMA,
                    TMA_NEW, CAUSAL, WINDOW, SOFTCAP, ALIBI, COMPUTE, FP8_MAX, KEPT, CHUNK, True,
                )  # fmt: skip
