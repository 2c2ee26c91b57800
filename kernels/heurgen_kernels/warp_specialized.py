"""Long prompts on Hopper: one warp loads, two groups of four warps compute (a Gluon kernel, sm_90 alone).

A Q block of 128 rows is shared by two consumers of 64 rows each. The producer loads K and V through tensor
descriptors, a page or a part of a page at a time, so pages of 16 tokens are read as fast as contiguous K and V.
Each consumer issues the scores of the next tile before it multiplies this tile's weights with V, so that the
matrix unit works while the softmax does (as FlashAttention-3, Shah et al. 2024, section 3.2, describes it).

Tiles that need a mask come first: the diagonal of the new tokens, the last partial tile of the cached ones.
"""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

BLOCK_M = 128
HALF = gl.constexpr(64)
# 128 bytes, the widest swizzle: a tile lies in shared memory as columns of 64 two-byte elements.
COLUMNS = gl.constexpr(64)
LOWEST = gl.constexpr(-1.0e38)
LOG2E = gl.constexpr(1.4426950408889634)


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
    index = low + gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))
    values = gl.load(cu_ptr + index, mask=index < high, other=0)
    if IMPLICIT:
        values = values // BLOCK_Q + index
    return low + gl.sum(((values <= target) & (index < high)).to(gl.int32), 0) - 1


@gluon.jit
def tile_place(t, new_masked, new_bulk, page_masked, page_bulk, FRESH: gl.constexpr, PREFIX: gl.constexpr):
    """(from the new tokens?, number of the tile in its source) of the t-th tile: masked ones first, last ones first."""
    masked = new_masked + page_masked
    if not FRESH:
        return False, page_masked + page_bulk - 1 - t
    if not PREFIX:
        return True, new_masked + new_bulk - 1 - t
    late = t - masked
    new = (t < new_masked) | ((late >= 0) & (late < new_bulk))
    index_new = gl.where(t < new_masked, new_masked + new_bulk - 1 - t, new_bulk - 1 - late)
    index_page = gl.where(
        late < 0, page_masked + page_bulk - 1 - (t - new_masked), page_bulk - 1 - (late - new_bulk)
    )
    return new, gl.where(new, index_new, index_page)


@gluon.jit
def copy_chunk(desc, row, col, view, number, ready, ROWS: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr):
    """Rows row .. row + ROWS of a tile into chunk `number` of each column of `view`."""
    CHUNKS: gl.constexpr = TILE // ROWS
    for part in gl.static_range(D // COLUMNS):
        tma.async_copy_global_to_shared(desc, [row, col + part * COLUMNS], ready, view.index(number + part * CHUNKS))


@gluon.jit
def load_tile(
    t, desc, new_desc, buffers, ready, empty, table, row0, col0, new_row0, new_col0, page_high, tiles,
    PAGE: gl.constexpr, PAGE_ROWS: gl.constexpr, CHUNK: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """Tile t of K or V into its buffer, once both consumers have left it."""
    new_masked, new_bulk, page_masked, page_bulk = tiles
    new, index = tile_place(t, new_masked, new_bulk, page_masked, page_bulk, FRESH, PREFIX)
    slot = t % STAGES
    PARTS: gl.constexpr = D // COLUMNS
    CHUNKS: gl.constexpr = TILE // CHUNK
    mbarrier.wait(empty.index(slot), (t // STAGES & 1) ^ 1)
    mbarrier.expect(ready.index(slot), TILE * D * 2)
    bar = ready.index(slot)
    if FRESH:
        if new:
            view = buffers._reinterpret(buffers.dtype, [STAGES * PARTS, TILE, COLUMNS], buffers.layout)
            copy_chunk(new_desc, new_row0 + index * TILE, new_col0, view, slot * PARTS, bar, TILE, TILE, D)
    if PREFIX:
        if not new:
            pages = buffers._reinterpret(buffers.dtype, [STAGES * PARTS * CHUNKS, CHUNK, COLUMNS], buffers.layout)
            for chunk in gl.static_range(CHUNKS):
                # chunks behind the last key are read from its page: their scores are masked, their V is zeroed
                position = gl.minimum(index * TILE + chunk * CHUNK, (page_high - 1) // CHUNK * CHUNK)
                page = gl.load(table + position // PAGE)
                row = row0 + page * PAGE_ROWS + position % PAGE
                copy_chunk(desc, row, col0, pages, slot * PARTS * CHUNKS + chunk, bar, CHUNK, TILE, D)


@gluon.jit
def produce(
    k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, table, head, token0, page_high, tiles, total,
    PAGE: gl.constexpr, K_PAGE: gl.constexpr, K_TOK: gl.constexpr, K_HEAD: gl.constexpr, NEW_HEAD: gl.constexpr,
    CHUNK: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr,
):  # fmt: skip
    """The producer: K of tile t + 1 before V of tile t, as the consumers want them."""
    k_ready, k_empty, v_ready, v_empty = barriers
    row0 = 0
    col0 = head * K_HEAD
    if K_HEAD >= K_TOK:
        row0 = head * (K_HEAD // K_TOK)
        col0 = 0
    PAGE_ROWS: gl.constexpr = K_PAGE // K_TOK
    for t in range(total + 1):
        if t < total:
            load_tile(
                t, k_desc, new_k_desc, k_buffers, k_ready, k_empty, table, row0, col0, token0, head * NEW_HEAD,
                page_high, tiles, PAGE, PAGE_ROWS, CHUNK, TILE, D, STAGES, FRESH, PREFIX,
            )  # fmt: skip
        if t > 0:
            load_tile(
                t - 1, v_desc, new_v_desc, v_buffers, v_ready, v_empty, table, row0, col0, token0, head * NEW_HEAD,
                page_high, tiles, PAGE, PAGE_ROWS, CHUNK, TILE, D, STAGES, FRESH, PREFIX,
            )  # fmt: skip


@gluon.jit
def masked_scores(
    s, t, token, context, q_len, page_high, right, v_buffers, v_ready, tiles, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Scores of what a row may not see are -inf; rows of V behind the last key are zeroed, they may hold anything."""
    new_masked, new_bulk, page_masked, page_bulk = tiles
    new, index = tile_place(t, new_masked, new_bulk, page_masked, page_bulk, FRESH, PREFIX)
    start = index * TILE
    limit = page_high
    ahead = context + right
    if FRESH:
        limit = gl.where(new, q_len, page_high)
        ahead = gl.where(new, right, context + right)
    position = start + gl.arange(0, TILE, gl.SliceLayout(0, LAYOUT))
    keep = position[None, :] < limit
    if CAUSAL:
        keep = keep & (position[None, :] <= (token + ahead)[:, None])
    if limit < start + TILE:
        mbarrier.wait(v_ready.index(t % STAGES), t // STAGES & 1)
        WHOLE: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [4, 1], [1, 0])
        v_buffer = v_buffers.index(t % STAGES)
        rows = start + gl.arange(0, TILE, gl.SliceLayout(1, WHOLE))
        v = v_buffer.load(WHOLE)
        v_buffer.store(gl.where((rows < limit)[:, None], v, gl.zeros_like(v)))
        fence_async_shared()
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
    first, last, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, context, q_len, page_high, right, qk_scale,
    tiles, MASKED: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    FRESH: gl.constexpr, PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Tiles first .. last: the scores of tile t, then V of tile t - 1 with the weights p, then the softmax of t."""
    k_ready, k_empty, v_ready, v_empty = barriers
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    for t in range(first, last):
        slot = t % STAGES
        before = (t - 1) % STAGES
        mbarrier.wait(k_ready.index(slot), t // STAGES & 1)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        pending = warpgroup_mma(q, k_buffers.index(slot).permute((1, 0)), zero, use_acc=False, is_async=True)
        mbarrier.wait(v_ready.index(before), (t - 1) // STAGES & 1)
        acc_pending = warpgroup_mma(p, v_buffers.index(before), acc, is_async=True)
        s = warpgroup_mma_wait(1, deps=[pending])
        mbarrier.arrive(k_empty.index(slot))
        if MASKED:
            s = masked_scores(
                s, t, token, context, q_len, page_high, right, v_buffers, v_ready, tiles,
                TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT,
            )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        acc = warpgroup_mma_wait(0, deps=[acc_pending])
        mbarrier.arrive(v_empty.index(before))
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
        p = gl.convert_layout(weights.to(k_buffers.dtype), P_LAYOUT)
    return acc, p, M, L


@gluon.jit
def consume(
    q_ptr, out_ptr, sinks_ptr, q_buffers, k_buffers, v_buffers, barriers, table, head, token0, block, q_len, context,
    page_high, right, qk_scale, tiles, total,
    WHICH: gl.constexpr, G: gl.constexpr, BLOCK_Q: gl.constexpr, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, Q_TOK: gl.constexpr, Q_HEAD: gl.constexpr, O_TOK: gl.constexpr, O_HEAD: gl.constexpr,
    CAUSAL: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """A consumer: rows 64 * WHICH .. of the Q block."""
    k_ready, k_empty, v_ready, v_empty = barriers
    new_masked, new_bulk, page_masked, page_bulk = tiles
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    WHOLE: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [4, 1], [1, 0])
    q = q_buffers.index(WHICH)
    rows = WHICH * HALF + gl.arange(0, HALF, gl.SliceLayout(1, WHOLE))
    row_token = block * BLOCK_Q + rows // G
    row_ok = (row_token < q_len) & (rows < BLOCK_Q * G)
    heads = head * G + rows % G
    columns = gl.arange(0, D, gl.SliceLayout(0, WHOLE))
    offsets = (token0 + row_token).to(gl.int64) * Q_TOK + heads * Q_HEAD
    q.store(gl.load(q_ptr + offsets[:, None] + columns[None, :], mask=row_ok[:, None], other=0.0))
    fence_async_shared()

    score_rows = WHICH * HALF + gl.arange(0, HALF, gl.SliceLayout(1, S_LAYOUT))
    token = block * BLOCK_Q + score_rows // G
    M = gl.full([HALF], LOWEST, gl.float32, gl.SliceLayout(1, S_LAYOUT))
    L = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, S_LAYOUT))
    acc = gl.zeros([HALF, D], gl.float32, O_LAYOUT)
    if total > 0:
        mbarrier.wait(k_ready.index(0), 0)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        s = warpgroup_mma(q, k_buffers.index(0).permute((1, 0)), zero, use_acc=False)
        mbarrier.arrive(k_empty.index(0))
        s = masked_scores(
            s, 0, token, context, q_len, page_high, right, v_buffers, v_ready, tiles,
            TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT,
        )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        p = gl.convert_layout(weights.to(k_buffers.dtype), P_LAYOUT)
        masked = gl.maximum(new_masked + page_masked, 1)
        acc, p, M, L = attend_tiles(
            1, masked, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, context, q_len, page_high, right,
            qk_scale, tiles, True, TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT, O_LAYOUT,
        )  # fmt: skip
        acc, p, M, L = attend_tiles(
            masked, total, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, context, q_len, page_high, right,
            qk_scale, tiles, False, TILE, D, STAGES, CAUSAL, FRESH, PREFIX, S_LAYOUT, O_LAYOUT,
        )  # fmt: skip
        last = (total - 1) % STAGES
        mbarrier.wait(v_ready.index(last), (total - 1) // STAGES & 1)
        acc = warpgroup_mma(p, v_buffers.index(last), acc)
    if sinks_ptr is not None:
        sink = gl.load(sinks_ptr + head * G + score_rows % G, mask=score_rows < BLOCK_Q * G, other=0.0)
        sink = sink.to(gl.float32) * LOG2E
        m_new = gl.maximum(M, sink)
        alpha = gl.exp2(M - m_new)
        L = L * alpha + gl.exp2(sink - m_new)
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
    factor = 1.0 / gl.where(L == 0.0, 1.0, L)
    acc = acc * gl.convert_layout(factor, gl.SliceLayout(1, O_LAYOUT))[:, None]
    # through shared memory, where Q is needed no more, so that a thread stores 16 bytes at once
    q.store(acc.to(q.dtype))
    offsets = (token0 + row_token).to(gl.int64) * O_TOK + heads * O_HEAD
    gl.store(out_ptr + offsets[:, None] + columns[None, :], q.load(WHOLE), mask=row_ok[:, None])


@gluon.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows"])
def warp_specialized_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr,
    cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr,
    part_ptr, count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    G: gl.constexpr, HKV: gl.constexpr, BLOCK_M: gl.constexpr, TILE: gl.constexpr, PAGE: gl.constexpr,
    D: gl.constexpr, D_PAD: gl.constexpr, Q_TOK: gl.constexpr, Q_HEAD: gl.constexpr, O_TOK: gl.constexpr,
    O_HEAD: gl.constexpr, K_PAGE: gl.constexpr, K_TOK: gl.constexpr, K_HEAD: gl.constexpr,
    V_PAGE: gl.constexpr,
    V_TOK: gl.constexpr, V_HEAD: gl.constexpr, NEW_TOK: gl.constexpr, NEW_HEAD: gl.constexpr,
    FRESH: gl.constexpr,
    PREFIX: gl.constexpr, TMA: gl.constexpr, TMA_NEW: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    SOFTCAP: gl.constexpr, ALIBI: gl.constexpr, COMPUTE: gl.constexpr, FP8_MAX: gl.constexpr,
    STAGES: gl.constexpr, CHUNK: gl.constexpr,
):  # fmt: skip
    """Grid: (KV heads, Q blocks or an upper bound of them). CHUNK: tokens of a page that one copy loads."""
    BLOCK_Q: gl.constexpr = BLOCK_M // G
    head = gl.program_id(0)
    number = gl.num_programs(1) - 1 - gl.program_id(1)
    if blocks_ptr is not None:
        sequence = find_sequence(blocks_ptr, number, num_seqs, BLOCK_Q, False)
        block = number - gl.load(blocks_ptr + sequence)
        token0 = gl.load(cu_ptr + sequence)
    else:
        sequence = find_sequence(cu_ptr, number, num_seqs, BLOCK_Q, True)
        token0 = gl.load(cu_ptr + sequence)
        block = number - (token0 // BLOCK_Q + sequence)
    q_len = gl.load(cu_ptr + sequence + 1) - token0
    context = gl.load(lens_ptr + sequence) - q_len
    table = table_ptr + sequence.to(gl.int64) * table_stride

    first = block * BLOCK_Q
    last = gl.minimum(first + BLOCK_Q, q_len) - 1
    there = first < q_len
    new_masked, new_bulk, page_masked, page_bulk = 0, 0, 0, 0
    page_high = context + q_len
    if FRESH:
        new_high, whole = q_len, q_len
        if CAUSAL:
            new_high = gl.minimum(q_len, last + right + 1)
            whole = gl.minimum(q_len, first + right + 1)
        new_bulk = gl.where(there, whole // TILE, 0)
        new_masked = gl.where(there, (new_high + TILE - 1) // TILE, 0) - new_bulk
        page_high = context
        page_bulk = gl.where(there, context // TILE, 0)
        page_masked = gl.where(there, (context + TILE - 1) // TILE, 0) - page_bulk
    else:
        high, whole = page_high, page_high
        if CAUSAL:
            high = gl.minimum(high, context + last + right + 1)
            whole = gl.minimum(whole, context + first + right + 1)
        page_bulk = gl.where(there, whole // TILE, 0)
        page_masked = gl.where(there, (high + TILE - 1) // TILE, 0) - page_bulk
    if not PREFIX:
        page_masked, page_bulk = 0, 0
    tiles = (new_masked, new_bulk, page_masked, page_bulk)
    total = new_masked + new_bulk + page_masked + page_bulk

    SHARED: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    element = q_ptr.dtype.element_ty
    q_buffers = gl.allocate_shared_memory(element, [2, HALF, D], SHARED)
    k_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D], SHARED)
    v_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D], SHARED)
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=2)
        mbarrier.init(v_ready.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=2)
    barriers = (k_ready, k_empty, v_ready, v_empty)
    qk_scale = scale * LOG2E
    gl.warp_specialize(
        [
            (consume, (
                q_ptr, out_ptr, sinks_ptr, q_buffers, k_buffers, v_buffers, barriers, table, head, token0, block,
                q_len, context, page_high, right, qk_scale, tiles, total, 0,
                G, BLOCK_Q, TILE, D, STAGES, Q_TOK, Q_HEAD, O_TOK, O_HEAD, CAUSAL, FRESH, PREFIX,
            )),
            (consume, (
                q_ptr, out_ptr, sinks_ptr, q_buffers, k_buffers, v_buffers, barriers, table, head, token0, block,
                q_len, context, page_high, right, qk_scale, tiles, total, 1,
                G, BLOCK_Q, TILE, D, STAGES, Q_TOK, Q_HEAD, O_TOK, O_HEAD, CAUSAL, FRESH, PREFIX,
            )),
            (produce, (
                k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, table, head, token0,
                page_high, tiles, total, PAGE, K_PAGE, K_TOK, K_HEAD, NEW_HEAD, CHUNK, TILE, D, STAGES, FRESH, PREFIX,
            )),
        ],
        [4, 1], [240, 24],
    )  # fmt: skip
