"""fp8 pages as pages of 16-bit numbers, in the order of the sequences: what warp_specialized reads in their place.

Each value is multiplied by its scale, if it has one, and rounded once. Only keys that some new token sees are copied,
and none of sequences of at most ABOVE new tokens. LIMITED: nor of sequences that the copy has no room for, which then
have no Q blocks.
"""

import triton
import triton.language as tl

ROWS = tl.constexpr(128)  # tokens of a wide page: the largest tile of keys, which one copy then loads
WIDTH = tl.constexpr(256)  # sequences that are looked at at once


@triton.constexpr_function
def rows_at_once(d_pad):
    """Rows of K and of V that four warps hold at once: more would spill."""
    return min(max(4096 // d_pad, 16), 128)


@triton.jit
def spans(
    cu_ptr, lens_ptr, index, there, left, WINDOW: tl.constexpr, FRESH: tl.constexpr, ABOVE: tl.constexpr
):  # fmt: skip
    """(first wide page, wide pages from there on, first key that is seen, keys in the pages, new tokens) of
    sequences.
    """
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
    return first, tl.where(q_len > ABOVE, count, 0), low, keys, q_len


@triton.jit
def find_page(
    number, cu_ptr, lens_ptr, num_seqs, left, pages, WINDOW: tl.constexpr, FRESH: tl.constexpr, ABOVE: tl.constexpr,
    LIMITED: tl.constexpr,
):  # fmt: skip
    """(sequence, or -1, and which of its wide pages) is page `number` of the copy, which has `pages`."""
    before = 0
    sequence = -1
    page = 0
    for base in range(0, num_seqs, WIDTH):
        index = base + tl.arange(0, WIDTH)
        _, count, _, _, _ = spans(cu_ptr, lens_ptr, index, index < num_seqs, left, WINDOW, FRESH, ABOVE)
        ends = before + tl.cumsum(count, 0)
        here = (number < ends) & (number >= ends - count)
        if LIMITED:
            here = here & (ends <= pages)
        sequence += tl.sum(tl.where(here, index + 1, 0), 0)
        page += tl.sum(tl.where(here, number - ends + count, 0), 0)
        before += tl.sum(count, 0)
    return sequence, page


@triton.jit
def write_row(
    sequence, pages, wide_table, wide_stride, blocks, cu_ptr, lens_ptr, num_seqs, left, WINDOW: tl.constexpr,
    FRESH: tl.constexpr, ABOVE: tl.constexpr, BLOCK_Q: tl.constexpr, LIMITED: tl.constexpr,
):  # fmt: skip
    """A sequence's row of the copy's block table. Pages without room are page `pages`, which holds NaN. And where its
    Q blocks begin, if `blocks` is there; behind the last sequence where they end.
    """
    start = 0
    block = 0
    for base in range(0, sequence, WIDTH):
        index = base + tl.arange(0, WIDTH)
        _, counts, _, _, lengths = spans(
            cu_ptr, lens_ptr, index, index < sequence, left, WINDOW, FRESH, ABOVE
        )
        if blocks is not None:
            numbered = lengths > ABOVE
            if LIMITED:
                numbered = numbered & (start + tl.cumsum(counts, 0) <= pages)
            block += tl.sum(tl.where(numbered, (lengths + BLOCK_Q - 1) // BLOCK_Q, 0), 0)
        start += tl.sum(counts, 0)
    first, count, _, _, length = spans(
        cu_ptr, lens_ptr, sequence, sequence < num_seqs, left, WINDOW, FRESH, ABOVE
    )
    row = wide_table + sequence.to(tl.int64) * wide_stride + first
    for base in range(0, count, WIDTH):
        index = base + tl.arange(0, WIDTH)
        there = (index < count) & (first + index < wide_stride)
        tl.store(row + index, tl.minimum(start + index, pages), mask=there)
    if blocks is not None:
        tl.store(blocks + sequence, block)
        numbered = length > ABOVE
        if LIMITED:
            numbered = numbered & (start + count <= pages)
        block += tl.where(numbered, (length + BLOCK_Q - 1) // BLOCK_Q, 0)
        tl.store(blocks + num_seqs, block, mask=sequence == num_seqs - 1)


@triton.jit
def copy_rows(
    k_ptr, v_ptr, wide_k, wide_v, table, k_scale, v_scale, start, low, keys, first, COUNT: tl.constexpr,
    PAGE: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, strides: tl.constexpr,
):  # fmt: skip
    """Keys of a sequence and a head into rows first .. first + COUNT of a wide page that begins with key `start`; those
    before `low` become 0.
    """
    columns = tl.arange(0, D_PAD)[None, :]
    row = first + tl.arange(0, COUNT)
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


@triton.jit(do_not_specialize=["left", "table_stride", "wide_stride", "num_seqs", "pages"])
def widen_kernel(
    tensors, left, table_stride, wide_stride, num_seqs, pages,
    sizes: tl.constexpr, strides: tl.constexpr, WINDOW: tl.constexpr, FRESH: tl.constexpr, ABOVE: tl.constexpr,
    BLOCK_Q: tl.constexpr, LIMITED: tl.constexpr,
):  # fmt: skip
    """Grid: (programs + 1, KV heads + 1): behind the heads the block table's rows. The copy has `pages` pages and one
    more that holds NaN, which the last program makes. Programs take pages in PARTS parts.
    """
    D: tl.constexpr = sizes.D
    COUNT: tl.constexpr = rows_at_once(sizes.D_PAD)
    PARTS: tl.constexpr = ROWS // COUNT
    number = tl.program_id(0)
    programs = tl.num_programs(0) - 1
    head = tl.program_id(1).to(tl.int64)
    cu_ptr, lens_ptr = tensors.cu, tensors.lens
    if head == sizes.HKV:
        while number < num_seqs:
            write_row(
                number, pages, tensors.wide_table, wide_stride, tensors.blocks, cu_ptr, lens_ptr, num_seqs, left,
                WINDOW, FRESH, ABOVE, BLOCK_Q, LIMITED,
            )  # fmt: skip
            number += programs + 1
    elif number == programs:
        place = (pages * sizes.HKV + head) * (ROWS * D)
        spoil_page(tensors.wide_k + place, tensors.wide_v + place, D, sizes.D_PAD)
    else:
        sequence = 0
        while (number < pages * PARTS) & (sequence >= 0):
            sequence, page = find_page(
                number // PARTS, cu_ptr, lens_ptr, num_seqs, left, pages, WINDOW, FRESH, ABOVE, LIMITED
            )
            if sequence >= 0:
                place = (number // PARTS * sizes.HKV + head) * (ROWS * D)
                first, _, low, keys, _ = spans(
                    cu_ptr, lens_ptr, sequence, sequence >= 0, left, WINDOW, FRESH, ABOVE
                )
                copy_rows(
                    tensors.k + head * strides.K_HEAD, tensors.v + head * strides.V_HEAD, tensors.wide_k + place,
                    tensors.wide_v + place, tensors.table + sequence.to(tl.int64) * table_stride, tensors.k_scale,
                    tensors.v_scale, (first + page) * ROWS, low, keys, number % PARTS * COUNT, COUNT, sizes.PAGE, D,
                    sizes.D_PAD, strides,
                )  # fmt: skip
            number += programs
