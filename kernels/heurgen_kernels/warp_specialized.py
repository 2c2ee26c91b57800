"""Prompts on Hopper: one warp loads, two groups of four warps compute (a Gluon kernel, sm_90 alone).

One program per processor takes work items until none is left. An item is a Q block of 128 rows, 64 for each of two
consumers, over one segment of its keys. The producer finds the items and loads K and V through tensor descriptors,
a page or a part of a page at a time, so pages of 16 tokens are read as fast as contiguous K and V; it runs ahead
into the next item. A consumer issues the scores of the next tile before it multiplies this tile's weights with V,
so that the matrix unit works while the softmax does (FlashAttention-3, Shah et al. 2024, section 3.2).

Tiles that need a mask come first: the diagonal of the new tokens, the last partial tile of the cached ones.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

HALF = gl.constexpr(64)  # rows of a consumer
# 128 bytes, the widest swizzle: a tile lies in shared memory as columns of 64 two-byte elements.
COLUMNS = gl.constexpr(64)
LOWEST = gl.constexpr(-1.0e38)
LOG2E = gl.constexpr(1.4426950408889634)
JOBS = gl.constexpr(2)  # items between the producer and the consumers
JOB_SIZE = gl.constexpr(16)
ONE_WARP = gl.constexpr(gl.BlockedLayout([4], [32], [1], [0]))
FOUR_WARPS = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def uniform(value):
    """The same number, which the assembler then knows to be the same in all threads of a warp."""
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;", "=r,r", [value], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def find_sequence(cu_ptr, target, num_seqs, BLOCK_Q: gl.constexpr, IMPLICIT: gl.constexpr):
    """As `tiles.find_sequence`: the last sequence whose first Q block is <= target."""
    low = 0
    high = num_seqs
    while high - low > 128:
        middle = (low + high) // 2
        value = gl.load(cu_ptr + middle)
        if IMPLICIT:
            value = value // BLOCK_Q + middle
        if value <= target:
            low = middle
        else:
            high = middle
    index = low + gl.arange(0, 128, ONE_WARP)
    values = gl.load(cu_ptr + index, mask=index < high, other=0)
    if IMPLICIT:
        values = values // BLOCK_Q + index
    return uniform(low + gl.sum(((values <= target) & (index < high)).to(gl.int32), 0) - 1)


@gluon.jit
def survey(cu_ptr, lens_ptr, num_seqs):
    """(sequences at the front with one query token each, longest sequence, whether one of those at the front is it)."""
    leading, decode, other = 0, 0, 0
    for first in range(0, num_seqs, 128):
        index = first + gl.arange(0, 128, ONE_WARP)
        there = index < num_seqs
        ends = gl.load(cu_ptr + index + 1, mask=there, other=0)
        lengths = gl.load(lens_ptr + index, mask=there, other=0)
        in_front = ends == index + 1
        leading += gl.sum((in_front & there).to(gl.int32), 0)
        decode = gl.maximum(decode, gl.max(gl.where(in_front, lengths, 0), 0))
        other = gl.maximum(other, gl.max(gl.where(in_front, 0, lengths), 0))
    return uniform(leading), uniform(gl.maximum(decode, other)), uniform((decode > other).to(gl.int32)) > 0


@gluon.jit
def in_turn(turn, decodes, numbers):
    """The Q block that comes `turn`-th: the last one first, and each second turn one of the decodes in front.

    Long items go first, so that the programs end together: late blocks of a prompt are its longest.
    """
    pairs = gl.minimum(decodes, numbers - decodes)
    number = gl.where(turn % 2 == 0, numbers - 1 - turn // 2, turn // 2)
    rest = gl.where(decodes > pairs, turn - pairs, numbers - 1 - (turn - pairs))
    return gl.where(turn < 2 * pairs, number, rest)


@gluon.jit
def tile_counts(
    block, q_len, context, right, BLOCK_Q: gl.constexpr, TILE: gl.constexpr, CAUSAL: gl.constexpr,
    FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """Tiles of a Q block: (masked new, whole new, masked cached, whole cached). New tokens have tiles of their own."""
    first = block * BLOCK_Q
    last = gl.minimum(first + BLOCK_Q, q_len) - 1
    low, offset = q_len, 0
    if not FRESH:
        low, offset = context + q_len, context
    high = low
    if CAUSAL:
        high = gl.minimum(low, offset + last + right + 1)
        low = gl.minimum(low, offset + first + right + 1)
    whole = low // TILE
    masked = (high + TILE - 1) // TILE - whole
    if not FRESH:
        return 0, 0, masked, whole
    if not PREFIX:
        return masked, whole, 0, 0
    return masked, whole, (context + TILE - 1) // TILE - context // TILE, context // TILE


@gluon.jit
def tile_place(t, tiles, FRESH: gl.constexpr, PREFIX: gl.constexpr):
    """(of the new tokens?, its number there) of the t-th tile: masked ones first, in each group the last one first."""
    new_masked, new_whole, page_masked, page_whole = tiles
    if not FRESH:
        return False, page_masked + page_whole - 1 - t
    if not PREFIX:
        return True, new_masked + new_whole - 1 - t
    late = t - new_masked - page_masked
    new = (t < new_masked) | ((late >= 0) & (late < new_whole))
    in_new = gl.where(t < new_masked, new_masked + new_whole - 1 - t, new_whole - 1 - late)
    in_pages = gl.where(late < 0, page_masked + page_whole - 1 - (t - new_masked), page_whole - 1 - (late - new_whole))
    return new, gl.where(new, in_new, in_pages)


@gluon.jit
def copy_rows(desc, row, col, view, number, ready, ROWS: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr):
    """Rows row .. row + ROWS into chunk `number` of the first column of `view`, and its like of the other columns."""
    for column in gl.static_range(D // COLUMNS):
        chunk = view.index(number + column * (TILE // ROWS))
        tma.async_copy_global_to_shared(desc, [row, col + column * COLUMNS], ready, chunk)


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
    if FRESH:
        if new:
            view = buffers._reinterpret(buffers.dtype, [STAGES * COUNT, TILE, COLUMNS], buffers.layout)
            copy_rows(new_desc, new_row0 + index * TILE, new_col0, view, slot * COUNT, bar, TILE, TILE, D)
    if PREFIX:
        if not new:
            view = buffers._reinterpret(buffers.dtype, [STAGES * COUNT * CHUNKS, CHUNK, COLUMNS], buffers.layout)
            for chunk in gl.static_range(CHUNKS):
                # chunks behind the last key are read from its page: their scores are masked, their V is zeroed
                position = gl.minimum(index * TILE + chunk * CHUNK, (page_high - 1) // CHUNK * CHUNK)
                row = row0 + gl.load(table + position // PAGE) * PAGE_ROWS + position % PAGE
                copy_rows(desc, row, col0, view, slot * COUNT * CHUNKS + chunk, bar, CHUNK, TILE, D)


@gluon.jit
def hand_over(jobs, job_ready, job_empty, item, head, token0, block, q_len, context, begin, count, place, segments):
    """Describe an item to the consumers; count < 0 ends their work."""
    slot = item % JOBS
    mbarrier.wait(job_empty.index(slot), (item // JOBS & 1) ^ 1)
    index = gl.arange(0, JOB_SIZE, ONE_WARP)
    job = gl.where(index == 0, head, gl.where(index == 1, token0, gl.where(index == 2, block, q_len)))
    job = gl.where(index == 4, context, gl.where(index == 5, begin, gl.where(index == 6, count, job)))
    job = gl.where(index == 7, place, gl.where(index == 8, segments, job))
    jobs.index(slot).store(job)
    mbarrier.arrive(job_ready.index(slot))


@gluon.jit
def produce(
    k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, jobs, table_ptr, cu_ptr, blocks_ptr,
    lens_ptr, count_ptr, right, table_stride, num_seqs, numbers, HKV: gl.constexpr, BLOCK_Q: gl.constexpr,
    PAGE: gl.constexpr, K_PAGE: gl.constexpr, K_TOK: gl.constexpr, K_HEAD: gl.constexpr, NEW_HEAD: gl.constexpr,
    CHUNK: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, SEGMENTS: gl.constexpr,
    CAUSAL: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """The producer: finds items, hands them over, loads K of tile t + 1 before V of tile t, as consumers want them."""
    k_ready, k_empty, v_ready, v_empty, job_ready, job_empty = barriers
    PAGE_ROWS: gl.constexpr = K_PAGE // K_TOK
    decodes, longest, decodes_are_long = survey(cu_ptr, lens_ptr, num_seqs)
    per_segment = gl.maximum((longest + TILE * SEGMENTS - 1) // (TILE * SEGMENTS), 1)
    if blocks_ptr is None:  # where the decodes' numbers end, gaps between implicit numbers included
        decodes += decodes // BLOCK_Q
    decodes = gl.where(decodes_are_long, decodes, 0)
    loaded = 0
    item = 0
    work = gl.program_id(0)
    while work < numbers * HKV * SEGMENTS:
        head = work % HKV
        segment = work // HKV % SEGMENTS
        number = in_turn(work // (HKV * SEGMENTS), decodes, numbers)
        work = uniform(gl.num_programs(0) + gl.atomic_add(count_ptr, 1))
        if blocks_ptr is not None:
            sequence = find_sequence(blocks_ptr, number, num_seqs, BLOCK_Q, False)
            token0 = gl.load(cu_ptr + sequence)
            block = number - gl.load(blocks_ptr + sequence)
        else:
            sequence = find_sequence(cu_ptr, number, num_seqs, BLOCK_Q, True)
            token0 = gl.load(cu_ptr + sequence)
            block = number - token0 // BLOCK_Q - sequence
        q_len = gl.load(cu_ptr + sequence + 1) - token0
        context = gl.load(lens_ptr + sequence) - q_len
        tiles = tile_counts(block, q_len, context, right, BLOCK_Q, TILE, CAUSAL, FRESH, PREFIX)
        new_masked, new_whole, page_masked, page_whole = tiles
        total = new_masked + new_whole + page_masked + page_whole
        segments = gl.minimum(gl.maximum((total + per_segment - 1) // per_segment, 1), SEGMENTS)
        if (block * BLOCK_Q < q_len) & (segment < segments):
            begin = total * segment // segments
            count = total * (segment + 1) // segments - begin
            place = (number * HKV + head) * SEGMENTS + segment
            hand_over(
                jobs, job_ready, job_empty, item, head, token0, block, q_len, context, begin, count, place, segments
            )
            item += 1
            table = table_ptr + sequence.to(gl.int64) * table_stride
            page_high = context
            if not FRESH:
                page_high = context + q_len
            row0 = 0
            col0 = head * K_HEAD
            if K_HEAD >= K_TOK:
                row0 = head * (K_HEAD // K_TOK)
                col0 = 0
            for turn in range(count + 1):
                if turn < count:
                    load_tile(
                        begin + turn, loaded + turn, k_desc, new_k_desc, k_buffers, k_ready, k_empty, table, row0,
                        col0, token0, head * NEW_HEAD, page_high, tiles, PAGE, PAGE_ROWS, CHUNK, TILE, D, STAGES,
                        FRESH, PREFIX,
                    )  # fmt: skip
                if turn > 0:
                    load_tile(
                        begin + turn - 1, loaded + turn - 1, v_desc, new_v_desc, v_buffers, v_ready, v_empty, table,
                        row0, col0, token0, head * NEW_HEAD, page_high, tiles, PAGE, PAGE_ROWS, CHUNK, TILE, D,
                        STAGES, FRESH, PREFIX,
                    )  # fmt: skip
            loaded += count
    hand_over(jobs, job_ready, job_empty, item, 0, 0, 0, 0, 0, 0, -1, 0, 0)
    # the last program to stop leaves the counters as it found them
    if gl.atomic_add(count_ptr + 1, 1) == gl.num_programs(0) - 1:
        gl.store(count_ptr, 0)
        gl.store(count_ptr + 1, 0)


@gluon.jit
def zero_rows(buffers, slot, first, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr):
    """Rows first .. of a tile of V become 0. Both consumers do it, so that neither waits for the other."""
    ROWS: gl.constexpr = 16
    COUNT: gl.constexpr = D // COLUMNS
    CHUNKS: gl.constexpr = TILE // ROWS
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    chunks = buffers._reinterpret(buffers.dtype, [STAGES * COUNT * CHUNKS, ROWS, COLUMNS], buffers.layout)
    for chunk in range(first // ROWS, CHUNKS):
        rows = chunk * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
        for column in gl.static_range(COUNT):
            here = chunks.index((slot * COUNT + column) * CHUNKS + chunk)
            values = here.load(LAYOUT)
            here.store(gl.where((rows < first)[:, None], values, gl.zeros_like(values)))
    fence_async_shared()


@gluon.jit
def masked_scores(
    s, t, slot, phase, token, context, q_len, right, v_buffers, v_ready, tiles, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Scores of what a row may not see are -inf; rows of V behind the last key are zeroed, they may hold anything."""
    new, index = tile_place(t, tiles, FRESH, PREFIX)
    start = index * TILE
    limit, ahead = context + q_len, context + right
    if FRESH:
        limit = gl.where(new, q_len, context)
        ahead = gl.where(new, right, context + right)
    position = start + gl.arange(0, TILE, gl.SliceLayout(0, LAYOUT))
    keep = position[None, :] < limit
    if CAUSAL:
        keep = keep & (position[None, :] <= (token + ahead)[:, None])
    if limit < start + TILE:
        mbarrier.wait(v_ready.index(slot), phase)
        zero_rows(v_buffers, slot, gl.maximum(limit - start, 0), TILE, D, STAGES)
    return gl.where(keep, s, float("-inf"))


@gluon.jit
def softmax_step(s, M, L, qk_scale):
    """(weights, scale of what was summed so far, new maximum, new sum) of the online softmax in the log2 domain."""
    m_new = gl.maximum(M, gl.max(s, 1) * qk_scale)
    p = gl.exp2(s * qk_scale - m_new[:, None])
    alpha = gl.exp2(M - m_new)
    return p, alpha, m_new, L * alpha + gl.sum(p, 1)


@gluon.jit
def attend_tiles(
    first, last, begin, done, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, context, q_len, right, qk_scale,
    tiles, MASKED: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    FRESH: gl.constexpr, PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Turns first .. last: the scores of a tile, then V of the tile before with its weights p, then the softmax."""
    k_ready, k_empty, v_ready, v_empty, job_ready, job_empty = barriers
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    for turn in range(first, last):
        here = done + turn
        slot = here % STAGES
        phase = here // STAGES & 1
        before = (here - 1) % STAGES
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        pending = warpgroup_mma(q, k_buffers.index(slot).permute((1, 0)), zero, use_acc=False, is_async=True)
        mbarrier.wait(v_ready.index(before), (here - 1) // STAGES & 1)
        acc_pending = warpgroup_mma(p, v_buffers.index(before), acc, is_async=True)
        s = warpgroup_mma_wait(1, deps=[pending])
        mbarrier.arrive(k_empty.index(slot))
        if MASKED:
            s = masked_scores(
                s, begin + turn, slot, phase, token, context, q_len, right, v_buffers, v_ready, tiles,
                TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT,
            )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        acc = warpgroup_mma_wait(0, deps=[acc_pending])
        mbarrier.arrive(v_empty.index(before))
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
        p = gl.convert_layout(weights.to(k_buffers.dtype), P_LAYOUT)
    return acc, p, M, L


@gluon.jit
def attend_item(
    q, k_buffers, v_buffers, barriers, token, context, q_len, right, qk_scale, tiles, begin, count, done,
    TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr,
):  # fmt: skip
    """(acc, M, L) of a consumer's rows over `count` tiles from the begin-th on."""
    k_ready, k_empty, v_ready, v_empty, job_ready, job_empty = barriers
    new_masked, new_whole, page_masked, page_whole = tiles
    M = gl.full([HALF], LOWEST, gl.float32, gl.SliceLayout(1, S_LAYOUT))
    L = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, S_LAYOUT))
    acc = gl.zeros([HALF, D], gl.float32, O_LAYOUT)
    if count > 0:
        slot = done % STAGES
        phase = done // STAGES & 1
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        s = warpgroup_mma(q, k_buffers.index(slot).permute((1, 0)), zero, use_acc=False)
        mbarrier.arrive(k_empty.index(slot))
        s = masked_scores(
            s, begin, slot, phase, token, context, q_len, right, v_buffers, v_ready, tiles,
            TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT,
        )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        p = gl.convert_layout(weights.to(k_buffers.dtype), gl.DotOperandLayout(0, O_LAYOUT, 2))
        masked = gl.minimum(gl.maximum(new_masked + page_masked - begin, 1), count)
        acc, p, M, L = attend_tiles(
            1, masked, begin, done, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, context, q_len, right,
            qk_scale, tiles, True, TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT, O_LAYOUT,
        )  # fmt: skip
        acc, p, M, L = attend_tiles(
            masked, count, begin, done, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, context, q_len, right,
            qk_scale, tiles, False, TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT, O_LAYOUT,
        )  # fmt: skip
        last = (done + count - 1) % STAGES
        mbarrier.wait(v_ready.index(last), (done + count - 1) // STAGES & 1)
        acc = warpgroup_mma(p, v_buffers.index(last), acc)
        mbarrier.arrive(v_empty.index(last))
    return acc, M, L


@gluon.jit
def pass_tiles(barriers, done, count, STAGES: gl.constexpr):
    """A consumer without rows in an item lets its tiles go by."""
    k_ready, k_empty, v_ready, v_empty, job_ready, job_empty = barriers
    for turn in range(done, done + count):
        mbarrier.wait(k_ready.index(turn % STAGES), turn // STAGES & 1)
        mbarrier.arrive(k_empty.index(turn % STAGES))
        mbarrier.wait(v_ready.index(turn % STAGES), turn // STAGES & 1)
        mbarrier.arrive(v_empty.index(turn % STAGES))


@gluon.jit
def store_part(acc, M, L, part_ptr, part_rows, row, D: gl.constexpr, O_LAYOUT: gl.constexpr):
    """Leave a segment's unnormalised rows in the scratch, from its row `row` on."""
    rows = row + gl.arange(0, HALF, gl.SliceLayout(1, O_LAYOUT)).to(gl.int64)
    columns = gl.arange(0, D, gl.SliceLayout(0, O_LAYOUT))
    gl.store(part_ptr + rows[:, None] * D + columns[None, :], acc)
    gl.store(part_ptr + part_rows.to(gl.int64) * D + rows, M)
    gl.store(part_ptr + part_rows.to(gl.int64) * (D + 1) + rows, L)


@gluon.jit
def combine_parts(part_ptr, part_rows, row, segments, STEP: gl.constexpr, D: gl.constexpr, O_LAYOUT: gl.constexpr):
    """(acc, M, L) over all segments of the rows row ..; a segment's rows are STEP apart."""
    columns = gl.arange(0, D, gl.SliceLayout(0, O_LAYOUT))
    M = gl.full([HALF], LOWEST, gl.float32, gl.SliceLayout(1, O_LAYOUT))
    L = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, O_LAYOUT))
    acc = gl.zeros([HALF, D], gl.float32, O_LAYOUT)
    for segment in range(segments):
        rows = row + segment * STEP + gl.arange(0, HALF, gl.SliceLayout(1, O_LAYOUT)).to(gl.int64)
        m = gl.load(part_ptr + part_rows.to(gl.int64) * D + rows, cache_modifier=".cg")
        total = gl.load(part_ptr + part_rows.to(gl.int64) * (D + 1) + rows, cache_modifier=".cg")
        part = gl.load(part_ptr + rows[:, None] * D + columns[None, :], cache_modifier=".cg")
        m_new = gl.maximum(M, m)
        acc = acc * gl.exp2(M - m_new)[:, None] + part * gl.exp2(m - m_new)[:, None]
        L = L * gl.exp2(M - m_new) + total * gl.exp2(m - m_new)
        M = m_new
    return acc, M, L


@gluon.jit
def pick(job, number: gl.constexpr):
    """One number of a job."""
    return uniform(gl.sum(gl.where(gl.arange(0, JOB_SIZE, FOUR_WARPS) == number, job, 0), 0))


@gluon.jit
def row_numbers(LAYOUT: gl.constexpr):
    """0 .. 63, computed anew wherever it is called: kept in registers it would spill."""
    rows = gl.arange(0, HALF, LAYOUT)
    return gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [rows], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def row_places(head, token0, block, q_len, WHICH: gl.constexpr, G: gl.constexpr, BLOCK_Q: gl.constexpr,
               LAYOUT: gl.constexpr):  # fmt: skip
    """(token in the batch, query head, row is real) of a consumer's rows."""
    rows = WHICH * HALF + row_numbers(LAYOUT)
    token = block * BLOCK_Q + rows // G
    return token0 + token, head * G + rows % G, (token < q_len) & (rows < BLOCK_Q * G)


@gluon.jit
def consume(
    q_ptr, out_ptr, sinks_ptr, part_ptr, part_rows, count_ptr, q_buffers, k_buffers, v_buffers, barriers, jobs, right,
    qk_scale, WHICH: gl.constexpr, G: gl.constexpr, BLOCK_Q: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, SEGMENTS: gl.constexpr, Q_TOK: gl.constexpr, Q_HEAD: gl.constexpr, O_TOK: gl.constexpr,
    O_HEAD: gl.constexpr, CAUSAL: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """A consumer: rows 64 * WHICH .. of each Q block that the producer hands over."""
    k_ready, k_empty, v_ready, v_empty, job_ready, job_empty = barriers
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
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
        context, begin, place, segments = pick(job, 4), pick(job, 5), pick(job, 7), pick(job, 8)
        count = pick(job, 6)
        mbarrier.arrive(job_empty.index(slot))
        item += 1
        if (count >= 0) & (block * BLOCK_Q + WHICH * HALF // G >= q_len):
            pass_tiles(barriers, done, count, STAGES)
        elif count >= 0:
            tokens, heads, row_ok = row_places(head, token0, block, q_len, WHICH, G, BLOCK_Q, gl.SliceLayout(1, WHOLE))
            columns = gl.arange(0, D, gl.SliceLayout(0, WHOLE))
            offsets = tokens.to(gl.int64) * Q_TOK + heads * Q_HEAD
            q.store(gl.load(q_ptr + offsets[:, None] + columns[None, :], mask=row_ok[:, None], other=0.0))
            fence_async_shared()
            score_rows = WHICH * HALF + row_numbers(gl.SliceLayout(1, S_LAYOUT))
            tiles = tile_counts(block, q_len, context, right, BLOCK_Q, TILE, CAUSAL, FRESH, PREFIX)
            acc, row_max, row_sum = attend_item(
                q, k_buffers, v_buffers, barriers, block * BLOCK_Q + score_rows // G, context, q_len, right, qk_scale,
                tiles, begin, count, done, TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT, O_LAYOUT,
            )  # fmt: skip
            M = gl.convert_layout(row_max, gl.SliceLayout(1, O_LAYOUT))
            L = gl.convert_layout(row_sum, gl.SliceLayout(1, O_LAYOUT))
            ended = True
            if SEGMENTS > 1:
                if segments > 1:
                    STEP: gl.constexpr = 2 * HALF
                    store_part(acc, M, L, part_ptr, part_rows, place * STEP + WHICH * HALF, D, O_LAYOUT)
                    gl.thread_barrier()  # every thread's part is written before one thread counts it
                    counter = count_ptr + 2 + place // SEGMENTS * 2 + WHICH
                    ended = gl.atomic_add(counter, 1, sem="acq_rel") == segments - 1
                    if ended:
                        gl.store(counter, 0)
                        acc, M, L = combine_parts(
                            part_ptr, part_rows, place // SEGMENTS * (SEGMENTS * STEP) + WHICH * HALF, segments,
                            STEP, D, O_LAYOUT,
                        )  # fmt: skip
            if ended:
                if sinks_ptr is not None:
                    out_rows = WHICH * HALF + gl.arange(0, HALF, gl.SliceLayout(1, O_LAYOUT))
                    sink = gl.load(sinks_ptr + head * G + out_rows % G)
                    sink = sink.to(gl.float32) * LOG2E
                    m_new = gl.maximum(M, sink)
                    L = L * gl.exp2(M - m_new) + gl.exp2(sink - m_new)
                    acc = acc * gl.exp2(M - m_new)[:, None]
                acc = acc * (1.0 / gl.where(L == 0.0, 1.0, L))[:, None]
                # through shared memory, where Q is needed no more, so that a thread stores 16 bytes at once
                q.store(acc.to(q.dtype))
                tokens, heads, row_ok = row_places(
                    head, token0, block, q_len, WHICH, G, BLOCK_Q, gl.SliceLayout(1, WHOLE)
                )
                offsets = tokens.to(gl.int64) * O_TOK + heads * O_HEAD
                gl.store(out_ptr + offsets[:, None] + columns[None, :], q.load(WHOLE), mask=row_ok[:, None])
        done += gl.maximum(count, 0)


@gluon.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows", "numbers"])
def warp_specialized_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr,
    cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr,
    part_ptr, count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, numbers,
    G: gl.constexpr, HKV: gl.constexpr, BLOCK_M: gl.constexpr, TILE: gl.constexpr, PAGE: gl.constexpr,
    D: gl.constexpr, D_PAD: gl.constexpr, Q_TOK: gl.constexpr, Q_HEAD: gl.constexpr, O_TOK: gl.constexpr,
    O_HEAD: gl.constexpr, K_PAGE: gl.constexpr, K_TOK: gl.constexpr, K_HEAD: gl.constexpr,
    V_PAGE: gl.constexpr,
    V_TOK: gl.constexpr, V_HEAD: gl.constexpr, NEW_TOK: gl.constexpr, NEW_HEAD: gl.constexpr,
    FRESH: gl.constexpr,
    PREFIX: gl.constexpr, TMA: gl.constexpr, TMA_NEW: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    SOFTCAP: gl.constexpr, ALIBI: gl.constexpr, COMPUTE: gl.constexpr, FP8_MAX: gl.constexpr,
    SEGMENTS: gl.constexpr, STAGES: gl.constexpr, CHUNK: gl.constexpr,
):  # fmt: skip
    """Grid: (programs,). CHUNK: tokens of a page that one copy loads. count_ptr: zeros, left as zeros."""
    BLOCK_Q: gl.constexpr = BLOCK_M // G
    SHARED: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    element = q_ptr.dtype.element_ty
    q_buffers = gl.allocate_shared_memory(element, [2, HALF, D], SHARED)
    k_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D], SHARED)
    v_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D], SHARED)
    jobs = gl.allocate_shared_memory(gl.int32, [JOBS, JOB_SIZE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    job_ready = gl.allocate_shared_memory(gl.int64, [JOBS, 1], mbarrier.MBarrierLayout())
    job_empty = gl.allocate_shared_memory(gl.int64, [JOBS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=2)
        mbarrier.init(v_ready.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=2)
    for slot in gl.static_range(JOBS):
        mbarrier.init(job_ready.index(slot), count=1)
        mbarrier.init(job_empty.index(slot), count=2)
    barriers = (k_ready, k_empty, v_ready, v_empty, job_ready, job_empty)
    qk_scale = scale * LOG2E
    gl.warp_specialize(
        [
            (consume, (
                q_ptr, out_ptr, sinks_ptr, part_ptr, part_rows, count_ptr, q_buffers, k_buffers, v_buffers, barriers,
                jobs, right, qk_scale, 0, G, BLOCK_Q, TILE, D, STAGES, SEGMENTS, Q_TOK, Q_HEAD, O_TOK, O_HEAD,
                CAUSAL, FRESH, PREFIX,
            )),
            (consume, (
                q_ptr, out_ptr, sinks_ptr, part_ptr, part_rows, count_ptr, q_buffers, k_buffers, v_buffers, barriers,
                jobs, right, qk_scale, 1, G, BLOCK_Q, TILE, D, STAGES, SEGMENTS, Q_TOK, Q_HEAD, O_TOK, O_HEAD,
                CAUSAL, FRESH, PREFIX,
            )),
            (produce, (
                k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, jobs, table_ptr, cu_ptr,
                blocks_ptr, lens_ptr, count_ptr, right, table_stride, num_seqs, numbers, HKV, BLOCK_Q, PAGE, K_PAGE,
                K_TOK, K_HEAD, NEW_HEAD, CHUNK, TILE, D, STAGES, SEGMENTS, CAUSAL, FRESH, PREFIX,
            )),
        ],
        [4, 1], [232, 40],  # warps of the second consumer and the producer, and their registers per thread
    )  # fmt: skip
