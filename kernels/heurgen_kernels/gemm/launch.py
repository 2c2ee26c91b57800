"""From the tensors of a product and a config to a launch."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as SwizzledDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from ..caches import Cache, shared
from ..host.bound import Bound, Slots, aligned, run
from ..host.dispatch import current_device, hash_in_turn, through_triton
from ..host.scratch import counters
from .call import Product, ProductLayout, check_placed
from .config import Config
from .device import narrow, pad, scales, stream_k, vector, warp_specialized, work
from .device.arguments import Tensors
from .padding import LEAST_ROWS, Copied, fill, over, padded
from .plan import (
    HALF,
    STORED,
    UNIT,
    Plan,
    Work,
    adapted,
    addresses_of,
    bytes_alone,
    make_plan,
    plan_key,
    share,
)  # fmt: skip

# By columns of what a descriptor copies at once.
SWIZZLED = {columns: NVMMASharedLayout(2 * columns, 16, 2) for columns in (16, 32, UNIT)}
SWIZZLED_BYTES = NVMMASharedLayout(UNIT, 8, 2)
# Of a launch: the plan, the call, `addresses_of`, the stream, how its tiles are shared, `scratch_of`.
Given = tuple[Plan, Product, tuple[int, ...], int, Work, tuple[Any, Any]]

_plans: Cache[tuple[Any, ...], Plan] = shared()
# By config, identity of the layout and what counts of addresses; the layout is kept, so that its id stays its own. The
# last is what the launch copies.
_launches: Cache[tuple[Any, ...], tuple[ProductLayout, Plan, Work, Copied | None]] = shared()


@cache
def settle_cache_keys() -> None:
    """See `hash_in_turn`."""
    hash_in_turn((work, scales, narrow, stream_k, vector, warp_specialized, pad))


def launch(call: Product, config: Config) -> torch.Tensor:
    """Run one config, on the device of the tensors, whichever is the current one. Nothing is read back from it."""
    layout = call.layout
    if layout.index >= 0 and layout.index != current_device():
        with torch.cuda.device(layout.index):
            return launch(call, config)
    if layout.rows == 0:
        return call.out
    addresses = addresses_of(call)
    x, weight, bias, residual, out, scale = addresses
    if not (x and weight) and layout.place.type != "meta":  # where tools and tests lay launches out
        check_placed(call)  # a weight that was wrapped or freed since its signature was found good
    in_lines = layout.rows < LEAST_ROWS or x & 127 == 0
    even = not (x | weight | bias | residual | out | scale) & 15 or aligned(addresses)
    asked = (config, id(layout), even, in_lines)
    known = _launches.get(asked)
    if known is None:
        known = _launches.keep(asked, _known(call, config))
    _, plan, shares, copied = known
    given = call
    if copied is not None:
        given = over(call, copied)
        fill(call, given)
        addresses = addresses_of(given)
    _run(plan, given, addresses, shares)
    return call.out


def _known(call: Product, config: Config) -> tuple[ProductLayout, Plan, Work, Copied | None]:
    """What is kept of a launch, see `_launches`: the plan is one for all products that run the same compiled kernel."""
    given, config, shares = launch_of(call, config)
    key = plan_key(config, given.layout, shares, aligned(addresses_of(given)))
    plan = _plans.get(key) or _plans.keep(key, make_plan(given, config, shares))
    copied = None if given is call else Copied(given.x is not call.x, given.weight is not call.weight)
    return call.layout, plan, shares, copied


def launch_of(call: Product, config: Config) -> tuple[Product, Config, Work]:
    """What a launch makes of a config: the call, over copies where it makes any, the config that runs, and how the
    product is shared.
    """
    call = padded(call, config) or call
    config, layout = adapted(config, call), call.layout
    shares = share(config, layout.rows, layout.width, layout.size, call.gated, layout.device.processors)
    return call, config, shares


def _run(plan: Plan, call: Product, addresses: tuple[int, ...], shares: Work) -> None:
    layout = call.layout
    stream = torch._C._cuda_getCurrentRawStream(layout.index) if layout.index >= 0 else 0
    scratch = scratch_of(plan, call, stream, shares)
    run(plan, _launch_bound, dispatch, (plan, call, addresses, stream, shares, scratch))


def scratch_of(
    plan: Plan, call: Product, stream: int, shares: Work
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """(partial sums, counters) of tiles that several programs compute parts of; None where there are none."""
    if not shares.slots:
        return None, None
    place = call.layout.place
    part = torch.empty(shares.slots * plan.slot, dtype=torch.float32, device=place)
    return part, counters(place, stream, shares.m_tiles * shares.n_tiles * plan.counters)


def numbers_of(plan: Plan, call: Product, shares: Work) -> tuple[int, ...]:
    """The kernel's numbers, in the order of its signature."""
    layout = call.layout
    tiles = (shares.m_tiles, shares.n_tiles, shares.units)
    parts: tuple[int, ...] = (shares.whole, shares.left, shares.splits, shares.items)
    if plan.specialised:
        sizes = (layout.width, layout.rows) if plan.swap else (layout.rows, layout.width)
        return (call.out.stride(0), *sizes, *tiles, *parts, layout.gate, *layout.scale_strides)
    residual = 0 if call.residual is None else call.residual.stride(0)
    read = (call.x.stride(0), call.weight.stride(0), layout.size)
    x_stride, w_stride, size = (number // layout.counted for number in read)
    if plan.config.variant == "vector":  # shares no tile
        parts = ()
    numbers = (layout.rows, layout.width, size, *tiles, *parts, layout.gate)
    return (x_stride, w_stride, call.out.stride(0), residual, *numbers, *layout.scale_strides)


def dispatched(plan: Plan, call: Product, shares: Work, scratch: tuple[Any, Any]) -> tuple[Any, ...]:
    """All arguments of the plan's kernel, in the order of its signature."""
    tensors = Tensors(call.x, readable(call), call.bias, call.residual, call.out, call.scale, *scratch)
    weight: tuple[Any, ...] = ()
    x: tuple[Any, ...] = ()
    stored: tuple[Any, ...] = ()
    if plan.sources:
        weight, x = weight_descriptors(plan, call), x_descriptor(plan, call)
    if plan.specialised:
        stored = out_descriptors(plan, call)
    return (
        tensors,
        *in_order(plan, call, weight, x, stored),
        *numbers_of(plan, call, shares),
        *plan.constants,
    )


def readable(call: Product) -> torch.Tensor:
    """The weight as the device's compiler can read it."""
    return call.weight.view(torch.uint8) if bytes_alone(call) else call.weight


def in_order(
    plan: Plan, call: Product, weight: tuple[Any, ...], x: tuple[Any, ...], stored: tuple[Any, ...]
) -> tuple[Any, ...]:
    """What stands for the descriptors of a kernel, in the order of its signature; None for what it has not."""
    if plan.form is None:
        return () if plan.config.variant == "vector" else (*x, *weight) or (None, None)
    read = (*weight, *x) if plan.swap else (*x, *weight)
    extra = () if plan.form.extra else (None,)
    return (*read, *extra, *stored, *((None,) if call.residual is None else ()))


def weight_descriptors(plan: Plan, call: Product) -> tuple[Any, ...]:
    """Of the weight, and of its extra rows where tiles have such."""
    if plan.form is None:
        return (_plain_descriptor(call.weight, plan.config.BLOCK_N, plan.config.BLOCK_K),)
    swap, _, block_b, extra = plan.form
    return tuple(_descriptor(call.weight, rows) for rows in ((HALF,) if swap else (block_b, extra)) if rows)


def x_descriptor(plan: Plan, call: Product) -> tuple[Any]:
    if plan.form is None:
        return (_plain_descriptor(call.x, plan.config.BLOCK_M, plan.config.BLOCK_K),)
    return (_descriptor(call.x, plan.form.block_b if plan.swap else HALF),)


def out_descriptors(plan: Plan, call: Product) -> tuple[Any, ...]:
    """Of out, and of the residual where there is one: pieces of as many columns as divide the first and extra ones."""
    assert plan.form is not None
    swap, _, block_b, extra = plan.form
    rows, columns = (min(block_b, STORED), UNIT) if swap else (HALF, min(UNIT, extra or UNIT))
    tensors = (call.out, call.residual)
    return tuple(_descriptor(tensor, rows, columns) for tensor in tensors if tensor is not None)


def _descriptor(matrix: torch.Tensor, rows: int, columns: int = UNIT) -> Any:
    block = [rows, columns]
    layout = SWIZZLED[columns] if matrix.itemsize == 2 else SWIZZLED_BYTES
    return SwizzledDescriptor(matrix, list(matrix.shape), [matrix.stride(0), 1], block, layout)


def _plain_descriptor(matrix: torch.Tensor, rows: int, columns: int) -> Any:
    return TensorDescriptor(matrix, list(matrix.shape), [matrix.stride(0), 1], [rows, columns])


def dispatch(given: Given) -> tuple[Any, tuple[Slots, ...]]:
    """Triton's own dispatch, which compiles and launches: see `bound.run`."""
    plan, call, _, _, shares, scratch = given
    settle_cache_keys()
    arguments = dispatched(plan, call, shares, scratch)
    return through_triton(plan.kernel, (shares.programs,), arguments, plan.options), plan.sources


def _launch_bound(bound: Bound, given: Given) -> None:
    """The tensors of every call go by address: for one with `data_ptr` the launcher would ask the driver."""
    plan, call, addresses, stream, shares, scratch = given
    x, weight, bias, residual, out, scale = addresses
    left: tuple[Any, ...] = ()
    right: tuple[Any, ...] = ()
    stored: tuple[Any, ...] = ()
    if plan.sources:
        rows, width, size = call.layout.rows, call.layout.width, call.layout.size
        of_weight, of_x, *of_out = plan.sources
        key: tuple[int, ...] = (weight, width, size, call.weight.stride(0))
        left = bound.descriptors(of_weight, key, weight_descriptors, plan, call)
        right = bound.descriptors(of_x, (x, rows, size, call.x.stride(0)), x_descriptor, plan, call)
        for slots in of_out:
            key = (out, rows, width, call.out.stride(0))
            if call.residual is not None:
                key = (*key, residual, call.residual.stride(0))
            stored = bound.descriptors(slots, key, out_descriptors, plan, call)
    tensors = (x, weight, bias or None, residual or None, out, scale or None, *scratch)
    head = (shares.programs, 1, 1, stream, *bound.head)
    arguments = (*in_order(plan, call, left, right, stored), *numbers_of(plan, call, shares), *plan.constants)
    bound.launch(*head, tensors, *arguments)
