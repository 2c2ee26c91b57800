"""What does not change from call to call with the same layout: the kernel, its constexprs, the shape of the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from .call import FP8, Call, hopper
from .defaults import Config
from .descriptors import descriptor_sources
from .mixed import mixed_kernel
from .naive import naive_kernel
from .q_block import q_block_kernel
from .scratch import COUNTERS
from .segments import block_count, block_rows
from .split_kv import split_kv_kernel
from .static_grid import static_grid_kernel
from .warp_specialized import warp_specialized_kernel

# Partial results of split keys may take this much memory; beyond it fewer segments are used.
SCRATCH_LIMIT = 1 << 30
# Twelve warps, two consumers' and the producer's (rounded up to four), share the 65,536 registers of a processor.
WARP_SPECIALIZED = {"num_warps": 4, "maxnreg": 168}
SPLITS = ("split_kv", "static_grid", "mixed", "warp_specialized")
TL_DTYPE = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


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


def addresses_of(call: Call) -> tuple[int, ...]:
    """Of q, K's and V's pages, the new K and V (0 for None), out, table, cu_seqlens_q, seq_lens."""
    new_k, new_v = call.new_k, call.new_v
    return (
        call.q.data_ptr(), call.k.data_ptr(), call.v.data_ptr(), 0 if new_k is None else new_k.data_ptr(),
        0 if new_v is None else new_v.data_ptr(), call.out.data_ptr(), call.table.data_ptr(), call.cu.data_ptr(),
        call.lens.data_ptr(),
    )  # fmt: skip


def plan_key(call: Call, config: Any, addresses: tuple[int, ...]) -> tuple[Any, ...]:
    """Calls of one key run the same compiled kernel.

    As many keys as layouts (tokens, sequences and pages left out), configs, alignments and up to 257 classes of
    max_seqlen_q, which say whether all sequences decode.
    """
    layout = call.layout
    rows = call.max_q * (layout.heads // layout.heads_kv)
    q, k, v, new_k, new_v, out, table, cu, lens = addresses
    aligned: Any = not (q | k | v | new_k | new_v | out | table | cu | lens) & 15
    if not aligned or call.alibi is not None or call.sinks is not None:
        # a compiled kernel may assume 16-byte alignment that another call's tensors lack
        more = (tensor.data_ptr() for tensor in (call.alibi, call.sinks) if tensor is not None)
        aligned = tuple(address & 15 == 0 for address in (*addresses, *more))
    return (
        config, layout.kind, call.left >= 0, call.right >= 0, call.softcap > 0,
        call.max_q if rows <= 16 else min(rows, 257), call.blocks is not None and call.block_q, call.choose,
        call.prefix, call.fused, aligned,
    )  # fmt: skip


def adapted(config: Any, call: Call) -> Any:
    """The config, or the nearest one that this call and GPU can run: `specialises`, `unspilled`, `before_hopper`."""
    if config.variant == "warp_specialized" and (config.BLOCK_M, config.num_warps) != (128, 4):
        raise ValueError(
            f"warp_specialized has blocks of 128 rows and consumers of 4 warps; "
            f"the config has BLOCK_M {config.BLOCK_M} and num_warps {config.num_warps}"
        )
    if config.variant == "warp_specialized" and not specialises(config, call):
        config = Config("q_block", 64, 64 if call.q.shape[2] <= 128 else 32, 4, 2)
    config = unspilled(config, call.new_k is not None and call.prefix)
    cuda = call.q.device.type == "cuda" and torch.version.hip is None
    return (
        before_hopper(config) if cuda and torch.cuda.get_device_capability(call.q.device) < (9, 0) else config
    )


def unspilled(config: Any, both: bool) -> Any:
    """Tiles of 64 keys for warp_specialized where keys are cut: with 128 its producer spills three registers.

    both: keys come from pages and from new tokens at hand; with one source nothing spills.
    """
    if config.variant != "warp_specialized" or config.TILE_SIZE < 128 or config.num_segments < 2 or not both:
        return config
    return Config("warp_specialized", 128, 64, 4, 3, config.num_segments)


def before_hopper(config: Any) -> Any:
    """Blocks that spill without Hopper's matrix instructions, cut to 64 rows and 8 warps for wide tiles."""
    if config.BLOCK_M < 64 or (config.BLOCK_M == 64 and config.TILE_SIZE < 64):
        return config
    given = {name: getattr(config, name, None) for name in Config._fields}
    variant = "q_block" if config.variant == "warp_specialized" else config.variant
    return Config(
        **given | {"variant": variant, "BLOCK_M": 64, "TILE_SIZE": 64, "num_warps": 8, "num_stages": 2}
    )


def specialises(config: Any, call: Call) -> bool:
    """Whether the warp-specialised kernel can run the call: Hopper, two-byte elements, no feature that it lacks."""
    if not hopper(call.q.device):
        return False
    plain = call.left < 0 and call.softcap == 0 and call.alibi is None and call.q.shape[2] in (64, 128)
    same = call.q.dtype == call.k.dtype == call.out.dtype and call.q.dtype in (torch.float16, torch.bfloat16)
    pages, new = descriptor_sources(call, config, call.q.shape[2], 16)
    return plain and same and (pages or not call.prefix) and (new or call.new_k is None)


def make_plan(call: Call, config: Any) -> Plan:
    """ValueError for a TILE_SIZE or a variant that no kernel has."""
    config = adapted(config, call)
    variant, tile = config.variant, config.TILE_SIZE
    if tile < 16 or tile & (tile - 1):
        raise ValueError(f"TILE_SIZE is {tile}; it must be a power of two of at least 16")
    group = call.q.shape[1] // call.k.shape[2]
    block_m, small_m = block_rows(config.BLOCK_M, group), block_rows(16, group)
    d_pad = max(triton.next_power_of_2(call.q.shape[2]), 16)
    decode = call.max_q <= block_m // group
    segments = max(getattr(config, "num_segments", None) or 1, 1) if variant in SPLITS else 1
    kept = kept_rows(variant, group, block_m, call.max_q == 1)
    rows = math.gcd(call.k.shape[1], tile) if variant == "warp_specialized" else tile
    tma = descriptor_sources(call, config, d_pad, rows)
    chunk = parts_at_once(config, kept * d_pad, decode)
    kernel, more = _variant_constants(config, call, segments, kept, chunk, decode, small_m, rows)
    constants = (*_shared_constants(call, group, block_m, tile, d_pad, tma), *more)
    options = _options(config, d_pad, call.q.device)
    return Plan(
        kernel, constants, options, block_m // group, call.k.shape[2], segments, kept, d_pad, decode, tma, tile,
        variant, rows,
    )  # fmt: skip


def _shared_constants(
    call: Call, group: int, block_m: int, tile: int, d_pad: int, tma: tuple[bool, bool]
) -> tuple[Any, ...]:
    """The constexprs that all kernels take, in their order: G to FP8_MAX."""
    q, k, out = call.q, call.k, call.out
    compute = out.dtype if q.dtype in FP8 else q.dtype
    fp8_max = torch.finfo(out.dtype).max if out.dtype in FP8 else 0.0
    new = call.new_k.stride()[:2] if call.new_k is not None else (0, 0)
    return (
        group, k.shape[2], block_m, tile, k.shape[1], q.shape[2], d_pad, *q.stride()[:2], *out.stride()[:2],
        *k.stride()[:3], *call.v.stride()[:3], *new, call.new_k is not None, call.prefix, *tma, call.right >= 0,
        call.left >= 0, call.softcap > 0, call.alibi is not None, TL_DTYPE.get(compute, tl.bfloat16), fp8_max,
    )  # fmt: skip


def kept_rows(variant: str, group: int, block_m: int, one_token: bool) -> int:
    """Rows of a part of split keys. one_token: no sequence has more than one query token."""
    if variant == "mixed":
        return block_rows(16, group)
    return int(triton.next_power_of_2(group)) if one_token and variant != "warp_specialized" else block_m


def parts_at_once(config: Any, row: int, decode: bool) -> int:
    """`reduce_chunk` for a config. The static grid splits keys of prompts rarely: there more than one would spill."""
    return 1 if config.variant == "static_grid" and not decode else reduce_chunk(row, config.num_warps)


def reduce_chunk(row: int, num_warps: int) -> int:
    """Parts that are combined in one vector step, of `row` elements each: 128 registers a thread, with four warps 64.

    The last program of a decode waits for each step's loads: half as many cost 2.5 % over the decodes of one H200, a
    quarter 5 %. With more, or with as many beside the wide tiles of four warps, fewer programs share a processor.
    """
    return max(1, min(4096 * num_warps, 8192) // row)


def _variant_constants(
    config: Any, call: Call, segments: int, kept: int, chunk: int, decode: bool, small_m: int, rows: int
) -> tuple[Any, tuple[Any, ...]]:
    """(kernel, the constexprs of its own)."""
    variant = config.variant
    if variant == "naive":
        return naive_kernel, (call.max_q == 1,)
    if variant == "q_block" or (variant == "split_kv" and segments == 1 and not decode):
        return q_block_kernel, ()
    if variant == "split_kv":
        return split_kv_kernel, (kept, chunk, call.fused, decode)
    if variant == "static_grid":
        return static_grid_kernel, (segments, kept, chunk, decode, call.layout.processors, call.choose)
    if variant == "mixed":
        return mixed_kernel, (kept, chunk, small_m)
    if variant == "warp_specialized":
        return warp_specialized_kernel, (config.num_stages, rows)
    raise ValueError(
        f"config.variant is {variant!r}; known: naive, q_block, split_kv, static_grid, mixed, warp_specialized"
    )


def register_cap(config: Any, d_pad: int, hopper: bool) -> int | None:
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


def _options(config: Any, d_pad: int, device: torch.device) -> dict[str, Any]:
    if config.variant == "warp_specialized":
        return WARP_SPECIALIZED
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if torch.version.hip is None:
        cap = register_cap(config, d_pad, hopper(device))
        if cap is not None:
            options["maxnreg"] = cap
    else:
        for name in ("waves_per_eu", "matrix_instr_nonkdim"):
            if getattr(config, name, None) is not None:
                options[name] = getattr(config, name)
    return options


def scratch_fits(plan: Plan, items: int) -> bool:
    """Whether the counters and the partial results of `items` blocks (see `launch_grid`) have room."""
    rows = items * plan.segments * plan.kept
    return 2 * items * plan.segments + 2 <= COUNTERS and rows * (plan.d_pad + 2) * 4 <= SCRATCH_LIMIT


def launch_grid(plan: Plan, call: Call) -> tuple[tuple[int, ...], int, int]:
    """(grid, scratch items, Q blocks that the programs share)."""
    layout = call.layout
    num_seqs = layout.num_seqs
    numbers = block_count(plan.variant, plan.block_q, num_seqs, layout.tokens, call.max_q)
    if plan.variant == "naive":
        return (layout.heads, num_seqs if call.max_q == 1 else layout.tokens, 1), 0, 0
    if plan.kernel is warp_specialized_kernel:
        items = numbers * plan.heads_kv
        return (min(layout.processors, items * plan.segments), 1, 1), items, numbers
    if plan.kernel is q_block_kernel:
        return (plan.heads_kv, numbers, 1), 0, 0
    if plan.variant == "split_kv":
        return (plan.heads_kv, numbers, plan.segments), numbers * plan.heads_kv, 0
    if plan.variant == "static_grid":
        items = numbers * plan.heads_kv
        programs = min(plan.resident * layout.processors, items * plan.segments)
        return (programs, 1, 1), items, 0
    return (plan.heads_kv * (numbers + num_seqs * plan.segments), 1, 1), num_seqs * plan.heads_kv, numbers
