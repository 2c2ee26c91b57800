"""One attention call, and what its shapes, types and device say."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from ..caches import Cache, shared
from ..device.arguments import Tensors
from ..device.static_grid import default_segments
from .hardware import FP8, FP8_NVIDIA, Device, device_of

# A window of so many keys is none: more than any context has, and far from the end of 32 bits.
NO_WINDOW = 1 << 30
TWO_BYTES = (torch.float16, torch.bfloat16)
DTYPE_NAMES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.float8_e4m3fnuz: "float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}


@dataclass(frozen=True, slots=True, eq=False)
class CallLayout:
    """What shapes, strides, dtypes and devices say of a call: read from the tensors once per signature.

    group       query heads per KV head
    room        tokens that a row of the block table has pages for
    place       where the tensors are, index its number among the GPUs (-1 for none), device what is there
    kind        a number; the same for calls that differ in tokens, sequences, pages and table alone
    host        whether the sequence lengths lie in host memory
    features    what it says of `select.FEATURES`: all but num_seqs and numbers of tokens, in their order
    fp8         whether the pages are
    copied      whether warp_specialized may read a 16-bit copy of the call's fp8 pages, see `host/widen.py`
    """

    tokens: int
    num_seqs: int
    group: int
    heads: int
    heads_kv: int
    pages: int
    room: int
    table_stride: int
    place: torch.device
    index: int
    device: Device
    host: bool
    kind: int
    features: tuple[Any, ...]
    fp8: bool
    copied: bool


@dataclass(slots=True)
class Call:
    """The tensors and numbers of one call. Shapes as `paged_attention`; scales are tensors or None.

    total_k: tokens attended to, over all sequences; -1 until `validate.check` assumes it; told: the caller said it.
    programs: that the parts of keys are to give in all, where warp_specialized finds their number on the device, of at
    most num_segments; 0: there are as many. slots: `slot_mapping`. above, upto: of `Features`, where a batch is taken
    apart, see `host/apart.py`; with upto the call's launch may run beside the one ahead of it. part: scratch of its
    launch, which lives until those beside it are made; second: what the launch that combines its parts is given, behind
    those. wide: a `widen.Wide`, whose addresses stand for those of k, v, table and, with above, blocks, until `place`
    makes these tensors.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    cu: torch.Tensor
    lens: torch.Tensor
    out: torch.Tensor
    max_q: int
    max_k: int
    scale: float
    new_k: torch.Tensor | None = None
    new_v: torch.Tensor | None = None
    left: int = -1
    right: int = 0
    softcap: float = 0.0
    alibi: torch.Tensor | None = None
    sinks: torch.Tensor | None = None
    q_scale: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None
    out_scale: torch.Tensor | None = None
    slots: torch.Tensor | None = None
    blocks: torch.Tensor | None = None
    block_q: int = 0
    choose: Any = default_segments
    forced: int = 0
    programs: int = 0
    total_k: int = -1
    told: bool = True
    prefix: bool = True
    above: int = 0
    upto: int = 0
    part: torch.Tensor | None = None
    second: tuple[Any, ...] = ()
    wide: Any = None
    layout: CallLayout = field(init=False)  # set by `validate.check`

    @property
    def rest(self) -> bool:
        """Of `Features`: of a batch that is taken apart, neither what reads the copy nor what may have few tokens."""
        return self.above > 0 and not self.upto and self.wide is None

    def tensors(self, rest: tuple[Any, ...]) -> Tensors:
        """As kernels take them. rest: the members from `alibi` on."""
        return Tensors(
            self.q, self.k, self.v, self.new_k, self.new_v, self.out, self.table, self.cu, self.blocks, self.lens, *rest
        )  # fmt: skip

    def place(self) -> None:
        """Where the call is over a copy of fp8 pages: makes tensors of it. A bound launch needs addresses alone."""
        if self.wide is not None and not self.wide.placed:
            self.wide.placed = True
            self.k, self.v, self.table, blocks = self.wide.tensors(self.q.dtype)
            if self.above:
                self.blocks = blocks


_kinds: Cache[tuple[Any, ...], int] = shared()
_numbers = count()


def signature_of(call: Call) -> tuple[Any, ...]:
    """All that a call's tensors are checked for, and all that a plan depends on, without their addresses.

    Written out for the tensors of every call: a helper costs a microsecond per launch.
    """
    q, k, v, out, table, cu, lens = call.q, call.k, call.v, call.out, call.table, call.cu, call.lens
    new_k, new_v, alibi, sinks = call.new_k, call.new_v, call.alibi, call.sinks
    q_scale, k_scale, v_scale, out_scale = call.q_scale, call.k_scale, call.v_scale, call.out_scale
    return (
        q.shape, q.stride(), q.dtype, q.device, k.shape, k.stride(), k.dtype, k.device, v.shape, v.stride(),
        v.dtype, v.device, out.shape, out.stride(), out.dtype, out.device, table.shape, table.stride(), table.dtype,
        table.device, cu.shape, cu.stride(), cu.dtype, cu.device, lens.shape, lens.stride(), lens.dtype,
        lens.device, None if new_k is None else _described(new_k), None if new_v is None else _described(new_v),
        None if alibi is None else _described(alibi), None if sinks is None else _described(sinks),
        None if q_scale is None else _described(q_scale), None if k_scale is None else _described(k_scale),
        None if v_scale is None else _described(v_scale), None if out_scale is None else _described(out_scale),
        None if call.slots is None else _described(call.slots),
    )  # fmt: skip


def _described(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def layout_of(call: Call, device: Device | None = None) -> CallLayout:
    """The layout of a call whose tensors were checked; as for `device` where it is given."""
    device = device or device_of(call.q.device)
    q, k, new = call.q, call.k, call.new_k
    tokens, heads, size = q.shape
    pages, page_size, heads_kv, _ = k.shape
    extras = (call.alibi, call.sinks, call.q_scale, call.k_scale, call.v_scale, call.out_scale)
    kind = (
        device, q.device, q.dtype, k.dtype, call.out.dtype, heads, size, page_size, heads_kv, q.stride(), k.stride(),
        call.v.stride(), call.out.stride(), None if new is None else new.stride(),
        None if call.new_v is None else call.new_v.stride(), call.slots is None,
        *(None if tensor is None else tensor.dtype for tensor in extras),
    )  # fmt: skip
    number = _kinds.get(kind)
    num_seqs = call.lens.shape[0]
    features = (
        heads, heads_kv, size, page_size, DTYPE_NAMES[k.dtype], new is not None, call.sinks is not None,
        tokens / num_seqs if num_seqs else 0.0, device.processors,
    )  # fmt: skip
    return CallLayout(
        tokens, num_seqs, heads // heads_kv, heads, heads_kv, pages, call.table.shape[1] * page_size,
        call.table.stride(0), q.device, q.get_device() if q.is_cuda else -1, device, call.lens.device.type == "cpu",
        _kinds.keep(kind, next(_numbers)) if number is None else number, features, k.dtype in FP8,
        k.dtype in FP8_NVIDIA and specialisable(call, device, q.dtype) and (new is None or in_rows(call)),
    )  # fmt: skip


def in_rows(call: Call) -> bool:
    """Whether descriptors can read the new tokens' K and V, as far as strides say: `new_aligned` is the rest."""
    return all(
        tensor is not None and tensor.stride(0) and tensor.stride(0) * tensor.element_size() % 16 == 0
        for tensor in (call.new_k, call.new_v)
    )


def new_aligned(call: Call) -> bool:
    """Whether new K and V, if there are any, begin where a descriptor may: at multiples of 16 bytes."""
    new_k, new_v = call.new_k, call.new_v
    return new_k is None or new_v is None or not (new_k.data_ptr() | new_v.data_ptr()) & 15


def specialisable(call: Call, device: Device, pages: torch.dtype) -> bool:
    """Whether warp_specialized can run such a call over pages of a type, laid out as it wants them: Hopper, two-byte
    elements, no feature that it lacks.
    """
    q, (heads, size) = call.q, call.q.shape[1:]
    plain = call.alibi is None and call.q_scale is None and call.slots is None
    same = q.dtype == pages == call.out.dtype and q.dtype in TWO_BYTES
    return device.hopper and plain and same and size >= 64 and heads // call.k.shape[2] <= 128
