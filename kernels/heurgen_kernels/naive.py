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
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr, part_ptr,
    count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, G: tl.constexpr, HKV: tl.constexpr,
    BLOCK_M: tl.constexpr, TILE: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    Q_TOK: tl.constexpr, Q_HEAD: tl.constexpr, O_TOK: tl.constexpr, O_HEAD: tl.constexpr, K_PAGE: tl.constexpr,
    K_TOK: tl.constexpr, K_HEAD: tl.constexpr, V_PAGE: tl.constexpr, V_TOK: tl.constexpr, V_HEAD: tl.constexpr,
    NEW_TOK: tl.constexpr, NEW_HEAD: tl.constexpr, FRESH: tl.constexpr, PREFIX: tl.constexpr, TMA: tl.constexpr,
    TMA_NEW: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr,
    COMPUTE: tl.constexpr, FP8_MAX: tl.constexpr, DECODE: tl.constexpr,
):  # fmt: skip
    """Grid: (query heads, query tokens), or with DECODE (query heads, sequences). BLOCK_M is not used."""
    head = tl.program_id(0)
    token = tl.program_id(1)
    if DECODE:
        sequence = token
        token = tl.load(cu_ptr + sequence)
    else:
        sequence = find_sequence(cu_ptr, token, num_seqs, 1, False)
    token0 = tl.load(cu_ptr + sequence)
    q_len = tl.load(cu_ptr + sequence + 1) - token0
    if token - token0 < q_len:
        k_len = tl.load(lens_ptr + sequence)
        offs_d = tl.arange(0, D_PAD)
        q_row = q_ptr + token.to(tl.int64) * Q_TOK + head * Q_HEAD + offs_d
        q = tl.load(q_row, mask=offs_d < D, other=0.0).to(tl.float32)
        q_pos = k_len - q_len + token - token0 + tl.zeros([1], tl.int32)
        qk_scale, cap = score_scales(scale, softcap, q_scale_ptr, None, SOFTCAP)
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
        table = table_ptr + sequence.to(tl.int64) * table_stride
        for start in range(low, high, TILE):
            position = start + tl.arange(0, TILE)
            k = gather_rows(
                k_ptr, new_k_ptr, table, position, tl.minimum(cached, high), high, head // G, token0, k_scale_ptr,
                PAGE, D, D_PAD, K_PAGE, K_TOK, K_HEAD, NEW_TOK, NEW_HEAD, FRESH,
            )  # fmt: skip
            s = tl.sum(k * q[None, :], 1)[None, :] * qk_scale
            if SOFTCAP:
                s = cap - 2.0 * cap / (tl.exp2(s) + 1.0)
            if ALIBI:
                slope = tl.load(alibi_ptr + head).to(tl.float32) * LOG2E
                s += slope * (position[None, :] - q_pos[:, None]).to(tl.float32)
            s = tl.where(keep_mask(position, high, q_pos, left, right, CAUSAL, WINDOW), s, float("-inf"))
            m_new = tl.maximum(M, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(M - m_new)
            L = L * alpha + tl.sum(p, 1)
            v = gather_rows(
                v_ptr, new_v_ptr, table, position, tl.minimum(cached, high), high, head // G, token0, v_scale_ptr,
                PAGE, D, D_PAD, V_PAGE, V_TOK, V_HEAD, NEW_TOK, NEW_HEAD, FRESH,
            )  # fmt: skip
            acc = acc * alpha[:, None] + tl.sum(v * tl.trans(p), 0)[None, :]
            M = m_new
        heads = head + tl.zeros([1], tl.int32)
        acc = finish(acc, M, L, heads, heads >= 0, sinks_ptr, None, out_scale_ptr, False, FP8_MAX)
        where = out_ptr + token.to(tl.int64) * O_TOK + head * O_HEAD + offs_d[None, :]
        tl.store(where, acc.to(out_ptr.dtype.element_ty), mask=(offs_d < D)[None, :])
