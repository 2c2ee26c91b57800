"""A call over fp8 pages as one over 16-bit pages: a copy of the cached keys, which warp_specialized reads.

The copy is made anew by every launch, in torch's memory of its stream (of the graph, where one is recorded), as partial
results of split keys are. It takes two bytes an element of K and V, COPY_LIMIT at the most. It has room for
max_seqlen_k keys of every sequence that is copied; where these take more than COPY_ALWAYS and the caller said
total_seqlen_k, for so many keys: sequences without room then give NaN. Where they take more than COPY_LIMIT, the last
sequences may have no room, and are left to q_block, which reads fp8 pages (`host/apart.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..caches import Cache, shared
from ..device.arguments import Sizes, Strides, WideTensors
from ..device.widen import ROWS, rows_at_once, widen_kernel
from .bound import Bound, Kept, Slots, aligned, run
from .call import Call, CallLayout, layout_of, new_aligned
from .dispatch import through_triton
from .nearest import padded
from .validate import check_placed

COPY_LIMIT = 1 << 30
COPY_ALWAYS = 1 << 28
PAGE = ROWS.value
STEP = 16  # pages: as many sizes of copies as descriptors are encoded for
OPTIONS = {"num_warps": 4}
# Programs of a head where decodes are left out, as the bound of their pages is loose: twice the processors of an H200.
PROGRAMS = 264
_kept: Cache[tuple[Any, ...], Kept] = shared()
_rooms: Cache[tuple[Any, ...], Room] = shared()


@dataclass(frozen=True, slots=True)
class Room:
    """What copies of one size share. K's and V's wide pages, heads outside tokens, then where Q blocks begin and the
    block table lie in one piece of memory, since each costs microseconds of host time.

    layout      of the call over the copy
    above, block_q  of `widened`
    limited     whether sequences may be left out of it, and have no Q blocks, for want of pages
    shape       of K's wide pages, which V's follow
    width       pages of a row of the block table
    blocks, table, size  where they begin, and the memory ends: 32-bit numbers
    grid, constants  of widen_kernel: the arguments behind the tensors
    """

    layout: CallLayout
    above: int
    block_q: int
    limited: bool
    shape: tuple[int, int, int, int]
    width: int
    blocks: int
    table: int
    size: int
    grid: tuple[int, int, int]
    constants: tuple[Any, ...]


@dataclass(slots=True)
class Wide:
    """A copy in memory. at: addresses of K, V, the block table, and where Q blocks begin. placed: these are tensors of
    the call.
    """

    room: Room
    memory: torch.Tensor
    at: tuple[int, int, int, int]
    placed: bool = False

    def tensors(self, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        """The four as tensors, which a launch past Triton's dispatch does not need."""
        return views_of(self.memory, self.room.shape, self.room.width, self.room.layout.num_seqs, dtype)

    def blocks(self) -> torch.Tensor:
        """Where Q blocks begin, as a tensor."""
        return self.memory.as_strided((self.room.layout.num_seqs + 1,), (1,), self.room.blocks)


def views_of(
    memory: torch.Tensor, shape: tuple[int, int, int, int], width: int, num_seqs: int, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    pages, _, heads_kv, size = shape
    stride = (heads_kv * PAGE * size, size, PAGE * size, 1)
    wide, count = memory.view(dtype), pages * stride[0]
    k, v = wide.as_strided(shape, stride), wide.as_strided(shape, stride, count)
    table = memory.as_strided((num_seqs, width), (width, 1), count + room_of_blocks(num_seqs))
    return k, v, table, memory.as_strided((num_seqs + 1,), (1,), count)


def room_of_blocks(num_seqs: int) -> int:
    """Whole pieces of 16 bytes, so that the table behind them begins with one."""
    return -(-(num_seqs + 1) // 4) * 4


def page_bytes(heads_kv: int, head_size: int) -> int:
    """Of a wide page of K and one of V."""
    return 2 * int(PAGE) * heads_kv * head_size * 2


def pages_for(call: Call, above: int = 0) -> tuple[int, bool]:
    """(Pages of the copy, without the one that holds NaN; whether they may be too few): with `above` as many as lie
    within COPY_LIMIT and the cache has keys for, without it 0 where all do not.
    """
    layout = call.layout
    if not call.prefix:
        return 1, False
    num_seqs, most = layout.num_seqs, -(-call.max_k // PAGE)
    if above:  # no more have more new tokens than that
        num_seqs = max(min(num_seqs, layout.tokens // (above + 1)), 1)
    if call.left >= 0:
        seen = call.left + (0 if call.new_k is not None else call.max_q)
        most = min(most, -(-seen // PAGE) + 1)
    pages = num_seqs * max(most, 1)
    size = page_bytes(layout.heads_kv, call.k.shape[3])
    if pages * size > COPY_ALWAYS and call.told:
        pages = min(pages, call.total_k // PAGE + num_seqs)
    pages = -(-(pages + 1) // STEP) * STEP - 1
    if (pages + 1) * size <= COPY_LIMIT:
        return pages, False
    if not above:
        return 0, False
    cached = -(-(layout.pages * call.k.shape[1] // PAGE + num_seqs + 1) // STEP) * STEP
    return max(min(cached, COPY_LIMIT // size // STEP * STEP) - 1, 0), True


def widened(call: Call, above: int = 0, block_q: int = 0) -> Call | None:
    """The call over a copy that `widen` fills; None where the copy would be too large, where numbers times their
    scales, which float16 may not hold, would be copied, or where descriptors cannot read the new tokens beside it.

    above: sequences of at most so many new tokens are left out; Q blocks of the others, of block_q tokens, are counted.
    """
    pages, limited = pages_for(call, above)
    if not pages or (call.prefix and call.q.dtype == torch.float16 and scaled(call)) or not new_aligned(call):
        return None
    width = max(-(-call.max_k // PAGE), 1)
    key = (call.layout, pages, limited, width, call.left, above, block_q)
    return over(
        call, _rooms.get(key) or _rooms.keep(key, room_for(call, pages + 1, limited, width, above, block_q))
    )


def over(call: Call, room: Room) -> Call:
    """The call over a copy that has such a room."""
    above, block_q = room.above, room.block_q
    memory = torch.empty(room.size, dtype=torch.int32, device=room.layout.place)
    base = memory.data_ptr()
    at = (base, base + 2 * room.blocks, base + 4 * room.table, base + 4 * room.blocks)
    # where all keys have scales, the launch multiplies scores and the output by them: fp8 numbers are copied as
    # they are
    k_scale, v_scale = (call.k_scale, call.v_scale) if call.new_k is None else (None, None)
    copy = Call(
        call.q, call.k, call.v, call.table, call.cu, call.lens, call.out, call.max_q, call.max_k, call.scale,
        call.new_k, call.new_v, call.left, call.right, call.softcap, call.alibi, call.sinks, call.q_scale, k_scale,
        v_scale, call.out_scale, None, at[3] if above else call.blocks, block_q or call.block_q, total_k=call.total_k,
        prefix=call.prefix, above=above, wide=Wide(room, memory, at),
    )  # fmt: skip
    copy.layout, copy.programs = room.layout, call.programs
    return copy


def room_for(call: Call, pages: int, limited: bool, width: int, above: int, block_q: int) -> Room:
    """The room of a copy of so many pages, that of NaN included."""
    layout, size, none = call.layout, call.k.shape[3], (0,) * 4
    shape = (pages, PAGE, layout.heads_kv, size)
    blocks = pages * PAGE * layout.heads_kv * size
    table = blocks + room_of_blocks(layout.num_seqs)
    memory = torch.empty(table + layout.num_seqs * width, dtype=torch.int32, device=layout.place)
    k, v, wide_table, _ = views_of(memory, shape, width, layout.num_seqs, call.q.dtype)
    copy = Call(
        call.q, k, v, wide_table, call.cu, call.lens, call.out, call.max_q, call.max_k, call.scale, call.new_k,
        call.new_v, alibi=call.alibi, sinks=call.sinks, q_scale=call.q_scale, out_scale=call.out_scale,
        k_scale=call.k_scale if call.new_k is None else None, v_scale=call.v_scale if call.new_k is None else None,
    )  # fmt: skip
    programs = (pages - 1) * (PAGE // rows_at_once(padded(size)))
    constants = (
        call.left, layout.table_stride, width, layout.num_seqs, pages - 1,
        Sizes(1, layout.heads_kv, call.k.shape[1], size, padded(size)),
        Strides._make((*none, *call.k.stride()[:3], *call.v.stride()[:3], *none)), call.left >= 0,
        call.new_k is not None, above, block_q, limited,
    )  # fmt: skip
    grid = ((min(programs, PROGRAMS) if above else programs) + 1, layout.heads_kv + 1, 1)
    return Room(
        layout_of(copy, layout.device), above, block_q, limited, shape, width, blocks, table, memory.shape[0], grid,
        constants,
    )  # fmt: skip


def scales_of_copy(call: Call) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """K's and V's scales that the copied numbers are multiplied by: beside new tokens, which have none."""
    return (None, None) if call.new_k is None else (call.k_scale, call.v_scale)


def scaled(call: Call) -> bool:
    return any(scale is not None for scale in scales_of_copy(call))


def widen(call: Call, copy: Call) -> None:
    """Fill the copy, on the current stream; nothing where the call reads no pages."""
    if not call.prefix:
        return
    layout, wide = call.layout, copy.wide
    k_scale, v_scale = scales_of_copy(call)
    wide_k, wide_v, wide_table, blocks = wide.at
    addresses = (
        call.k.data_ptr(), call.v.data_ptr(), wide_k, wide_v, call.table.data_ptr(), wide_table, call.cu.data_ptr(),
        call.lens.data_ptr(), 0 if k_scale is None else k_scale.data_ptr(),
        0 if v_scale is None else v_scale.data_ptr(), blocks if copy.above else 0,
    )  # fmt: skip
    if not (addresses[0] and addresses[1]):
        check_placed(call)
    blocks_of = (copy.above, copy.block_q) if copy.above else None
    key = (layout.kind, call.left >= 0, blocks_of, wide.room.limited, aligned(addresses))
    kept = _kept.get(key) or _kept.keep(key, Kept())
    run(kept, _launch_bound, _dispatch, (call, copy, addresses))


def _launch_bound(bound: Bound, given: Any) -> None:
    call, copy, addresses = given
    room, stream = copy.wide.room, torch._C._cuda_getCurrentRawStream(call.layout.index)
    bound.launch(*room.grid, stream, *bound.head, addresses, *room.constants)


def _dispatch(given: Any) -> tuple[Any, tuple[Slots, ...]]:
    call, copy, _ = given
    return through_triton(widen_kernel, copy.wide.room.grid, arguments_of(call, copy), OPTIONS), ()


def arguments_of(call: Call, copy: Call) -> tuple[Any, ...]:
    """All arguments of the kernel, in the order of its signature."""
    k, v, table, blocks = copy.wide.tensors(call.q.dtype)
    tensors = WideTensors(
        call.k, call.v, k, v, call.table, table, call.cu, call.lens, *scales_of_copy(call),
        blocks if copy.above else None,
    )  # fmt: skip
    return (tensors, *copy.wide.room.constants)
