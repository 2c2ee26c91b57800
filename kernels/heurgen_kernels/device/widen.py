"""fp8 pages as pages of 16-bit numbers, in the order of the sequences: what warp_specialized reads in their place.

Each value is multiplied by its scale, if it has one, and rounded once. Only keys that some new token sees are copied.
"""

import triton
import triton.language as tl

ROWS = tl.constexpr(128)  # tokens of a wide page: the largest tile of keys, which one copy then loads
WIDTH = tl.constexpr(256)  # sequences that are looked at at once


@triton.jit
def spans(cu_ptr, lens_ptr, index, there, left, WINDOW: tl.constexpr, FRESH: tl.constexpr):
    """(first wide page, wide pages from there on, first key that is seen, keys in the pages) of sequences."""
    q_len = tl.load(cu_ptr + index + 1, mask=there, other=0) - tl.load(cu_ptr + index, mask=there, other=0)
    keys = tl.load(lens_ptr + index, mask=there, other=0)
    context = keys - q_len
    if FRESH:
        keys = context
    low = context * 0
    if WINDOW:
        low = tl.maximum(context - left, 0)
    first = low // ROWS
    count = tl.maximum((keys + ROWS - 1) // ROWS - first, 0)
    return first, tl.where(q_len > 0, count, 0), low, keys


@triton.jit
def find_page(number, cu_ptr, lens_ptr, num_seqs, left, WINDOW: tl.constexpr, FRESH: tl.constexpr):
    """(sequence, or -1, and which of its wide pages) is the copy's page `number`."""
    before = 0
    sequence = -1
    page = 0
    for base in range(0, num_seqs, WIDTH):
        index = base + tl.arange(0, WIDTH)
        _, count, _, _ = spans(cu_ptr, lens_ptr, index, index < num_seqs, left, WINDOW, FRESH)
        ends = before + tl.cumsum(count, 0)
        here = (number < ends) & (number >= ends - count)
        sequence += tl.sum(tl.where(here, index + 1, 0), 0)
        page += tl.sum(tl.where(here, number - ends + count, 0), 0)
        before += tl.sum(count, 0)
    return sequence, page


@triton.jit
def write_row(
    sequence, pages, wide_table, wide_stride, cu_ptr, lens_ptr, num_seqs, left, WINDOW: tl.constexpr,
    FRESH: tl.constexpr,
):  # fmt: skip
    """A sequence's row of the copy's block table. Pages without room are page `pages`, which holds NaN."""
    start = 0
    for base in range(0, sequence, WIDTH):
        index = base + tl.arange(0, WIDTH)
        _, counts, _, _ = spans(cu_ptr, lens_ptr, index, index < sequence, left, WINDOW, FRESH)
        start += tl.sum(counts, 0)
    first, count, _, _ = spans(cu_ptr, lens_ptr, sequence, sequence < num_seqs, left, WINDOW, FRESH)
    row = wide_table + sequence.to(tl.int64) * wide_stride + first
    for base in range(0, count, WIDTH):
        index = base + tl.arange(0, WIDTH)
        there = (index < count) & (first + index < wide_stride)
        tl.store(row + index, tl.minimum(start + index, pages), mask=there)


@triton.jit
def copy_page(
    k_ptr, v_ptr, wide_k, wide_v, table, k_scale, v_scale, start, low, keys, PAGE: tl.constexpr, D: tl.constexpr,
    D_PAD: tl.constexpr, strides: tl.constexpr,
):  # fmt: skip
    """The keys from `start` on of a sequence and a head into the rows of a wide page; those before `low` become 0."""
    AT_ONCE: tl.constexpr = max(4096 // D_PAD, 16)  # rows: more would spill
    columns = tl.arange(0, D_PAD)[None, :]
    for part in range(0, ROWS, AT_ONCE):
        row = part + tl.arange(0, AT_ONCE)
        position = start + row
        keep = (position < keys)[:, None] & (columns < D)
        load = keep & (position >= low)[:, None]
        entry = tl.load(table + position // PAGE, mask=(position >= low) & (position < keys), other=0).to(
            tl.int64
        )
        inside = position % PAGE
        k = tl.load(
            k_ptr + (entry * strides.K_PAGE + inside * strides.K_TOK)[:, None] + columns, mask=load, other=0.0
        ).to(tl.float32)
        v = tl.load(
            v_ptr + (entry * strides.V_PAGE + inside * strides.V_TOK)[:, None] + columns, mask=load, other=0.0
        ).to(tl.float32)
        if k_scale is not None:
            k = k * tl.load(k_scale)
        if v_scale is not None:
            v = v * tl.load(v_scale)
        tl.store(wide_k + row[:, None] * D + columns, k.to(wide_k.dtype.element_ty), mask=keep)
        tl.store(wide_v + row[:, None] * D + columns, v.to(wide_v.dtype.element_ty), mask=keep)


@triton.jit
def spoil_page(wide_k, wide_v, D: tl.constexpr, D_PAD: tl.constexpr):
    """NaN into the rows of a wide page of a head."""
    columns = tl.arange(0, D_PAD)
    nothing = tl.full([D_PAD], float("nan"), tl.float32).to(wide_k.dtype.element_ty)
    for row in range(ROWS):
        tl.store(wide_k + row * D + columns, nothing, mask=columns < D)
        tl.store(wide_v + row * D + columns, nothing, mask=columns < D)


@triton.jit(do_not_specialize=["left", "table_stride", "wide_stride", "num_seqs"])
def widen_kernel(
    tensors, left, table_stride, wide_stride, num_seqs,
    sizes: tl.constexpr, strides: tl.constexpr, WINDOW: tl.constexpr, FRESH: tl.constexpr,
):  # fmt: skip
    """Grid: (pages of the copy, the last of which holds NaN, KV heads + 1): behind the heads the block table's rows.

    There are at least as many pages as sequences.
    """
    D: tl.constexpr = sizes.D
    pages = tl.num_programs(0) - 1
    number = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    place = (number * sizes.HKV + head) * (ROWS * D)
    wide_k, wide_v = tensors.wide_k + place, tensors.wide_v + place
    cu_ptr, lens_ptr = tensors.cu, tensors.lens
    if head == sizes.HKV:
        if number < num_seqs:
            write_row(
                number, pages, tensors.wide_table, wide_stride, cu_ptr, lens_ptr, num_seqs, left, WINDOW, FRESH
            )  # fmt: skip
    elif number == pages:
        spoil_page(wide_k, wide_v, D, sizes.D_PAD)
    else:
        sequence, page = find_page(number, cu_ptr, lens_ptr, num_seqs, left, WINDOW, FRESH)
        if sequence >= 0:
            first, _, low, keys = spans(cu_ptr, lens_ptr, sequence, sequence >= 0, left, WINDOW, FRESH)
            copy_page(
                tensors.k + head * strides.K_HEAD, tensors.v + head * strides.V_HEAD, wide_k, wide_v,
                tensors.table + sequence.to(tl.int64) * table_stride, tensors.k_scale, tensors.v_scale,
                (first + page) * ROWS, low, keys, sizes.PAGE, D, sizes.D_PAD, strides,
            )  # fmt: skip
