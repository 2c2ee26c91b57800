"""What every kernel shares: loading K and V tiles, masks, the online softmax, and the last steps of a row.

Conventions. A *row* of a block is one (query token, query head) pair: row r holds token r // G and head r % G of the
G query heads that share a KV head. Positions are key positions; inside `attend_source` they are relative to the
origin of their source (0 for the cached pages, the first new token for fresh K and V). Scores live in the log2 domain
(exp2 is one instruction); M starts at a large negative number, not -inf, so that a row that sees no key gives 0 and
never NaN.
"""

import triton
import triton.language as tl

# Where a tile comes from.
PAGES = tl.constexpr(0)  # through the block table
ROWS = tl.constexpr(1)  # contiguous [tokens, heads, head_size]
BOTH = tl.constexpr(2)  # pages up to the new tokens, from there on their rows; with PARTIAL alone

LOWEST = tl.constexpr(-1.0e38)
# Triton 3.7 to 3.9 find nothing out about a loop's variable that begins at a number of the launch's: what it leads to
# is loaded number by number, and none of it ahead. There loops count from 0; 3.6 compiles to what it was measured as.
FROM_ZERO = tl.constexpr(not triton.__version__.startswith("3.6."))
# Two words of fp8 numbers, $1, to their low or high bytes, $0, in float16; not for the interpreter. Apart, since Triton
# 3.7 to 3.9 load one of two results for the matrix unit, and bring the other there through shared memory.
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
EVEN_E5M2 = tl.constexpr("prmt.b32 $0, $1, 0, 0x2404;")
ODD_E5M2 = tl.constexpr("and.b32 $0, $1, 0xff00ff00;")
_E4M3 = """{
    .reg .b32 bytes;
    .reg .b16 even, odd;
    prmt.b32 bytes, $1, 0, 0x3120;
    mov.b32 {even, odd}, bytes;
    cvt.rn.f16x2.e4m3x2 $0, HALF;
}"""
EVEN_E4M3 = tl.constexpr(_E4M3.replace("HALF", "even"))
ODD_E4M3 = tl.constexpr(_E4M3.replace("HALF", "odd"))
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def begun(cu_ptr, index, target, high, BLOCK_Q: tl.constexpr, IMPLICIT: tl.constexpr):
    """Of each sequence below `high`: 1 where its first Q block is <= target, else 0."""
    first = tl.load(cu_ptr + index, mask=index < high, other=0)
    if IMPLICIT:
        first = first // BLOCK_Q + index
    return ((first <= target) & (index < high)).to(tl.int32)


@triton.jit
def find_sequence(cu_ptr, target, num_seqs, BLOCK_Q: tl.constexpr, IMPLICIT: tl.constexpr):
    """The last sequence whose first Q block is <= target: binary search, then one step over 64 entries, two for
    each thread of a warp. What a warp adds up is known to be the same in all its threads, and so are the loops' ends
    that follow from it; what several warps do is not with Triton 3.8 and 3.9, which take 9 to 36 registers more.

    IMPLICIT: `cu_ptr` holds cumulative query lengths and cu[s] // BLOCK_Q + s stands for the cumulative
    Q-block tensor (an upper bound that needs no extra launch); otherwise it is that tensor (see metadata.py).
    """
    low = 0
    high = num_seqs
    while high - low > 64:
        middle = (low + high) // 2
        value = tl.load(cu_ptr + middle)
        if IMPLICIT:
            value = value // BLOCK_Q + middle
        if value <= target:
            low = middle
        else:
            high = middle
    index = low + tl.arange(0, 32)
    count = begun(cu_ptr, index, target, high, BLOCK_Q, IMPLICIT)
    count += begun(cu_ptr, index + 32, target, high, BLOCK_Q, IMPLICIT)
    return low + tl.sum(count, 0) - 1


@triton.jit
def longest(seq_lens_ptr, num_seqs, WIDTH: tl.constexpr):
    """max(seq_lens), read on the device: one vector load per WIDTH sequences."""
    best = 0
    for first in range(0, num_seqs, WIDTH):
        index = first + tl.arange(0, WIDTH)
        best = tl.maximum(best, tl.max(tl.load(seq_lens_ptr + index, mask=index < num_seqs, other=0), 0))
    return best


@triton.jit
def load_tile(
    src, desc, new_src, table, row0, page_here, col0, start, cached, floor, limit, SOURCE: tl.constexpr,
    PARTIAL: tl.constexpr, TMA: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, S_PAGE: tl.constexpr, S_TOK: tl.constexpr, NEW_TOK: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """One [TILE, D_PAD] tile of K or V, key positions start .. start + TILE. With PARTIAL, rows from `limit` on are 0,
    and with WINDOW those before `floor`. new_src, cached, NEW_TOK: of BOTH.
    """
    offs_t = tl.arange(0, TILE)
    offs_d = tl.arange(0, D_PAD)
    if TMA and not PARTIAL:
        if SOURCE == PAGES:
            row0 += page_here * (S_PAGE // S_TOK) + start % PAGE
        else:
            row0 += start
        return desc.load([row0, col0])
    if SOURCE != ROWS:
        paged = limit  # of keys from here on no page is read
        if SOURCE == BOTH:
            paged = tl.minimum(limit, cached)
        if PAGE % TILE == 0:
            if SOURCE == BOTH:
                page = tl.load(table + start // PAGE, mask=start < paged, other=0).to(tl.int64)
            else:
                page = tl.load(table + start // PAGE).to(tl.int64)
            offset = page * S_PAGE + (start % PAGE + offs_t) * S_TOK
        elif TILE % PAGE == 0:
            # start is a multiple of TILE, hence of PAGE: only the page numbers change from tile to tile
            entries = table + start // PAGE + offs_t // PAGE
            if PARTIAL:
                page = tl.load(entries, mask=start + offs_t < paged, other=0).to(tl.int64)
            else:
                page = tl.load(entries).to(tl.int64)
            offset = page * S_PAGE + (offs_t % PAGE) * S_TOK
        else:
            position = start + offs_t
            if PARTIAL:
                page = tl.load(table + position // PAGE, mask=position < paged, other=0).to(tl.int64)
            else:
                page = tl.load(table + position // PAGE).to(tl.int64)
            offset = page * S_PAGE + (position % PAGE) * S_TOK
    else:
        offset = (start + offs_t).to(tl.int64) * S_TOK
    pointers = src + offset[:, None] + offs_d[None, :]
    if SOURCE == BOTH:
        token = start + offs_t - cached
        new = new_src + token.to(tl.int64)[:, None] * NEW_TOK + offs_d[None, :]
        pointers = tl.where((token < 0)[:, None], pointers, new)
    if PARTIAL:
        there = start + offs_t < limit
        if WINDOW:
            there = there & (start + offs_t >= floor)
        keep = there[:, None]
        if D != D_PAD:
            keep = keep & (offs_d < D)[None, :]
        return tl.load(pointers, mask=keep, other=0.0)
    if D != D_PAD:
        return tl.load(pointers, mask=(offs_d < D)[None, :], other=0.0)
    return tl.load(pointers)


@triton.jit
def keep_mask(
    position, limit, q_pos, left, right, CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):  # fmt: skip
    """Which keys a row may see. `right` bounds keys ahead of the query: 0 is causal."""
    last = limit - 1
    if CAUSAL:  # one comparison per score
        last = tl.minimum(q_pos + right, limit - 1)[:, None]
    keep = position[None, :] <= last
    if WINDOW:
        keep = keep & (position[None, :] >= q_pos[:, None] - left)
    return keep


@triton.jit
def load_words(
    src, table, start, floor, limit, PARTIAL: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, S_PAGE: tl.constexpr, S_TOK: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """(even columns, odd columns) of a tile of fp8 pages as float16 [TILE, D_PAD // 2], exact: NaN stays NaN.

    Read as 16-bit words, which the matrix unit's loads can transpose and bytes not; unpacked in registers.
    """
    words = load_tile(
        src.to(tl.pointer_type(tl.int16), bitcast=True), None, src, table, 0, 0, 0, start, 0, floor, limit, PAGES,
        PARTIAL, False, PAGE, TILE, D // 2, D_PAD // 2, S_PAGE // 2, S_TOK // 2, 0, WINDOW,
    )  # fmt: skip
    FP8: tl.constexpr = src.dtype.element_ty
    if INTERPRETED:
        even = (words & 0xFF).to(tl.uint8).to(FP8, bitcast=True).to(tl.float16)
        odd = ((words >> 8) & 0xFF).to(tl.uint8).to(FP8, bitcast=True).to(tl.float16)
        return even, odd
    EVEN: tl.constexpr = EVEN_E4M3 if FP8.is_fp8e4nv() else EVEN_E5M2
    ODD: tl.constexpr = ODD_E4M3 if FP8.is_fp8e4nv() else ODD_E5M2
    even = tl.inline_asm_elementwise(EVEN, "=r,r", [words], tl.float16, is_pure=True, pack=2)
    return even, tl.inline_asm_elementwise(ODD, "=r,r", [words], tl.float16, is_pure=True, pack=2)


@triton.jit
def half_rows(q):
    """(q times a power of two as float16, its inverse): the largest finite number lies in [2^14, 2^15)."""
    if q.dtype == tl.float16:
        return q, 1.0
    wide = q.to(tl.float32)
    size = tl.abs(wide)
    largest = tl.max(tl.where(size < float("inf"), size, 0.0))
    # far enough from both ends of float32 that neither the power of two nor its inverse is subnormal
    bits = tl.minimum(tl.maximum(largest, 2.0**-112), 2.0**127).to(tl.int32, bitcast=True) & 0x7F800000
    power = bits.to(tl.float32, bitcast=True)
    return (wide * (2.0**14 / power)).to(tl.float16), power * 2.0**-14


@triton.jit
def attend_tiles(
    acc, M, L, q, k_src, v_src, k_desc, v_desc, new_k, new_v, table, row0, col0, first, last, cached, floor, limit,
    q_pos, left, right, qk_scale, cap, slope, MASKED: tl.constexpr, PARTIAL: tl.constexpr, SOURCE: tl.constexpr,
    TMA: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    K_PAGE: tl.constexpr, K_TOK: tl.constexpr, V_PAGE: tl.constexpr, V_TOK: tl.constexpr, NEW_TOK: tl.constexpr,
    NEW_V_TOK: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr,
    WORDS: tl.constexpr, RAISE: tl.constexpr,
):  # fmt: skip
    """The online softmax over the tiles that start at first, first + TILE, .. < last.

    MASKED: some row may not see some key. PARTIAL: the last keys of a tile may lie beyond `limit` and are not read, nor
    with WINDOW those before `floor`.
    qk_scale is scale * log2(e), or with SOFTCAP 2 * scale * log2(e) / cap, and cap then is cap * log2(e).
    WORDS: of fp8 pages; q and acc are pairs, of even and odd columns. RAISE: M stays so far below the largest score, so
    that the weights' small ones are no subnormal float16.
    """
    AHEAD: tl.constexpr = TMA and SOURCE == PAGES and not PARTIAL
    page = 0
    if AHEAD:
        page = tl.load(table + first // PAGE, mask=first < last, other=0)
    origin = first if FROM_ZERO else 0
    for step in range(first - origin, last - origin, TILE):
        start = origin + step
        here = page
        if AHEAD:  # a tile ahead, so that no descriptor load waits for its page number
            page = tl.load(table + (start + TILE) // PAGE, mask=start + TILE < last, other=0)
        if WORDS:
            even, odd = load_words(
                k_src, table, start, floor, limit, PARTIAL, PAGE, TILE, D, D_PAD, K_PAGE, K_TOK, WINDOW
            )  # fmt: skip
            s = tl.dot(q[1], odd.T, tl.dot(q[0], even.T))
        else:
            k = load_tile(
                k_src, k_desc, new_k, table, row0, here, col0, start, cached, floor, limit, SOURCE, PARTIAL, TMA,
                PAGE, TILE, D, D_PAD, K_PAGE, K_TOK, NEW_TOK, WINDOW,
            )  # fmt: skip
            s = tl.dot(q, k.to(q.dtype).T)
        position = start + tl.arange(0, TILE)
        if SOFTCAP:
            # cap * tanh(y) as cap - 2 cap / (e^2y + 1): saturates cleanly on both sides
            s = cap - 2.0 * cap / (tl.exp2(s * qk_scale) + 1.0)
        elif ALIBI:
            s = s * qk_scale
        if ALIBI:
            s += slope[:, None] * (position[None, :] - q_pos[:, None]).to(tl.float32)
        if MASKED:
            s = tl.where(keep_mask(position, limit, q_pos, left, right, CAUSAL, WINDOW), s, float("-inf"))
        if SOFTCAP or ALIBI:
            m_new = tl.maximum(M, tl.max(s, 1) - RAISE)
            p = tl.exp2(s - m_new[:, None])
        else:
            # one fused multiply-add per score: the maximum is scaled, not the scores
            m_new = tl.maximum(M, tl.max(s, 1) * qk_scale - RAISE)
            p = tl.exp2(s * qk_scale - m_new[:, None])
        alpha = tl.exp2(M - m_new)
        L = L * alpha + tl.sum(p, 1)
        if WORDS:
            even, odd = load_words(
                v_src, table, start, floor, limit, PARTIAL, PAGE, TILE, D, D_PAD, V_PAGE, V_TOK, WINDOW
            )  # fmt: skip
            p = p.to(tl.float16)
            acc = (tl.dot(p, even, acc[0] * alpha[:, None]), tl.dot(p, odd, acc[1] * alpha[:, None]))
        else:
            acc = acc * alpha[:, None]
            v = load_tile(
                v_src, v_desc, new_v, table, row0, here, col0, start, cached, floor, limit, SOURCE, PARTIAL, TMA,
                PAGE, TILE, D, D_PAD, V_PAGE, V_TOK, NEW_V_TOK, WINDOW,
            )  # fmt: skip
            acc = tl.dot(p.to(q.dtype), v.to(q.dtype), acc)
        M = m_new
    return acc, M, L


@triton.jit
def attend_source(
    acc, M, L, q, k_src, v_src, k_desc, v_desc, new_k, new_v, table, row0, col0, low, cached, high, p_first, p_last,
    q_pos, left, right, qk_scale, cap, slope, SOURCE: tl.constexpr, TMA: tl.constexpr, PAGE: tl.constexpr,
    TILE: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, K_PAGE: tl.constexpr, K_TOK: tl.constexpr,
    V_PAGE: tl.constexpr, V_TOK: tl.constexpr, NEW_TOK: tl.constexpr, NEW_V_TOK: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr, WORDS: tl.constexpr, RAISE: tl.constexpr,
):  # fmt: skip
    """All keys low <= k < high of one source that any row sees: masked lead, unmasked bulk, masked tail.

    low is a multiple of TILE but for ROWS. p_first and p_last are the positions of the block's first and last
    token. BOTH: keys from `cached` on are rows of new_k and new_v; whole tiles before it are read as PAGES.
    """
    PLAIN: tl.constexpr = PAGES if SOURCE == BOTH else SOURCE
    start = low
    lead_end = low
    bulk_high = high
    key_high = high
    # keys that no row sees may be anything: a server frees pages that no window reaches any more
    floor = p_first - left
    if WINDOW:
        start = tl.maximum(low, low + tl.maximum(p_first - left - low, 0) // TILE * TILE)
        lead_end = start + tl.cdiv(tl.maximum(p_last - left - start, 0), TILE) * TILE
    if CAUSAL:
        bulk_high = tl.minimum(high, p_first + right + 1)
        key_high = tl.minimum(high, p_last + right + 1)
    lead_high = key_high
    if SOURCE == BOTH:
        bulk_high = tl.minimum(bulk_high, cached)
        lead_high = start + tl.maximum(bulk_high - start, 0) // TILE * TILE
    if WINDOW and q_pos.shape[0] <= 32:
        # few tiles and little arithmetic: one masked loop starts sooner than three
        lead_end = start
        bulk_high = start
        if SOURCE == BOTH:
            lead_end = lead_high
    bulk_end = lead_end + tl.maximum(bulk_high - lead_end, 0) // TILE * TILE
    if WINDOW and (q_pos.shape[0] > 32 or SOURCE == BOTH):
        acc, M, L = attend_tiles(
            acc, M, L, q, k_src, v_src, k_desc, v_desc, new_k, new_v, table, row0, col0, start,
            tl.minimum(lead_end, lead_high), cached, floor, high, q_pos, left, right, qk_scale, cap, slope, True, True,
            PLAIN, TMA, PAGE, TILE, D, D_PAD, K_PAGE, K_TOK, V_PAGE, V_TOK, NEW_TOK, NEW_V_TOK, CAUSAL, WINDOW, SOFTCAP,
            ALIBI, WORDS, RAISE,
        )  # fmt: skip
    if not WINDOW or q_pos.shape[0] > 32:
        acc, M, L = attend_tiles(
            acc, M, L, q, k_src, v_src, k_desc, v_desc, new_k, new_v, table, row0, col0, lead_end, bulk_end, cached,
            floor, high, q_pos, left, right, qk_scale, cap, slope, False, False, PLAIN, TMA, PAGE, TILE, D, D_PAD,
            K_PAGE, K_TOK, V_PAGE, V_TOK, NEW_TOK, NEW_V_TOK, CAUSAL, WINDOW, SOFTCAP, ALIBI, WORDS, RAISE,
        )  # fmt: skip
    if SOURCE == BOTH:
        bulk_end = tl.minimum(bulk_end, lead_high)
    elif TMA and CAUSAL:
        # the diagonal: whole tiles of real keys, so that descriptors may load them and only scores are masked
        diagonal_end = (
            bulk_end + tl.maximum(tl.minimum(high, key_high + TILE - 1) - bulk_end, 0) // TILE * TILE
        )
        acc, M, L = attend_tiles(
            acc, M, L, q, k_src, v_src, k_desc, v_desc, new_k, new_v, table, row0, col0, bulk_end, diagonal_end,
            cached, floor, high, q_pos, left, right, qk_scale, cap, slope, True, False, PLAIN, TMA, PAGE, TILE, D,
            D_PAD, K_PAGE, K_TOK, V_PAGE, V_TOK, NEW_TOK, NEW_V_TOK, CAUSAL, WINDOW, SOFTCAP, ALIBI, WORDS, RAISE,
        )  # fmt: skip
        bulk_end = diagonal_end
    return attend_tiles(
        acc, M, L, q, k_src, v_src, k_desc, v_desc, new_k, new_v, table, row0, col0, bulk_end, key_high, cached, floor,
        high, q_pos, left, right, qk_scale, cap, slope, True, True, SOURCE, TMA, PAGE, TILE, D, D_PAD, K_PAGE, K_TOK,
        V_PAGE, V_TOK, NEW_TOK, NEW_V_TOK, CAUSAL, WINDOW, SOFTCAP, ALIBI, WORDS, RAISE,
    )  # fmt: skip


@triton.jit
def score_scales(scale, softcap, q_scale_ptr, k_scale_ptr, SOFTCAP: tl.constexpr):
    """(qk_scale, cap) for `attend_tiles`; the scales of fp8 Q and K are folded in."""
    if q_scale_ptr is not None:
        scale = scale * tl.load(q_scale_ptr)
    if k_scale_ptr is not None:
        scale = scale * tl.load(k_scale_ptr)
    if SOFTCAP:
        return scale * (2.0 * LOG2E) / softcap, softcap * LOG2E
    return scale * LOG2E, softcap


@triton.jit
def finish(
    acc, M, L, heads, row_ok, sinks_ptr, v_scale_ptr, out_scale_ptr, FRESH: tl.constexpr, FP8_MAX: tl.constexpr
):  # fmt: skip
    """Normalise: sinks join the denominator once, V's scale and the output's scale are applied, fp8 is
    clamped.

    With FRESH, V's scale was applied to the cached part alone (see `attend_block`).
    """
    if sinks_ptr is not None:
        sink = tl.load(sinks_ptr + heads, mask=row_ok, other=0.0).to(tl.float32) * LOG2E
        m_new = tl.maximum(M, sink)
        alpha = tl.exp2(M - m_new)
        L = L * alpha + tl.exp2(sink - m_new)
        acc = acc * alpha[:, None]
    factor = 1.0 / tl.where(L == 0.0, 1.0, L)
    if v_scale_ptr is not None and not FRESH:
        factor = factor * tl.load(v_scale_ptr)
    if out_scale_ptr is not None:
        factor = factor / tl.load(out_scale_ptr)
    acc = acc * factor[:, None]
    if FP8_MAX > 0:
        acc = tl.minimum(tl.maximum(acc, -FP8_MAX), FP8_MAX)
    return acc


@triton.jit
def reduce_parts(
    acc_ptr, m_ptr, l_ptr, row, count, ROWS_READ: tl.constexpr, row_step, CHUNK: tl.constexpr, D_PAD: tl.constexpr,
):  # fmt: skip
    """Combine `count` partial results of rows row .. row + ROWS_READ, CHUNK segments at a time, as one
    vector step.

    Partial accumulators are [segment, row_step, D_PAD] float32, maxima and sums [segment, row_step].
    Loads bypass L1: other programs of the same launch wrote them.
    """
    rows = row + tl.arange(0, ROWS_READ)
    offs_d = tl.arange(0, D_PAD)
    M = tl.full([ROWS_READ], LOWEST, tl.float32)
    L = tl.zeros([ROWS_READ], tl.float32)
    acc = tl.zeros([ROWS_READ, D_PAD], tl.float32)
    for first in range(0, count, CHUNK):
        segment = first + tl.arange(0, CHUNK)
        index = segment[:, None] * row_step + rows[None, :]
        there = (segment < count)[:, None] & (rows < row_step)[None, :]
        m = tl.load(m_ptr + index, mask=there, other=LOWEST, cache_modifier=".cg")
        part_l = tl.load(l_ptr + index, mask=there, other=0.0, cache_modifier=".cg")
        part = tl.load(
            acc_ptr + index[:, :, None] * D_PAD + offs_d[None, None, :],
            mask=there[:, :, None], other=0.0, cache_modifier=".cg",
        )  # fmt: skip
        m_new = tl.maximum(M, tl.max(m, 0))
        weight = tl.exp2(m - m_new[None, :])
        alpha = tl.exp2(M - m_new)
        L = L * alpha + tl.sum(part_l * weight, 0)
        acc = acc * alpha[:, None] + tl.sum(part * weight[:, :, None], 0)
        M = m_new
    return acc, M, L
