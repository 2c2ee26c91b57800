"""A fixed number of programs that loop over the work (sections 4.7 and 6.2), for recorded CUDA graphs.

Grid and config are frozen in a graph while the lengths change on the device. So the amount of work, and into how
many segments to cut the keys, is found inside the kernel from the lengths: CHOOSE is a @triton.jit function of
the integers in `defaults.CHOICE`, `default_segments` below or one that heurgen generated from a tree.
"""

import triton
import triton.language as tl

from .block import run_block, segment_count, segment_span, tiles_per_segment
from .dependent import let_next_begin
from .split_kv import locate

# Lengths read in one vector step: FEW, one for each thread of a warp, of batches that have no more sequences and no
# more than CROWDED blocks for each processor, where a microsecond counts; MANY of others.
FEW = tl.constexpr(32)
MANY = tl.constexpr(256)
CROWDED = tl.constexpr(2)
# Tiles that a program might read in the time that it takes to begin with an item.
BEGINNING = tl.constexpr(20)


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
def load_lengths(cu_ptr, lens_ptr, first, num_seqs, WIDTH: tl.constexpr):
    """(query tokens, keys) of WIDTH sequences from `first` on; zeros behind the last."""
    index = first + tl.arange(0, WIDTH)
    ok = index < num_seqs
    q_len = tl.load(cu_ptr + index + 1, mask=ok, other=0) - tl.load(cu_ptr + index, mask=ok, other=0)
    return q_len, tl.load(lens_ptr + index, mask=ok, other=0)


@triton.jit
def survey(cu_ptr, lens_ptr, num_seqs, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr, CAUSAL: tl.constexpr,
           WINDOW: tl.constexpr, DECODE: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """(sequences that have a query, most keys that one of them sees, keys that all of them see)."""
    active = 0
    most = 0
    total = 0
    for first in range(0, num_seqs if WIDTH > FEW else 1, WIDTH):
        q_len, k_len = load_lengths(cu_ptr, lens_ptr, first, num_seqs, WIDTH)
        keys = visible_keys(q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, DECODE)
        active += tl.sum((q_len > 0).to(tl.int32), 0)
        most = tl.maximum(most, tl.max(keys, 0))
        total += tl.sum(keys, 0)
    return active, most, total


@triton.jit
def choose_segments(total_q, active, longest_k, total_k, forced, SEGMENTS: tl.constexpr, HKV: tl.constexpr,
                    PROCESSORS: tl.constexpr, CHOOSE: tl.constexpr):  # fmt: skip
    """Into how many segments the longest sequence is cut."""
    segments = forced
    if forced == 0:
        segments = tl.cast(CHOOSE(active, total_q, longest_k, total_k, HKV, PROCESSORS), tl.int32)
    return tl.minimum(tl.maximum(segments, 1), SEGMENTS)


@triton.jit
def refine_segments(
    segments, longest_k, cu_ptr, lens_ptr, num_seqs, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, HKV: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """`segments`, or as many and one to four halves of them: with which the programs are done soonest, of decodes. Of
    more than WIDTH sequences the first ones stand for all.

    Each program takes as many items as there are rounds, of at most so many tiles: a few items more than programs take
    as long as twice as many. On one H200, 90 sequences of 100 to 1400 keys, 8 KV heads: 75 us in place of 90.
    """
    found = segments
    half = tl.maximum(segments // 2, 1)
    q_len, k_len = load_lengths(cu_ptr, lens_ptr, 0, num_seqs, WIDTH)
    keys = visible_keys(q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, True)
    least = 1 << 30
    for step in tl.static_range(5):
        wanted = tl.minimum(segments + step * half, SEGMENTS)
        tiles = tl.maximum(tl.cdiv(tl.cdiv(longest_k, TILE), wanted), 1)
        # nearly what `segment_count` counts
        counts = tl.minimum(tl.ceil(keys * (1.0 / (tiles * TILE))).to(tl.int32), SEGMENTS)
        items = tl.sum(tl.where(q_len > 0, tl.maximum(counts, 1), 0), 0)
        if num_seqs > WIDTH:
            items = items * num_seqs // WIDTH
        taken = tl.cdiv(items * HKV, tl.num_programs(0)) * (tiles + BEGINNING)
        found = tl.where(taken < least, wanted, found)
        least = tl.minimum(taken, least)
    return found


@triton.jit
def choose_tiles(
    cu_ptr, lens_ptr, num_seqs, forced, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, HKV: tl.constexpr, PROCESSORS: tl.constexpr,
    CHOOSE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Tiles of a segment of decodes."""
    active, longest_k, total_k = survey(
        cu_ptr, lens_ptr, num_seqs, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, True, WIDTH
    )  # fmt: skip
    total_q = tl.load(cu_ptr + num_seqs)
    segments = choose_segments(total_q, active, longest_k, total_k, forced, SEGMENTS, HKV, PROCESSORS, CHOOSE)
    return tl.maximum(tl.cdiv(tl.cdiv(longest_k, TILE), segments), 1)


@triton.jit(
    do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows", "forced", "second_from"]
)
def static_grid_kernel(
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    forced, second_from,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
    SEGMENTS: tl.constexpr, KEPT: tl.constexpr, CHUNK: tl.constexpr, DECODE: tl.constexpr, PROCESSORS: tl.constexpr,
    CHOOSE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Grid: (programs,). SEGMENTS bounds what CHOOSE may return; it sizes the scratch. forced: segments for the
    longest sequence without asking CHOOSE, 0 to ask. DECODE: each sequence has at most one Q block. WIDTH: FEW or MANY.
    second_from: None where no second launch may come.
    """
    if second_from is not None:
        let_next_begin()
    HKV: tl.constexpr = sizes.HKV
    CAUSAL: tl.constexpr = features.CAUSAL
    WINDOW: tl.constexpr = features.WINDOW
    BLOCK_Q: tl.constexpr = BLOCK_M // sizes.G
    programs = tl.num_programs(0)
    total_q = tl.load(tensors.cu + num_seqs)
    segments = 1
    longest_k = 0
    # without DECODE, prompts fill the processors: only batches of almost nothing but decodes are split
    if SEGMENTS > 1 and (DECODE or total_q <= 2 * num_seqs):
        active, longest_k, total_k = survey(
            tensors.cu, tensors.lens, num_seqs, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, DECODE, WIDTH
        )  # fmt: skip
        segments = choose_segments(
            total_q, active, longest_k, total_k, forced, SEGMENTS, HKV, PROCESSORS, CHOOSE
        )
        # a second launch, which does not know the programs, never comes behind so many blocks: `host.combine.PARTS`
        if DECODE and WIDTH > FEW and num_seqs * HKV > CROWDED * PROCESSORS and forced == 0:
            segments = refine_segments(
                segments, longest_k, tensors.cu, tensors.lens, num_seqs, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW,
                SEGMENTS, HKV, WIDTH,
            )  # fmt: skip
    if DECODE:
        # Only segments that exist are numbered, so that all programs get the same number of them, give or
        # take one; they go round the programs, chunk of sequences after chunk.
        segment_tiles = tl.maximum(tl.cdiv(tl.cdiv(longest_k, TILE), segments), 1)
        done = 0
        for first in range(0, num_seqs if WIDTH > FEW else 1, WIDTH):
            q_lens, k_lens = load_lengths(tensors.cu, tensors.lens, first, num_seqs, WIDTH)
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
                    tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q, DECODE
                )  # fmt: skip
                run_block(
                    tensors, tensors.part, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left,
                    right, table_stride, sequence, token0, q_len, k_len, block, head, segment, segment_tiles,
                    number * HKV + head, SEGMENTS, sizes, strides, features, BLOCK_M, TILE, KEPT, CHUNK,
                    second_from,
                )  # fmt: skip
            done += items
    else:
        segment_tiles = tiles_per_segment(longest_k, segments, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
        if segments == 1:  # one segment whatever the lengths, which were not looked at
            segment_tiles = 1 << 20
        if tensors.blocks is not None:  # noqa: SIM108
            numbers = tl.load(tensors.blocks + num_seqs)
        else:
            numbers = total_q // BLOCK_Q + num_seqs
        for work in range(tl.program_id(0), numbers * HKV * segments, programs):
            head = work % HKV
            segment = (work // HKV) % segments
            number = numbers - 1 - work // (HKV * segments)
            sequence, block, token0, q_len, k_len = locate(
                tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q, DECODE
            )  # fmt: skip
            if block * BLOCK_Q < q_len:
                run_block(
                    tensors, tensors.part, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left,
                    right, table_stride, sequence, token0, q_len, k_len, block, head, segment, segment_tiles,
                    number * HKV + head, SEGMENTS, sizes, strides, features, BLOCK_M, TILE, KEPT, CHUNK,
                    second_from,
                )  # fmt: skip
