"""A call over fp8 pages as one over 16-bit pages: a copy of the cached keys, which warp_specialized reads.

The copy is made anew by every launch, in torch's memory of its stream (of the graph, where one is recorded), as partial
results of split keys are. It takes two bytes an element of K and V, COPY_LIMIT at the most: for larger batches q_block
answers, which reads fp8 pages. It has room for max_seqlen_k keys of every sequence; where these take more than
COPY_ALWAYS and the caller said total_seqlen_k, for so many keys: sequences without room then give NaN.
"""

from __future__ import annotations

from typing import Any

import torch

from ..caches import Cache, shared
from ..device.arguments import Sizes, Strides, WideTensors
from ..device.widen import ROWS, widen_kernel
from .bound import Bound, Kept, Slots, aligned, run
from .call import Call, CallLayout, layout_of
from .plan import padded

COPY_LIMIT = 1 << 30
COPY_ALWAYS = 1 << 28
PAGE = ROWS.value
STEP = 16  # pages: as many sizes of copies as descriptors are encoded for
# Four warps hold 32 rows of K and of V at once.
OPTIONS = {"num_warps": 4}
_kept: Cache[tuple[Any, ...], Kept] = shared()
_layouts: Cache[tuple[CallLayout, int, int], CallLayout] = shared()
_constants: Cache[tuple[CallLayout, CallLayout, int], tuple[Any, ...]] = shared()


def pages_for(call: Call) -> int:
    """Pages of the copy, without the one that holds NaN; 0 where they would take more than COPY_LIMIT."""
    layout = call.layout
    if not call.prefix:
        return 1
    num_seqs, most = layout.num_seqs, -(-call.max_k // PAGE)
    if call.left >= 0:
        seen = call.left + (0 if call.new_k is not None else call.max_q)
        most = min(most, -(-seen // PAGE) + 1)
    pages = num_seqs * max(most, 1)
    size = 2 * PAGE * layout.heads_kv * call.k.shape[3] * 2
    if pages * size > COPY_ALWAYS and call.told:
        pages = min(pages, call.total_k // PAGE + num_seqs)
    pages = -(-(pages + 1) // STEP) * STEP - 1
    return pages if (pages + 1) * size <= COPY_LIMIT else 0


def widened(call: Call) -> Call | None:
    """The call over a copy that `widen` fills; None where the copy would be too large, or where numbers times their
    scales, which float16 may not hold, would be copied.
    """
    pages = pages_for(call)
    # where all keys have them, the launch multiplies scores and the output by the scales: fp8 numbers are
    # copied as they are
    k_scale, v_scale = (call.k_scale, call.v_scale) if call.new_k is None else (None, None)
    scaled = k_scale is not call.k_scale or v_scale is not call.v_scale
    if not pages or (scaled and call.prefix and call.q.dtype == torch.float16):
        return None
    layout = call.layout
    width = max(-(-call.max_k // PAGE), 1)
    k, v, table = allocated(call, pages + 1, width)
    copy = Call(
        call.q, k, v, table, call.cu, call.lens, call.out, call.max_q, call.max_k, call.scale, call.new_k, call.new_v,
        call.left, call.right, call.softcap, call.alibi, call.sinks, call.q_scale, k_scale, v_scale, call.out_scale,
        blocks=call.blocks, block_q=call.block_q, total_k=call.total_k, prefix=call.prefix,
    )  # fmt: skip
    key = (layout, pages, width)
    copy.layout = _layouts.get(key) or _layouts.keep(key, layout_of(copy, layout.device))
    return copy


def allocated(call: Call, pages: int, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """K's and V's wide pages, heads outside tokens, and a block table of `width` pages a sequence: one piece of memory,
    since each costs microseconds of host time.
    """
    layout, size = call.layout, call.k.shape[3]
    heads_kv, num_seqs = layout.heads_kv, layout.num_seqs
    shape, stride = (pages, PAGE, heads_kv, size), (heads_kv * PAGE * size, size, PAGE * size, 1)
    count = pages * stride[0]
    whole = torch.empty(count + num_seqs * width, dtype=torch.int32, device=layout.place)
    wide = whole.view(call.q.dtype)
    k, v = wide.as_strided(shape, stride), wide.as_strided(shape, stride, count)
    return k, v, whole.as_strided((num_seqs, width), (width, 1), count)


def widen(call: Call, copy: Call) -> None:
    """Fill the copy, on the current stream; nothing where the call reads no pages."""
    if not call.prefix:
        return
    layout = call.layout
    tensors, *rest = arguments_of(call, copy)
    addresses = tuple([0 if tensor is None else tensor.data_ptr() for tensor in tensors])
    key = (layout.kind, call.left >= 0, aligned(addresses))
    kept = _kept.get(key) or _kept.keep(key, Kept())
    grid = (copy.layout.pages, layout.heads_kv + 1, 1)
    run(kept, _launch_bound, _dispatch, (grid, layout.index, tensors, addresses, rest))


def _launch_bound(bound: Bound, given: Any) -> None:
    grid, index, _, addresses, rest = given
    bound.launch(*grid, torch._C._cuda_getCurrentRawStream(index), *bound.head, addresses, *rest)


def _dispatch(given: Any) -> tuple[Any, tuple[Slots, ...]]:
    grid, _, tensors, _, rest = given
    return widen_kernel[grid](tensors, *rest, **OPTIONS), ()


def arguments_of(call: Call, copy: Call) -> tuple[Any, ...]:
    """All arguments of the kernel, in the order of its signature."""
    scales = (
        None if copy.k_scale is not None else call.k_scale,
        None if copy.v_scale is not None else call.v_scale,
    )
    tensors = WideTensors(call.k, call.v, copy.k, copy.v, call.table, copy.table, call.cu, call.lens, *scales)
    key = (call.layout, copy.layout, call.left)
    return (tensors, *(_constants.get(key) or _constants.keep(key, constants_of(call, copy))))


def constants_of(call: Call, copy: Call) -> tuple[Any, ...]:
    """The arguments behind the tensors, which calls of one layout and window share."""
    layout, k, size, none = call.layout, call.k, call.k.shape[3], (0,) * 4
    return (
        call.left, layout.table_stride, copy.layout.table_stride, layout.num_seqs,
        Sizes(1, layout.heads_kv, k.shape[1], size, padded(size)),
        Strides._make((*none, *k.stride()[:3], *call.v.stride()[:3], *none)), call.left >= 0, call.new_k is not None,
    )  # fmt: skip
