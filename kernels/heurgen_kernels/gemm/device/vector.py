"""Products of one or two rows of x on any GPU: each program multiplies some rows of the weight by them in float32.

The matrix unit would take sixteen rows of x, and the weight through shared memory; here what bounds the product, the
weight, is read once by many small programs, and K is never cut. A weight's scales of blocks multiply it in float32 too.
"""

import triton
import triton.language as tl

from .scales import BLOCK, WITHIN, block_scales, halves, times_blocks
from .stream_k import finish
from .work import NUMBERS, place


@triton.jit
def load_row(ptr, row, columns, stride, size, EVEN_K: tl.constexpr):
    """[1, columns] of a row of x in float32; columns behind its size are 0."""
    pointers = ptr + tl.cast(row, tl.int64) * stride + columns
    x = tl.load(pointers) if EVEN_K else tl.load(pointers, mask=columns < size, other=0.0)
    return x.to(tl.float32)[None, :]


@triton.jit
def load_weight(ptr, rows, columns, stride, size, EVEN_K: tl.constexpr):
    """[rows, columns] of the weight in float32; columns behind its size are 0."""
    pointers = ptr + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    w = tl.load(pointers) if EVEN_K else tl.load(pointers, mask=(columns < size)[None, :], other=0.0)
    if w.dtype.is_fp8() or w.dtype == tl.uint8:
        w = halves(w)
    return w.to(tl.float32)


@triton.jit
def finish_row(
    acc, up, row, n_rows, tensors, scales, rows, width, out_stride, residual_stride, gate, GATED: tl.constexpr,
    SCALED: tl.constexpr,
):  # fmt: skip
    """acc, up [BLOCK_N, BLOCK_K]: products to be added up along K."""
    acc = tl.sum(acc, 1)[None, :]
    up = tl.sum(up, 1)[None, :] if GATED else acc
    m_rows = row + tl.arange(0, 1)
    finish(
        acc, up, tensors, scales, m_rows, n_rows, rows, width, out_stride, residual_stride, gate, False, GATED, SCALED
    )  # fmt: skip


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=["m_tiles"])
def vector_matmul(
    tensors, x_stride, w_stride, out_stride, residual_stride, rows, width, size, m_tiles, n_tiles, units, gate,
    scale_stride, scale_step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, GATED: tl.constexpr,
    EVEN_K: tl.constexpr, COUNTED: tl.constexpr, STAGES: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Grid: (tiles,). BLOCK_M: 1 or 2. Numbers as `stream_k_matmul` has them, less those of tiles that are shared."""
    x_stride *= COUNTED
    w_stride *= COUNTED
    size *= COUNTED
    scales = (tensors.scale, scale_stride, scale_step)
    m, n = place(tl.program_id(0), m_tiles, n_tiles, GROUP)
    row = m * BLOCK_M
    other = tl.minimum(row + 1, rows - 1)  # the same row again where there is no second: it is not stored
    n_rows = n * BLOCK_N + tl.arange(0, BLOCK_N)
    w_rows = n_rows % width
    acc = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    acc_other = acc
    up = acc
    up_other = acc
    for unit in tl.range(0, units, num_stages=STAGES):
        columns = unit * BLOCK_K + tl.arange(0, BLOCK_K)
        w = load_weight(tensors.weight, w_rows, columns, w_stride, size, EVEN_K)
        if SCALED >= BLOCK:
            scale = block_scales(scales, n * BLOCK_N, width, unit * BLOCK_K, size, BLOCK_N, BLOCK_K, False)
            w = times_blocks(w, scale)
        x = load_row(tensors.x, row, columns, x_stride, size, EVEN_K)
        acc += w * x
        if BLOCK_M == 2:
            x_other = load_row(tensors.x, other, columns, x_stride, size, EVEN_K)
            acc_other += w * x_other
        if GATED:
            w = load_weight(tensors.weight, gate + w_rows, columns, w_stride, size, EVEN_K)
            if SCALED >= BLOCK:
                scale = block_scales(
                    scales, gate + n * BLOCK_N, gate + width, unit * BLOCK_K, size, BLOCK_N, BLOCK_K, SCALED == WITHIN
                )  # fmt: skip
                w = times_blocks(w, scale)
            up += w * x
            if BLOCK_M == 2:
                up_other += w * x_other
    finish_row(
        acc, up, row, n_rows, tensors, scales, rows, width, out_stride, residual_stride, gate, GATED, SCALED
    )
    if BLOCK_M == 2:
        finish_row(
            acc_other, up_other, row + 1, n_rows, tensors, scales, rows, width, out_stride, residual_stride, gate,
            GATED, SCALED,
        )  # fmt: skip
