"""The paper's first step (section 4.3): one program per query token and query head, no reuse of K and V,
no tl.dot.

For decodes that is one program per sequence and query head. Kept as the baseline of the staircase and as
the simplest statement of what every other variant computes.
"""

import triton
import triton.language as tl

from .tiles import LOG2E, LOWEST, find_sequence, finish, keep_mask, score_scales


@triton.jit
def gather_rows(
    src_ptr, new_ptr, table, position, cached, limit, head, token0, scale_ptr, PAGE: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, S_PAGE: tl.constexpr, S_TOK: tl.constexpr, S_HEAD: tl.constexpr, NEW_TOK: tl.constexpr,
    NEW_HEAD: tl.constexpr, FRESH: tl.constexpr,
):  # fmt: skip
    """Rows of K or V at key positions, from pages or from the new tokens, as float32."""
    offs_d = tl.arange(0, D_PAD)
    old = position < cached
    page = tl.load(table + position // PAGE, mask=old, other=0).to(tl.int64)
    offset = page * S_PAGE + (position % PAGE) * S_TOK + head.to(tl.int64) * S_HEAD
    rows = tl.load(
        src_ptr + offset[:, None] + offs_d[None, :], mask=old[:, None] & (offs_d < D)[None, :], other=0.0
    ).to(tl.float32)
    if scale_ptr is not None:
        rows = rows * tl.load(scale_ptr)
    if FRESH:
        new = (position >= cached) & (position < limit)
        offset = (token0 + position - cached).to(tl.int64) * NEW_TOK + head * NEW_HEAD
        rows += tl.load(
            new_ptr + offset[:, None] + offs_d[None, :], mask=new[:, None] & (offs_d < D)[None, :], other=0.0
        ).to(tl.float32)
    return rows


@triton.jit(do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows"])
def naive_kernel(
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    sizes: tl.constexpr, strides: tl.constexpr, features: tl.constexpr, BLOCK_M: tl.constexpr, TILE: tl.constexpr,
    DECODE: tl.constexpr,
):  # fmt: skip
    """Grid: (query heads * query tokens,), or with DECODE (query heads * sequences,). BLOCK_M is not used."""
    G: tl.constexpr = sizes.G
    PAGE: tl.constexpr = sizes.PAGE
    D: tl.constexpr = sizes.D
    D_PAD: tl.constexpr = sizes.D_PAD
    NEW_TOK: tl.constexpr = strides.NEW_TOK
    NEW_HEAD: tl.constexpr = strides.NEW_HEAD
    FRESH: tl.constexpr = features.FRESH
    CAUSAL: tl.constexpr = features.CAUSAL
    WINDOW: tl.constexpr = features.WINDOW
    head = tl.program_id(0) % (G * sizes.HKV)
    token = tl.program_id(0) // (G * sizes.HKV)
    if DECODE:
        sequence = token
        token = tl.load(tensors.cu + sequence)
    else:
        sequence = find_sequence(tensors.cu, token, num_seqs, 1, False)
    token0 = tl.load(tensors.cu + sequence)
    q_len = tl.load(tensors.cu + sequence + 1) - token0
    if token - token0 < q_len:
        k_len = tl.load(tensors.lens + sequence)
        offs_d = tl.arange(0, D_PAD)
        q_row = tensors.q + token.to(tl.int64) * strides.Q_TOK + head * strides.Q_HEAD + offs_d
        q = tl.load(q_row, mask=offs_d < D, other=0.0).to(tl.float32)
        q_pos = k_len - q_len + token - token0 + tl.zeros([1], tl.int32)
        qk_scale, cap = score_scales(scale, softcap, tensors.q_scale, None, features.SOFTCAP)
        low = 0
        high = k_len
        if WINDOW:
            low = tl.maximum(k_len - q_len + token - token0 - left, 0)
        if CAUSAL:
            high = tl.minimum(k_len, k_len - q_len + token - token0 + right + 1)
        cached = k_len
        if FRESH:
            cached = k_len - q_len
        M = tl.full([1], LOWEST, tl.float32)
        L = tl.zeros([1], tl.float32)
        acc = tl.zeros([1, D_PAD], tl.float32)
        table = tensors.table + sequence.to(tl.int64) * table_stride
        for start in range(low, high, TILE):
            position = start + tl.arange(0, TILE)
            k = gather_rows(
                tensors.k, tensors.new_k, table, position, tl.minimum(cached, high), high, head // G, token0,
                tensors.k_scale, PAGE, D, D_PAD, strides.K_PAGE, strides.K_TOK, strides.K_HEAD, NEW_TOK, NEW_HEAD,
                FRESH,
            )  # fmt: skip
            s = tl.sum(k * q[None, :], 1)[None, :] * qk_scale
            if features.SOFTCAP:
                s = cap - 2.0 * cap / (tl.exp2(s) + 1.0)
            if features.ALIBI:
                slope = tl.load(tensors.alibi + head).to(tl.float32) * LOG2E
                s += slope * (position[None, :] - q_pos[:, None]).to(tl.float32)
            s = tl.where(keep_mask(position, high, q_pos, left, right, CAUSAL, WINDOW), s, float("-inf"))
            m_new = tl.maximum(M, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(M - m_new)
            L = L * alpha + tl.sum(p, 1)
            v = gather_rows(
                tensors.v, tensors.new_v, table, position, tl.minimum(cached, high), high, head // G, token0,
                tensors.v_scale, PAGE, D, D_PAD, strides.V_PAGE, strides.V_TOK, strides.V_HEAD, strides.NEW_V_TOK,
                NEW_HEAD, FRESH,
            )  # fmt: skip
            acc = acc * alpha[:, None] + tl.sum(v * tl.trans(p), 0)[None, :]
            M = m_new
        heads = head + tl.zeros([1], tl.int32)
        acc = finish(
            acc, M, L, heads, heads >= 0, tensors.sinks, None, tensors.out_scale, False, features.FP8_MAX
        )
        where = tensors.out + token.to(tl.int64) * strides.O_TOK + head * strides.O_HEAD + offs_d[None, :]
        tl.store(where, acc.to(tensors.out.dtype.element_ty), mask=(offs_d < D)[None, :])
