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
def widened(buffers, index, scale, element: gl.constexpr, LAYOUT: gl.constexpr):
    """64 rows of a weight of 8 bits as the left operand, in registers, times their scales, if any; see `scales`."""
    a = buffers.index(index).load(gl.DotOperandLayout(0, LAYOUT, 2)).to(gl.float16)
    if scale is not None:
        return (a.to(gl.float32) * scale[:, None]).to(element)
    if element == gl.float16:
        return a
    return a.to(gl.float32).to(element)


@gluon.jit
def row_scales(scales, row, rows, LAYOUT: gl.constexpr):
    """Of the weight's 64 rows from `row` on; behind the last of `rows` its own."""
    pointer, stride, _ = scales
    index = gl.minimum(row + gl.arange(0, HALF, gl.SliceLayout(1, LAYOUT)), rows - 1)
    return gl.load(pointer + index * stride)[:, None]


@gluon.jit
def block_scales(scales, row, rows, unit, LAYOUT: gl.constexpr):
    """The same of blocks, in a step, for `widened`. A step is half a block, and 64 rows are of two at most: with an
    address for each row two registers would spill.
    """
    pointer, stride, step = scales
    pointer += unit // 2 * step
    upper = gl.load(pointer + row // SIDE * stride)
    lower = gl.load(pointer + gl.minimum(row + HALF - 1, rows - 1) // SIDE * stride)
    index = gl.arange(0, HALF, gl.SliceLayout(1, gl.DotOperandLayout(0, LAYOUT, 2)))
    return gl.where(index < SIDE - row % SIDE, upper, lower)


@gluon.jit
def step_scales(scales, row, rows, gate, unit, GATED: gl.constexpr, LAYOUT: gl.constexpr):
    """(those, the up projection's)."""
    scale = block_scales(scales, row, rows, unit, LAYOUT)
    more = scale
    if GATED:
        more = block_scales(scales, gate + row, gate + rows, unit, LAYOUT)
    return scale, more


@gluon.jit
def loaded(
    a_buffers, ready, turn, scale, more_scale, element: gl.constexpr, WHICH: gl.constexpr, CONSUMERS: gl.constexpr,
    STAGES: gl.constexpr, GATED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """(the weight's rows of a step, once it is there; those of the up projection)."""
    HALVES: gl.constexpr = 2 * CONSUMERS if GATED else CONSUMERS
    slot = turn % STAGES
    mbarrier.wait(ready.index(slot), turn // STAGES & 1)
    a = widened(a_buffers, slot * HALVES + WHICH, scale, element, LAYOUT)
    a_more = a
    if GATED:
        a_more = widened(a_buffers, slot * HALVES + CONSUMERS + WHICH, more_scale, element, LAYOUT)
    return a, a_more


@gluon.jit
def multiply_narrow(
    a_buffers, b_buffers, ready, empty, scales, row, rows, gate, first, done, count, element: gl.constexpr,
    WHICH: gl.constexpr, BLOCK_B: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr, GATED: gl.constexpr,
    SCALED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """`multiply` where A is a weight of 8 bits, over at least one step. It goes through registers: those of the next
    step are filled while this one is multiplied. count: of steps.
    """
    acc = gl.zeros([HALF, BLOCK_B], gl.float32, LAYOUT)
    more = acc
    scale = None
    more_scale = None
    if SCALED >= BLOCK:
        scale, more_scale = step_scales(scales, row, rows, gate, first, GATED, LAYOUT)
    a, a_more = loaded(
        a_buffers, ready, done, scale, more_scale, element, WHICH, CONSUMERS, STAGES, GATED, LAYOUT
    )
    for turn in range(done, done + count - 1):
        acc, more, a, a_more = narrow_step(
            a, a_more, acc, more, a_buffers, b_buffers, ready, empty, scales, row, rows, gate, first + turn - done,
            turn, element, False, WHICH, CONSUMERS, STAGES, GATED, SCALED, LAYOUT,
        )  # fmt: skip
    acc, more, a, a_more = narrow_step(
        a, a_more, acc, more, a_buffers, b_buffers, ready, empty, scales, row, rows, gate, first + count - 1,
        done + count - 1, element, True, WHICH, CONSUMERS, STAGES, GATED, SCALED, LAYOUT,
    )  # fmt: skip
    return acc, more


@gluon.jit
def narrow_step(
    a, a_more, acc, more, a_buffers, b_buffers, ready, empty, scales, row, rows, gate, unit, turn,
    element: gl.constexpr, LAST: gl.constexpr, WHICH: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr,
    GATED: gl.constexpr, SCALED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """(the sums with this step's products, those of the up projection, the weight's rows of the next step, ...)."""
    scale = None
    more_scale = None
    if SCALED >= BLOCK and not LAST:  # of the next step, under way while the matrix unit is given this one
        scale, more_scale = step_scales(scales, row, rows, gate, unit + 1, GATED, LAYOUT)
    slot = turn % STAGES
    b = b_buffers.index(slot).permute((1, 0))
    pending = warpgroup_mma(a, b, acc, is_async=True)
    if GATED:
        second = warpgroup_mma(a_more, b, more, is_async=True)
    if not LAST:
        a, a_more = loaded(
            a_buffers, ready, turn + 1, scale, more_scale, element, WHICH, CONSUMERS, STAGES, GATED, LAYOUT
        )
    if GATED:
        acc, more = warpgroup_mma_wait(0, deps=[pending, second])
    else:
        acc = warpgroup_mma_wait(0, deps=[pending])
    mbarrier.arrive(empty.index(slot))
    return acc, more, a, a_more
