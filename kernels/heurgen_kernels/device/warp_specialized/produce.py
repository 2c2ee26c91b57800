"""The producer: one warp that finds items and loads their K and V through tensor descriptors."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from ..spelling import async_load, reinterpret
from .items import (
    ONE_WARP,
    blocks_of,
    cut_into,
    in_turn,
    item_at,
    locate_block,
    longest_but,
    part_count,
    put_last,
    seen_by_block,
    survey,
    tile_counts,
    tile_place,
    uniform,
)  # fmt: skip

# 128 bytes, the widest swizzle: a tile lies in shared memory as columns of 64 two-byte elements.
COLUMNS = gl.constexpr(64)
JOBS = gl.constexpr(2)  # items between the producer and the consumers
JOB_SIZE = gl.constexpr(16)


@gluon.jit
def copy_rows(desc, row, col, view, number, ready, ROWS: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr):
    """Rows row .. row + ROWS into chunk `number` of the first column of `view`, and its like of the other columns."""
    for column in gl.static_range(D // COLUMNS):
        chunk = view.index(number + column * (TILE // ROWS))
        async_load(desc, [row, col + column * COLUMNS], ready, chunk)


@gluon.jit
def load_tile(
    t, turn, desc, new_desc, buffers, ready, empty, table, row0, col0, new_row0, new_col0, page_high, tiles,
    PAGE: gl.constexpr, PAGE_ROWS: gl.constexpr, CHUNK: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """Tile t of K or V, the `turn`-th tile of this program, into its buffer, once both consumers have left it."""
    COUNT: gl.constexpr = D // COLUMNS
    CHUNKS: gl.constexpr = TILE // CHUNK
    new, index = tile_place(t, tiles, FRESH, PREFIX)
    slot = turn % STAGES
    bar = ready.index(slot)
    mbarrier.wait(empty.index(slot), (turn // STAGES & 1) ^ 1)
    mbarrier.expect(bar, TILE * D * 2)
    if FRESH:  # noqa: SIM102
        if new:
            view = reinterpret(buffers, buffers.dtype, [STAGES * COUNT, TILE, COLUMNS], buffers.layout)
            copy_rows(new_desc, new_row0 + index * TILE, new_col0, view, slot * COUNT, bar, TILE, TILE, D)
    if PREFIX:  # noqa: SIM102
        if not new:
            view = reinterpret(
                buffers, buffers.dtype, [STAGES * COUNT * CHUNKS, CHUNK, COLUMNS], buffers.layout
            )
            for chunk in gl.static_range(CHUNKS):
                # chunks behind the last key are read from its page: their scores are masked, their V is zeroed
                position = gl.minimum(index * TILE + chunk * CHUNK, (page_high - 1) // CHUNK * CHUNK)
                row = row0 + gl.load(table + position // PAGE) * PAGE_ROWS + position % PAGE
                copy_rows(desc, row, col0, view, slot * COUNT * CHUNKS + chunk, bar, CHUNK, TILE, D)


@gluon.jit
def hand_over(
    jobs, job_ready, job_empty, item, head, token0, block, q_len, context, begin, count, place
):  # fmt: skip
    """Describe an item to the consumers; count < 0 ends their work. place: of its part in the scratch, < 0 where
    its keys are not cut.
    """
    slot = item % JOBS
    mbarrier.wait(job_empty.index(slot), (item // JOBS & 1) ^ 1)
    index = gl.arange(0, JOB_SIZE, ONE_WARP)
    job = gl.where(index == 0, head, gl.where(index == 1, token0, gl.where(index == 2, block, q_len)))
    job = gl.where(index == 4, context, gl.where(index == 5, begin, gl.where(index == 6, count, job)))
    job = gl.where(index == 7, place, job)
    jobs.index(slot).store(job)
    mbarrier.arrive(job_ready.index(slot))


@gluon.jit
def next_work(count_ptr):
    """The number of an item that no program has taken."""
    return uniform(gl.num_programs(0) + gl.atomic_add(count_ptr, 1))


@gluon.jit
def produce(
    k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, job_barriers, jobs, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, count_ptr, left, right, table_stride, num_seqs, max_segments, numbers, programs,
    HKV: gl.constexpr, REPEAT: gl.constexpr, BLOCK_Q: gl.constexpr, PAGE: gl.constexpr, K_PAGE: gl.constexpr,
    K_TOK: gl.constexpr, K_HEAD: gl.constexpr, NEW_HEAD: gl.constexpr, CHUNK: gl.constexpr, TILE: gl.constexpr,
    D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, ABOVE: gl.constexpr, CUT: gl.constexpr,
):  # fmt: skip
    """The producer: finds items, hands them over, loads K of tile t + 1 before V of tile t, as consumers want them.

    HKV: heads that items have, REPEAT of which read one KV head. max_segments, programs: see `cut_into`.
    """
    k_ready, k_empty, v_ready, v_empty = barriers
    job_ready, job_empty = job_barriers
    PAGE_ROWS: gl.constexpr = K_PAGE // K_TOK
    most = seen_by_block(left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
    decodes, longest, decodes_are_long, late, all_tiles = survey(
        cu_ptr, lens_ptr, num_seqs, most, BLOCK_Q, TILE, ABOVE, CUT
    )
    longest_segments, per_segment = max_segments, 1
    if CUT:
        longest_segments, per_segment = cut_into(
            cu_ptr, lens_ptr, num_seqs, most, longest, all_tiles, programs, max_segments, HKV, BLOCK_Q, TILE
        )
    if blocks_ptr is None:  # where the decodes' numbers end, gaps between implicit numbers included
        decodes += decodes // BLOCK_Q
    decodes = gl.where(decodes_are_long, decodes, 0)
    if ABOVE > 0:  # `blocks` has none of the small sequences
        numbers = uniform(gl.load(blocks_ptr + num_seqs))
        decodes = decodes * 0
    late_begin, late_end = blocks_of(cu_ptr, blocks_ptr, late, numbers, BLOCK_Q)
    late_blocks, rest_segments = late_end - late_begin, 1
    if CUT:
        # Segments that blocks of other sequences have at the most: items of more would be looked at in vain. Where
        # decodes come in between, not all of the first blocks are the late sequence's.
        _, rest_segments = part_count(
            (0, longest_but(lens_ptr, num_seqs, late) // TILE + 2, 0, 0, 0, 0), per_segment, longest_segments
        )
        rest_segments = gl.where(decodes > 0, longest_segments, rest_segments)
    loaded = 0
    item = 0
    work = gl.program_id(0)
    while work < (late_blocks * longest_segments + (numbers - late_blocks) * rest_segments) * HKV:
        turn, head, segment = item_at(work, late_blocks, longest_segments, rest_segments, HKV)
        number = put_last(in_turn(turn, decodes, numbers), late_begin, late_end, numbers)
        sequence, block, token0, q_len, context = locate_block(
            cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q
        )
        tiles = tile_counts(block, q_len, context, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, FRESH, PREFIX)
        total, segments = part_count(tiles, per_segment, longest_segments)
        if (block * BLOCK_Q < q_len) & (segment < segments):
            begin = total * segment // segments
            count = total * (segment + 1) // segments - begin
            place = gl.where(segments > 1, (number * HKV + head) * max_segments + segment, -1)
            hand_over(
                jobs, job_ready, job_empty, item, head, token0, block, q_len, context, begin, count, place,
            )  # fmt: skip
            item += 1
            table = table_ptr + sequence.to(gl.int64) * table_stride
            page_high = context
            if not FRESH:
                page_high = context + q_len
            kv_head, row0, col0 = head // REPEAT, 0, 0
            if K_HEAD >= K_TOK:
                row0 = kv_head * (K_HEAD // K_TOK)
            else:
                col0 = kv_head * K_HEAD
            # Two tiles before the last: a program that took its next item earlier would keep it from those that are
            # free sooner, and the batch would end in rounds.
            for turn in range(count + 1):
                if turn == gl.maximum(count - 2, 0):
                    work = next_work(count_ptr)
                if turn < count:
                    load_tile(
                        begin + turn, loaded + turn, k_desc, new_k_desc, k_buffers, k_ready, k_empty, table, row0,
                        col0, token0, kv_head * NEW_HEAD, page_high, tiles, PAGE, PAGE_ROWS, CHUNK, TILE, D, STAGES,
                        FRESH, PREFIX,
                    )  # fmt: skip
                if turn > 0:
                    load_tile(
                        begin + turn - 1, loaded + turn - 1, v_desc, new_v_desc, v_buffers, v_ready, v_empty, table,
                        row0, col0, token0, kv_head * NEW_HEAD, page_high, tiles, PAGE, PAGE_ROWS, CHUNK, TILE, D,
                        STAGES, FRESH, PREFIX,
                    )  # fmt: skip
            loaded += count
        else:
            work = next_work(count_ptr)
    hand_over(jobs, job_ready, job_empty, item, 0, 0, 0, 0, 0, 0, -1, -1)
    # the last program to stop leaves the counters as it found them
    if gl.atomic_add(count_ptr + 1, 1) == gl.num_programs(0) - 1:
        gl.store(count_ptr, 0)
        gl.store(count_ptr + 1, 0)
