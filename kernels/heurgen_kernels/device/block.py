"""One unit of work, shared by the tiled kernels: a Q block of one KV head over one segment of its keys.

A Q block is BLOCK_Q = BLOCK_M // G successive query tokens of one sequence, times the G query heads of a KV head
(section 4.4 of the paper). Its keys may be cut into segments of whole tiles (section 4.5): each segment leaves a
partial result, and the last program to finish combines them, or a second launch (`combine`).
"""

import triton
import triton.language as tl

from .tiles import BOTH, LOWEST, PAGES, ROWS, attend_source, finish, half_rows, reduce_parts, score_scales


@triton.constexpr_function
def fan_in(chunk):
    """Parts, of which `chunk` are read at once, that one program combines: see `combine_last`."""
    return max(8, 2 * chunk)


@triton.jit
def load_rows(
    q_ptr, token0, q_len, block, head, Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, G: tl.constexpr,
    BLOCK_M: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
):  # fmt: skip
    """(Q rows, token of each row inside the sequence, query head of each row, row is real)."""
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    rows = tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D_PAD)
    token = block * BLOCK_Q + rows // G
    heads = head * G + rows % G
    row_ok = (token < q_len) & (rows < BLOCK_Q * G)
    offset = (token0 + token).to(tl.int64) * Q_TOK + heads * Q_HEAD
    keep = row_ok[:, None]
    if D != D_PAD:
        keep = keep & (offs_d < D)[None, :]
    return tl.load(q_ptr + offset[:, None] + offs_d[None, :], mask=keep, other=0.0), token, heads, row_ok


@triton.jit
def attend_block(
    q, token, heads, row_ok, tensors, k_desc, v_desc, new_k_desc, new_v_desc, table, token0, q_len, k_len, block,
    head, low, high, left, right, scale, softcap, sizes: tl.constexpr, strides: tl.constexpr,
    features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """(acc, M, L) of the block over the key positions low <= k < high: cached pages first, then fresh K
    and V. With WRITE a tile may hold keys of both.
    """
    PAGE: tl.constexpr = sizes.PAGE
    D: tl.constexpr = sizes.D
    D_PAD: tl.constexpr = sizes.D_PAD
    K_TOK: tl.constexpr = strides.K_TOK
    K_HEAD: tl.constexpr = strides.K_HEAD
    NEW_TOK: tl.constexpr = strides.NEW_TOK
    NEW_HEAD: tl.constexpr = strides.NEW_HEAD
    FRESH: tl.constexpr = features.FRESH
    CAUSAL: tl.constexpr = features.CAUSAL
    WINDOW: tl.constexpr = features.WINDOW
    SOFTCAP: tl.constexpr = features.SOFTCAP
    ALIBI: tl.constexpr = features.ALIBI
    BLOCK_Q: tl.constexpr = BLOCK_M // sizes.G
    LOG2E: tl.constexpr = 1.4426950408889634
    M = tl.full([BLOCK_M], LOWEST, tl.float32)
    L = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_PAD], tl.float32)
    context = k_len - q_len
    first = block * BLOCK_Q
    last = tl.minimum(first + BLOCK_Q, q_len) - 1
    slope = M
    if ALIBI:
        slope = tl.load(tensors.alibi + heads, mask=row_ok, other=0.0).to(tl.float32) * LOG2E
    if features.PREFIX:
        cached = k_len
        if FRESH:
            cached = context
        new_k = tensors.k
        new_v = tensors.v
        if features.WRITE:
            new_k = tensors.new_k + token0.to(tl.int64) * NEW_TOK + head * NEW_HEAD
            new_v = tensors.new_v + token0.to(tl.int64) * strides.NEW_V_TOK + head * strides.NEW_V_HEAD
        qk_scale, cap = score_scales(scale, softcap, tensors.q_scale, tensors.k_scale, SOFTCAP)
        # a head is a column range of a row of the cache, or (heads outside tokens) a range of rows
        row0 = 0
        col0 = 0
        if features.TMA:
            if K_HEAD >= K_TOK:
                row0 = head * (K_HEAD // K_TOK)
            else:
                col0 = head * K_HEAD
        WORDS: tl.constexpr = features.WORDS and BLOCK_M <= 32
        q_pages = q
        if features.HALF:
            q_pages, power = half_rows(q)
            qk_scale *= power
        if WORDS:
            q_pages = tl.split(tl.reshape(q_pages, [BLOCK_M, D_PAD // 2, 2]))
            acc = (tl.zeros([BLOCK_M, D_PAD // 2], tl.float32), tl.zeros([BLOCK_M, D_PAD // 2], tl.float32))
        acc, M, L = attend_source(
            acc, M, L, q_pages, tensors.k + head.to(tl.int64) * K_HEAD,
            tensors.v + head.to(tl.int64) * strides.V_HEAD,
            k_desc, v_desc, new_k, new_v,
            table, row0, col0, low, context, tl.minimum(high, cached), context + first, context + last,
            context + token, left, right, qk_scale, cap, slope, BOTH if features.WRITE else PAGES, features.TMA, PAGE,
            TILE, D, D_PAD, strides.K_PAGE, K_TOK, strides.V_PAGE, strides.V_TOK, NEW_TOK, strides.NEW_V_TOK,
            CAUSAL, WINDOW, SOFTCAP, ALIBI, WORDS, 15.0 if features.HALF else 0.0,
        )  # fmt: skip
        if WORDS:
            acc = tl.interleave(acc[0], acc[1])
    if FRESH:
        # new K and V are not quantised: the cache's scales belong to the cached part alone
        qk_scale, cap = score_scales(scale, softcap, tensors.q_scale, None, SOFTCAP)
        if tensors.v_scale is not None:
            acc = acc * tl.load(tensors.v_scale)
        acc, M, L = attend_source(
            acc, M, L, q, tensors.new_k + (token0.to(tl.int64) * NEW_TOK + head * NEW_HEAD),
            tensors.new_v + (token0.to(tl.int64) * strides.NEW_V_TOK + head * NEW_HEAD), new_k_desc, new_v_desc,
            tensors.k, tensors.v, table, token0, head * NEW_HEAD, tl.maximum(low - context, 0), 0,
            tl.minimum(high - context, q_len), first, last, token, left, right, qk_scale, cap, slope, ROWS,
            features.TMA_NEW, PAGE, TILE, D, D_PAD, 0, NEW_TOK, 0, strides.NEW_V_TOK, 0, 0, CAUSAL, WINDOW, SOFTCAP,
            ALIBI, False, 0.0,
        )  # fmt: skip
    return acc, M, L


@triton.jit
def store_rows(
    acc, M, L, tensors, token0, token, heads, row_ok, sizes: tl.constexpr, strides: tl.constexpr,
    features: tl.constexpr,
):  # fmt: skip
    """Normalise the rows of a block and store them."""
    acc = finish(
        acc, M, L, heads, row_ok, tensors.sinks, tensors.v_scale, tensors.out_scale, features.FRESH, features.FP8_MAX
    )  # fmt: skip
    offs_d = tl.arange(0, sizes.D_PAD)
    offset = (token0 + token).to(tl.int64) * strides.O_TOK + heads * strides.O_HEAD
    keep = row_ok[:, None]
    if sizes.D != sizes.D_PAD:
        keep = keep & (offs_d < sizes.D)[None, :]
    rows = tensors.out + offset[:, None] + offs_d[None, :]
    tl.store(rows, acc.to(tensors.out.dtype.element_ty), mask=keep)


@triton.jit
def load_new(
    tensors, token0, q_len, head, wanted, sizes: tl.constexpr, strides: tl.constexpr, NEW: tl.constexpr
):
    """(K, V [NEW, D_PAD], slots [NEW]) of a sequence's new tokens for a KV head; slots are -1 but where wanted."""
    token = tl.arange(0, NEW)
    offs_d = tl.arange(0, sizes.D_PAD)
    ok = (token < q_len) & wanted
    row = (token0 + token).to(tl.int64)
    keep = ok[:, None]
    if sizes.D != sizes.D_PAD:
        keep = keep & (offs_d < sizes.D)[None, :]
    k_row = tensors.new_k + (row * strides.NEW_TOK + head * strides.NEW_HEAD)[:, None]
    v_row = tensors.new_v + (row * strides.NEW_V_TOK + head * strides.NEW_V_HEAD)[:, None]
    slots = tl.load(tensors.slots + row, mask=ok, other=-1)
    k = tl.load(k_row + offs_d[None, :], mask=keep, other=0.0)
    return k, tl.load(v_row + offs_d[None, :], mask=keep, other=0.0), slots


@triton.jit
def store_new(tensors, k, v, slots, head, sizes: tl.constexpr, strides: tl.constexpr):
    """Write what `load_new` gave to the pages. Nothing of this launch reads it there."""
    offs_d = tl.arange(0, sizes.D_PAD)
    head = head.to(tl.int64)
    page = slots // sizes.PAGE
    row = slots % sizes.PAGE
    keep = (slots >= 0)[:, None]
    if sizes.D != sizes.D_PAD:
        keep = keep & (offs_d < sizes.D)[None, :]
    k_row = page * strides.K_PAGE + row * strides.K_TOK + head * strides.K_HEAD
    v_row = page * strides.V_PAGE + row * strides.V_TOK + head * strides.V_HEAD
    tl.store(tensors.k + k_row[:, None] + offs_d[None, :], k, mask=keep)
    tl.store(tensors.v + v_row[:, None] + offs_d[None, :], v, mask=keep)


@triton.jit
def store_part(
    acc, M, L, acc_ptr, m_ptr, l_ptr, row_ok, BLOCK_M: tl.constexpr, KEPT: tl.constexpr, D_PAD: tl.constexpr
):  # fmt: skip
    """Leave one segment's unnormalised result: acc [KEPT, D_PAD], M and L [KEPT] (KEPT rows of BLOCK_M are
    real).
    """
    rows = tl.arange(0, BLOCK_M)
    keep = row_ok & (rows < KEPT)
    tl.store(acc_ptr + rows[:, None] * D_PAD + tl.arange(0, D_PAD)[None, :], acc, mask=keep[:, None])
    tl.store(m_ptr + rows, M, mask=keep)
    tl.store(l_ptr + rows, L, mask=keep)


@triton.jit
def combine_last(
    acc, M, L, tensors, acc_ptr, m_ptr, l_ptr, count_ptr, token0, q_len, block, head, segment, segments, row_ok,
    second_from, sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr,
    KEPT: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Leave this segment's part; the program that finishes last combines all of them and resets the counter.

    `acc_ptr`, `m_ptr`, `l_ptr` and `count_ptr` point at the block's own scratch. One launch instead of two. More than
    FAN_IN parts are combined in two levels: one program alone would read all of them, FAN_IN at a time, while the
    others have ended. The last program of FAN_IN neighbours combines theirs, the last of those the sums. A block of
    second_from segments and more is left to a second launch; None: there is none.
    """
    G: tl.constexpr = sizes.G
    D_PAD: tl.constexpr = sizes.D_PAD
    BLOCK_Q: tl.constexpr = BLOCK_M // G
    FAN_IN: tl.constexpr = fan_in(CHUNK)
    ROWS_READ: tl.constexpr = min(
        KEPT, max(4096 // D_PAD, 1)
    )  # all rows of a large block at once would spill
    store_part(
        acc, M, L, acc_ptr + segment.to(tl.int64) * (KEPT * D_PAD), m_ptr + segment * KEPT, l_ptr + segment * KEPT,
        row_ok, BLOCK_M, KEPT, D_PAD,
    )  # fmt: skip
    alone = True
    if second_from is not None:
        alone = segments < second_from
    if alone:
        tl.debug_barrier()  # every thread's part is written before one thread counts it
        first = segment // FAN_IN * FAN_IN
        near = tl.minimum(segments - first, FAN_IN)
        done = tl.atomic_add(count_ptr + 1 + segment // FAN_IN, 1, sem="acq_rel")
        if done == near - 1:
            tl.store(count_ptr + 1 + segment // FAN_IN, 0)
            step = KEPT
            count = near
            if segments > FAN_IN:
                part_acc, part_m, part_l = (
                    acc_ptr + first * (KEPT * D_PAD),
                    m_ptr + first * KEPT,
                    l_ptr + first * KEPT,
                )
                for row in range(0, KEPT, ROWS_READ):
                    whole, m, total = reduce_parts(
                        part_acc, part_m, part_l, row, near, ROWS_READ, KEPT, CHUNK, D_PAD
                    )
                    rows = row + tl.arange(0, ROWS_READ)
                    tl.store(part_acc + rows[:, None] * D_PAD + tl.arange(0, D_PAD)[None, :], whole)
                    tl.store(part_m + rows, m)
                    tl.store(part_l + rows, total)
                tl.debug_barrier()
                step = FAN_IN * KEPT
                count = tl.cdiv(segments, FAN_IN)
                done = tl.atomic_add(count_ptr, 1, sem="acq_rel")
                if done == count - 1:
                    tl.store(count_ptr, 0)
            if done == count - 1:
                for row in range(0, KEPT, ROWS_READ):
                    whole, m, total = reduce_parts(
                        acc_ptr, m_ptr, l_ptr, row, count, ROWS_READ, step, CHUNK, D_PAD
                    )
                    rows = row + tl.arange(0, ROWS_READ)
                    token = block * BLOCK_Q + rows // G
                    heads = head * G + rows % G
                    ok = (token < q_len) & (rows < BLOCK_Q * G)
                    store_rows(whole, m, total, tensors, token0, token, heads, ok, sizes, strides, features)


@triton.jit
def segment_span(block, q_len, k_len, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
                 CAUSAL: tl.constexpr, WINDOW: tl.constexpr):  # fmt: skip
    """(first, last) key position, exclusive, that a block's rows see; first is a multiple of TILE."""
    context = k_len - q_len
    begin = 0
    end = k_len
    if WINDOW:
        begin = tl.maximum(context + block * BLOCK_Q - left, 0) // TILE * TILE
    if CAUSAL:
        end = tl.minimum(k_len, context + tl.minimum(block * BLOCK_Q + BLOCK_Q, q_len) + right)
    return begin, tl.maximum(end, begin)


@triton.jit
def tiles_per_segment(longest_k, segments, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
                      CAUSAL: tl.constexpr, WINDOW: tl.constexpr):  # fmt: skip
    """Tiles in a segment when the batch's longest sequence is cut into `segments`.

    Shorter sequences use fewer segments of the same length, so that every program has about the same work.
    """
    span = longest_k
    if WINDOW and CAUSAL:
        span = tl.minimum(span, left + right + BLOCK_Q + TILE)
    return tl.maximum(tl.cdiv(tl.cdiv(span, TILE), segments), 1)


@triton.jit
def segment_count(span, length, max_segments):
    """Segments of `length` keys that a span is cut into; one where it is empty."""
    return tl.minimum(tl.maximum(tl.cdiv(span, length), 1), max_segments)


@triton.jit
def segment_keys(
    block, segment, segment_tiles, max_segments, q_len, k_len, left, right, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """(first key, last one, exclusive, of a block's segment; segments of the block)."""
    begin, end = segment_span(block, q_len, k_len, left, right, BLOCK_Q, TILE, CAUSAL, WINDOW)
    length = segment_tiles * TILE
    segments = segment_count(end - begin, length, max_segments)
    low = begin + segment * length
    high = k_len
    if segment < segments - 1:
        high = low + length
    return low, high, segments


@triton.jit
def run_block(
    tensors, part_ptr, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride,
    sequence, token0, q_len, k_len, block, head, segment, segment_tiles, item, max_segments, sizes: tl.constexpr,
    strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr, KEPT: tl.constexpr,
    CHUNK: tl.constexpr, second_from,
):  # fmt: skip
    """Attend to one segment of one Q block and store the result, or its part where the block has several
    segments. With WRITE the last segment's program writes the new tokens' K and V: a single token's are loaded before
    the loop and stored after it, so that neither is waited for.

    item: number of the (Q block, KV head) pair, its row in the scratch. part_ptr: `tensors.part`, or None where these
    keys are not cut. second_from: see `combine_last`.
    """
    G: tl.constexpr = sizes.G
    D: tl.constexpr = sizes.D
    D_PAD: tl.constexpr = sizes.D_PAD
    low = 0
    high = k_len
    segments = 1
    if part_ptr is not None:
        low, high, segments = segment_keys(
            block, segment, segment_tiles, max_segments, q_len, k_len, left, right, BLOCK_M // G, TILE,
            features.CAUSAL, features.WINDOW,
        )  # fmt: skip
    if segment < segments:
        q, token, heads, row_ok = load_rows(
            tensors.q, token0, q_len, block, head, strides.Q_TOK, strides.Q_HEAD, G, BLOCK_M, D, D_PAD
        )  # fmt: skip
        NEW: tl.constexpr = triton.next_power_of_2(KEPT // G)  # tokens that the rows of a part can hold
        EARLY: tl.constexpr = NEW * D_PAD <= 128  # more would spill
        if features.WRITE and EARLY:
            new_k, new_v, slots = load_new(
                tensors, token0, q_len, head, segment == segments - 1, sizes, strides, NEW
            )  # fmt: skip
        acc, M, L = attend_block(
            q.to(features.COMPUTE), token, heads, row_ok, tensors, k_desc, v_desc, new_k_desc, new_v_desc,
            tensors.table + sequence.to(tl.int64) * table_stride, token0, q_len, k_len, block, head, low, high, left,
            right, scale, softcap, sizes, strides, features, BLOCK_M, TILE,
        )  # fmt: skip
        if features.WRITE:
            if not EARLY:
                new_k, new_v, slots = load_new(
                    tensors, token0, q_len, head, segment == segments - 1, sizes, strides, NEW
                )  # fmt: skip
            store_new(tensors, new_k, new_v, slots, head, sizes, strides)
        if part_ptr is None:
            store_rows(acc, M, L, tensors, token0, token, heads, row_ok, sizes, strides, features)
        else:
            part = item.to(tl.int64) * (max_segments * KEPT)
            m_ptr = part_ptr + part_rows.to(tl.int64) * D_PAD
            l_ptr = m_ptr + part_rows
            if segments > 1:
                combine_last(
                    acc, M, L, tensors, part_ptr + part * D_PAD, m_ptr + part, l_ptr + part,
                    tensors.counters + item * (1 + tl.cdiv(max_segments, fan_in(CHUNK))),
                    token0, q_len, block, head, segment, segments, row_ok, second_from, sizes, strides, features,
                    BLOCK_M, KEPT, CHUNK,
                )  # fmt: skip
            else:
                store_rows(acc, M, L, tensors, token0, token, heads, row_ok, sizes, strides, features)
