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
from .turns import hides_values, holds_queries, lean, leaves_padding, value_columns

HALF = gl.constexpr(64)  # rows of a consumer
LOWEST = gl.constexpr(-1.0e38)
# How far, as a power of two, scores may lie above what weights are relative to before sums are scaled, where `lean`:
# most turns then scale none (Zadouri et al., FlashAttention-4, has the same 8). Weights of float16 may be 2^16.
SLACK = gl.constexpr(8.0)


@gluon.jit
def zero_rows(buffers, slot, low, high, TILE: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr):
    """Rows of a tile of V before `low` and from `high` on become 0. Both consumers do it, so that neither waits for the
    other.
    """
    ROWS: gl.constexpr = 16
    COUNT: gl.constexpr = D // COLUMNS
    CHUNKS: gl.constexpr = TILE // ROWS
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    chunks = reinterpret(buffers, buffers.dtype, [STAGES * COUNT * CHUNKS, ROWS, COLUMNS], buffers.layout)
    begin = gl.where(low > 0, 0, high // ROWS)
    end = gl.where(high < TILE, CHUNKS, (low + ROWS - 1) // ROWS)
    for chunk in range(begin, end):
        rows = chunk * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
        for column in gl.static_range(COUNT):
            here = chunks.index((slot * COUNT + column) * CHUNKS + chunk)
            values = here.load(LAYOUT)
            here.store(gl.where(((rows >= low) & (rows < high))[:, None], values, gl.zeros_like(values)))
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
def zero_unseen(
    t, slot, phase, context, q_len, left, v_buffers, v_ready, tiles, TILE: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, WINDOW: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """Rows of V become 0 that lie behind the last key or before the window of the sequence's first new token: they may
    hold anything, since a server frees pages that no window reaches any more.
    """
    start, limit, offset = tile_keys(t, context, q_len, tiles, TILE, FRESH, PREFIX)
    low, high = 0, limit - start
    if WINDOW:
        low = offset - left - start
    if (high < TILE) | (low > 0):
        mbarrier.wait(v_ready.index(slot), phase)
        zero_rows(v_buffers, slot, low, gl.maximum(high, 0), TILE, D, STAGES)


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
def operands(q, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr, S_LAYOUT: gl.constexpr):
    """Q for `products`: (its first columns, the others; the first ones again where these are all)."""
    if leaves_padding(HEAD, D):
        first = q.slice(0, D // 2, 1)
        rest = q.slice(D // 2, D // 4, 1)
    else:
        first = q
        rest = q
    if holds_queries(TILE, D):
        REGISTERS: gl.constexpr = gl.DotOperandLayout(0, S_LAYOUT, 2)
        first = first.load(REGISTERS)
        rest = rest.load(REGISTERS)
    return first, rest


@gluon.jit
def products(q, k, zero):
    """Q, of `operands`, times the keys of a tile, begun."""
    first, rest = q
    FIRST: gl.constexpr = first.shape[1]
    if k.shape[1] == FIRST:
        pending = warpgroup_mma(first, k.permute((1, 0)), zero, use_acc=False, is_async=True)
    else:
        begun = warpgroup_mma(first, k.slice(0, FIRST, 1).permute((1, 0)), zero, use_acc=False, is_async=True)
        pending = warpgroup_mma(rest, k.slice(FIRST, rest.shape[1], 1).permute((1, 0)), begun, is_async=True)
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


@gluon.constexpr_function
def scaling(count):
    """(PTX, operands): a thread's `count` sums, $0 .., times $(2 count) .., unless $(3 count) is 0, in all of a warp.

    Sums and results are the same registers: copies between the products that follow would make these wait for one
    another.
    """
    begin = ["{ .reg .pred same;", f"setp.eq.f32 same, ${3 * count}, 0f00000000;", "@same bra.uni kept;"]
    times = [f"mul.f32 ${i}, ${i}, ${2 * count + i};" for i in range(count)]
    operands = ["=f"] * count + [str(i) for i in range(count)] + ["f"] * (2 * count)
    return "\n".join([*begin, *times, "kept: }"]), ",".join(operands)


@gluon.jit
def scaled(acc, alpha, moved, LEAN: gl.constexpr):
    """The rows of acc times alpha. moved: where LEAN, `moved_in_warp`."""
    ROW: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    factors = gl.convert_layout(alpha, ROW)[:, None]
    if LEAN:
        COUNT: gl.constexpr = acc.shape[0] * acc.shape[1] // 128
        CODE: gl.constexpr = scaling(COUNT)
        flags = gl.convert_layout(moved, ROW)[:, None]
        found = gl.inline_asm_elementwise(
            CODE[0], CODE[1], [acc, factors, flags], dtype=gl.float32, is_pure=True, pack=COUNT
        )
    else:
        found = acc * factors
    return found


@gluon.jit
def moved_in_warp(alpha):
    """1.0 where a row of the warp's has another alpha than 1, else 0.0. A thread has two rows."""
    return gl.inline_asm_elementwise(
        """{ .reg .pred mine, any;
        setp.ne.f32 mine, $2, 0f3f800000;
        setp.ne.or.f32 mine, $3, 0f3f800000, mine;
        vote.sync.any.pred any, mine, 0xffffffff;
        selp.f32 $0, 0f3f800000, 0f00000000, any;
        mov.b32 $1, $0; }""",
        "=f,=f,f,f", [alpha], dtype=gl.float32, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def capped(s, inner, SOFTCAP: gl.constexpr):
    """tanh(inner * s): one instruction, relative error 2^-11 as in FlashAttention-3. The cap follows as `qk_scale`."""
    if SOFTCAP:
        s = gl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [s * inner], dtype=gl.float32, is_pure=True, pack=1
        )
    return s


@gluon.jit
def row_max(s, WINDOW: gl.constexpr):
    """The maximum of each row, of columns a quarter of the row apart first: one after the other they would be a chain
    in which each instruction waits for the one before, while nothing else is to do. Under a window one after the other,
    since a word would be spilled.
    """
    if WINDOW:
        found = gl.max(s, 1)
    else:
        quarters = gl.max(gl.reshape(s, [s.shape[0], 4, s.shape[1] // 4]), 1)
        found = gl.convert_layout(gl.max(quarters, 1), gl.SliceLayout(1, s.type.layout), assert_trivial=True)
    return found


@gluon.jit
def lane_sums(p):
    """[rows, 4]: what each of the four threads of a row has of its sum."""
    pairs = gl.sum(gl.reshape(p, [p.shape[0], p.shape[1] // 8, 4, 2]), 3)
    return gl.sum(pairs, 1)


@gluon.jit
def softmax_step(s, M, L, qk_scale, LEAN: gl.constexpr, WINDOW: gl.constexpr):
    """(weights, scale of what was summed so far, new M, new L) of the online softmax in the log2 domain. M: the rows'
    maximum; where LEAN at most SLACK below it. L: the sum of their weights; where LEAN `lane_sums`.
    """
    if LEAN:
        top = row_max(s, WINDOW) * qk_scale
        m_new = gl.where(top > M + SLACK, top, M)
    else:
        m_new = gl.maximum(M, gl.max(s, 1) * qk_scale)
    p = gl.exp2(s * qk_scale - m_new[:, None])
    alpha = gl.exp2(M - m_new)
    if LEAN:
        ROW: gl.constexpr = gl.SliceLayout(1, L.type.layout)
        total = L * gl.convert_layout(alpha, ROW, assert_trivial=True)[:, None] + lane_sums(p)
    else:
        total = L * alpha + gl.sum(p, 1)
    return p, alpha, m_new, total


@gluon.constexpr_function
def narrowing(dtype):
    """PTX: two float32 as one register of the dtype, the first one below."""
    return f"cvt.rn.{'bf16' if dtype.is_bf16() else 'f16'}x2.f32 $0, $2, $1;"


@gluon.jit
def packed(weights, buffers):
    """Weights in the dtype of buffers, two to a word: [rows, columns // 2]. Numbers of 16 bits that a loop carries are
    put together anew in each turn (Triton 3.7 to 3.9).
    """
    CODE: gl.constexpr = narrowing(buffers.dtype)
    even, odd = gl.split(gl.reshape(weights, [weights.shape[0], weights.shape[1] // 2, 2]))
    return gl.inline_asm_elementwise(CODE, "=r,r,r", [even, odd], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def unpacked(words, buffers, LAYOUT: gl.constexpr):
    """`packed` weights as they were, in the layout of a product's left operand."""
    even = words.to(gl.int16).to(buffers.dtype, bitcast=True)
    odd = (words >> 16).to(gl.int16).to(buffers.dtype, bitcast=True)
    p = gl.reshape(gl.join(even, odd), [words.shape[0], words.shape[1] * 2])
    return gl.convert_layout(p, LAYOUT, assert_trivial=True)


@gluon.jit
def attend_tiles(
    masked, last, begin, done, acc, more, p, M, L, queries, k_buffers, v_buffers, barriers, token, last_token, context,
    q_len, left, right, inner, qk_scale, tiles, TILE: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, SOFTCAP: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, S_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Turns first .. last: the scores of a tile, then V of the tile before with its weights p, `packed`, then the
    softmax.
    """
    k_ready, k_empty, v_ready, v_empty = barriers
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, 2)
    SPLIT: gl.constexpr = acc.shape[1] < D
    ASIDE: gl.constexpr = hides_values(TILE, HEAD, D, SOFTCAP)
    LEAN: gl.constexpr = lean(TILE, HEAD, D)
    for turn in range(1, last):
        here = done + turn
        slot = here % STAGES
        phase = here // STAGES & 1
        before = (here - 1) % STAGES
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        pending = products(queries, k_buffers.index(slot), zero)
        mbarrier.wait(v_ready.index(before), (here - 1) // STAGES & 1)
        begun, begun_more = add_values(unpacked(p, v_buffers, P_LAYOUT), v_buffers.index(before), acc, more)
        s = warpgroup_mma_wait(2 if SPLIT else 1, deps=[pending])
        mbarrier.arrive(k_empty.index(slot))
        s = capped(s, inner, SOFTCAP)
        edge = turn < masked
        if WINDOW:
            edge = edge | behind_window(begin + turn, last_token, context, left, tiles, TILE, FRESH, PREFIX)
        if edge:
            if not ASIDE:  # noqa: SIM102
                if turn < masked:
                    zero_unseen(
                        begin + turn, slot, phase, context, q_len, left, v_buffers, v_ready, tiles, TILE, D, STAGES,
                        WINDOW, FRESH, PREFIX,
                    )  # fmt: skip
            s = masked_scores(
                s, begin + turn, token, context, q_len, left, right, tiles, TILE, CAUSAL, WINDOW, FRESH, PREFIX,
                S_LAYOUT,
            )  # fmt: skip
        weights, alpha, M, L = softmax_step(s, M, L, qk_scale, LEAN, WINDOW)
        moved = alpha
        if LEAN:
            moved = moved_in_warp(alpha)
        if ASIDE:  # noqa: SIM102
            # The assembler moves the wait for the values to the front of its block of instructions. Without a branch
            # here that is before the softmax, which would not hide the products.
            if turn < masked:
                zero_unseen(
                    begin + turn, slot, phase, context, q_len, left, v_buffers, v_ready, tiles, TILE, D, STAGES, WINDOW,
                    FRESH, PREFIX,
                )  # fmt: skip
        acc, more = added(begun, begun_more, SPLIT)
        mbarrier.arrive(v_empty.index(before))
        acc = scaled(acc, alpha, moved, LEAN)
        if SPLIT:
            more = scaled(more, alpha, moved, LEAN)
        p = packed(weights, k_buffers)
    return acc, more, p, M, L


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
    LEAN: gl.constexpr = lean(TILE, HEAD, D)
    if LEAN:
        L = lane_sums(gl.zeros([HALF, TILE], gl.float32, S_LAYOUT))
    FIRST: gl.constexpr = value_columns(TILE, HEAD, D)
    SPLIT: gl.constexpr = FIRST < D
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, FIRST, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    MORE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, FIRST // 2, 16])
    acc = gl.zeros([HALF, FIRST], gl.float32, O_LAYOUT)
    more = acc
    if SPLIT:
        more = gl.zeros([HALF, FIRST // 2], gl.float32, MORE)
    if count > 0:
        queries = operands(q, TILE, HEAD, D, S_LAYOUT)
        slot = done % STAGES
        phase = done // STAGES & 1
        mbarrier.wait(k_ready.index(slot), phase)
        zero = gl.zeros([HALF, TILE], gl.float32, S_LAYOUT)
        s = warpgroup_mma_wait(0, deps=[products(queries, k_buffers.index(slot), zero)])
        mbarrier.arrive(k_empty.index(slot))
        s = capped(s, inner, SOFTCAP)
        zero_unseen(
            begin, slot, phase, context, q_len, left, v_buffers, v_ready, tiles, TILE, D, STAGES, WINDOW, FRESH, PREFIX,
        )  # fmt: skip
        s = masked_scores(
            s, begin, token, context, q_len, left, right, tiles, TILE, CAUSAL, WINDOW, FRESH, PREFIX, S_LAYOUT
        )
        weights, _alpha, M, L = softmax_step(s, M, L, qk_scale, LEAN, WINDOW)
        p = packed(weights, k_buffers)
        masked = gl.minimum(gl.maximum(new_masked + page_masked - begin, 1), count)
        acc, more, p, M, L = attend_tiles(
            masked, count, begin, done, acc, more, p, M, L, queries, k_buffers, v_buffers, barriers, token, last_token,
            context, q_len, left, right, inner, qk_scale, tiles, TILE, HEAD, D, STAGES, CAUSAL, WINDOW, SOFTCAP, FRESH,
            PREFIX, S_LAYOUT,
        )  # fmt: skip
        last = (done + count - 1) % STAGES
        if WINDOW:
            # where windows begin in a tile that is not among the masked ones it is the last
            zero_unseen(
                begin + count - 1, last, (done + count - 1) // STAGES & 1, context, q_len, left, v_buffers, v_ready,
                tiles, TILE, D, STAGES, WINDOW, FRESH, PREFIX,
            )  # fmt: skip
        mbarrier.wait(v_ready.index(last), (done + count - 1) // STAGES & 1)
        if SPLIT:
            begun, begun_more = add_values(unpacked(p, v_buffers, P_LAYOUT), v_buffers.index(last), acc, more)
            acc, more = added(begun, begun_more, SPLIT)
        else:
            acc = warpgroup_mma(unpacked(p, v_buffers, P_LAYOUT), v_buffers.index(last), acc)
        mbarrier.arrive(v_empty.index(last))
    if LEAN:
        L = gl.convert_layout(gl.sum(L, 1), gl.SliceLayout(1, S_LAYOUT), assert_trivial=True)
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
