"""Host-side tensor descriptors (TMA): which sources can be read through them, and how they lie in memory."""

from __future__ import annotations

from typing import Any

import torch
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from ..config import Config
from .call import Call, in_rows, new_aligned
from .hardware import FP8

SHARED_LAYOUT = NVMMASharedLayout(128, 16, 2)


def row_view(cache: torch.Tensor) -> tuple[int, int, int] | None:
    """(rows, columns, row stride) of a cache seen as a matrix whose rows a tile of one page is contiguous in.

    None where the strides allow no such view, there are no pages, or the descriptor's limits (16-byte strides and base,
    32-bit numbers of rows and columns) are not met.
    """
    page, tok, head, unit = cache.stride()
    size = cache.element_size()
    rows_per_page = page // tok if tok else 0
    inside = head < tok or cache.shape[2] == 1
    if unit != 1 or not cache.shape[0] or not tok or page % tok or (not inside and head % tok):
        return None
    if (tok * size) % 16 or cache.data_ptr() % 16 or (inside and (head * size) % 16):
        return None
    last = (cache.shape[1] - 1) + (0 if inside else (cache.shape[2] - 1) * (head // tok))
    columns = cache.shape[3] + ((cache.shape[2] - 1) * head if inside else 0)
    rows = (cache.shape[0] - 1) * rows_per_page + last + 1
    return (rows, columns, tok) if max(rows, columns) < 2**31 else None


def descriptor_sources(call: Call, config: Config, d_pad: int, rows: int) -> tuple[bool, bool]:
    """Which sources are read through host-side tensor descriptors: (cached pages, new tokens)."""
    if not call.layout.device.descriptors or config.variant == "naive":
        return False, False
    size = call.k.shape[3]
    # warp_specialized multiplies what a tile holds behind a head, the next head's values or zeros, by zeros of Q
    narrow = size != d_pad and config.variant != "warp_specialized"
    if narrow or size * call.k.element_size() > 512 or call.k.dtype in FP8:
        return False, False
    same = call.k.stride() == call.v.stride()
    pages = call.prefix and same and call.k.shape[1] % rows == 0 and row_view(call.k) is not None
    new = call.slots is None and in_rows(call) and new_aligned(call)
    return pages and row_view(call.v) is not None, new


def page_descriptors(plan: Any, call: Call) -> tuple[Any, Any]:
    """Of K's and V's cached pages."""
    call.place()

    def over(cache: torch.Tensor) -> Any:
        rows, columns, stride = row_view(cache)  # type: ignore[misc]
        return _descriptor(plan, cache, [rows, columns], stride, plan.rows)

    return over(call.k), over(call.v)


def new_descriptors(plan: Any, call: Call) -> tuple[Any, Any]:
    """Of the new tokens' K and V."""

    def over(new: Any) -> Any:
        shape = [new.shape[0], (new.shape[1] - 1) * new.stride(1) + new.shape[2]]
        return _descriptor(plan, new, shape, new.stride(0), plan.tile)

    return over(call.new_k), over(call.new_v)


def _descriptor(plan: Any, base: Any, shape: list[int], stride: int, rows: int) -> Any:
    if plan.variant == "warp_specialized":
        return GluonDescriptor(base, shape, [stride, 1], [rows, 64], SHARED_LAYOUT)
    return TensorDescriptor(base, shape, [stride, 1], [rows, plan.d_pad])
