"""Products on Hopper: one warp loads, one or two groups of four warps multiply (a Gluon kernel, sm_90 alone).

C[a, b] = sum over k of A[a, k] B[b, k]. Of a tile each consumer has 64 rows of A, and all of B's. A is x for many rows
of x; for few, A is the weight (SWAP), since the matrix unit takes no less than 64 rows of A, but any eight of B.

A consumer may have second sums, `more`. With GATED A is the weight's gate and up projections, 64 rows of each at a
time, and C = silu(gate) * up. With EXTRA, of A = x alone, tiles have BLOCK_B + EXTRA rows of B, both powers of two as
the compiler wants: 80 is 64 + 16, 192 is 128 + 64.

A weight of 8 bits is always A, and goes through registers (`narrow.py`).

Copies of rows behind the end of a tensor are slow: with some 30 such rows of 64 a product took up to twice the time. So
what would end behind it begins earlier, with rows of the tile before, and stores only the rows that are its own.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ...device.spelling import async_load, async_store, reinterpret, thread_barrier
from .narrow import HALF, multiply_narrow, row_scales
from .scales import NOTHING, ROW
from .work import gluon_place, gluon_segment, gluon_turns

UNIT = gl.constexpr(64)  # columns of K in a step: 128 bytes, the widest swizzle
STORED = gl.constexpr(128)  # columns that are stored at once: more have no room beside the buffers


@gluon.jit
def origin(
    tile, m_tiles, n_tiles, GROUP: gl.constexpr, CONSUMERS: gl.constexpr, ROWS_B: gl.constexpr, SWAP: gl.constexpr
):  # fmt: skip
    """(first row of A, first row of B) of a tile."""
    m, n = gluon_place(tile, m_tiles, n_tiles, GROUP)
    if SWAP:
        return n * (CONSUMERS * HALF), m * ROWS_B
    return m * (CONSUMERS * HALF), n * ROWS_B


@gluon.jit
def inside(first, total, ROWS: gl.constexpr):
    """Where ROWS rows begin that are not to end behind the last of `total`: at `first`, or earlier. Fewer rows in all
    begin where they would.
    """
    return gl.minimum(first, gl.where(total < ROWS, first, total - ROWS))


@gluon.jit
def produce(
    a_desc, b_desc, extra_desc, a_buffers, b_buffers, extra_buffers, ready, empty, ends, m_tiles, n_tiles, units,
    whole, left, splits, items, gate, BLOCK_B: gl.constexpr, EXTRA: gl.constexpr, CONSUMERS: gl.constexpr,
    STAGES: gl.constexpr, GROUP: gl.constexpr, SWAP: gl.constexpr, GATED: gl.constexpr, MODE: gl.constexpr,
):  # fmt: skip
    """Loads the steps of the program's items. gate: rows of A between a gate and its up projection."""
    HALVES: gl.constexpr = 2 * CONSUMERS if GATED else CONSUMERS
    end_a, end_b = ends
    program = gl.program_id(0)
    done = 0
    for turn in range(gluon_turns(program, gl.num_programs(0), items, MODE)):
        tile, first, last, _slot, _parts, _first_slot, _next_slot, _step = gluon_segment(
            turn, program, gl.num_programs(0), whole, splits, units, left, MODE
        )
        row_a, row_b = origin(tile, m_tiles, n_tiles, GROUP, CONSUMERS, BLOCK_B + EXTRA, SWAP)
        row_b = inside(row_b, end_b, BLOCK_B + EXTRA)
        for unit in range(first, last):
            slot = done % STAGES
            bar = ready.index(slot)
            mbarrier.wait(empty.index(slot), (done // STAGES & 1) ^ 1)
            A_BYTES: gl.constexpr = a_desc.dtype.primitive_bitwidth // 8
            mbarrier.expect(bar, (HALVES * HALF * A_BYTES + (BLOCK_B + EXTRA) * 2) * UNIT)
            column = unit * UNIT
            for half in gl.static_range(HALVES):
                row = inside(row_a + (half % CONSUMERS) * HALF, end_a, HALF) + (half // CONSUMERS) * gate
                async_load(a_desc, [row, column], bar, a_buffers.index(slot * HALVES + half))
            async_load(b_desc, [row_b, column], bar, b_buffers.index(slot))
            if EXTRA > 0:
                async_load(extra_desc, [row_b + BLOCK_B, column], bar, extra_buffers.index(slot))
            done += 1


@gluon.jit
def multiply(
    a_buffers, b_buffers, extra_buffers, ready, empty, done, count, WHICH: gl.constexpr, BLOCK_B: gl.constexpr,
    EXTRA: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr, GATED: gl.constexpr, LAYOUT: gl.constexpr,
    MORE: gl.constexpr,
):  # fmt: skip
    """(products of this consumer's rows over `count` steps, the second sums)."""
    HALVES: gl.constexpr = 2 * CONSUMERS if GATED else CONSUMERS
    acc = gl.zeros([HALF, BLOCK_B], gl.float32, LAYOUT)
    more = acc
    if EXTRA > 0:
        more = gl.zeros([HALF, EXTRA], gl.float32, MORE)
    for turn in range(done, done + count):
        slot = turn % STAGES
        mbarrier.wait(ready.index(slot), turn // STAGES & 1)
        b = b_buffers.index(slot).permute((1, 0))
        pending = warpgroup_mma(a_buffers.index(slot * HALVES + WHICH), b, acc, is_async=True)
        if GATED:
            second = warpgroup_mma(a_buffers.index(slot * HALVES + CONSUMERS + WHICH), b, more, is_async=True)
            acc, more = warpgroup_mma_wait(2, deps=[pending, second])
        elif EXTRA > 0:
            extra = extra_buffers.index(slot).permute((1, 0))
            second = warpgroup_mma(a_buffers.index(slot * HALVES + WHICH), extra, more, is_async=True)
            acc, more = warpgroup_mma_wait(2, deps=[pending, second])
        else:
            acc = warpgroup_mma_wait(1, deps=[pending])
        if turn > done:
            mbarrier.arrive(empty.index((turn - 1) % STAGES))
    if GATED or EXTRA > 0:
        acc, more = warpgroup_mma_wait(0, deps=[acc, more])
    else:
        acc = warpgroup_mma_wait(0, deps=[acc])
    if count > 0:
        mbarrier.arrive(empty.index((done + count - 1) % STAGES))
    return acc, more


@gluon.jit
def part_offsets(
    slot, NUMBER: gl.constexpr, COUNT: gl.constexpr, START: gl.constexpr, TOTAL: gl.constexpr, WIDTH: gl.constexpr,
    LAYOUT: gl.constexpr,
):  # fmt: skip
    """Where a consumer's sums lie in the scratch: COUNT blocks of 64 rows of TOTAL columns a slot, of the NUMBER-th of
    them WIDTH columns, behind START others. Eight rows of eight columns lie together, which is what a warp holds at a
    time: row by row, its loads would touch eight lines for two.
    """
    rows = gl.arange(0, HALF, gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, WIDTH, gl.SliceLayout(0, LAYOUT))
    base = (slot * COUNT + NUMBER).to(gl.int64) * (HALF * TOTAL) + HALF * START
    return (
        base
        + ((rows // 8) * (8 * WIDTH) + rows % 8 * 8)[:, None]
        + (columns // 8 * 64 + columns % 8)[None, :]
    )


@gluon.jit
def sum_parts(
    part_ptr, parts, first_slot, next_slot, step, NUMBER: gl.constexpr, COUNT: gl.constexpr, START: gl.constexpr,
    TOTAL: gl.constexpr, WIDTH: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """All parts of a tile, in their order: the sum is the same whoever adds last. As many as have room in registers
    are loaded at a time.
    """
    BATCH: gl.constexpr = 128 // WIDTH if WIDTH < 128 else 1
    offsets = part_offsets(first_slot, NUMBER, COUNT, START, TOTAL, WIDTH, LAYOUT)
    acc = gl.load(part_ptr + offsets, cache_modifier=".cg")
    for start in range(0, parts - 1, BATCH):
        for number in gl.static_range(BATCH):
            here = gl.minimum(start + number, parts - 2)  # of what is read twice, the second is not added
            offsets = part_offsets(next_slot + here * step, NUMBER, COUNT, START, TOTAL, WIDTH, LAYOUT)
            part = gl.load(part_ptr + offsets, cache_modifier=".cg")
            acc += gl.where(start + number < parts - 1, part, 0.0)
    return acc


@gluon.jit
def with_bias(acc, bias_ptr, row, rows_a, column, rows_b, SWAP: gl.constexpr, LAYOUT: gl.constexpr):
    """bias: one value for each output feature, along A for SWAP, else along B."""
    if bias_ptr is not None:
        if SWAP:
            index = row + gl.arange(0, HALF, gl.SliceLayout(1, LAYOUT))
            acc += gl.load(bias_ptr + index, mask=index < rows_a, other=0.0).to(gl.float32)[:, None]
        else:
            index = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
            acc += gl.load(bias_ptr + index, mask=index < rows_b, other=0.0).to(gl.float32)[None, :]
    return acc


@gluon.jit
def fetch_columns(residual_desc, bar, staging, row, column, WHICH: gl.constexpr):
    """Starts to load 64 rows of A and a staging buffer's columns into it."""
    PIECE: gl.constexpr = residual_desc.block_shape[1]
    PIECES: gl.constexpr = staging.shape[2] // PIECE
    pieces = reinterpret(staging, staging.dtype, [staging.shape[0] * PIECES, HALF, PIECE], staging.layout)
    for piece in gl.static_range(PIECES):
        async_load(residual_desc, [row, column + piece * PIECE], bar, pieces.index(WHICH * PIECES + piece))


@gluon.jit
def fetch_residual(
    residual_desc, arrived, staging, extra_staging, row, column, WHICH: gl.constexpr, EXTRA: gl.constexpr,
    SWAP: gl.constexpr,
):  # fmt: skip
    """Starts to load what is added to 64 rows of A and the staging buffers' columns, once those are free."""
    tma.store_wait(0)
    thread_barrier()
    bar = arrived.index(WHICH)
    if SWAP:
        mbarrier.expect(bar, staging.shape[1] * HALF * 2)
        async_load(residual_desc, [column, row], bar, staging.index(WHICH))
    else:
        mbarrier.expect(bar, (staging.shape[2] + EXTRA) * HALF * 2)
        fetch_columns(residual_desc, bar, staging, row, column, WHICH)
        if EXTRA > 0:
            fetch_columns(residual_desc, bar, extra_staging, row, column + staging.shape[2], WHICH)


@gluon.jit
def store_own(buffer, out_ptr, stride, token, own_token, tokens, feature, own_feature, features):
    """A staged [tokens, features] from `token` and `feature` on: what of it is the tile's own and inside the output."""
    ACROSS: gl.constexpr = buffer.shape[1] // 8
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [32 // ACROSS, ACROSS], [4, 1], [1, 0])
    rows = token + gl.arange(0, buffer.shape[0], gl.SliceLayout(1, LAYOUT))
    # what has descriptors has multiples of eight; said where the compiler sees it, a thread stores 16 bytes at once
    columns = feature // 8 * 8 + gl.arange(0, buffer.shape[1], gl.SliceLayout(0, LAYOUT))
    kept = ((rows >= own_token) & (rows < tokens))[:, None]
    kept = kept & ((columns >= own_feature // 8 * 8) & (columns < features // 8 * 8))[None, :]
    places = rows.to(gl.int64)[:, None] * (stride // 8 * 8) + columns[None, :]
    gl.store(out_ptr + places, buffer.load(LAYOUT), mask=kept)


@gluon.jit
def store_columns(
    acc, out, residual_desc, arrived, phase, staging, row, column, own, ends, WHICH: gl.constexpr,
    FREE: gl.constexpr, SWAP: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """acc [64, columns of a staging buffer] goes out through shared memory, plus the residual that was fetched. FREE:
    what was in the buffer has been stored. own: row and column from which on no tile before has them; ends: of the
    output.
    """
    out_desc, out_ptr, stride = out
    own_row, own_column = own
    end_row, end_column = ends
    buffer = staging.index(WHICH)
    if SWAP:
        buffer = buffer.permute((1, 0))
    if residual_desc is not None:
        mbarrier.wait(arrived.index(WHICH), phase)
        acc += buffer.load(LAYOUT).to(gl.float32)
        thread_barrier()
    elif not FREE:
        tma.store_wait(0)
        thread_barrier()
    buffer.store(acc.to(staging.dtype))
    fence_async_shared()
    thread_barrier()
    if (row < own_row) | (column < own_column):
        if SWAP:
            store_own(
                staging.index(WHICH), out_ptr, stride, column, own_column, end_column, row, own_row, end_row
            )
        else:
            store_own(
                staging.index(WHICH), out_ptr, stride, row, own_row, end_row, column, own_column, end_column
            )
    elif SWAP:
        async_store(out_desc, [column, row], staging.index(WHICH))
    else:
        PIECE: gl.constexpr = out_desc.block_shape[1]
        PIECES: gl.constexpr = staging.shape[2] // PIECE
        pieces = reinterpret(staging, staging.dtype, [staging.shape[0] * PIECES, HALF, PIECE], staging.layout)
        for piece in gl.static_range(PIECES):
            async_store(out_desc, [row, column + piece * PIECE], pieces.index(WHICH * PIECES + piece))


@gluon.jit
def finish(
    acc, more, out, bias_ptr, residual_desc, arrived, fetched, staging, extra_staging, row, column, own, ends, gate,
    WHICH: gl.constexpr, BLOCK_B: gl.constexpr, EXTRA: gl.constexpr, SWAP: gl.constexpr, GATED: gl.constexpr,
    LAYOUT: gl.constexpr, MORE: gl.constexpr,
):  # fmt: skip
    """Bias, gate, residual; then the tile goes out. fetched: residuals that this consumer has waited for so far."""
    end_row, end_column = ends
    acc = with_bias(acc, bias_ptr, row, end_row, column, end_column, SWAP, LAYOUT)
    if GATED:
        more = with_bias(more, bias_ptr, gate + row, gate + end_row, column, end_column, SWAP, LAYOUT)
        acc = acc / (1.0 + gl.exp2(acc * -1.4426950408889634)) * more
    if BLOCK_B <= STORED:
        store_columns(
            acc, out, residual_desc, arrived, fetched & 1, staging, row, column, own, ends, WHICH, False, SWAP, LAYOUT
        )  # fmt: skip
        if EXTRA > 0:  # of the same residual, whose barrier has passed
            more = with_bias(more, bias_ptr, row, end_row, column + BLOCK_B, end_column, SWAP, MORE)
            store_columns(
                more, out, residual_desc, arrived, fetched & 1, extra_staging, row, column + BLOCK_B, own, ends,
                WHICH, True, SWAP, MORE,
            )  # fmt: skip
    else:
        PIECE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, STORED, 16])
        low, high = gl.split(gl.permute(gl.reshape(acc, [HALF, 2, STORED]), (0, 2, 1)))
        store_columns(
            gl.convert_layout(low, PIECE, assert_trivial=True), out, residual_desc, arrived, fetched & 1, staging, row,
            column, own, ends, WHICH, False, SWAP, PIECE,
        )  # fmt: skip
        if residual_desc is not None:
            fetch_residual(
                residual_desc, arrived, staging, extra_staging, row, column + STORED, WHICH, EXTRA, SWAP
            )
        store_columns(
            gl.convert_layout(high, PIECE, assert_trivial=True), out, residual_desc, arrived, (fetched + 1) & 1,
            staging, row, column + STORED, own, ends, WHICH, False, SWAP, PIECE,
        )  # fmt: skip


@gluon.jit
def consume(
    out, residual_desc, bias_ptr, scales, part_ptr, count_ptr, a_buffers, b_buffers, extra_buffers, ready, empty,
    arrived, staging, extra_staging, ends, m_tiles, n_tiles, units, whole, left, splits, items, gate,
    WHICH: gl.constexpr, BLOCK_B: gl.constexpr, EXTRA: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr,
    GROUP: gl.constexpr, SWAP: gl.constexpr, GATED: gl.constexpr, MODE: gl.constexpr, SCALED: gl.constexpr,
):  # fmt: skip
    """A consumer: 64 rows of A in each of the program's tiles."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_B, 16])
    MORE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, EXTRA if EXTRA > 0 else BLOCK_B, 16])
    # the second sums in the scratch: blocks of their own, or columns behind the first
    COUNT: gl.constexpr = 2 * CONSUMERS if GATED else CONSUMERS
    TOTAL: gl.constexpr = BLOCK_B + EXTRA
    SECOND: gl.constexpr = CONSUMERS + WHICH if GATED else WHICH
    START: gl.constexpr = 0 if GATED else BLOCK_B
    WIDTH: gl.constexpr = BLOCK_B if GATED else EXTRA
    end_row, end_column = ends
    program = gl.program_id(0)
    done = 0
    fetched = 0
    for turn in range(gluon_turns(program, gl.num_programs(0), items, MODE)):
        tile, first, last, slot, parts, first_slot, next_slot, step = gluon_segment(
            turn, program, gl.num_programs(0), whole, splits, units, left, MODE
        )
        if last > first:
            own_row, own_column = origin(tile, m_tiles, n_tiles, GROUP, CONSUMERS, TOTAL, SWAP)
            own_row += WHICH * HALF
            row = inside(own_row, end_row, HALF)
            column = inside(own_column, end_column, TOTAL)
            if residual_desc is not None:  # noqa: SIM102
                if parts == 1:  # of the last program that has a part, later
                    fetch_residual(
                        residual_desc, arrived, staging, extra_staging, row, column, WHICH, EXTRA, SWAP
                    )
            if SCALED == NOTHING:
                acc, more = multiply(
                    a_buffers, b_buffers, extra_buffers, ready, empty, done, last - first, WHICH, BLOCK_B, EXTRA,
                    CONSUMERS, STAGES, GATED, LAYOUT, MORE,
                )  # fmt: skip
            else:
                acc, more = multiply_narrow(
                    a_buffers, b_buffers, ready, empty, scales, row, end_row, gate, first, done, last - first,
                    staging.dtype, WHICH, BLOCK_B, CONSUMERS, STAGES, GATED, SCALED, LAYOUT,
                )  # fmt: skip
            ended = True
            if MODE > 0:  # noqa: SIM102
                if parts > 1:
                    gl.store(part_ptr + part_offsets(slot, WHICH, COUNT, 0, TOTAL, BLOCK_B, LAYOUT), acc)
                    if WIDTH > 0:
                        gl.store(
                            part_ptr + part_offsets(slot, SECOND, COUNT, START, TOTAL, WIDTH, MORE), more
                        )
                    thread_barrier()  # every thread's sums are written before one thread counts them
                    counter = count_ptr + CONSUMERS * tile + WHICH
                    ended = gl.atomic_add(counter, 1, sem="acq_rel") == parts - 1
                    if ended:
                        gl.store(counter, 0)
                        if residual_desc is not None:
                            fetch_residual(
                                residual_desc, arrived, staging, extra_staging, row, column, WHICH, EXTRA, SWAP,
                            )  # fmt: skip
                        acc = sum_parts(
                            part_ptr, parts, first_slot, next_slot, step, WHICH, COUNT, 0, TOTAL, BLOCK_B, LAYOUT,
                        )  # fmt: skip
                        if WIDTH > 0:
                            more = sum_parts(
                                part_ptr, parts, first_slot, next_slot, step, SECOND, COUNT, START, TOTAL, WIDTH, MORE
                            )  # fmt: skip
            if ended:
                if SCALED == ROW:
                    acc *= row_scales(scales, row, end_row, LAYOUT)
                    if GATED:
                        more *= row_scales(scales, gate + row, gate + end_row, LAYOUT)
                finish(
                    acc, more, out, bias_ptr, residual_desc, arrived, fetched, staging, extra_staging, row, column,
                    (own_row, own_column), ends, gate, WHICH, BLOCK_B, EXTRA, SWAP, GATED, LAYOUT, MORE,
                )  # fmt: skip
                fetched += 2 if BLOCK_B > STORED else 1
        done += last - first
    tma.store_wait(0)


@gluon.jit(
    do_not_specialize=[
        "out_stride", "rows_a", "rows_b", "n_tiles", "units", "whole", "left", "splits", "items", "gate",
        "scale_stride", "scale_step",
    ],
    do_not_specialize_on_alignment=["m_tiles"],
)  # fmt: skip
def warp_specialized_matmul(
    tensors, a_desc, b_desc, extra_desc, out_desc, residual_desc, out_stride, rows_a, rows_b, m_tiles, n_tiles, units,
    whole, left, splits, items, gate, scale_stride, scale_step,
    BLOCK_B: gl.constexpr, EXTRA: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
    SWAP: gl.constexpr, GATED: gl.constexpr, MODE: gl.constexpr, SCALED: gl.constexpr,
):  # fmt: skip
    """Grid: (programs,), one a processor. out_stride, rows_a, rows_b: of the output. extra_desc: of B's rows, where
    EXTRA > 0.
    """
    HALVES: gl.constexpr = 2 * CONSUMERS if GATED else CONSUMERS
    SHARED: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    element = tensors.x.dtype.element_ty
    WIDTH: gl.constexpr = BLOCK_B if BLOCK_B < STORED else STORED
    OUT: gl.constexpr = [CONSUMERS, WIDTH, HALF] if SWAP else [CONSUMERS, HALF, WIDTH]
    a_buffers = gl.allocate_shared_memory(a_desc.dtype, [STAGES * HALVES, HALF, UNIT], a_desc.layout)
    b_buffers = gl.allocate_shared_memory(element, [STAGES, BLOCK_B, UNIT], SHARED)
    staging = gl.allocate_shared_memory(element, OUT, out_desc.layout)
    extra_buffers = b_buffers
    extra_staging = staging
    if EXTRA > 0:
        extra_buffers = gl.allocate_shared_memory(element, [STAGES, EXTRA, UNIT], SHARED)
        extra_staging = gl.allocate_shared_memory(element, [CONSUMERS, HALF, EXTRA], out_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    arrived = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], mbarrier.MBarrierLayout())
    for which in gl.static_range(CONSUMERS):
        mbarrier.init(arrived.index(which), count=1)
    for slot in gl.static_range(STAGES):
        mbarrier.init(ready.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=CONSUMERS)
    out = (out_desc, tensors.out, out_stride)
    ends = (rows_a, rows_b)
    scales = (tensors.scale, scale_stride, scale_step)
    # The consumers, then the producer; warps and registers per thread of all but the first consumer.
    gl.warp_specialize(
        [
            (consume, (
                out, residual_desc, tensors.bias, scales, tensors.part, tensors.counters, a_buffers, b_buffers,
                extra_buffers, ready, empty, arrived, staging, extra_staging, ends, m_tiles, n_tiles, units, whole,
                left, splits, items, gate, which, BLOCK_B, EXTRA, CONSUMERS, STAGES, GROUP, SWAP, GATED, MODE, SCALED,
            )) if which < CONSUMERS else (produce, (
                a_desc, b_desc, extra_desc, a_buffers, b_buffers, extra_buffers, ready, empty, ends, m_tiles, n_tiles,
                units, whole, left, splits, items, gate, BLOCK_B, EXTRA, CONSUMERS, STAGES, GROUP, SWAP, GATED, MODE,
            ))
            for which in ((0, 1, 2) if CONSUMERS == 2 else (0, 1))
        ],
        [4, 1] if CONSUMERS == 2 else [1], [232, 40] if CONSUMERS == 2 else [40],
    )  # fmt: skip
