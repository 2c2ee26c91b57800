"""The launch that writes new K and V to pages."""

from __future__ import annotations

from typing import Any

import torch

from ..caches import Cache, shared
from ..device.arguments import Sizes, Strides
from ..device.pages import write_pages_kernel
from .bound import Bound, bind
from .dispatch import bindable, binding, current_device
from .launch import settle_cache_keys
from .plan import padded

# Rows (a token's KV head) of a program, and its warps.
ROWS, WARPS = 32, 4
# The compiled kernel and its constants, by what it is compiled for.
_plans: Cache[tuple[Any, ...], tuple[Bound, tuple[Any, ...]]] = shared()


def write_pages(
    key: torch.Tensor,
    value: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    slots: torch.Tensor,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> None:
    """Writes key and value [tokens, KV heads, head size] of `slots.shape[0]` tokens to pages [pages, tokens, KV heads,
    head size], whose last dimension is contiguous as theirs is.

    slots     int64, contiguous: page * tokens of a page + place; negative for nowhere
    k_scale   and v_scale: one float32 number each, where pages are fp8; None where they are of key's type
    """
    index = key.get_device()
    if index >= 0 and index != current_device():
        with torch.cuda.device(index):
            return write_pages(key, value, k_pages, v_pages, slots, k_scale, v_scale)
    heads, size = key.shape[1:]
    rows = slots.shape[0] * heads
    if rows == 0:
        return None
    kind = (
        index, key.dtype, k_pages.dtype, heads, size, k_pages.shape[1], key.stride(), value.stride(),
        k_pages.stride(), v_pages.stride(), k_scale is None,
    )  # fmt: skip
    known = _plans.get(kind)
    tensors = (key, value, k_pages, v_pages, slots, k_scale, v_scale)
    if known is not None and bindable():
        bound, constants = known
        addresses = tuple([None if tensor is None else tensor.data_ptr() for tensor in tensors])
        if not any(address & 15 for address in addresses if address is not None):
            stream = torch._C._cuda_getCurrentRawStream(index)
            bound.launch(-(-rows // ROWS), 1, 1, stream, *bound.head, *addresses, rows, *constants)
            return None
    settle_cache_keys()
    constants = (
        Sizes(1, heads, k_pages.shape[1], size, padded(size)),
        Strides(
            0, 0, 0, 0, *k_pages.stride()[:3], *v_pages.stride()[:3], *key.stride()[:2], *value.stride()[:2]
        ),
        ROWS,
    )
    compiled = write_pages_kernel[(-(-rows // ROWS),)](*tensors, rows, *constants, num_warps=WARPS)
    aligned = not any(tensor.data_ptr() & 15 for tensor in tensors if tensor is not None)
    if aligned and binding.get() and compiled is not None and hasattr(compiled, "packed_metadata"):
        _plans.keep(kind, (bind(compiled, ()), constants))
    return None
