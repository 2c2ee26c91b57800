"""A consumer's arithmetic: masks, the online softmax, and the two products that overlap it."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .items import behind_window, tile_place
from .produce import COLUMNS

HALF = gl.constexpr(64)  # rows of a consumer
LOWEST = gl.constexpr(-1.0e38)


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
    s, t, slot, phase, token, context, q_len, left, right, v_buffers, v_ready, tiles, TILE: gl.constexpr,
    D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Scores of what a row may not see are -inf; rows of V behind the last key are zeroed, they may hold anything."""
    new, index = tile_place(t, tiles, FRESH, PREFIX)
    start = index * TILE
    limit, offset = context + q_len, context
    if FRESH:
        limit = gl.where(new, q_len, context)
        offset = gl.where(new, 0, context)
    if limit < start + TILE:
        mbarrier.wait(v_ready.index(slot), phase)
        zero_rows(v_buffers, slot, gl.maximum(limit - start, 0), TILE, D, STAGES)
    columns = gl.arange(0, TILE, gl.SliceLayout(0, LAYOUT))
    if CAUSAL:
        keep = columns[None, :] <= (gl.minimum(token + (offset + right), limit - 1) - start)[:, None]
    else:
        keep = (columns < limit - start)[None, :]
    if WINDOW:
        keep = keep & (columns[None, :] >= (token + (offset - left - start))[:, None])
    return gl.where(keep, s, float("-inf"))


@gluon.jit
def products(q, k, zero, HEAD: gl.constexpr, D: gl.constexpr):
    """Q times the keys of a tile, begun. A head of at most three quarters of the columns D is multiplied without the
    last quarter, which is padding: two products, since their lengths are powers of two.
    """
    if (D >= 128) & (4 * HEAD <= 3 * D):
        HALF_D: gl.constexpr = D // 2
        first = warpgroup_mma(
            q.slice(0, HALF_D, 1), k.slice(0, HALF_D, 1).permute((1, 0)), zero, use_acc=False, is_async=True
        )
        rest_q, rest_k = q.slice(HALF_D, HALF_D // 2, 1), k.slice(HALF_D, HALF_D // 2, 1)
        pending = warpgroup_mma(rest_q, rest_k.permute((1, 0)), first, is_async=True)
    else:
        pending = warpgroup_mma(q, k.permute((1, 0)), zero, use_acc=False, is_async=True)
    return pending


@gluon.jit
def capped(s, inner, SOFTCAP: gl.constexpr):
    """tanh(inner * s): one instruction, relative error 2^-11 as in FlashAttention-3. The cap follows as `qk_scale`."""
    if SOFTCAP:
        s = gl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [s * inner], dtype=gl.float32, is_pure=True, pack=1
        )
    return s


@gluon.jit
def softmax_step(s, M, L, qk_scale):
    """(weights, scale of what was summed so far, new maximum, new sum) of the online softmax in the log2 domain."""
    m_new = gl.maximum(M, gl.max(s, 1) * qk_scale)
    p = gl.exp2(s * qk_scale - m_new[:, None])
    alpha = gl.exp2(M - m_new)
    return p, alpha, m_new, L * alpha + gl.sum(p, 1)


@gluon.jit
def attend_tiles(
    masked, last, begin, done, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, last_token, context, q_len,
    left, right, inner, qk_scale, tiles, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, SOFTCAP: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Turns first .. last: the scores of a tile, then V of the tile before with its weights p, then the softmax."""
    k_ready, k_empty, v_ready, v_empty = barriers
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    for turn in range(1, last):
        here = done + turn
        slot = here % STAGES
        phase = here // STAGES & 1
        before = (here - 1) % STAGES
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        pending = products(q, k_buffers.index(slot), zero, HEAD, D)
        mbarrier.wait(v_ready.index(before), (here - 1) // STAGES & 1)
        acc_pending = warpgroup_mma(p, v_buffers.index(before), acc, is_async=True)
        s = warpgroup_mma_wait(1, deps=[pending])
        mbarrier.arrive(k_empty.index(slot))
        s = capped(s, inner, SOFTCAP)
        edge = turn < masked
        if WINDOW:
            edge = edge | behind_window(begin + turn, last_token, context, left, tiles, TILE, FRESH, PREFIX)
        if edge:
            s = masked_scores(
                s, begin + turn, slot, phase, token, context, q_len, left, right, v_buffers, v_ready, tiles, TILE, D,
                STAGES, CAUSAL, WINDOW, FRESH, PREFIX, S_LAYOUT,
            )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        acc = warpgroup_mma_wait(0, deps=[acc_pending])
        mbarrier.arrive(v_empty.index(before))
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
        p = gl.convert_layout(weights.to(k_buffers.dtype), P_LAYOUT)
    return acc, p, M, L


@gluon.jit
def attend_item(
    q, k_buffers, v_buffers, barriers, token, last_token, context, q_len, left, right, inner, qk_scale, tiles, begin,
    count, done, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr, SOFTCAP: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr,
    O_LAYOUT: gl.constexpr,
):  # fmt: skip
    """(acc, M, L) of a consumer's rows over `count` tiles from the begin-th on. token: of each row, last_token: the
    last one of the block.
    """
    k_ready, k_empty, v_ready, v_empty = barriers
    new_masked, _new_whole, page_masked, _page_whole, _passed, _page_passed = tiles
    M = gl.full([HALF], LOWEST, gl.float32, gl.SliceLayout(1, S_LAYOUT))
    L = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, S_LAYOUT))
    acc = gl.zeros([HALF, D], gl.float32, O_LAYOUT)
    if count > 0:
        slot = done % STAGES
        phase = done // STAGES & 1
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        s = warpgroup_mma_wait(0, deps=[products(q, k_buffers.index(slot), zero, HEAD, D)])
        mbarrier.arrive(k_empty.index(slot))
        s = masked_scores(
            capped(s, inner, SOFTCAP), begin, slot, phase, token, context, q_len, left, right, v_buffers, v_ready,
            tiles, TILE, D, STAGES, CAUSAL, WINDOW, FRESH, PREFIX, S_LAYOUT,
        )  # fmt: skip
        weights, _alpha, M, L = softmax_step(s, M, L, qk_scale)
        p = gl.convert_layout(weights.to(k_buffers.dtype), gl.DotOperandLayout(0, O_LAYOUT, 2))
        masked = gl.minimum(gl.maximum(new_masked + page_masked - begin, 1), count)
        acc, p, M, L = attend_tiles(
            masked, count, begin, done, acc, p, M, L, q, k_buffers, v_buffers, barriers, token, last_token, context,
            q_len, left, right, inner, qk_scale, tiles, TILE, HEAD, D, STAGES, CAUSAL, WINDOW, SOFTCAP, FRESH, PREFIX,
            S_LAYOUT, O_LAYOUT,
        )  # fmt: skip
        last = (done + count - 1) % STAGES
        mbarrier.wait(v_ready.index(last), (done + count - 1) // STAGES & 1)
        acc = warpgroup_mma(p, v_buffers.index(last), acc)
        mbarrier.arrive(v_empty.index(last))
    return acc, M, L


@gluon.jit
def pass_tiles(barriers, done, count, STAGES: gl.constexpr):
    """A consumer without rows in an item lets its tiles go by."""
    k_ready, k_empty, v_ready, v_empty = barriers
    for turn in range(done, done + count):
        mbarrier.wait(k_ready.index(turn % STAGES), turn // STAGES & 1)
        mbarrier.arrive(k_empty.index(turn % STAGES))
        mbarrier.wait(v_ready.index(turn % STAGES), turn // STAGES & 1)
        mbarrier.arrive(v_empty.index(turn % STAGES))
