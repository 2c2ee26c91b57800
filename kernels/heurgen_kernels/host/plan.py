"""What does not change from call to call with the same layout: the kernel, its constexprs, the shape of the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl

from ..config import Config
from ..device.arguments import Features, Sizes, Strides
from ..device.block import fan_in
from ..device.mixed import mixed_kernel
from ..device.naive import naive_kernel
from ..device.q_block import q_block_kernel
from ..device.split_kv import split_kv_kernel
from ..device.static_grid import CROWDED, FEW, MANY, static_grid_kernel
from ..device.warp_specialized import warp_specialized_kernel
from .bound import Bound, Kept
from .call import Call
from .combine import constants_of, least_parts, parted
from .descriptors import descriptor_sources
from .hardware import FP8, FP8_NVIDIA, Device
from .nearest import adapted, padded
from .segments import block_count, block_rows, fewer_segments, heads_of_block, spread

# Partial results of split keys may take this much memory; beyond it fewer segments are used.
SCRATCH_LIMIT = 1 << 30
# The same of parts of which most may not be used.
SCRATCH_LIMIT_UNSURE = 1 << 27
# By BLOCK_M: twelve or sixteen warps, two or three consumers' and the producer's (rounded up to four), share the
# 65,536 registers of a processor.
WARP_SPECIALIZED = {128: {"num_warps": 4, "maxnreg": 168}, 192: {"num_warps": 4, "maxnreg": 128}}
SPLITS = ("split_kv", "static_grid", "mixed", "warp_specialized")
TL_DTYPE = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


@dataclass(slots=True)
class Plan:
    """counters, item_counters: see `_counters`; kept: rows of a part; rows: of a descriptor of pages. heads_kv: where
    `spread` each KV head as often as its query heads have Q blocks. second_from: parts of a block from which a second
    launch, kept as `second`, combines them, second_constants its `combine.constants_of`; None where none may come.
    """

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
    counters: int
    item_counters: int
    second_from: int | None = None
    second_constants: tuple[Any, ...] = ()
    bound: Bound | None = None
    second: Kept = field(default_factory=Kept)
    # programs per processor of a static grid; corrected once the compiled kernel says how many fit
    resident: int = 2


def addresses_of(call: Call) -> tuple[int, ...]:
    """Of q, K's and V's pages, the new K and V (0 for None), out, table, cu_seqlens_q, seq_lens."""
    new_k, new_v, wide = call.new_k, call.new_v, call.wide
    if wide is None:
        k, v, table = call.k.data_ptr(), call.v.data_ptr(), call.table.data_ptr()
    else:
        k, v, table, _ = wide.at
    return (
        call.q.data_ptr(), k, v, 0 if new_k is None else new_k.data_ptr(), 0 if new_v is None else new_v.data_ptr(),
        call.out.data_ptr(), table, call.cu.data_ptr(), call.lens.data_ptr(),
    )  # fmt: skip


def plan_key(call: Call, config: Config, addresses: tuple[int, ...]) -> tuple[Any, ...]:
    """Calls of one key run the same compiled kernel.

    As many keys as layouts (tokens, sequences and pages left out), configs, alignments and classes of max_seqlen_q:
    Q blocks have a power of two of rows, so how many bits the longest query's rows take says for blocks of any size
    whether one holds all of them (192 rows are warp_specialized's, which does not ask); and sequences of one token are
    a class of their own. `rest` follows: a copy's layout is of another kind.
    """
    layout = call.layout
    rows = (call.max_q * layout.group - 1).bit_length()
    return (
        config, layout.kind, call.left >= 0, call.right >= 0, call.softcap > 0,
        rows, call.max_q == 1, call.blocks is not None and call.block_q,
        config.variant == "static_grid" and (
            call.choose, lengths_at_once(layout.num_seqs, layout.heads_kv, layout.device)
        ), call.prefix, call.above, call.upto, alignment(call, addresses), spread(call, config),
    )  # fmt: skip


def alignment(call: Call, addresses: tuple[int, ...]) -> Any:
    """True where all tensors begin at multiples of 16 bytes, which a compiled kernel may assume, else what does. Of
    scales and of where Q blocks begin it reads one number at a time. addresses: `addresses_of`.
    """
    q, k, v, new_k, new_v, out, table, cu, lens = addresses
    aligned = not (q | k | v | new_k | new_v | out | table | cu | lens) & 15
    if aligned and call.alibi is None and call.sinks is None and call.slots is None:
        return True
    more = [tensor.data_ptr() for tensor in (call.alibi, call.sinks, call.slots) if tensor is not None]
    return tuple([address & 15 == 0 for address in (*addresses, *more)])


def make_plan(call: Call, config: Config) -> Plan:
    """The plan of a call that was checked, for the device of its layout. ValueError where the call asks for new K and V
    to be written, which the config's launch does not do.
    """
    call.place()
    config = adapted(config, call)
    if call.upto and config.variant == "q_block":
        config = config._replace(variant="split_kv")  # with one part: q_block has no decodes of its own
    variant, tile, group = config.variant, config.TILE_SIZE, call.layout.group
    block_m, small_m = block_rows(config.BLOCK_M, group), block_rows(16, group)
    heads = heads_of_block(block_m, group) if spread(call, config) else group
    d_pad = padded(call.q.shape[2])
    decode = call.max_q <= block_m // group
    if call.slots is not None and not (decode and variant == "static_grid"):
        raise ValueError(
            f"slot_mapping is given, the config is {variant} and max_seqlen_q {call.max_q}; static_grid alone writes "
            f"new K and V, of at most BLOCK_M // query heads per KV head tokens a sequence, here {block_m // group}"
        )
    segments = config.num_segments if variant in SPLITS else 1
    kept = kept_rows(variant, group, block_m, call.max_q * group)
    rows = math.gcd(call.k.shape[1], tile) if variant == "warp_specialized" else tile
    tma = descriptor_sources(call, config, d_pad, rows)
    chunk = parts_at_once(config, kept * d_pad, decode)
    kernel, more = _variant_constants(config, call, segments, kept, chunk, decode, small_m, rows, heads)
    constants = (*layout_constants(call, d_pad, tma), block_m, tile, *more)
    has_second = parted(kernel, decode, kept, d_pad) and call.layout.device.hopper
    options = _options(config, d_pad, call.layout.device)
    if call.upto:
        options = {**options, "launch_pdl": True}  # beside the launch of other sequences, see `host/apart.py`
    plan = Plan(
        kernel, constants, options, block_m // heads, call.k.shape[2] * group // heads, segments, kept, d_pad, decode,
        tma, tile, variant, rows, *_counters(variant, segments, chunk),
        least_parts(kept, d_pad, bool(call.above and call.upto)) if has_second else None,
    )  # fmt: skip
    if has_second:
        plan.second_constants = constants_of(plan)
    return plan


def _counters(variant: str, segments: int, chunk: int) -> tuple[int, int]:
    """How many counters a launch uses: so many, and so many for each of its items (see `launch_grid`).

    Of each item whose keys are cut: its own, and one for each few neighbours among its parts (`combine_last`). The
    warp-specialised kernel has two of its own. chunk: parts that are combined at once.
    """
    if variant == "warp_specialized":
        return 2, 0
    return 0, 1 + -(-segments // fan_in(chunk)) if segments > 1 else 0


def layout_constants(call: Call, d_pad: int, tma: tuple[bool, bool]) -> tuple[Sizes, Strides, Features]:
    """The constants of a call's layout and features, as all kernels take them."""
    q, k, out = call.q, call.k, call.out
    compute = TL_DTYPE.get(out.dtype if q.dtype in FP8 else q.dtype, tl.bfloat16)
    fp8_max = torch.finfo(out.dtype).max if out.dtype in FP8 else 0.0
    new, new_v = (
        tensor.stride()[:2] if tensor is not None else (0, 0) for tensor in (call.new_k, call.new_v)
    )
    # pages that nobody reads may be anything, such as one number that is repeated
    pages = (*k.stride()[:3], *call.v.stride()[:3]) if call.prefix else (1,) * 6
    half = halves(call, compute)
    # a matrix product takes 16 columns and more, of either kind
    words = half and d_pad >= 32 and in_words(call.k) and in_words(call.v) and call.slots is None
    return (
        Sizes(call.layout.group, k.shape[2], k.shape[1], q.shape[2], d_pad),
        Strides(*q.stride()[:2], *out.stride()[:2], *pages, *new, *new_v),
        Features(
            FRESH=call.new_k is not None and call.slots is None,
            WRITE=call.slots is not None,
            PREFIX=call.prefix,
            TMA=tma[0],
            TMA_NEW=tma[1],
            CAUSAL=call.right >= 0,
            WINDOW=call.left >= 0,
            SOFTCAP=call.softcap > 0,
            ALIBI=call.alibi is not None,
            HALF=half,
            WORDS=words,
            COMPUTE=compute,
            FP8_MAX=fp8_max,
            # over a copy it says only that others are left out: one kernel for any number
            ABOVE=call.above if call.wide is None else min(call.above, 1),
            UPTO=call.upto,
            REST=call.rest,
        ),
    )


def halves(call: Call, compute: Any) -> bool:
    """Whether products with fp8 pages are of float16, which holds their numbers exactly: one instruction makes two of
    them since compute capability 8.9, where bfloat16 takes several. Interpreted too.
    """
    device = call.layout.device
    able = device.vendor == "nvidia" and (device.capability or (8, 9)) >= (8, 9)
    return able and call.k.dtype in FP8_NVIDIA and compute != tl.float32


def in_words(cache: torch.Tensor) -> bool:
    """Whether every row of an fp8 cache can be read as 16-bit words."""
    return cache.data_ptr() % 16 == 0 and all(stride % 2 == 0 for stride in cache.stride()[:3])


def kept_rows(variant: str, group: int, block_m: int, rows: int) -> int:
    """Rows of a part of split keys. rows: query rows that the longest sequence has for a KV head."""
    if variant == "mixed":
        return block_rows(16, group)
    return block_m if variant == "warp_specialized" else min(block_m, int(triton.next_power_of_2(rows)))


def parts_at_once(config: Config, row: int, decode: bool) -> int:
    """`reduce_chunk` for a config; fewer where that would spill: 1 of large blocks and of the static grid with prompts,
    half of 64 rows' parts from 2048 elements on.
    """
    if row >= 4096 or (config.variant == "static_grid" and not decode):
        return 1
    half = config.variant == "split_kv" and config.BLOCK_M > 16 and row >= 2048
    return reduce_chunk(row, config.num_warps) >> half


def reduce_chunk(row: int, num_warps: int) -> int:
    """Parts that the last program of a block combines in one vector step, of `row` elements each: 128 registers a
    thread, with four warps 64.

    The last program of a decode waits for each step's loads: half as many cost 2.5 % over the decodes of one H200, a
    quarter 5 %. With more, or with as many beside the wide tiles of four warps, fewer programs share a processor.
    """
    return max(1, min(4096 * num_warps, 8192) // row)


def _variant_constants(
    config: Config,
    call: Call,
    segments: int,
    kept: int,
    chunk: int,
    decode: bool,
    small_m: int,
    rows: int,
    heads: int,
) -> tuple[Any, tuple[Any, ...]]:
    """(kernel, the constexprs of its own)."""
    variant = config.variant
    if variant == "naive":
        return naive_kernel, (call.max_q == 1,)
    if variant == "q_block" or (variant == "split_kv" and segments == 1 and not decode):
        return q_block_kernel, ()
    if variant == "split_kv":
        return split_kv_kernel, (kept, chunk, decode)
    if variant == "static_grid":
        layout = call.layout
        width = lengths_at_once(layout.num_seqs, layout.heads_kv, layout.device)
        return static_grid_kernel, (
            segments, kept, chunk, decode, layout.device.processors, call.choose, width
        )  # fmt: skip
    if variant == "mixed":
        return mixed_kernel, (kept, chunk, small_m)
    return warp_specialized_kernel, (config.num_stages, rows, heads)


def lengths_at_once(num_seqs: int, heads_kv: int, device: Device) -> int:
    """The static grid's WIDTH for a batch."""
    crowded = num_seqs * heads_kv > CROWDED.value * device.processors
    return int((MANY if crowded or num_seqs > FEW.value else FEW).value)


def register_cap(config: Config, d_pad: int, hopper: bool) -> int | None:
    """Registers per thread that the assembler is told, None for its own choice. NVIDIA alone.

    Small blocks: all of 255; left to itself it stops earlier and spills a word or two. Blocks of 64 rows and 32 keys
    on Hopper: three programs of four warps share a processor (168 is 65536 / (3 * 128), rounded down to 8), short
    prompts gain; with fewer registers, larger tiles or split keys it would spill.
    """
    if d_pad > 128:
        return None
    if config.BLOCK_M <= 16 and (config.variant == "split_kv" or config.TILE_SIZE < 128):
        return 255 if config.variant in ("split_kv", "q_block") else None
    small = config.BLOCK_M == 64 and config.TILE_SIZE == 32 and config.num_warps == 4
    return 168 if hopper and small and config.variant == "q_block" else None


def _options(config: Config, d_pad: int, device: Device) -> dict[str, Any]:
    if config.variant == "warp_specialized":
        return WARP_SPECIALIZED[config.BLOCK_M]
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if device.vendor == "nvidia":
        cap = register_cap(config, d_pad, device.hopper)
        if cap is not None:
            options["maxnreg"] = cap
    else:
        for name in ("waves_per_eu", "matrix_instr_nonkdim"):
            if getattr(config, name) is not None:
                options[name] = getattr(config, name)
    return options


def roomy_segments(plan: Plan, items: int, programs: int) -> int:
    """As many of the plan's segments as have room for the partial results of `items` blocks (see `launch_grid`).
    programs: of the call.
    """
    limit = SCRATCH_LIMIT_UNSURE if programs else SCRATCH_LIMIT
    return fewer_segments(plan.segments, limit // (items * plan.kept * (plan.d_pad + 2) * 4))


def launch_grid(plan: Plan, call: Call) -> tuple[tuple[int, ...], int, int]:
    """(grid, scratch items, Q blocks that the programs share)."""
    layout = call.layout
    num_seqs = layout.num_seqs
    numbers = block_count(plan.variant, plan.block_q, num_seqs, layout.tokens, call.max_q)
    if plan.variant == "naive":
        return (layout.heads * (num_seqs if call.max_q == 1 else layout.tokens), 1, 1), 0, 0
    if plan.kernel is warp_specialized_kernel:
        items = numbers * plan.heads_kv
        return (min(layout.device.processors, items * plan.segments), 1, 1), items, numbers
    if plan.kernel is q_block_kernel:
        return (plan.heads_kv * numbers, 1, 1), 0, 0
    if plan.variant == "split_kv":
        return (plan.heads_kv * numbers, plan.segments, 1), numbers * plan.heads_kv, 0
    if plan.variant == "static_grid":
        items = numbers * plan.heads_kv
        programs = min(plan.resident * layout.device.processors, items * plan.segments)
        return (programs, 1, 1), items, 0
    return (plan.heads_kv * (numbers + num_seqs * plan.segments), 1, 1), num_seqs * plan.heads_kv, numbers
