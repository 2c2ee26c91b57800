"""The consumers: four warps each, 64 rows of every Q block that the producer hands over."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from .attend import HALF, attend_item, pass_tiles
from .items import numbers_below, tile_counts, uniform
from .produce import JOB_SIZE, JOBS

LOG2E = gl.constexpr(1.4426950408889634)
FOUR_WARPS = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def store_part(acc, M, L, part_ptr, part_rows, row, first: gl.constexpr, D: gl.constexpr):
    """Leave a segment's unnormalised rows in the scratch, from its row `row` and column `first` on."""
    LAYOUT: gl.constexpr = acc.type.layout
    rows = row + gl.arange(0, HALF, gl.SliceLayout(1, LAYOUT)).to(gl.int64)
    columns = first + gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    gl.store(part_ptr + rows[:, None] * D + columns[None, :], acc)
    if first == 0:
        gl.store(part_ptr + part_rows.to(gl.int64) * D + rows, M)
        gl.store(part_ptr + part_rows.to(gl.int64) * (D + 1) + rows, L)


@gluon.jit
def finished(acc, M, L, sinks_ptr, scale_ptr, first_head, first_row, G: gl.constexpr):
    """The normalised rows, of a Q block's from first_row on, times V's scale; sinks join the denominator once."""
    LAYOUT: gl.constexpr = acc.type.layout
    if sinks_ptr is not None:
        rows = first_row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, LAYOUT))
        sink = gl.load(sinks_ptr + first_head + rows % G).to(gl.float32) * LOG2E
        m_new = gl.maximum(M, sink)
        L = L * gl.exp2(M - m_new) + gl.exp2(sink - m_new)
        acc = acc * gl.exp2(M - m_new)[:, None]
    share = 1.0 / gl.where(L == 0.0, 1.0, L)
    if scale_ptr is not None:
        share *= gl.load(scale_ptr)
    return acc * share[:, None]


@gluon.jit
def pick(job, number: gl.constexpr):
    """One number of a job."""
    return uniform(gl.sum(gl.where(gl.arange(0, JOB_SIZE, FOUR_WARPS) == number, job, 0), 0))


@gluon.jit
def row_places(
    ptr, head, token0, block, q_len, first_row, ROWS: gl.constexpr, G: gl.constexpr, BLOCK_Q: gl.constexpr,
    HEAD: gl.constexpr, D: gl.constexpr, S_TOK: gl.constexpr, S_HEAD: gl.constexpr, WHOLE: gl.constexpr,
):  # fmt: skip
    """(places [ROWS, D], which are real) of a Q block's rows from first_row on, in q or the output."""
    LAYOUT: gl.constexpr = gl.SliceLayout(1, WHOLE)
    rows = first_row + numbers_below(ROWS, LAYOUT)
    token = block * BLOCK_Q + rows // G
    tokens, heads, row_ok = token0 + token, head * G + rows % G, (token < q_len) & (rows < BLOCK_Q * G)
    columns = gl.arange(0, D, gl.SliceLayout(0, WHOLE))
    keep = row_ok[:, None]
    if HEAD != D:
        keep = keep & (columns < HEAD)[None, :]
    offsets = tokens.to(gl.int64) * S_TOK + heads * S_HEAD
    return ptr + offsets[:, None] + columns[None, :], keep


@gluon.jit
def deliver(
    acc, more, row_max, row_sum, job, q, out_ptr, sinks_ptr, scale_ptr, part_ptr, part_rows, WHICH: gl.constexpr,
    CONSUMERS: gl.constexpr, G: gl.constexpr, BLOCK_Q: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr,
    O_TOK: gl.constexpr, O_HEAD: gl.constexpr, WHOLE: gl.constexpr,
):  # fmt: skip
    """Store a consumer's rows: the output, or where keys are cut the part, which a second launch adds to the others.
    acc, more: see `add_values`.
    """
    FIRST: gl.constexpr = acc.shape[1]
    SPLIT: gl.constexpr = FIRST < D
    O_LAYOUT: gl.constexpr = acc.type.layout
    MORE: gl.constexpr = more.type.layout
    head, token0, block, q_len = pick(job, 0), pick(job, 1), pick(job, 2), pick(job, 3)
    place = pick(job, 7)
    M = gl.convert_layout(row_max, gl.SliceLayout(1, O_LAYOUT))
    L = gl.convert_layout(row_sum, gl.SliceLayout(1, O_LAYOUT))
    cut = False
    if part_ptr is not None:
        cut = place >= 0
        if cut:
            row = place * (CONSUMERS * HALF) + WHICH * HALF
            store_part(acc, M, L, part_ptr, part_rows, row, 0, D)
            if SPLIT:
                store_part(more, M, L, part_ptr, part_rows, row, FIRST, D)
    if not cut:
        # through shared memory, where Q is needed no more, so that a thread stores 16 bytes at once
        rows = finished(acc, M, L, sinks_ptr, scale_ptr, head * G, WHICH * HALF, G).to(q.dtype)
        if SPLIT:
            q.slice(0, FIRST, 1).store(rows)
            m = gl.convert_layout(M, gl.SliceLayout(1, MORE))
            total = gl.convert_layout(L, gl.SliceLayout(1, MORE))
            rest = finished(more, m, total, sinks_ptr, scale_ptr, head * G, WHICH * HALF, G)
            q.slice(FIRST, FIRST // 2, 1).store(rest.to(q.dtype))
        else:
            q.store(rows)
        places, keep = row_places(
            out_ptr, head, token0, block, q_len, WHICH * HALF, HALF, G, BLOCK_Q, HEAD, D, O_TOK, O_HEAD, WHOLE
        )
        gl.store(places, q.load(WHOLE), mask=keep)


@gluon.jit
def consume(
    q_ptr, out_ptr, sinks_ptr, scale_ptr, part_ptr, part_rows, q_buffers, k_buffers, v_buffers, barriers, job_barriers,
    jobs, left, right, inner, qk_scale, WHICH: gl.constexpr, CONSUMERS: gl.constexpr, G: gl.constexpr,
    BLOCK_Q: gl.constexpr, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr,
    Q_TOK: gl.constexpr, Q_HEAD: gl.constexpr, O_TOK: gl.constexpr, O_HEAD: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr, SOFTCAP: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """A consumer: rows 64 * WHICH .. of each Q block that the producer hands over. D: the head size HEAD, padded."""
    job_ready, job_empty = job_barriers
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 16])
    WHOLE: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [4, 1], [1, 0])
    q = q_buffers.index(WHICH)
    done = 0
    item = 0
    count = 0
    while count >= 0:
        slot = item % JOBS
        mbarrier.wait(job_ready.index(slot), item // JOBS & 1)
        job = jobs.index(slot).load(FOUR_WARPS)
        head, token0, block, q_len = pick(job, 0), pick(job, 1), pick(job, 2), pick(job, 3)
        context, begin = pick(job, 4), pick(job, 5)
        count = pick(job, 6)
        item += 1
        if (count >= 0) & (block * BLOCK_Q + WHICH * HALF // G >= q_len):
            pass_tiles(barriers, done, count, STAGES)
        elif count >= 0:
            places, keep = row_places(
                q_ptr, head, token0, block, q_len, WHICH * HALF, HALF, G, BLOCK_Q, HEAD, D, Q_TOK, Q_HEAD, WHOLE
            )  # fmt: skip
            q.store(gl.load(places, mask=keep, other=0.0))
            fence_async_shared()
            score_rows = WHICH * HALF + numbers_below(HALF, gl.SliceLayout(1, S_LAYOUT))
            tiles = tile_counts(
                block, q_len, context, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW, FRESH, PREFIX
            )
            acc, more, row_max, row_sum = attend_item(
                q, k_buffers, v_buffers, barriers, block * BLOCK_Q + score_rows // G,
                gl.minimum(block * BLOCK_Q + BLOCK_Q, q_len) - 1, context, q_len, left, right, inner, qk_scale, tiles,
                begin, count, done, TILE, HEAD, D, STAGES, CAUSAL, WINDOW, SOFTCAP, FRESH, PREFIX, S_LAYOUT,
            )  # fmt: skip
            job = jobs.index(slot).load(FOUR_WARPS)  # kept over the keys, these numbers would spill
            deliver(
                acc, more, row_max, row_sum, job, q, out_ptr, sinks_ptr, scale_ptr, part_ptr, part_rows, WHICH,
                CONSUMERS, G, BLOCK_Q, HEAD, D, O_TOK, O_HEAD, WHOLE,
            )  # fmt: skip
        mbarrier.arrive(job_empty.index(slot))
        done += gl.maximum(count, 0)
