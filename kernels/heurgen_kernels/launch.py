"""From tensors and a config to a launch.

A `Plan` is everything about a launch that does not change from call to call with the same layout: the
kernel, its constexprs, the grid's shape and, after the first call,
the compiled kernel. Later calls skip Triton's dispatch
(about 20 us for this many arguments) and go straight to the compiled kernel's launcher.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental.gluon.language import NVMMASharedLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from . import block, gather, mixed, naive, q_block, split_kv, static_grid, tiles
from .defaults import Config
from .mixed import mixed_kernel
from .naive import naive_kernel
from .occupancy import resident_programs
from .q_block import q_block_kernel
from .split_kv import reduce_kernel, split_kv_kernel
from .static_grid import default_segments, static_grid_kernel
from .warp_specialized import warp_specialized_kernel

# Partial results of split keys may take this much memory; beyond it fewer segments are used.
SCRATCH_LIMIT = 1 << 30
# Repacked keys and values may take this much memory; beyond it `gather` reads the pages where they are.
GATHER_LIMIT = 4 << 30
COUNTERS = 1 << 20
SHARED_LAYOUT = NVMMASharedLayout(128, 16, 2)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
TL_DTYPE = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


def settle_cache_keys() -> None:
    """Hash all kernels in one order, callees first.

    Triton 3.6 takes the constexpr globals of a callee into the hash of its caller only where the callee
    was hashed before: the key in the disk cache then depends on which kernel a process compiled first,
    and kernels compiled in
    parallel by a tuner's workers would be compiled again.
    """
    for module in (tiles, block, q_block, split_kv, static_grid, mixed, naive, gather):
        for function in vars(module).values():
            if isinstance(function, JITFunction):
                function.cache_key  # noqa: B018


settle_cache_keys()


@dataclass(slots=True)
class Call:
    """The tensors and numbers of one call, validated. Shapes as `paged_attention`; scales are tensors or
    None.
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
    blocks: torch.Tensor | None = None
    block_q: int = 0
    choose: Any = default_segments
    forced: int = 0
    prefix: bool = True
    fused: bool = True


@dataclass(slots=True)
class Plan:
    kernel: Any
    constants: tuple[Any, ...]
    options: dict[str, Any]
    block_q: int
    heads_kv: int
    segments: int
    kept: int
    d_pad: int
    decode: bool
    tma: tuple[bool, bool]
    tile: int
    variant: str
    rows: int
    bound: Any = None
    # programs per processor of a static grid; corrected once the compiled kernel says how many fit
    resident: int = 2


@dataclass(slots=True)
class Arena:
    """Zeros for launches that are being recorded; the first `used` belong to some."""

    zeros: torch.Tensor
    used: int = 0


_plans: dict[tuple[Any, ...], Plan] = {}
_counters: dict[tuple[int, int], torch.Tensor] = {}
_arenas: dict[int, list[Arena]] = {}
_processors: dict[int, int] = {}


def multiprocessors(device: torch.device) -> int:
    """Streaming multiprocessors or compute units; 132 (an H100 or H200) where there is no GPU."""
    index = device.index or 0
    if index not in _processors:
        cuda = device.type == "cuda"
        _processors[index] = torch.cuda.get_device_properties(device).multi_processor_count if cuda else 132
    return _processors[index]


def launch(call: Call, config: Any) -> torch.Tensor:
    """Run one config. Nothing is read back from the device."""
    if call.q.shape[0] == 0 or call.lens.shape[0] == 0:
        return call.out
    if config.variant == "gather":
        call = _repacked(call)
    if config.variant == "warp_specialized" and not _specialises(call, config):
        config = Config("q_block", 64, 64 if call.q.shape[2] <= 128 else 32, 4, 2)
    key = _key(call, config)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _plan(call, config)
    if plan.segments > 1 and not _scratch_fits(plan, call):
        return launch(call, _fewer_segments(config))
    _run(plan, call)
    return call.out


def _fewer_segments(config: Any) -> Config:
    given = {name: getattr(config, name, None) for name in Config._fields}
    return Config(**given | {"num_segments": config.num_segments // 2})


def _key(call: Call, config: Any) -> tuple[Any, ...]:
    group = call.q.shape[1] // call.k.shape[2]
    new = call.new_k
    return (
        config, call.q.dtype, call.k.dtype, call.out.dtype, call.q.shape[1:], call.k.shape[1:],
        call.q.stride(),
        call.out.stride(), call.k.stride(), call.v.stride(), new.stride() if new is not None else None,
        call.left >= 0, call.right >= 0, call.softcap > 0, call.alibi is not None, call.sinks is not None,
        call.q_scale is not None, call.k_scale is not None, call.v_scale is not None,
        call.out_scale is not None,
        call.max_q if call.max_q * group <= 16 else min(call.max_q * group, 257), call.q.device.index,
        call.blocks is not None and call.block_q, call.choose, call.prefix, call.fused,
        # a compiled kernel may assume 16-byte alignment that another call's tensors lack
        (call.q.data_ptr() | call.k.data_ptr() | call.v.data_ptr() | call.out.data_ptr()
         | (new.data_ptr() | call.new_v.data_ptr() if new is not None else 0)) % 16,
          # type: ignore[union-attr]
        (call.table.data_ptr() | call.cu.data_ptr() | call.lens.data_ptr()) % 16,
    )  # fmt: skip


def _repacked(call: Call) -> Call:
    fresh = call.new_k is not None
    if fresh and not call.prefix:
        return call
    cached = call.max_k
    size = (
        2
        * call.lens.shape[0]
        * (cached + gather.PAGE)
        * call.k.shape[2]
        * call.k.shape[3]
        * call.k.element_size()
    )
    if size > GATHER_LIMIT or call.k.dtype in FP8 or call.k.shape[1] % gather.PAGE == 0:
        return call
    k, v, table = gather.repack(call.k, call.v, call.table, call.cu, call.lens, cached, fresh)
    fields = {name: getattr(call, name) for name in Call.__slots__}
    return Call(**fields | {"k": k, "v": v, "table": table})


def _row_view(cache: torch.Tensor) -> tuple[int, int, int] | None:
    """(rows, columns, row stride) of a cache seen as a matrix whose rows a tile of one page is contiguous in.

    None where the strides allow no such view or the descriptor's limits (16-byte strides and base) are not
    met.
    """
    page, tok, head, unit = cache.stride()
    size = cache.element_size()
    rows_per_page = page // tok if tok else 0
    inside = head < tok or cache.shape[2] == 1
    if unit != 1 or not tok or page % tok or (not inside and head % tok):
        return None
    if (tok * size) % 16 or cache.data_ptr() % 16 or (inside and (head * size) % 16):
        return None
    last = (cache.shape[1] - 1) + (0 if inside else (cache.shape[2] - 1) * (head // tok))
    columns = cache.shape[3] + ((cache.shape[2] - 1) * head if inside else 0)
    return (cache.shape[0] - 1) * rows_per_page + last + 1, columns, tok


def _tma(call: Call, config: Any, d_pad: int, rows: int) -> tuple[bool, bool]:
    """Which sources are read through host-side tensor descriptors: (cached pages, new tokens)."""
    cuda = call.q.device.type == "cuda" and torch.version.hip is None
    if not cuda or torch.cuda.get_device_capability(call.q.device) < (9, 0) or config.variant == "naive":
        return False, False
    size = call.k.shape[3]
    if size != d_pad or size * call.k.element_size() > 512 or call.k.dtype in FP8:
        return False, False
    same = call.k.stride() == call.v.stride()
    pages = call.prefix and same and call.k.shape[1] % rows == 0 and _row_view(call.k) is not None
    new = call.new_k is not None and call.new_k.stride(0) * 2 % 16 == 0
    return pages and _row_view(call.v) is not None, new


def _specialises(call: Call, config: Any) -> bool:
    """Whether the warp-specialised kernel can run the call: Hopper, two-byte elements, no feature it lacks."""
    if call.q.device.type != "cuda" or torch.version.hip is not None:
        return False
    if torch.cuda.get_device_capability(call.q.device)[0] != 9:
        return False
    plain = call.left < 0 and call.softcap == 0 and call.alibi is None
    same = call.q.dtype == call.k.dtype == call.out.dtype and call.q.dtype in (torch.float16, torch.bfloat16)
    rows = not call.prefix or (call.k.shape[1] % 16 == 0 and all(_tma(call, config, call.q.shape[2], 16)[:1]))
    new = call.new_k is None or _tma(call, config, call.q.shape[2], 16)[1]
    return plain and same and rows and new and call.q.shape[2] in (64, 128)


def _plan(call: Call, config: Any) -> Plan:
    heads, heads_kv, size = call.q.shape[1], call.k.shape[2], call.q.shape[2]
    group = heads // heads_kv
    block_m = max(config.BLOCK_M, triton.next_power_of_2(group), 16)
    d_pad = max(triton.next_power_of_2(size), 16)
    block_q = block_m // group
    decode = call.max_q <= block_q
    specialised = config.variant == "warp_specialized"
    variant = "q_block" if config.variant == "gather" else config.variant
    if config.TILE_SIZE < 16 or config.TILE_SIZE & (config.TILE_SIZE - 1):
        raise ValueError(f"TILE_SIZE is {config.TILE_SIZE}; it must be a power of two of at least 16")
    segments = (
        max(getattr(config, "num_segments", None) or 1, 1)
        if variant in ("split_kv", "static_grid", "mixed", "warp_specialized")
        else 1
    )
    small_m = max(triton.next_power_of_2(group), 16)
    kept = triton.next_power_of_2(group) if decode and call.max_q == 1 and not specialised else block_m
    if variant == "mixed":
        kept = small_m
    chunk = reduce_chunk(segments, kept * d_pad, config)
    rows = math.gcd(call.k.shape[1], config.TILE_SIZE) if specialised else config.TILE_SIZE
    tma = _tma(call, config, d_pad, rows)
    compute = call.out.dtype if call.q.dtype in FP8 else call.q.dtype
    fp8_max = torch.finfo(call.out.dtype).max if call.out.dtype in FP8 else 0.0
    k_strides, v_strides = call.k.stride(), call.v.stride()
    new = call.new_k.stride() if call.new_k is not None else (0, 0, 0)
    base = (
        group, heads_kv, block_m, config.TILE_SIZE, call.k.shape[1], size, d_pad, call.q.stride(0),
        call.q.stride(1),
        call.out.stride(0), call.out.stride(1), k_strides[0], k_strides[1], k_strides[2], v_strides[0],
        v_strides[1],
        v_strides[2], new[0], new[1], call.new_k is not None, call.prefix, tma[0], tma[1], call.right >= 0,
        call.left >= 0,
        call.softcap > 0, call.alibi is not None, TL_DTYPE.get(compute, tl.bfloat16), fp8_max,
    )  # fmt: skip
    if specialised:
        kernel, more = warp_specialized_kernel, (segments, config.num_stages, rows)
    else:
        kernel, more = _variant_constants(variant, call, segments, kept, chunk, decode, small_m)
    options = _options(config, block_m, d_pad, any(tma))
    if variant == "static_grid" and decode and static_grid.REGISTERS and _hopper():
        options["maxnreg"] = static_grid.REGISTERS
    return Plan(
        kernel, (*base, *more), options, block_q, heads_kv, segments,
        kept, d_pad, decode, tma,
        config.TILE_SIZE, variant, rows,
    )  # fmt: skip


def reduce_chunk(segments: int, row: int, config: Any) -> int:
    """Parts that are combined in one vector step. row: elements of a part.

    A static grid lives as long as its longest program: 64 registers a thread for the step, which would
    otherwise decide how many programs a processor holds.
    """
    elements = min(2048 * config.num_warps, 8192) if config.variant == "static_grid" else 8192
    return max(1, min(triton.next_power_of_2(segments), elements // row))


def _variant_constants(
    variant: str, call: Call, segments: int, kept: int, chunk: int, decode: bool, small_m: int
) -> tuple[Any, tuple[Any, ...]]:
    if variant == "naive":
        return naive_kernel, (call.max_q == 1,)
    if variant == "q_block" or (variant == "split_kv" and segments == 1 and not decode):
        return q_block_kernel, ()
    if variant == "split_kv":
        return split_kv_kernel, (segments, kept, chunk, call.fused, decode)
    if variant == "static_grid":
        processors = multiprocessors(call.q.device)
        return static_grid_kernel, (segments, kept, chunk, decode, processors, call.choose)
    if variant == "mixed":
        return mixed_kernel, (segments, kept, chunk, small_m)
    raise ValueError(
        f"config.variant is {variant!r}; known: naive, q_block, split_kv, static_grid, mixed, gather"
    )


def _hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


def register_cap(config: Any, block_m: int, d_pad: int, tma: bool) -> int | None:
    """Registers per thread that let as many programs share a processor as shared memory has room for, or
    None.

    Measured on an H200: with 16 rows per warp and at most 64 keys a tile,
    16 warps of 128 registers beat 8 warps of
    up to 255 by up to a third on short prompts,
    in spite of a few spills outside the loops. Two-byte elements.
    """
    if config.variant == "naive" or block_m < 64 or block_m != 16 * config.num_warps:
        return None
    if config.TILE_SIZE > 64 or d_pad > 128:
        return None
    # loads through the block table are pipelined one stage behind the page numbers
    buffers = config.num_stages if tma or config.num_stages <= 2 else config.num_stages - 1
    shared = (block_m + 2 * buffers * config.TILE_SIZE) * d_pad * 2
    programs = 227 * 1024 // (shared + 1024)
    cap = 65536 // (32 * config.num_warps * max(programs, 1)) // 8 * 8
    return max(cap, 128) if cap < 255 else None


def _options(config: Any, block_m: int, d_pad: int, tma: bool) -> dict[str, Any]:
    if config.variant == "warp_specialized":
        return {"num_warps": 4, "maxnreg": 168}  # twelve warps share the 65,536 registers of a processor
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    cap = register_cap(config, block_m, d_pad, tma)
    if cap is not None and torch.version.hip is None and _hopper():
        options["maxnreg"] = cap
    if torch.version.hip is not None:
        for name in ("waves_per_eu", "matrix_instr_nonkdim"):
            if getattr(config, name, None) is not None:
                options[name] = getattr(config, name)
    return options


def _numbers(plan: Plan, call: Call) -> int:
    """Sequences where each has one Q block, else the upper bound of Q blocks that the kernels number
    through.
    """
    num_seqs = call.lens.shape[0]
    if plan.decode and plan.variant not in ("q_block", "mixed", "warp_specialized"):
        return num_seqs
    if num_seqs == 1:
        return -(-call.q.shape[0] // plan.block_q)
    return call.q.shape[0] // plan.block_q + num_seqs


def _scratch_fits(plan: Plan, call: Call) -> bool:
    items = _grid(plan, call)[1]
    rows = items * plan.segments * plan.kept
    return 2 * items + 2 <= COUNTERS and rows * (plan.d_pad + 2) * 4 <= SCRATCH_LIMIT


def _grid(plan: Plan, call: Call) -> tuple[tuple[int, ...], int, int]:
    """(grid, scratch items, Q blocks that the programs share)."""
    num_seqs = call.lens.shape[0]
    numbers = _numbers(plan, call)
    if plan.variant == "naive":
        return (call.q.shape[1], num_seqs if call.max_q == 1 else call.q.shape[0], 1), 0, 0
    if plan.kernel is warp_specialized_kernel:
        items = numbers * plan.heads_kv
        return (min(multiprocessors(call.q.device), items * plan.segments), 1, 1), items, numbers
    if plan.kernel is q_block_kernel:
        return (plan.heads_kv, numbers, 1), 0, 0
    if plan.variant == "split_kv":
        return (plan.heads_kv, numbers, plan.segments), numbers * plan.heads_kv, 0
    if plan.variant == "static_grid":
        items = numbers * plan.heads_kv
        programs = min(plan.resident * multiprocessors(call.q.device), items * plan.segments)
        return (programs, 1, 1), items, 0
    return (plan.heads_kv * (numbers + num_seqs * plan.segments), 1, 1), num_seqs * plan.heads_kv, numbers


def _descriptors(plan: Plan, call: Call) -> tuple[Any, Any, Any, Any]:
    descriptors: list[Any] = [None, None, None, None]
    if plan.tma[0]:
        for slot, cache in ((0, call.k), (1, call.v)):
            rows, columns, stride = _row_view(cache)  # type: ignore[misc]
            descriptors[slot] = _descriptor(plan, cache, [rows, columns], stride, plan.rows)
    if plan.tma[1]:
        for slot, new in ((2, call.new_k), (3, call.new_v)):
            shape = [new.shape[0], (new.shape[1] - 1) * new.stride(1) + new.shape[2]]  # type: ignore[union-attr]
            descriptors[slot] = _descriptor(plan, new, shape, new.stride(0), plan.tile)  # type: ignore[union-attr]
    return tuple(descriptors)  # type: ignore[return-value]


def _descriptor(plan: Plan, base: Any, shape: list[int], stride: int, rows: int) -> Any:
    if plan.variant == "warp_specialized":
        return GluonDescriptor(base, shape, [stride, 1], [rows, 64], SHARED_LAYOUT)
    return TensorDescriptor(base, shape, [stride, 1], [rows, plan.d_pad])


def _counter(device: torch.device, stream: int, items: int) -> torch.Tensor:
    """Zeros that every launch leaves as zeros. One buffer per stream: launches on one stream never overlap.

    Recorded launches may: their graphs replay on any stream. Each takes counters of its own out of an arena.
    """
    index = device.index or 0
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return _recorded_counter(device, items)
    buffer = _counters.get((index, stream))
    if buffer is None:
        buffer = _counters[index, stream] = torch.zeros(COUNTERS, dtype=torch.int32, device=device)
    arenas = _arenas.setdefault(index, [])  # never freed: graphs may hold any of them
    if not arenas or 2 * arenas[-1].used > COUNTERS:
        arenas.append(Arena(torch.zeros(COUNTERS, dtype=torch.int32, device=device)))
    return buffer


def _recorded_counter(device: torch.device, items: int) -> torch.Tensor:
    """Counters that no other launch uses, from the arena that eager launches fill up.

    Where it is spent, or nothing was launched before the recording, zeros of the graph's own pool: they are
    written anew at every replay, which costs a node of the graph.
    """
    arenas = _arenas.get(device.index or 0)
    if not arenas or arenas[-1].used + items > COUNTERS:
        return torch.zeros(items, dtype=torch.int32, device=device)
    arena = arenas[-1]
    first = arena.used
    arena.used += -(-items // 4) * 4  # keeps the 16-byte alignment that a compiled kernel may assume
    return arena.zeros[first : first + items]


def _stream(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(torch._C._cuda_getCurrentRawStream(device.index or 0))


def _run(plan: Plan, call: Call) -> None:
    grid, items, blocks = _grid(plan, call)
    device = call.q.device
    stream = _stream(device)
    part, count, rows = None, None, 0
    if plan.segments > 1:
        rows = items * plan.segments * plan.kept
        part = torch.empty(rows * (plan.d_pad + 2), dtype=torch.float32, device=device)
    if plan.segments > 1 or plan.variant == "warp_specialized":
        count = _counter(device, stream, 2 + 2 * items * (plan.segments > 1))
    head = (
        call.q, call.k, call.v, *_descriptors_first(plan, call), call.out, call.table, call.cu, call.blocks,
        call.lens,
        call.alibi, call.sinks, call.q_scale, call.k_scale, call.v_scale, call.out_scale, part, count, rows,
        call.scale, call.softcap, call.left, call.right, call.table.stride(0), call.lens.shape[0],
    )  # fmt: skip
    if plan.variant in ("mixed", "warp_specialized"):
        head = (*head, blocks)
    elif plan.variant == "static_grid":
        head = (*head, call.forced)
    dispatch(plan, grid, stream, (*head, *plan.constants))
    if plan.variant == "split_kv" and not plan.constants[-2]:
        _reduce(plan, call, grid, part, rows)


def _reduce(plan: Plan, call: Call, grid: tuple[int, ...], part: torch.Tensor | None, rows: int) -> None:
    """The second launch of an unfused split: one program per row."""
    names = dict(zip(plan.kernel.arg_names[-len(plan.constants) :], plan.constants, strict=True))
    keep = {
        "G", "HKV", "BLOCK_M", "TILE", "D", "D_PAD", "O_TOK", "O_HEAD", "CAUSAL",
        "WINDOW", "FRESH", "FP8_MAX", "SEGMENTS", "KEPT", "DECODE",
    }  # fmt: skip
    chunk = min(triton.next_power_of_2(plan.segments), max(1, 8192 // plan.d_pad))
    reduce_kernel[(plan.kept, grid[1], plan.heads_kv)](
        call.out, call.cu, call.blocks, call.lens, call.sinks, call.v_scale, call.out_scale, part, rows,
        call.left,
        call.right, call.lens.shape[0], **{name: names[name] for name in keep}, CHUNK=chunk, num_warps=4,
    )  # fmt: skip


def _descriptors_first(plan: Plan, call: Call) -> tuple[Any, ...]:
    k_desc, v_desc, new_k_desc, new_v_desc = _descriptors(plan, call)
    return k_desc, v_desc, call.new_k, call.new_v, new_k_desc, new_v_desc


_binding = [True]


@contextmanager
def unbound() -> Iterator[None]:
    """Inside, every launch goes through Triton's own dispatch: for tools that turn it into compilation
    alone.
    """
    _binding[0] = False
    try:
        yield
    finally:
        _binding[0] = True


def dispatch(plan: Plan, grid: tuple[int, ...], stream: int, arguments: tuple[Any, ...]) -> None:
    """Triton's own dispatch the first time, the bound compiled kernel afterwards."""
    bound = plan.bound
    if bound is not None and _binding[0]:
        bound(*grid, stream, *arguments)
        return
    compiled = plan.kernel[grid](*arguments, **plan.options)
    if _binding[0] and compiled is not None and hasattr(compiled, "packed_metadata"):
        plan.bound = _bind(compiled)
        if plan.variant == "static_grid":
            plan.resident = resident_programs(compiled, plan.options["num_warps"])


def _bind(compiled: Any) -> Callable[..., None]:
    run, function, packed = compiled.run, compiled.function, compiled.packed_metadata

    def call(x: int, y: int, z: int, stream: int, *arguments: Any) -> None:
        run(x, y, z, stream, function, packed, None, None, None, *arguments)

    return call
