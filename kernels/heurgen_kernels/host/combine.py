"""The second launch that combines the parts of split keys: of warp_specialized always, of others where that ends sooner
than the last program of each block.

On Hopper alone, where it begins while the first launch runs (`device/dependent.py`). Behind it it would end later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..device.combine import combine_kernel, static_combine_kernel
from ..device.split_kv import split_kv_kernel
from ..device.static_grid import CROWDED, static_grid_kernel
from ..device.warp_specialized import combine_prompts_kernel, warp_specialized_kernel
from ..device.warp_specialized.combine import ELEMENTS
from .bound import Bound, Slots, run
from .dispatch import through_triton

if TYPE_CHECKING:
    from .call import Call
    from .plan import Plan

# Bytes of a block's parts that its last program combines alone. With more of them a second launch ended sooner on one
# H100: 0.4 us for 32 KB, 4 us for 300 KB, of 9 batches from one decode to 28.
ALONE = 1 << 15
# Bytes of a part from which many of them are worth a second launch, see `parted`.
LARGE_PARTS = {"split_kv": 4096, "static_grid": 8192}
# Parts from which it is worth the programs that find no work, where most blocks are other launches': batches of so many
# parts have few blocks. With two parts of 1,760 blocks they took 75 us of 600 on one H200.
RARE = 9
NEVER = 1 << 30
# Numbers of a row's parts that a program, one warp, reads at once: 128 registers a thread.
ROW = 4096
OPTIONS = {"num_warps": 1, "launch_pdl": True}
# Parts for each processor that a static grid chooses about. Of more than half as many blocks none has two.
PARTS = 2 * CROWDED.value
# Of a plan's second launch, by variant.
KERNELS = {
    "split_kv": combine_kernel, "static_grid": static_combine_kernel, "warp_specialized": combine_prompts_kernel,
}  # fmt: skip
# Of a launch: the plan, the call, `addresses_of`, the stream, the members of Tensors from `alibi` on, rows of scratch.
Given = tuple["Plan", "Call", tuple[int, ...], int, tuple[Any, ...], int]


def parted(kernel: Any, decode: bool, kept: int, d_pad: int) -> bool:
    """Whether a second launch knows the parts of the kernel's blocks, and does not take longer.

    In graphs of decode steps of six models, products by cuBLAS (one H100): parts of 2 KB, one token of 32/8 heads, 1.4
    to 3.3 us a layer longer for one sequence, 4 KB behind split_kv 0.1 to 4.9 less, 8 KB less behind either. A static
    grid does not know in time whether there will be many: where there are few the launch costs 2 us for nothing, with
    4 KB as much as it gains elsewhere. Behind one of heads of 256 it took 7 us longer.
    """
    part = 4 * kept * d_pad
    if kernel is warp_specialized_kernel:
        return True  # it has no other way
    if kernel is split_kv_kernel:
        return part >= LARGE_PARTS["split_kv"]
    return kernel is static_grid_kernel and decode and d_pad <= 128 and part >= LARGE_PARTS["static_grid"]


def least_parts(kept: int, d_pad: int, rare: bool = False) -> int:
    """Parts of a block from which a second launch combines them. kept, d_pad: rows and columns of a part. rare: most
    blocks have none, see RARE.
    """
    return max(ALONE // (4 * kept * d_pad) + 1, RARE if rare else 2)


def combines(plan: Plan, call: Call) -> bool:
    """Whether a launch of the plan has a second one. A static grid's parts are not known: as many as it may choose."""
    if plan.second_from is None:
        return False
    parts = plan.segments
    if plan.variant == "static_grid":
        layout = call.layout
        parts = min(parts, PARTS * layout.device.processors // (layout.num_seqs * layout.heads_kv))
    return parts >= plan.second_from


def combine(
    plan: Plan,
    call: Call,
    addresses: tuple[int, ...],
    stream: int,
    rest: tuple[Any, ...],
    rows: int,
) -> None:
    """Launch it, on the stream of the first launch and right behind it."""
    run(plan.second, _launch_bound, _dispatch, (plan, call, addresses, stream, rest, rows))


def grid_of(plan: Plan, call: Call, rows: int) -> tuple[int, int, int]:
    """rows: of the scratch, all parts of all blocks."""
    each = ELEMENTS.value // plan.d_pad if plan.variant == "warp_specialized" else 1
    return rows // (plan.segments * plan.kept), plan.kept // each, 1


def constants_of(plan: Plan) -> tuple[Any, ...]:
    """All arguments of a plan's second launch behind the numbers of a call, in the order of the kernel's signature."""
    layout, own, chunk = plan.constants[:5], plan.constants[5:], max(1, ROW // plan.d_pad)
    if plan.variant == "warp_specialized":
        return (plan.segments, *layout, own[-1])
    if plan.variant == "split_kv":
        return (plan.segments, plan.second_from, *layout, plan.kept, chunk, plan.decode)
    return (plan.second_from, *layout, plan.segments, plan.kept, chunk, *own[-3:])


def arguments_of(plan: Plan, call: Call, rows: int) -> tuple[Any, ...]:
    """All arguments behind the tensors, in the order of the kernel's signature."""
    numbers: tuple[Any, ...] = (rows, call.left, call.right, call.layout.num_seqs)
    if plan.variant == "static_grid":
        numbers = (*numbers, call.forced)
    elif plan.variant == "warp_specialized":
        numbers = (*numbers, call.programs)
    return (*numbers, *plan.second_constants)


def _dispatch(given: Given) -> tuple[Any, tuple[Slots, ...]]:
    plan, call, _, _, rest, rows = given
    arguments = (call.tensors(rest), *arguments_of(plan, call, rows))
    return through_triton(KERNELS[plan.variant], grid_of(plan, call, rows), arguments, OPTIONS), ()


def _launch_bound(bound: Bound, given: Given) -> None:
    plan, call, addresses, stream, rest, rows = given
    q, k, v, new_k, new_v, out, table, cu, lens = addresses
    tensors = (q, k, v, new_k, new_v, out, table, cu, call.blocks, lens, *rest)
    grid = grid_of(plan, call, rows)
    bound.launch(*grid, stream, *bound.head, tensors, *arguments_of(plan, call, rows))
