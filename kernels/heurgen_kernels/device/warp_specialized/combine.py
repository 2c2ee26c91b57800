"""The second launch of split keys, see `device/combine.py`: a warp for a few rows of a Q block.

Where prompts' keys are cut blocks are few: the last program of each alone would add parts for 6 us of 29, and for six
times as long as the first launch where parts are many (docs/kernel_notes.md).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .attend import LOWEST
from .consume import finished, row_places
from .items import await_former, cut_into, locate_block, part_count, seen_by_block, survey, tile_counts

ELEMENTS = gl.constexpr(512)  # of a part that a program reads: with four parts at once 64 registers a thread


@gluon.jit
def load_rows(tensors, part_rows, rows, columns, keep, there, D: gl.constexpr):
    """(rows of a part [ROWS, D], their maxima, their sums); as of a part without keys where it is not there."""
    base = tensors.part + part_rows.to(gl.int64) * D
    ok = (rows >= 0) & there
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
    acc, M, L = load_rows(tensors, part_rows, rows, columns, keep, True, D)
    for i in range(1, segments, 3):
        a, m_a, l_a = load_rows(tensors, part_rows, rows + i * step, columns, keep, True, D)
        b, m_b, l_b = load_rows(tensors, part_rows, rows + (i + 1) * step, columns, keep, i + 1 < segments, D)
        c, m_c, l_c = load_rows(tensors, part_rows, rows + (i + 2) * step, columns, keep, i + 2 < segments, D)
        m_new = gl.maximum(gl.maximum(M, m_a), gl.maximum(m_b, m_c))
        s, s_a = gl.exp2(M - m_new), gl.exp2(m_a - m_new)
        s_b, s_c = gl.exp2(m_b - m_new), gl.exp2(m_c - m_new)
        acc = acc * s[:, None] + a * s_a[:, None] + b * s_b[:, None] + c * s_c[:, None]
        L = L * s + l_a * s_a + l_b * s_b + l_c * s_c
        M = m_new
    return acc, M, L


@gluon.jit
def parts_of_block(
    tensors, number, first, left, right, num_seqs, programs, max_segments, HKV: gl.constexpr, features: gl.constexpr,
    G: gl.constexpr, BLOCK_Q: gl.constexpr, TILE: gl.constexpr,
):  # fmt: skip
    """(segments that Q block `number` is cut into, its number in its sequence, the sequence's first token, its query
    length); 1 where its row `first` is none, and where nothing is cut, of which the others are not right.
    """
    most = seen_by_block(left, right, BLOCK_Q, TILE, features.CAUSAL, features.WINDOW)
    _, longest, _, _, all_tiles = survey(tensors.cu, tensors.lens, num_seqs, most, BLOCK_Q, TILE, 0, True)
    longest_segments, per_segment = cut_into(
        tensors.cu,
        tensors.lens,
        num_seqs,
        most,
        longest,
        all_tiles,
        programs,
        max_segments,
        HKV,
        BLOCK_Q,
        TILE,
    )
    segments, block, token0, q_len = 1, 0, 0, 0
    if (longest_segments > 1) & (first < BLOCK_Q * G):
        _, block, token0, q_len, context = locate_block(
            tensors.cu, tensors.blocks, tensors.lens, number, num_seqs, BLOCK_Q
        )
        tiles = tile_counts(
            block, q_len, context, left, right, BLOCK_Q, TILE, features.CAUSAL, features.WINDOW, features.FRESH,
            features.PREFIX,
        )  # fmt: skip
        _, segments = part_count(tiles, per_segment, longest_segments)
        there = block * BLOCK_Q + first // G < q_len
        if features.ABOVE > 0:  # `blocks` has none of the small sequences
            there = there & (number < gl.load(tensors.blocks + num_seqs))
        segments = gl.where(there, segments, 1)
    return segments, block, token0, q_len


@gluon.jit(do_not_specialize=["left", "right", "num_seqs", "part_rows", "programs", "max_segments"])
def combine_prompts_kernel(
    tensors, part_rows, left, right, num_seqs, programs, max_segments, sizes: gl.constexpr, strides: gl.constexpr,
    features: gl.constexpr, BLOCK_M: gl.constexpr, TILE: gl.constexpr, HEADS: gl.constexpr,
):  # fmt: skip
    """Grid: (heads that items have * Q blocks, BLOCK_M / rows of a program). programs, max_segments: of the first
    launch, and what these come to is found anew: programs without work then end before it does.
    """
    G: gl.constexpr = HEADS
    HKV: gl.constexpr = sizes.HKV * (sizes.G // HEADS)
    D: gl.constexpr = sizes.D_PAD
    BLOCK_Q: gl.constexpr = BLOCK_M // G
    ROWS: gl.constexpr = ELEMENTS // D
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 4], [128 // min(D, 128), min(D, 128) // 4], [1, 1], [1, 0])
    item, first = gl.program_id(0), gl.program_id(1) * ROWS
    head, number = item % HKV, item // HKV
    segments, block, token0, q_len = parts_of_block(
        tensors, number, first, left, right, num_seqs, programs, max_segments, HKV, features, G, BLOCK_Q, TILE
    )
    if (segments > 1) | (item == gl.num_programs(0) - 1):
        await_former()
    if segments > 1:
        acc, M, L = combine_rows(
            tensors, part_rows, item.to(gl.int64) * max_segments * BLOCK_M + first, BLOCK_M, segments, ROWS, sizes.D, D,
            LAYOUT,
        )  # fmt: skip
        acc = finished(acc, M, L, tensors.sinks, tensors.v_scale, head * G, first, G)
        places, keep = row_places(
            tensors.out, head, token0, block, q_len, first, ROWS, G, BLOCK_Q, sizes.D, D, strides.O_TOK,
            strides.O_HEAD, LAYOUT,
        )  # fmt: skip
        gl.store(places, acc.to(tensors.out.dtype.element_ty), mask=keep)
