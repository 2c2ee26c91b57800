"""The second launch of split keys, see `device/combine.py`: a warp for a few rows of a Q block.

Where prompts' keys are cut blocks are few: the last program of each alone would add parts for 6 us of 29, and for six
times as long as the first launch where parts are many (docs/kernel_notes.md).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .attend import LOWEST
from .consume import finished
from .items import await_former, locate_block, part_count, part_tiles, survey, tile_counts

ELEMENTS = gl.constexpr(512)  # of a part that a program reads: with four parts at once 64 registers a thread


@gluon.jit
def load_rows(tensors, part_rows, rows, columns, ok, keep, D: gl.constexpr):
    """(rows of a part [ROWS, D], their maxima, their sums); of those that are not ok as of a part without keys."""
    base = tensors.part + part_rows.to(gl.int64) * D
    m = gl.load(base + rows, mask=ok, other=LOWEST, cache_modifier=".cg")
    total = gl.load(base + part_rows.to(gl.int64) + rows, mask=ok, other=0.0, cache_modifier=".cg")
    part = gl.load(
        tensors.part + rows[:, None] * D + columns[None, :], mask=ok[:, None] & keep[None, :], other=0.0,
        cache_modifier=".cg",
    )  # fmt: skip
    return part, m, total


@gluon.jit
def combine_rows(tensors, part_rows, row, step, segments, ROWS: gl.constexpr, HEAD: gl.constexpr, D: gl.constexpr,
                 LAYOUT: gl.constexpr):  # fmt: skip
    """(acc [ROWS, D], M, L) over all segments, three at a time beside the sum; successive segments' rows are `step`
    apart.
    """
    columns = gl.arange(0, D, gl.SliceLayout(0, LAYOUT))
    keep = columns < HEAD
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT)).to(gl.int64)
    every = rows >= 0
    acc, M, L = load_rows(tensors, part_rows, rows, columns, every, keep, D)
    for first in range(1, segments, 3):
        a, m_a, l_a = load_rows(tensors, part_rows, rows + first * step, columns, every, keep, D)
        b, m_b, l_b = load_rows(
            tensors, part_rows, rows + (first + 1) * step, columns, every & (first + 1 < segments), keep, D
        )
        c, m_c, l_c = load_rows(
            tensors, part_rows, rows + (first + 2) * step, columns, every & (first + 2 < segments), keep, D
        )
        m_new = gl.maximum(gl.maximum(M, m_a), gl.maximum(m_b, m_c))
        s, s_a = gl.exp2(M - m_new), gl.exp2(m_a - m_new)
        s_b, s_c = gl.exp2(m_b - m_new), gl.exp2(m_c - m_new)
        acc = acc * s[:, None] + a * s_a[:, None] + b * s_b[:, None] + c * s_c[:, None]
        L = L * s + l_a * s_a + l_b * s_b + l_c * s_c
        M = m_new
    return acc, M, L


@gluon.jit(do_not_specialize=["left", "right", "num_seqs", "part_rows", "max_segments"])
def combine_prompts_kernel(
    tensors, part_rows, left, right, num_seqs, max_segments, sizes: gl.constexpr, strides: gl.constexpr,
    features: gl.constexpr, BLOCK_M: gl.constexpr, TILE: gl.constexpr, HEADS: gl.constexpr,
):  # fmt: skip
    """Grid: (heads that items have * Q blocks, BLOCK_M / rows of a program)."""
    G: gl.constexpr = HEADS
    HKV: gl.constexpr = sizes.HKV * (sizes.G // HEADS)
    D: gl.constexpr = sizes.D_PAD
    BLOCK_Q: gl.constexpr = BLOCK_M // G
    ROWS: gl.constexpr = ELEMENTS // D
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 4], [128 // min(D, 128), min(D, 128) // 4], [1, 1], [1, 0])
    item, first = gl.program_id(0), gl.program_id(1) * ROWS
    head, number = item % HKV, item // HKV
    _, block, token0, q_len, context = locate_block(
        tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q
    )
    _, longest, _ = survey(tensors.cu, tensors.lens, num_seqs)
    tiles = tile_counts(
        block, q_len, context, left, right, BLOCK_Q, TILE, features.CAUSAL, features.WINDOW, features.FRESH,
        features.PREFIX,
    )  # fmt: skip
    per_segment = part_tiles(
        longest, left, right, max_segments, BLOCK_Q, TILE, features.CAUSAL, features.WINDOW
    )
    _, segments = part_count(tiles, per_segment, max_segments)
    there = (segments > 1) & (first < BLOCK_Q * G) & (block * BLOCK_Q + first // G < q_len)
    if features.ABOVE > 0:  # `blocks` has none of the small sequences
        there = there & (number < gl.load(tensors.blocks + num_seqs))
    if there | (item == gl.num_programs(0) - 1):
        await_former()
    if there:
        acc, M, L = combine_rows(
            tensors, part_rows, item.to(gl.int64) * max_segments * BLOCK_M + first, BLOCK_M, segments, ROWS, sizes.D, D,
            LAYOUT,
        )  # fmt: skip
        acc = finished(acc, M, L, tensors.sinks, tensors.v_scale, head * G, first, G)
        rows = first + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
        token = block * BLOCK_Q + rows // G
        columns = gl.arange(0, D, gl.SliceLayout(0, LAYOUT))
        places = (token0 + token).to(gl.int64) * strides.O_TOK + (head * G + rows % G) * strides.O_HEAD
        ok = (token < q_len) & (rows < BLOCK_Q * G)
        gl.store(
            tensors.out + places[:, None] + columns[None, :], acc.to(tensors.out.dtype.element_ty),
            mask=ok[:, None] & (columns < sizes.D)[None, :],
        )  # fmt: skip
