"""warp_specialized's consumers where the weight has 8 bits: it is A, and goes through registers, where it is widened.

The matrix unit reads a left operand from registers as well as from shared memory. Those of the next step are filled
while it multiplies this one; what it reads is waited for within the turn, since a product that is under way from one
turn to the next would have the compiler wait after each instruction.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

from .scales import BLOCK, SIDE

HALF = gl.constexpr(64)  # rows of a consumer


@gluon.jit
def widened(buffers, index, element: gl.constexpr, LAYOUT: gl.constexpr):
    """64 rows of a weight of 8 bits as the left operand, in registers; see `scales.widened`."""
    a = buffers.index(index).load(gl.DotOperandLayout(0, LAYOUT, 2)).to(gl.float16)
    if element == gl.float16:
        return a
    return a.to(gl.float32).to(element)


@gluon.jit
def scales_of(scale_ptr, row, rows, unit, units, SCALED: gl.constexpr, LAYOUT: gl.constexpr):
    """Scales of the weight's 64 rows from `row` on, of ROW, or BLOCK's for a step. rows: behind them the last one's."""
    index = gl.minimum(row + gl.arange(0, HALF, gl.SliceLayout(1, LAYOUT)), rows - 1)
    if SCALED == BLOCK:
        index = index // SIDE * ((units + 1) // 2) + unit // 2
    return gl.load(scale_ptr + index)[:, None]


@gluon.jit
def loaded(
    a_buffers, ready, turn, element: gl.constexpr, WHICH: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr,
    GATED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """(the weight's rows of a step, once it is there; those of the up projection)."""
    HALVES: gl.constexpr = 2 * CONSUMERS if GATED else CONSUMERS
    slot = turn % STAGES
    mbarrier.wait(ready.index(slot), turn // STAGES & 1)
    a = widened(a_buffers, slot * HALVES + WHICH, element, LAYOUT)
    a_more = a
    if GATED:
        a_more = widened(a_buffers, slot * HALVES + CONSUMERS + WHICH, element, LAYOUT)
    return a, a_more


@gluon.jit
def multiply_narrow(
    a_buffers, b_buffers, ready, empty, scale_ptr, row, rows, gate, first, units, done, count, element: gl.constexpr,
    WHICH: gl.constexpr, BLOCK_B: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr, GATED: gl.constexpr,
    SCALED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """`multiply` where A is a weight of 8 bits, over at least one step. It goes through registers: those of the next
    step are filled while this one is multiplied. count: of steps.
    """
    acc = gl.zeros([HALF, BLOCK_B], gl.float32, LAYOUT)
    more = acc
    a, a_more = loaded(a_buffers, ready, done, element, WHICH, CONSUMERS, STAGES, GATED, LAYOUT)
    for turn in range(done, done + count - 1):
        acc, more, a, a_more = narrow_step(
            a, a_more, acc, more, a_buffers, b_buffers, ready, empty, scale_ptr, row, rows, gate, first + turn - done,
            units, turn, element, False, WHICH, CONSUMERS, STAGES, GATED, SCALED, LAYOUT,
        )  # fmt: skip
    acc, more, a, a_more = narrow_step(
        a, a_more, acc, more, a_buffers, b_buffers, ready, empty, scale_ptr, row, rows, gate, first + count - 1, units,
        done + count - 1, element, True, WHICH, CONSUMERS, STAGES, GATED, SCALED, LAYOUT,
    )  # fmt: skip
    return acc, more


@gluon.jit
def narrow_step(
    a, a_more, acc, more, a_buffers, b_buffers, ready, empty, scale_ptr, row, rows, gate, unit, units, turn,
    element: gl.constexpr, LAST: gl.constexpr, WHICH: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr,
    GATED: gl.constexpr, SCALED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """(the sums with this step's products, those of the up projection, the weight's rows of the next step, ...)."""
    ADD: gl.constexpr = SCALED != BLOCK  # else this step's products are apart until they are scaled
    slot = turn % STAGES
    b = b_buffers.index(slot).permute((1, 0))
    pending = warpgroup_mma(a, b, acc, use_acc=ADD, is_async=True)
    if GATED:
        second = warpgroup_mma(a_more, b, more, use_acc=ADD, is_async=True)
    if SCALED == BLOCK:
        scale = scales_of(scale_ptr, row, rows, unit, units, SCALED, LAYOUT)
        if GATED:
            more_scale = scales_of(scale_ptr, gate + row, gate + rows, unit, units, SCALED, LAYOUT)
    if not LAST:
        a, a_more = loaded(a_buffers, ready, turn + 1, element, WHICH, CONSUMERS, STAGES, GATED, LAYOUT)
    if GATED:
        part, part_more = warpgroup_mma_wait(0, deps=[pending, second])
    else:
        part = warpgroup_mma_wait(0, deps=[pending])
    mbarrier.arrive(empty.index(slot))
    if SCALED == BLOCK:
        acc += part * scale
        if GATED:
            more += part_more * more_scale
    else:
        acc = part
        if GATED:
            more = part_more
    return acc, more, a, a_more
