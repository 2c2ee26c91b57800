"""x with rows that begin at whole lines of memory, as `warp_specialized` reads them best: see `gemm/padding.py`."""

import triton
import triton.language as tl

# Rows and columns of a program: a warp copies 512 bytes of a row at a time.
ROWS, COLUMNS = tl.constexpr(8), tl.constexpr(256)
LINE = tl.constexpr(64)  # elements of 128 bytes


@triton.jit(do_not_specialize=["rows", "size", "stride", "lines"])
def pad_kernel(x, padded, rows, size, stride, lines, COUNTED: tl.constexpr):
    """Grid: (blocks of rows, blocks of columns). size, stride: of x, in COUNTED elements, 8 where 16 bytes go at once;
    lines: of a padded row. Nothing is written behind the columns of x.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = (row < rows)[:, None] & (column < size * COUNTED)[None, :]
    row = row.to(tl.int64)[:, None]
    found = tl.load(x + row * (stride * COUNTED) + column[None, :], mask=there)
    tl.store(padded + row * (lines * LINE) + column[None, :], found, mask=there)
