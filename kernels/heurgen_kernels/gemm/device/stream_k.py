"""Products on any GPU: programs share the tiles, and the K of tiles that would not go round (see `work`). On Hopper x
and the weight may come through tensor descriptors.

A tile is [BLOCK_M, BLOCK_N] of the output, or with SWAP its transpose: then the weight is the left operand of the
matrix unit, which on Hopper takes no less than 64 rows there, but as few as 16 of x on the right.
"""

import triton
import triton.language as tl

from .scales import BLOCK, FEW, ROW, SIDE, WITHIN, block_scales, row_scales, times_blocks, widened
from .work import NUMBERS, place, segment, turns


@triton.jit
def load_x(desc, ptr, row, rows, columns, column, end, stride, size, EVEN_K: tl.constexpr):
    """[rows, columns] of x; rows from its end on and columns behind its size are 0, and cost no memory traffic."""
    if desc is not None:
        return desc.load([row, column])
    pointers = ptr + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    if EVEN_K:
        return tl.load(pointers, mask=(rows < end)[:, None], other=0.0)
    return tl.load(pointers, mask=(rows < end)[:, None] & (columns < size)[None, :], other=0.0)


@triton.jit
def load_weight(desc, ptr, row, rows, columns, column, stride, size, EVEN_K: tl.constexpr):
    """[rows, columns] of the weight; columns behind its size are 0."""
    if desc is not None:
        return desc.load([row, column])
    pointers = ptr + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    if EVEN_K:
        return tl.load(pointers)
    return tl.load(pointers, mask=columns[None, :] < size, other=0.0)


@triton.jit
def product(x, w, acc, SWAP: tl.constexpr):
    if SWAP:  # noqa: SIM108
        acc = tl.dot(w, tl.trans(x), acc)
    else:
        acc = tl.dot(x, tl.trans(w), acc)
    return acc


@triton.jit
def added(x, w, acc, scale, SWAP: tl.constexpr):
    """acc and what a step adds to it; scale: of the weight's blocks, or None. A weight that has some is not swapped."""
    FEW_SUMS: tl.constexpr = acc.shape[0] <= FEW and x.shape[1] <= SIDE
    if scale is not None and FEW_SUMS:
        sums = product(x, widened(w, None, x.dtype), tl.zeros(acc.shape, tl.float32), SWAP)
        acc += times_blocks(sums, tl.trans(scale))
    else:
        acc = product(x, widened(w, scale, x.dtype), acc, SWAP)
    return acc


@triton.jit
def up_scales(
    scales, n, width, column, size, gate, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SCALED: tl.constexpr
):  # fmt: skip
    """Scales of a step's blocks of the up projection."""
    return block_scales(scales, gate + n, gate + width, column, size, BLOCK_N, BLOCK_K, SCALED == WITHIN)


@triton.jit
def step_scales(
    scales, n, width, column, size, gate, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GATED: tl.constexpr,
    SCALED: tl.constexpr,
):  # fmt: skip
    """(scales of a step's blocks, those of the up projection)."""
    scale = block_scales(scales, n, width, column, size, BLOCK_N, BLOCK_K, False)
    more = scale
    if GATED:
        more = up_scales(scales, n, width, column, size, gate, BLOCK_N, BLOCK_K, SCALED)
    return scale, more


@triton.jit
def multiply(
    x_desc, w_desc, x_ptr, w_ptr, scales, m, n, rows, width, x_stride, w_stride, size, first, last, gate,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SWAP: tl.constexpr, GATED: tl.constexpr,
    EVEN_K: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """(products of the steps first .. last, those of the up projection). m, n: first row and column of the tile; what
    lies behind the width is read from the front, or by a descriptor is 0 or of the up projection.
    """
    x_rows = m + tl.arange(0, BLOCK_M)
    w_rows = (n + tl.arange(0, BLOCK_N)) % width
    SHAPE: tl.constexpr = [BLOCK_N, BLOCK_M] if SWAP else [BLOCK_M, BLOCK_N]
    acc = tl.zeros(SHAPE, tl.float32)
    up = tl.zeros(SHAPE, tl.float32)
    FEW_SUMS: tl.constexpr = SCALED >= BLOCK and BLOCK_M <= FEW and BLOCK_K <= SIDE
    if FEW_SUMS:  # a step ahead: they are of nothing that is loaded asynchronously
        ahead = step_scales(scales, n, width, first * BLOCK_K, size, gate, BLOCK_N, BLOCK_K, GATED, SCALED)
    for unit in range(first, last):
        column = unit * BLOCK_K
        columns = column + tl.arange(0, BLOCK_K)
        scale, up_scale = None, None
        if SCALED >= BLOCK and not FEW_SUMS:
            scale = block_scales(scales, n, width, column, size, BLOCK_N, BLOCK_K, False)
        x = load_x(x_desc, x_ptr, m, x_rows, columns, column, rows, x_stride, size, EVEN_K)
        w = load_weight(w_desc, w_ptr, n, w_rows, columns, column, w_stride, size, EVEN_K)
        if FEW_SUMS:
            scale, up_scale = ahead
            following = tl.minimum(unit + 1, last - 1) * BLOCK_K
            ahead = step_scales(scales, n, width, following, size, gate, BLOCK_N, BLOCK_K, GATED, SCALED)
        acc = added(x, w, acc, scale, SWAP)
        if GATED:
            if SCALED >= BLOCK and not FEW_SUMS:
                up_scale = up_scales(scales, n, width, column, size, gate, BLOCK_N, BLOCK_K, SCALED)
            w = load_weight(w_desc, w_ptr, gate + n, gate + w_rows, columns, column, w_stride, size, EVEN_K)
            up = added(x, w, up, up_scale, SWAP)
    return acc, up


@triton.jit
def part_offsets(slot, NUMBER: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Where a program's sums lie in the scratch: COUNT blocks a slot, this one the NUMBER-th."""
    inside = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return (slot * COUNT + NUMBER).to(tl.int64) * (ROWS * COLUMNS) + inside


@triton.jit
def sum_parts(
    part_ptr, parts, first_slot, next_slot, step, NUMBER: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, BATCH: tl.constexpr,
):  # fmt: skip
    """All parts of a tile, in their order: the sum is the same whoever adds last. BATCH are loaded at a time."""
    acc = tl.load(part_ptr + part_offsets(first_slot, NUMBER, COUNT, ROWS, COLUMNS), cache_modifier=".cg")
    for start in range(0, parts - 1, BATCH):
        for number in tl.static_range(BATCH):
            here = tl.minimum(start + number, parts - 2)  # of what is read twice, the second is not added
            offsets = part_offsets(next_slot + here * step, NUMBER, COUNT, ROWS, COLUMNS)
            part = tl.load(part_ptr + offsets, cache_modifier=".cg")
            acc += tl.where(start + number < parts - 1, part, 0.0)
    return acc


@triton.jit
def finish(
    acc, up, tensors, scales, m_rows, n_rows, rows, width, out_stride, residual_stride, gate, SWAP: tl.constexpr,
    GATED: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Scale, bias, gate, residual; then the tile goes out. rows, width: of the output."""
    if SWAP:
        acc = tl.trans(acc)
        up = tl.trans(up)
    if SCALED == ROW:
        acc *= row_scales(scales, n_rows % width)[None, :]
        if GATED:
            up *= row_scales(scales, gate + n_rows % width)[None, :]
    if tensors.bias is not None:
        bias = tl.load(tensors.bias + n_rows, mask=n_rows < width, other=0.0)
        acc += bias.to(tl.float32)[None, :]
        if GATED:
            bias = tl.load(tensors.bias + gate + n_rows, mask=n_rows < width, other=0.0)
            up += bias.to(tl.float32)[None, :]
    if GATED:
        acc = acc * tl.sigmoid(acc) * up
    keep = (m_rows < rows)[:, None] & (n_rows < width)[None, :]
    if tensors.residual is not None:
        offsets = m_rows.to(tl.int64)[:, None] * residual_stride + n_rows[None, :]
        acc += tl.load(tensors.residual + offsets, mask=keep, other=0.0).to(tl.float32)
    offsets = m_rows.to(tl.int64)[:, None] * out_stride + n_rows[None, :]
    tl.store(tensors.out + offsets, acc.to(tensors.out.dtype.element_ty), mask=keep)


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=["m_tiles"])
def stream_k_matmul(
    tensors, x_desc, w_desc, x_stride, w_stride, out_stride, residual_stride, rows, width, size, m_tiles, n_tiles,
    units, whole, left, splits, items, gate, scale_stride, scale_step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, SWAP: tl.constexpr,
    GATED: tl.constexpr, EVEN_K: tl.constexpr, MODE: tl.constexpr, BATCH: tl.constexpr, COUNTED: tl.constexpr,
    SCALED: tl.constexpr,
):  # fmt: skip
    """Grid: (programs,). rows, width: of the output; size: K; gate: rows of the weight between a gate and its up.

    x_desc, w_desc: descriptors of [BLOCK_M, BLOCK_K] and [BLOCK_N, BLOCK_K], or None: then pointers are read.
    COUNTED: elements that x_stride, w_stride and size are counted in, so that the compiler sees what they divide by.
    """
    x_stride *= COUNTED
    w_stride *= COUNTED
    size *= COUNTED
    scales = (tensors.scale, scale_stride, scale_step)
    COUNT: tl.constexpr = 2 if GATED else 1
    ROWS: tl.constexpr = BLOCK_N if SWAP else BLOCK_M
    COLUMNS: tl.constexpr = BLOCK_M if SWAP else BLOCK_N
    program = tl.program_id(0)
    count = 1
    if MODE == 2:  # else each item is a program's own
        count = turns(program, tl.num_programs(0), items, MODE)
    for turn in range(count):
        tile, first, last, slot, parts, first_slot, next_slot, step = segment(
            turn, program, tl.num_programs(0), whole, splits, units, left, MODE
        )
        if last > first:
            m, n = place(tile, m_tiles, n_tiles, GROUP)
            m_rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
            n_rows = n * BLOCK_N + tl.arange(0, BLOCK_N)
            acc, up = multiply(
                x_desc, w_desc, tensors.x, tensors.weight, scales, m * BLOCK_M, n * BLOCK_N, rows, width,
                x_stride, w_stride, size, first, last, gate, BLOCK_M, BLOCK_N, BLOCK_K, SWAP, GATED, EVEN_K, SCALED,
            )  # fmt: skip
            ended = True
            if MODE > 0:  # noqa: SIM102
                if parts > 1:
                    tl.store(tensors.part + part_offsets(slot, 0, COUNT, ROWS, COLUMNS), acc)
                    if GATED:
                        tl.store(tensors.part + part_offsets(slot, 1, COUNT, ROWS, COLUMNS), up)
                    tl.debug_barrier()  # every thread's sums are written before one thread counts them
                    ended = tl.atomic_add(tensors.counters + tile, 1, sem="acq_rel") == parts - 1
                    if ended:
                        tl.store(tensors.counters + tile, 0)
                        acc = sum_parts(
                            tensors.part, parts, first_slot, next_slot, step, 0, COUNT, ROWS, COLUMNS, BATCH
                        )
                        if GATED:
                            up = sum_parts(
                                tensors.part,
                                parts,
                                first_slot,
                                next_slot,
                                step,
                                1,
                                COUNT,
                                ROWS,
                                COLUMNS,
                                BATCH,
                            )
            if ended:
                finish(
                    acc, up, tensors, scales, m_rows, n_rows, rows, width, out_stride, residual_stride, gate, SWAP,
                    GATED, SCALED,
                )  # fmt: skip
