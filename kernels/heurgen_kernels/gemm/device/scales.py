"""Weights of 8 bits (e4m3): their numbers, which 16-bit types hold exactly, and their scales.

Scales of rows, which one of all is too, multiply a tile's sums in float32, when they are complete. Those of blocks of
128 rows and columns multiply the sums of a step where stream_k has FEW rows of x or less and a step's columns lie in
one block: 16 x 64 sums are an eighth of the numbers of 64 x 128. Elsewhere they multiply the weight as it is widened,
and the product is rounded to x's type as a dequantised weight would be: sums that are apart until they are scaled
would take as many registers and instructions again.

Kernels have scales as (pointer, stride along rows, stride along columns), of blocks from one to the next.
"""

import triton
import triton.language as tl

# What scales are of. Nothing: weights of x's type have none. WITHIN: blocks, of a gated weight whose up projection
# begins within one.
NOTHING, ROW, BLOCK, WITHIN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
SIDE = tl.constexpr(128)  # rows and columns of a block
FEW = tl.constexpr(16)  # rows of x


@triton.jit
def halves(w):
    """Numbers of e4m3 in float16. Bytes, on devices whose compiler has no such type: taken apart."""
    if w.dtype == tl.uint8:
        bits = w.to(tl.uint16)
        # e4m3's exponent counts from 7, float16's from 15; numbers below the least normal one come out the same way
        number = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True) * 256.0
        w = tl.where((bits & 0x7F) == 0x7F, float("nan"), number).to(tl.float16)
    else:
        w = w.to(tl.float16)
    return w


@triton.jit
def widened(w, scale, element: tl.constexpr):
    """A weight in the type of x; scale: of its blocks, as `times_blocks` takes it, or None.

    By float32 to bfloat16: two instructions a number, where the direct way takes one of which a processor does but
    sixteen a clock.
    """
    if w.dtype == element:
        return w
    w = halves(w)
    if scale is not None:
        return times_blocks(w.to(tl.float32), scale).to(element)
    if element == tl.float16:
        return w
    return w.to(tl.float32).to(element)


@triton.jit
def times_blocks(tile, scale):
    """float32: a tile of the weight, or of sums, times the scales [rows, columns] of equal parts of it."""
    ROWS: tl.constexpr = scale.shape[0]
    COLUMNS: tl.constexpr = scale.shape[1]
    PARTS: tl.constexpr = [ROWS, tile.shape[0] // ROWS, COLUMNS, tile.shape[1] // COLUMNS]
    return tl.reshape(tl.reshape(tile, PARTS) * scale[:, None, :, None], tile.shape)


@triton.jit
def row_scales(scales, w_rows):
    """float32: of these rows of the weight."""
    pointer, stride, _ = scales
    return tl.load(pointer + w_rows * stride)


@triton.jit
def block_scales(
    scales, row, rows, column, columns, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, INSIDE: tl.constexpr
):  # fmt: skip
    """float32, for `times_blocks`: of a tile of the weight that begins at this row and column; what of it lies behind
    the last of `rows` and `columns` has theirs. INSIDE: it may begin inside a block of rows; then each row has its own.
    """
    pointer, stride, step = scales
    ROWS: tl.constexpr = BLOCK_N if INSIDE else (BLOCK_N + SIDE - 1) // SIDE
    COLUMNS: tl.constexpr = (BLOCK_K + SIDE - 1) // SIDE
    at_row = tl.minimum(row + tl.arange(0, ROWS) * (BLOCK_N // ROWS), rows - 1) // SIDE
    at_column = tl.minimum(column // SIDE + tl.arange(0, COLUMNS), (columns - 1) // SIDE)
    return tl.load(pointer + at_row[:, None] * stride + at_column[None, :] * step)
