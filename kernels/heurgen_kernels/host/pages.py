"""The launch that writes new K and V to pages."""

from __future__ import annotations

from typing import Any

import torch

from ..caches import Cache, shared
from ..device.arguments import Sizes, Strides
from ..device.pages import write_pages_kernel
from .bound import Bound, Kept, Slots, aligned, run
from .dispatch import current_device, through_triton
from .launch import settle_cache_keys
from .nearest import padded

# Rows (a token's KV head) of a program, and its warps.
ROWS, WARPS = 32, 4
# The compiled kernel and its constants, by what it is compiled for.
_plans: Cache[tuple[Any, ...], tuple[Kept, tuple[Any, ...]]] = shared()


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
    tensors = (key, value, k_pages, v_pages, slots, k_scale, v_scale)
    addresses = tuple([0 if tensor is None else tensor.data_ptr() for tensor in tensors])
    tensors_at = (*addresses[:4], *addresses[5:])  # slots may begin anywhere
    kind = (
        index, key.dtype, k_pages.dtype, heads, size, k_pages.shape[1], key.stride(), value.stride(),
        k_pages.stride(), v_pages.stride(), k_scale is None, aligned(tensors_at),
    )  # fmt: skip
    kept, constants = _plans.get(kind) or _plans.keep(
        kind, (Kept(), constants_of(key, value, k_pages, v_pages))
    )
    run(kept, _launch_bound, _dispatch, (-(-rows // ROWS), index, tensors, addresses, rows, constants))
    return None


def constants_of(key: torch.Tensor, value: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor) -> Any:
    heads, size = key.shape[1:]
    new = (*key.stride()[:2], *value.stride()[:2])
    return (
        Sizes(1, heads, k_pages.shape[1], size, padded(size)),
        Strides(0, 0, 0, 0, *k_pages.stride()[:3], *v_pages.stride()[:3], *new),
        ROWS,
    )


def _launch_bound(bound: Bound, given: Any) -> None:
    programs, index, _, addresses, rows, constants = given
    stream = torch._C._cuda_getCurrentRawStream(index)
    bound.launch(programs, 1, 1, stream, *bound.head, *addresses, rows, *constants)


def _dispatch(given: Any) -> tuple[Any, tuple[Slots, ...]]:
    programs, _, tensors, _, rows, constants = given
    settle_cache_keys()
    arguments = (*tensors, rows, *constants)
    return through_triton(write_pages_kernel, (programs,), arguments, {"num_warps": WARPS}), ()
