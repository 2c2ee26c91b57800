"""From tensors and a config to a launch.

A `Plan` is everything about a launch that does not change from call to call with the same layout: the
kernel, its constexprs, the grid's shape and, after the first call, the compiled kernel. Later calls skip Triton's
dispatch (about 20 us for this many arguments) and go straight to the compiled kernel's launcher.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch

from ..caches import Cache, shared
from ..config import Config
from ..device import block, dependent, mixed, naive, pages, q_block, split_kv, static_grid, tiles
from ..device import combine as combine_module
from ..device import widen as widen_module
from ..device.split_kv import split_kv_kernel
from ..device.warp_specialized import attend, consume, items, kernel, produce
from ..device.warp_specialized import combine as combine_prompts
from . import plan as plan_module
from .apart import apart, batch_key, crowded, part_of, prompts_alone, separable
from .bound import Bound, Slots, run
from .call import Call
from .combine import NEVER, combine, combines
from .descriptors import new_descriptors, page_descriptors
from .dispatch import current_device, hash_in_turn, through_triton
from .occupancy import resident_programs
from .plan import (
    Plan,
    addresses_of,
    launch_grid,
    make_plan,
    plan_key,
    roomy_segments,
)
from .scratch import counters
from .segments import cut
from .validate import check_placed
from .widen import Room, over, widen, widened

# Callees first.
MODULES = (
    tiles, dependent, block, q_block, split_kv, static_grid, combine_module, mixed, naive, pages, widen_module, items,
    produce, attend, consume, combine_prompts, kernel,
)  # fmt: skip


@cache
def settle_cache_keys() -> None:
    """See `hash_in_turn`: 24 ms."""
    hash_in_turn(MODULES)


# Where kernels take their descriptors: of cached pages (K, V) and of new tokens (K, V).
SLOTS = ((1, 2), (3, 4))
# Of a launch: the plan, the call, `addresses_of`, the grid, the stream, and what `arguments_of` makes.
Given = tuple[Plan, Call, tuple[int, ...], tuple[int, ...], int, tuple[Any, ...], tuple[Any, ...]]
# What `planned` finds: the plan, then as `launch_grid`.
Planned = tuple[Plan, tuple[int, ...], int, int]
# Of a batch that is taken apart, what its layers share: the copy's room and its launch; the others, with the sequences
# that they are for (see `part_of`).
Shape = tuple[Room, Planned, list[tuple[int, int, Planned]]]
_plans: Cache[tuple[Any, ...], Plan] = shared()
# A server has a new one in every step with prompts: few are kept, more than a model has kinds of layers.
_shapes: Cache[tuple[Any, ...], Shape | tuple[()]] = shared(64)
_said: Cache[tuple[str, int], bool] = shared()
_log = logging.getLogger("heurgen_kernels")


def launch(call: Call, config: Config) -> torch.Tensor:
    """Run one config, on the device of the tensors, whichever is the current one. Nothing is read back from it."""
    layout = call.layout
    if layout.index >= 0 and layout.index != current_device():
        with torch.cuda.device(layout.index):
            return launch(call, config)
    if layout.tokens == 0 or layout.num_seqs == 0:
        return call.out
    if separable(call, config):
        if not call.prefix:
            return launch(call, prompts_alone(config))
        if _launch_apart(call, config):
            return call.out
    if config.programs_per_sm:
        config = cut(config, call)
    if layout.copied and config.variant == "warp_specialized":
        whole = widened(call)
        if whole is not None:
            settle_cache_keys()
            widen(call, whole)
            return launch(whole, config)
        if _launch_apart(call, crowded(config)):
            return call.out
    addresses = _placed(call)
    plan, grid, items, blocks = planned(call, config, addresses)
    _run(plan, call, addresses, grid, items, blocks)
    return call.out


def planned(call: Call, config: Config, addresses: tuple[int, ...]) -> Planned:
    """What a call launches with a config of num_segments."""
    key = plan_key(call, config, addresses)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.keep(key, make_plan(call, config))
    if call.blocks is not None and call.block_q != plan.block_q and not call.rest:
        call.blocks = None  # the metadata is of other blocks: the kernel numbers them itself
        return planned(call, config, addresses)
    grid, items, blocks = launch_grid(plan, call)
    if plan.segments > 1 and (room := roomy_segments(plan, items, call.programs)) < plan.segments:
        if not call.programs:
            _say_once(plan.variant, items, config.num_segments)
        return planned(call, config._replace(num_segments=room), addresses)
    return plan, grid, items, blocks


def _placed(call: Call) -> tuple[int, ...]:
    """`addresses_of` a call. ValueError where q or the pages have lost their memory since their signature was found
    good.
    """
    addresses = addresses_of(call)
    if not (addresses[0] and addresses[1] and addresses[2]):
        check_placed(call)
    return addresses


def _launch_apart(call: Call, config: Config) -> bool:
    """Whether the call was launched in parts, see `apart`: which ones is found once for all layers of a batch."""
    addresses = _placed(call)
    key = batch_key(call, config, addresses)
    shape = _shapes.get(key)
    if shape is None:
        shape = _shapes.keep(key, _shape_of(call, config))
    if not shape:
        return False
    room, (plan, grid, items, blocks), others = shape
    copy = over(call, room)
    widen(call, copy)
    _run(plan, copy, addresses_of(copy), grid, items, blocks)
    parts = []  # their scratch lives until the last launch is made: those beside one another share none
    for above, upto, (plan, grid, items, blocks) in others:
        part = part_of(call, above, upto)
        if part.rest:
            part.blocks = copy.wide.blocks()
        _run(plan, part, addresses, grid, items, blocks)
        parts.append(part)
    if copy.second:
        combine(*copy.second)
        copy.second = ()  # it has the call, which would keep its scratch
    return True


def _shape_of(call: Call, config: Config) -> Shape | tuple[()]:
    """Nothing where no copy can be made. Of the calls that this is found by, none is launched."""
    parts = apart(call, config)
    if parts is None:
        return ()
    settle_cache_keys()
    found = []
    for part, given in parts:
        divided = cut(given, part) if given.programs_per_sm else given
        found.append((part.above, part.upto, planned(part, divided, addresses_of(part))))
    return parts[0][0].wide.room, found[0][2], found[1:]


def _say_once(variant: str, items: int, segments: int) -> None:
    """Of each kind of launch once: what is launched is not what the config says."""
    if (variant, segments) not in _said:
        _said.keep((variant, segments), True)
        _log.warning(
            "%s: %d parts of the keys of %d blocks would take over %d bytes of scratch; fewer are used",
            variant, segments, items, plan_module.SCRATCH_LIMIT,
        )  # fmt: skip


def arguments_of(
    plan: Plan, call: Call, stream: int, items: int, blocks: int, combined: bool
) -> tuple[tuple[Any, ...], ...]:
    """(the members of Tensors from `alibi` on; NUMBERS and the variant's OWN_NUMBERS), scratch included.

    items, blocks: of `launch_grid`; combined: `combines`.
    """
    layout = call.layout
    part, count, rows = None, None, 0
    if plan.segments > 1:
        rows = items * plan.segments * plan.kept
        part = torch.empty(rows * (plan.d_pad + 2), dtype=torch.float32, device=layout.place)
        call.part = part
    counted = plan.counters + plan.item_counters * items
    if counted:
        # those of launches that may run at a time, see `host/apart.py`, are not the same
        lane = call.upto and (2 if call.above else 1)
        for_graphs = plan.variant == "static_grid" and plan.decode
        count = counters(layout.place, stream, counted, lane, for_graphs)
    rest = (
        call.alibi,
        call.sinks,
        call.q_scale,
        call.k_scale,
        call.v_scale,
        call.out_scale,
        call.slots,
        part,
        count,
    )
    numbers: tuple[Any, ...] = (
        rows, call.scale, call.softcap, call.left, call.right, layout.table_stride, layout.num_seqs,
    )  # fmt: skip
    if plan.kernel is split_kv_kernel:
        numbers = (*numbers, plan.segments, plan.second_from)
    elif plan.variant == "mixed":
        numbers = (*numbers, plan.segments, blocks)
    elif plan.variant == "warp_specialized":
        numbers = (*numbers, plan.segments, blocks, call.programs)
    elif plan.variant == "static_grid":
        second = None if plan.second_from is None else plan.second_from if combined else NEVER
        numbers = (*numbers, call.forced, second)
    return rest, numbers


def _run(
    plan: Plan, call: Call, addresses: tuple[int, ...], grid: tuple[int, ...], items: int, blocks: int
) -> None:
    index = call.layout.index
    stream = torch._C._cuda_getCurrentRawStream(index) if index >= 0 else 0
    combined = combines(plan, call)
    rest, numbers = arguments_of(plan, call, stream, items, blocks, combined)
    made = run(plan, _launch_bound, _dispatch, (plan, call, addresses, grid, stream, rest, numbers))
    if made is not None and plan.variant == "static_grid":
        plan.resident = resident_programs(made, plan.options["num_warps"], call.layout.place)
    if combined:
        second = plan, call, addresses, stream, rest, numbers[0]
        if call.above and call.wide is not None:
            # behind the launches beside this one, which would begin after it: `_launch_apart`
            call.second = second
        else:
            combine(*second)


def sources_of(tma: tuple[bool, bool]) -> list[Slots]:
    """Where a kernel takes the descriptors that it has. tma: of pages, of new tokens."""
    return [slots for has, slots in zip(tma, SLOTS, strict=True) if has]


def dispatched(plan: Plan, call: Call, rest: tuple[Any, ...], numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """All arguments of the plan's kernel, in the order of its signature."""
    call.place()
    pages = page_descriptors(plan, call) if plan.tma[0] else (None, None)
    new = new_descriptors(plan, call) if plan.tma[1] else (None, None)
    return (call.tensors(rest), *pages, *new, *numbers, *plan.constants)


def _dispatch(given: Given) -> tuple[Any, list[Slots]]:
    """Triton's own dispatch, which compiles and launches: see `bound.run`."""
    plan, call, _, grid, _, rest, numbers = given
    settle_cache_keys()
    arguments = dispatched(plan, call, rest, numbers)
    return through_triton(plan.kernel, grid, arguments, plan.options), sources_of(plan.tma)


def _launch_bound(bound: Bound, given: Given) -> None:
    """The tensors of every call go by address: for one with `data_ptr` the launcher would ask the driver."""
    plan, call, addresses, grid, stream, rest, numbers = given
    q, k, v, new_k, new_v, out, table, cu, lens = addresses
    pages: tuple[Any, ...] = (None, None)
    new: tuple[Any, ...] = (None, None)
    if plan.tma[0]:
        pages = bound.descriptors(SLOTS[0], (k, v, call.layout.pages), page_descriptors, plan, call)
    if plan.tma[1]:
        new = bound.descriptors(SLOTS[1], (new_k, new_v, call.layout.tokens), new_descriptors, plan, call)
    tensors = (q, k, v, new_k, new_v, out, table, cu, call.blocks, lens, *rest)
    bound.launch(*grid, stream, *bound.head, tensors, *pages, *new, *numbers, *plan.constants)
