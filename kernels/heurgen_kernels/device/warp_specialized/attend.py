"""A consumer's arithmetic: masks, the online softmax, and the two products that overlap it."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ..spelling import reinterpret
from .items import behind_window, tile_place
from .produce import COLUMNS

HALF = gl.constexpr(64)  # rows of a consumer
LOWEST = gl.constexpr(-1.0e38)


@gluon.constexpr_function
def hides_values(HEAD, D, TILE, SOFTCAP):
    """Whether a consumer's softmax runs while the matrix unit multiplies the last tile's weights with V, not behind it.

    Speed measured on an H200, prompts of 11,571 to 30,000 tokens and chunks from pages: heads of 128 0.996 to 1.015, of
    256 0.996 to 1.044; but 128 with tiles of 64 keys 0.96 to 1.00, 256 with a soft cap 0.98 to 0.99, 96 0.95 to 0.99,
    64 0.94 to 0.97 with two consumers, 0.97 to 1.01 with three, which hide each other's softmax. Sizes between, and a
    soft cap at 128, were not measured.
    """
    return HEAD == D and (D, TILE) in ((128, 128), (256, 64)) and not SOFTCAP


@gluon.constexpr_function
def scales_late(HEAD, D, TILE, SOFTCAP):
    """Whether the sums are scaled while the next tile's scores begin, not before: another 2 to 3 % at heads of 256; 1
    to 2 % slower at 128.
    """
    return D == 256 and hides_values(HEAD, D, TILE, SOFTCAP)


@gluon.jit
def zero_rows(buffers, slot, first, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr):
    """Rows first .. of a tile of V become 0. Both consumers do it, so that neither waits for the other."""
    ROWS: gl.constexpr = 16
    COUNT: gl.constexpr = D // COLUMNS
    CHUNKS: gl.constexpr = TILE // ROWS
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    chunks = reinterpret(buffers, buffers.dtype, [STAGES * COUNT * CHUNKS, ROWS, COLUMNS], buffers.layout)
    for chunk in range(first // ROWS, CHUNKS):
        rows = chunk * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
        for column in gl.static_range(COUNT):
            here = chunks.index((slot * COUNT + column) * CHUNKS + chunk)
            values = here.load(LAYOUT)
            here.store(gl.where((rows < first)[:, None], values, gl.zeros_like(values)))
    fence_async_shared()


@gluon.jit
def tile_keys(t, context, q_len, tiles, TILE: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr):
    """(first key of the t-th tile, keys there are, position of the first new token) where the tile lies: in the new
    tokens' keys, or in all.
    """
    new, index = tile_place(t, tiles, FRESH, PREFIX)
    start = index * TILE
    limit, offset = context + q_len, context
    if FRESH:
        limit = gl.where(new, q_len, context)
        offset = gl.where(new, 0, context)
    return start, limit, offset


@gluon.jit
def zero_tail(
    t, slot, phase, context, q_len, v_buffers, v_ready, tiles, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """Rows of V behind the last key become 0: they may hold anything."""
    start, limit, _offset = tile_keys(t, context, q_len, tiles, TILE, FRESH, PREFIX)
    if limit < start + TILE:
        mbarrier.wait(v_ready.index(slot), phase)
        zero_rows(v_buffers, slot, gl.maximum(limit - start, 0), TILE, D, STAGES)


@gluon.jit
def masked_scores(
    s, t, token, context, q_len, left, right, tiles, TILE: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr,
    FRESH: gl.constexpr, PREFIX: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Scores of what a row may not see are -inf."""
    start, limit, offset = tile_keys(t, context, q_len, tiles, TILE, FRESH, PREFIX)
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
    last quarter, which is padding: two products, since their lengths are powers of two. The sums of weights and values
    are two as well then.
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
def add_values(p, v, acc, more):
    """Weights times the values of a tile, added to the sums, begun. acc: of the first columns of v; `more`: of half as
    many behind them, where acc has not all.
    """
    FIRST: gl.constexpr = acc.shape[1]
    if v.shape[1] > FIRST:
        begun = warpgroup_mma(p, v.slice(0, FIRST, 1), acc, is_async=True)
        weights = gl.convert_layout(p, gl.DotOperandLayout(0, more.type.layout, 2), assert_trivial=True)
        begun_more = warpgroup_mma(weights, v.slice(FIRST, FIRST // 2, 1), more, is_async=True)
    else:
        begun = warpgroup_mma(p, v, acc, is_async=True)
        begun_more = more
    return begun, begun_more


@gluon.jit
def added(begun, begun_more, SPLIT: gl.constexpr):
    """The sums that `add_values` began."""
    if SPLIT:
        acc, more = warpgroup_mma_wait(0, deps=[begun, begun_more])
    else:
        acc = warpgroup_mma_wait(0, deps=[begun])
        more = begun_more
    return acc, more


@gluon.jit
def scaled(acc, alpha):
    """The rows of acc times alpha."""
    return acc * gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))[:, None]


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
def held(alpha):
    """alpha as it is: what is computed of it is not moved before this place."""
    return gl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=f,f", [alpha], dtype=gl.float32, is_pure=False, pack=1
    )


@gluon.jit
def attend_tiles(
    masked, last, begin, done, acc, more, alpha, p, M, L, q, k_buffers, v_buffers, barriers, token, last_token, context,
    q_len, left, right, inner, qk_scale, tiles, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, SOFTCAP: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Turns first .. last: the scores of a tile, then V of the tile before with its weights p, then the softmax.
    alpha: what acc and more are still to be scaled by, where LATE (`scales_late`).
    """
    k_ready, k_empty, v_ready, v_empty = barriers
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, 2)
    SPLIT: gl.constexpr = acc.shape[1] < D
    ASIDE: gl.constexpr = hides_values(HEAD, D, TILE, SOFTCAP)
    LATE: gl.constexpr = scales_late(HEAD, D, TILE, SOFTCAP)
    for turn in range(1, last):
        here = done + turn
        slot = here % STAGES
        phase = here // STAGES & 1
        before = (here - 1) % STAGES
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        pending = products(q, k_buffers.index(slot), zero, HEAD, D)
        if LATE:
            acc = scaled(acc, held(alpha))
        mbarrier.wait(v_ready.index(before), (here - 1) // STAGES & 1)
        begun, begun_more = add_values(p, v_buffers.index(before), acc, more)
        s = warpgroup_mma_wait(2 if SPLIT else 1, deps=[pending])
        mbarrier.arrive(k_empty.index(slot))
        s = capped(s, inner, SOFTCAP)
        edge = turn < masked
        if WINDOW:
            edge = edge | behind_window(begin + turn, last_token, context, left, tiles, TILE, FRESH, PREFIX)
        if edge:
            if not ASIDE:
                zero_tail(
                    begin + turn, slot, phase, context, q_len, v_buffers, v_ready, tiles, TILE, D, STAGES, FRESH, PREFIX
                )  # fmt: skip
            s = masked_scores(
                s, begin + turn, token, context, q_len, left, right, tiles, TILE, CAUSAL, WINDOW, FRESH, PREFIX,
                S_LAYOUT,
            )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        if ASIDE:  # noqa: SIM102
            # The assembler moves the wait for the values to the front of its block of instructions. Without a branch
            # here that is before the softmax, which would not hide the products.
            if turn < masked:
                zero_tail(
                    begin + turn, slot, phase, context, q_len, v_buffers, v_ready, tiles, TILE, D, STAGES, FRESH, PREFIX
                )  # fmt: skip
        acc, more = added(begun, begun_more, SPLIT)
        mbarrier.arrive(v_empty.index(before))
        if not LATE:
            acc = scaled(acc, alpha)
            if SPLIT:
                more = scaled(more, alpha)
        p = gl.convert_layout(weights.to(k_buffers.dtype), P_LAYOUT)
    return acc, more, alpha, p, M, L


@gluon.jit
def attend_item(
    q, k_buffers, v_buffers, barriers, token, last_token, context, q_len, left, right, inner, qk_scale, tiles, begin,
    count, done, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr, SOFTCAP: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr,
):  # fmt: skip
    """(sums of weights and values, see `add_values`, M, L) of a consumer's rows over `count` tiles from the begin-th
    on. token: of each row, last_token: the last one of the block.
    """
    k_ready, k_empty, v_ready, v_empty = barriers
    new_masked, _new_whole, page_masked, _page_whole, _passed, _page_passed = tiles
    M = gl.full([HALF], LOWEST, gl.float32, gl.SliceLayout(1, S_LAYOUT))
    L = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, S_LAYOUT))
    SPLIT: gl.constexpr = (D >= 128) & (4 * HEAD <= 3 * D)
    FIRST: gl.constexpr = D // 2 if SPLIT else D
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, FIRST, 16])
    MORE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, FIRST // 2, 16])
    acc = gl.zeros([HALF, FIRST], gl.float32, O_LAYOUT)
    more = acc
    if SPLIT:
        more = gl.zeros([HALF, FIRST // 2], gl.float32, MORE)
    if count > 0:
        slot = done % STAGES
        phase = done // STAGES & 1
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        s = warpgroup_mma_wait(0, deps=[products(q, k_buffers.index(slot), zero, HEAD, D)])
        mbarrier.arrive(k_empty.index(slot))
        s = capped(s, inner, SOFTCAP)
        zero_tail(
            begin, slot, phase, context, q_len, v_buffers, v_ready, tiles, TILE, D, STAGES, FRESH, PREFIX
        )
        s = masked_scores(
            s, begin, token, context, q_len, left, right, tiles, TILE, CAUSAL, WINDOW, FRESH, PREFIX, S_LAYOUT
        )
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale)
        p = gl.convert_layout(weights.to(k_buffers.dtype), gl.DotOperandLayout(0, O_LAYOUT, 2))
        masked = gl.minimum(gl.maximum(new_masked + page_masked - begin, 1), count)
        acc, more, alpha, p, M, L = attend_tiles(
            masked, count, begin, done, acc, more, alpha, p, M, L, q, k_buffers, v_buffers, barriers, token, last_token,
            context, q_len, left, right, inner, qk_scale, tiles, TILE, HEAD, D, STAGES, CAUSAL, WINDOW, SOFTCAP, FRESH,
            PREFIX, S_LAYOUT,
        )  # fmt: skip
        if scales_late(HEAD, D, TILE, SOFTCAP):
            acc = scaled(acc, alpha)
        last = (done + count - 1) % STAGES
        mbarrier.wait(v_ready.index(last), (done + count - 1) // STAGES & 1)
        if SPLIT:
            begun, begun_more = add_values(p, v_buffers.index(last), acc, more)
            acc, more = added(begun, begun_more, SPLIT)
        else:
            acc = warpgroup_mma(p, v_buffers.index(last), acc)
        mbarrier.arrive(v_empty.index(last))
    return acc, more, M, L


@gluon.jit
def pass_tiles(barriers, done, count, STAGES: gl.constexpr):
    """A consumer without rows in an item lets its tiles go by."""
    k_ready, k_empty, v_ready, v_empty = barriers
    for turn in range(done, done + count):
        mbarrier.wait(k_ready.index(turn % STAGES), turn // STAGES & 1)
        mbarrier.arrive(k_empty.index(turn % STAGES))
        mbarrier.wait(v_ready.index(turn % STAGES), turn // STAGES & 1)
        mbarrier.arrive(v_empty.index(turn % STAGES))
