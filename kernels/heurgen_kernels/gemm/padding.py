"""A product over a copy of x whose rows begin at whole lines of memory, where that pays.

warp_specialized loads 128 bytes of a row of x at a time. Where rows do not begin at multiples of 128 bytes each of
these loads touches two lines, and each row is loaded once for every column of tiles. A copy is read in whole lines.

It is made anew by every launch, in torch's memory of its stream (of the graph, where one is recorded), as sums of parts
are: COPY_LIMIT bytes of the device at the most, beyond which x is read as it lies. What is behind K in its rows is
neither written nor read: descriptors end at K.
"""

from __future__ import annotations

from typing import Any

import torch

from ..caches import Cache, shared
from ..host.bound import Bound, Kept, Slots, aligned, run
from ..host.dispatch import through_triton
from .call import Product, ProductLayout, layout_of
from .config import Config
from .device.pad import COLUMNS, LINE, ROWS, pad_kernel
from .plan import adapted

COPY_LIMIT = 1 << 30
# A copy of fewer rows did not pay. SIDE: the least N and K of what was measured.
LEAST_ROWS, SIDE = 192, 1000
OPTIONS = {"num_warps": 4}

# By what it is compiled for, and the device that it was loaded on.
_kept: Cache[tuple[Any, ...], Kept] = shared()
# Of the call over the copy, by that of the call.
_layouts: Cache[ProductLayout, ProductLayout] = shared()


def padded(call: Product, config: Config) -> Product | None:
    """The call over memory that `fill` copies x to; None where the config better reads x as it lies."""
    if not pays(call, call.layout.rows):
        return None
    copy = over(call)
    return copy if reads_lines(config, copy) else None


def pays(call: Product, rows: int) -> bool:
    """Whether a copy of so many rows of the call's x pays, where descriptors read it."""
    x, stride = call.x, call.x.stride(0)
    in_lines = stride % LINE.value == 0 and x.data_ptr() % (LINE.value * x.itemsize) == 0
    fits = rows * padded_row(call.layout.size) * x.itemsize <= COPY_LIMIT and stride < 1 << 31
    return not in_lines and fits and large(call, rows)


def large(call: Product, rows: int) -> bool:
    """Whether a copy of so many rows would pay at some address of x."""
    return call.layout.device.hopper and rows >= LEAST_ROWS and min(*call.weight.shape) >= SIDE


def reads_lines(config: Config, copy: Product) -> bool:
    """Whether the config reads the copy through descriptors. stream_k_tma does, too, but no selector returns it for so
    many rows, and nothing was measured.
    """
    return adapted(config, copy).variant == "warp_specialized"


def padded_row(size: int) -> int:
    """Elements from row to row of a copy of `size` columns."""
    line = int(LINE.value)
    return -(-size // line) * line


def over(call: Product) -> Product:
    """The call over new memory, in whole lines, in the place of x."""
    layout = call.layout
    strides = (padded_row(layout.size), 1)
    x = torch.empty_strided(call.x.shape, strides, dtype=call.x.dtype, device=layout.place)
    copy = Product(x, call.weight, call.bias, call.residual, call.out, call.gated, call.scale)
    copy.layout = _layouts.get(layout) or _layouts.keep(layout, layout_of(copy, layout.device))
    return copy


def fill(call: Product, copy: Product) -> None:
    """Copy x, on the current stream."""
    numbers = numbers_of(call, copy)
    addresses = (call.x.data_ptr(), copy.x.data_ptr())
    key = (call.layout.place, call.x.dtype, numbers[-1], aligned(addresses))
    kept = _kept.get(key) or _kept.keep(key, Kept())
    run(kept, _launch_bound, _dispatch, (call, copy, addresses, numbers))


def numbers_of(call: Product, copy: Product) -> tuple[int, ...]:
    """The kernel's arguments behind x and its copy."""
    rows, size = call.x.shape
    stride = call.x.stride(0)
    counted = 1 if size % 8 or stride % 8 else 8
    return rows, size // counted, stride // counted, copy.x.stride(0) // int(LINE.value), counted


def grid_of(layout: ProductLayout) -> tuple[int, int, int]:
    return -(-layout.rows // ROWS.value), -(-layout.size // COLUMNS.value), 1


def _launch_bound(bound: Bound, given: Any) -> None:
    call, _, addresses, numbers = given
    stream = torch._C._cuda_getCurrentRawStream(call.layout.index)
    bound.launch(*grid_of(call.layout), stream, *bound.head, *addresses, *numbers)


def _dispatch(given: Any) -> tuple[Any, tuple[Slots, ...]]:
    call, copy, _, numbers = given
    arguments = (call.x, copy.x, *numbers)
    return through_triton(pad_kernel, grid_of(call.layout), arguments, OPTIONS), ()
