"""Matrices with rows that begin at whole lines of memory, as descriptors read them: see `gemm/padding.py`."""

import triton
import triton.language as tl

# Rows and columns of a program: a warp copies 512 bytes of a row at a time. WORDS: columns of 4 bytes.
ROWS, COLUMNS, WORDS = tl.constexpr(8), tl.constexpr(256), tl.constexpr(128)
LINE = tl.constexpr(64)  # elements of 128 bytes, of an fp8 weight 64


@triton.jit(do_not_specialize=["rows", "size", "stride", "lines"])
def pad_kernel(x, padded, rows, size, stride, lines):
    """Grid: (blocks of rows, blocks of columns). size, stride: of x, in 8 elements; lines: of a padded row. Nothing is
    written behind the columns of x.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = (row < rows)[:, None] & (column < size * 8)[None, :]
    row = row.to(tl.int64)[:, None]
    found = tl.load(x + row * (stride * 8) + column[None, :], mask=there)
    tl.store(padded + row * (lines * LINE) + column[None, :], found, mask=there)


@triton.jit(do_not_specialize=["rows", "size", "stride", "row_words"])
def pad_words_kernel(x, padded, rows, size, stride, row_words, SHIFTED: tl.constexpr):
    """The same for rows that begin anywhere. size, stride: in bytes; row_words: of a padded row.

    SHIFTED: x and its stride are not all multiples of 4 bytes. Then a word of the copy is of two of x, the last of
    which may end behind the last element, but in the same 4 bytes; what is written behind a row is less than a word.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)[None, :]
    there = (row < rows)[:, None] & (word * 4 < size)
    row = row.to(tl.int64)[:, None]
    begin = x.to(tl.int64) + row * stride
    first = (begin // 4 * 4).to(tl.pointer_type(tl.uint32)) + word
    found = tl.load(first, mask=there)
    if SHIFTED:
        shift = (begin % 4 * 8).to(tl.uint64)
        # the next word where it has bytes of this row: a row's last one may end with the tensor's memory
        more = tl.load(first + 1, mask=there & ((word + 1) * 4 < size + begin % 4), other=0)
        found = ((found.to(tl.uint64) | more.to(tl.uint64) << 32) >> shift).to(tl.uint32)
    tl.store(padded.to(tl.pointer_type(tl.uint32)) + row * row_words + word, found, mask=there)
