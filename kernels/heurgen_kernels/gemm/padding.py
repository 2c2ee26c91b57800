"""A product over copies of x and the weight whose rows begin at whole lines of memory, where that pays.

Two reasons. Rows that are no multiples of 16 bytes, as those of an odd K, have no tensor descriptors, and what reads
them by single loads takes several times as long as the copies and a product over them. And where descriptors read x,
warp_specialized loads 128 bytes of a row at a time: in rows that do not begin at multiples of 128 bytes each of these
loads touches two lines, and each row is loaded once for every column of tiles. A copy is read in whole lines.

Copies are made anew by every launch, in torch's memory of its stream (of the graph, where one is recorded), as sums of
parts are: COPY_LIMIT bytes of the device for each at the most, beyond which a tensor is read as it lies. What is behind
K in their rows is neither written nor read: descriptors end at K.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..caches import Cache, shared
from ..host.bound import Bound, Kept, Slots, aligned, run
from ..host.dispatch import through_triton
from .call import Product, ProductLayout, layout_of
from .config import Config
from .device.pad import COLUMNS, LINE, ROWS, WORDS, pad_kernel, pad_words_kernel
from .plan import adapted, describes

COPY_LIMIT = 1 << 30
# A copy of fewer rows of an x that descriptors read did not pay. SIDE: the least N and K of what was measured.
LEAST_ROWS, SIDE = 192, 1000
# Of what descriptors do not read: the fewest products for a copy to pay, and the fewest rows of x, where a weight of 16
# bits is read 2 or 4 numbers at a time, and elsewhere (one H100: ten weights of 520 x 2052 to 32000 x 4094).
UNREAD_PRODUCTS, UNREAD_ROWS_PAIRS, UNREAD_ROWS = 5 * 10**8, 257, 65
OPTIONS = {"num_warps": 4}


class Copied(NamedTuple):
    """What a launch copies."""

    x: bool
    weight: bool


NOTHING = Copied(False, False)

# By what it is compiled for, and the device that it was loaded on.
_kept: Cache[tuple[Any, ...], Kept] = shared()
# Of the call over the copies, by that of the call.
_layouts: Cache[tuple[ProductLayout, Copied], ProductLayout] = shared()


def padded(call: Product, config: Config) -> Product | None:
    """The call over memory that `fill` copies to; None where the config better reads x and the weight as they lie."""
    copied = copies(call, call.layout.rows)
    if not any(copied):
        return None
    copy = over(call, copied)
    return copy if reads(config, call, copy) else None


def copies(call: Product, rows: int) -> Copied:
    """What is worth a copy in a call of so many rows, where descriptors read the copies."""
    unread = Copied(*(not describes(call, tensor) for tensor in (call.x, call.weight)))
    if not any(unread):
        return Copied(pays(call, rows), False)
    height, size = call.weight.shape
    heights = ((call.x, rows, unread.x), (call.weight, height, unread.weight))
    fits = all(copyable(matrix, height) for matrix, height, copied in heights if copied)
    pairs = unread.weight and call.scale is None and not loads_single(call)
    least = UNREAD_ROWS_PAIRS if pairs else UNREAD_ROWS
    pays_back = call.layout.device.hopper and rows >= least and rows * height * size >= UNREAD_PRODUCTS
    return Copied(unread.x or pays(call, rows), unread.weight) if fits and pays_back else NOTHING


def loads_single(call: Product) -> bool:
    """Whether kernels load single elements of x or the weight, where descriptors do not read both."""
    return call.layout.counted == 1 or (call.x.data_ptr() | call.weight.data_ptr()) % 16 != 0


def pays(call: Product, rows: int) -> bool:
    """Whether a copy of so many rows of the call's x pays, where descriptors read x, too."""
    x, stride = call.x, call.x.stride(0)
    in_lines = stride % LINE.value == 0 and x.data_ptr() % (LINE.value * x.itemsize) == 0
    return not in_lines and copyable(x, rows) and large(call, rows)


def copyable(matrix: torch.Tensor, rows: int) -> bool:
    """Whether so many rows of a matrix fit in the memory for a copy, and kernels count its stride in 32 bits."""
    width = int(matrix.itemsize)
    return rows * padded_row(matrix.shape[1]) * width <= COPY_LIMIT and matrix.stride(0) * width < 1 << 31


def large(call: Product, rows: int) -> bool:
    """Whether a copy of so many rows would pay at some address of x."""
    return call.layout.device.hopper and rows >= LEAST_ROWS and min(*call.weight.shape) >= SIDE


def reads(config: Config, call: Product, copy: Product) -> bool:
    """Whether the config better reads the copies: through descriptors, which stream_k_tma does as well over lines that
    it shares with other rows.
    """
    variant = adapted(config, copy).variant
    return variant == "warp_specialized" or (
        variant == "stream_k_tma" and not describes(call, call.x, call.weight)
    )


def padded_row(size: int) -> int:
    """Elements from row to row of a copy of `size` columns."""
    line = int(LINE.value)
    return -(-size // line) * line


def over(call: Product, copied: Copied) -> Product:
    """The call over new memory, in whole lines, in the place of what is copied."""
    layout = call.layout

    def place_of(tensor: torch.Tensor) -> torch.Tensor:
        strides = (padded_row(layout.size), 1)
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=layout.place)

    x = place_of(call.x) if copied.x else call.x
    weight = place_of(call.weight) if copied.weight else call.weight
    copy = Product(x, weight, call.bias, call.residual, call.out, call.gated, call.scale)
    known = _layouts.get((layout, copied))
    copy.layout = known or _layouts.keep((layout, copied), layout_of(copy, layout.device))
    return copy


def fill(call: Product, copy: Product) -> None:
    """Copy what the call over the copies has of its own, on the current stream."""
    for matrix, copied in ((call.x, copy.x), (call.weight, copy.weight)):
        if copied is not matrix:
            _fill(call.layout, matrix, copied)


def _fill(layout: ProductLayout, matrix: torch.Tensor, copied: torch.Tensor) -> None:
    addresses = (matrix.data_ptr(), copied.data_ptr())
    kernel, numbers = copier(matrix, copied, addresses[0])
    key = (layout.place, matrix.dtype, kernel, numbers[4:], aligned(addresses))
    kept = _kept.get(key) or _kept.keep(key, Kept())
    run(kept, _launch_bound, _dispatch, (layout, kernel, matrix, copied, addresses, numbers))


def copier(matrix: torch.Tensor, copied: torch.Tensor, address: int) -> tuple[Any, tuple[int | bool, ...]]:
    """(the kernel that copies, its arguments behind a matrix and its copy). address: of the matrix."""
    (rows, size), stride, row = matrix.shape, matrix.stride(0), copied.stride(0)
    if size % 8 == 0 and stride % 8 == 0 and address % 16 == 0:
        return pad_kernel, (rows, size // 8, stride // 8, row // int(LINE.value))
    width, step = size * matrix.itemsize, stride * matrix.itemsize
    shifted = address % 4 != 0 or step % 4 != 0
    return pad_words_kernel, (rows, width, step, row * matrix.itemsize // 4, shifted)


def grid_of(kernel: Any, matrix: torch.Tensor) -> tuple[int, int, int]:
    rows, size = matrix.shape
    columns = COLUMNS.value if kernel is pad_kernel else 4 * WORDS.value // matrix.itemsize
    return -(-rows // ROWS.value), -(-size // columns), 1


def _launch_bound(bound: Bound, given: Any) -> None:
    layout, kernel, matrix, _, addresses, numbers = given
    stream = torch._C._cuda_getCurrentRawStream(layout.index)
    bound.launch(*grid_of(kernel, matrix), stream, *bound.head, *addresses, *numbers)


def _dispatch(given: Any) -> tuple[Any, tuple[Slots, ...]]:
    _, kernel, matrix, copied, _, numbers = given
    return through_triton(kernel, grid_of(kernel, matrix), (matrix, copied, *numbers), OPTIONS), ()
