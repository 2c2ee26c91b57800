"""Weights of 8 bits (e4m3): their numbers, which 16-bit types hold exactly, and their scales.

Scales multiply sums in float32 and are never rounded into the weight: of the whole weight (ONE) or a row (ROW) when
a tile's sums are complete, of blocks of 128 rows and columns (BLOCK) after each step of K, which ends inside a block.
"""

import triton
import triton.language as tl

# What a scale is of. Nothing: weights of x's type have none.
NOTHING, ONE, ROW, BLOCK = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
SIDE = tl.constexpr(128)  # rows and columns of a block


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
def widened(w, element: tl.constexpr):
    """A weight in the type of x. By float32 to bfloat16: two instructions a number, where the direct way takes one of
    which a processor does but sixteen a clock.
    """
    if w.dtype == element:
        return w
    w = halves(w)
    if element == tl.float16:
        return w
    return w.to(tl.float32).to(element)


@triton.jit
def scale_of(scale_ptr, w_rows, columns, size, KIND: tl.constexpr):
    """float32: the scales of these rows of the weight, of BLOCK those for these columns."""
    if (
        KIND == ONE
    ):  # 0, which the compiler may not see: with one address it stops at 80 registers and spills two
        w_rows = w_rows >> 30
    if KIND == BLOCK:
        scale_ptr += columns // SIDE
        w_rows = w_rows // SIDE * ((size + SIDE - 1) // SIDE)
    return tl.load(scale_ptr + w_rows)
