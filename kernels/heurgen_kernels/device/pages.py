"""New K and V to the pages that a server keeps them in, for the batches whose attention does not write them itself."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["slots"])
def write_pages_kernel(
    key, value, k_pages, v_pages, slots, k_scale, v_scale, rows, sizes: tl.constexpr, strides: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Grid: (blocks of ROWS of the `rows` = tokens * KV heads,). slots: int64, negative for nowhere; read one by
    one, so that servers may hand over a part of theirs that begins anywhere.

    k_scale, v_scale: one float32 number each, which fp8 pages are divided by; None for pages of the new tokens' type.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = row // sizes.HKV
    head = (row % sizes.HKV).to(tl.int64)
    slot = tl.load(slots + token, mask=row < rows, other=-1)
    offs_d = tl.arange(0, sizes.D_PAD)
    keep = (slot >= 0)[:, None]
    if sizes.D != sizes.D_PAD:
        keep = keep & (offs_d < sizes.D)[None, :]
    token = token.to(tl.int64)
    k_row = token * strides.NEW_TOK + head * strides.NEW_HEAD
    v_row = token * strides.NEW_V_TOK + head * strides.NEW_V_HEAD
    k = tl.load(key + k_row[:, None] + offs_d[None, :], mask=keep)
    v = tl.load(value + v_row[:, None] + offs_d[None, :], mask=keep)
    if k_scale is not None:
        k = k.to(tl.float32) / tl.load(k_scale)
        v = v.to(tl.float32) / tl.load(v_scale)
    page, place = slot // sizes.PAGE, slot % sizes.PAGE
    k_row = page * strides.K_PAGE + place * strides.K_TOK + head * strides.K_HEAD
    v_row = page * strides.V_PAGE + place * strides.V_TOK + head * strides.V_HEAD
    tl.store(k_pages + k_row[:, None] + offs_d[None, :], k.to(k_pages.dtype.element_ty), mask=keep)
    tl.store(v_pages + v_row[:, None] + offs_d[None, :], v.to(v_pages.dtype.element_ty), mask=keep)
