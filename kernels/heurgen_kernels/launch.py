"""From tensors and a config to a launch.

A `Plan` is everything about a launch that does not change from call to call with the same layout: the
kernel, its constexprs, the grid's shape and, after the first call, the compiled kernel. Later calls skip Triton's
dispatch (about 20 us for this many arguments) and go straight to the compiled kernel's launcher.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from . import block, mixed, naive, q_block, split_kv, static_grid, tiles
from .bound import Bound, bind
from .call import Call, remember
from .defaults import Config
from .descriptors import new_descriptors, page_descriptors
from .occupancy import resident_programs
from .plan import Plan, addresses_of, launch_grid, make_plan, plan_key, reduce_chunk, scratch_fits
from .scratch import counters
from .segments import cut
from .split_kv import reduce_kernel, split_kv_kernel
from .warp_specialized import attend, consume, items, kernel, produce

SPECIALISED = (items, produce, attend, consume, kernel)


@cache
def settle_cache_keys() -> None:
    """Hash all kernels in one order, callees first, before the first of them is compiled: 24 ms.

    Triton 3.6 takes the constexpr globals of a callee into the hash of its caller only where the callee was hashed
    before: the key in the disk cache then depends on which kernel a process compiled first, and kernels compiled in
    parallel by a tuner's workers would be compiled again.
    """
    for module in (tiles, block, q_block, split_kv, static_grid, mixed, naive, *SPECIALISED):
        for function in vars(module).values():
            if isinstance(function, JITFunction):
                function.cache_key  # noqa: B018


_plans: dict[tuple[Any, ...], Plan] = {}


def launch(call: Call, config: Any) -> torch.Tensor:
    """Run one config. Nothing is read back from the device."""
    if call.layout.tokens == 0 or call.layout.num_seqs == 0:
        return call.out
    if getattr(config, "programs_per_sm", 0):
        config = cut(config, call)
    addresses = addresses_of(call)
    key = plan_key(call, config, addresses)
    plan = _plans.get(key)
    if plan is None:
        plan = remember(_plans, key, make_plan(call, config))
    if call.blocks is not None and call.block_q != plan.block_q:
        call.blocks = None  # the metadata is of other blocks: the kernel numbers them itself
        return launch(call, config)
    grid, items, blocks = launch_grid(plan, call)
    if plan.segments > 1 and not scratch_fits(plan, items):
        return launch(call, _fewer_segments(config))
    _run(plan, call, addresses, grid, items, blocks)
    return call.out


def _fewer_segments(config: Any) -> Config:
    given: dict[str, Any] = {name: getattr(config, name, None) for name in Config._fields}
    return Config(**given | {"num_segments": config.num_segments // 2})


def _stream(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(torch._C._cuda_getCurrentRawStream(device.index or 0))


def _run(
    plan: Plan, call: Call, addresses: tuple[int, ...], grid: tuple[int, ...], items: int, blocks: int
) -> None:
    layout = call.layout
    stream = _stream(layout.device)
    part, count, rows = None, None, 0
    if plan.segments > 1:
        rows = items * plan.segments * plan.kept
        part = torch.empty(rows * (plan.d_pad + 2), dtype=torch.float32, device=layout.device)
    if plan.segments > 1 or plan.variant == "warp_specialized":
        count = counters(layout.device, stream, 2 + 2 * items * plan.segments)
    tail: tuple[Any, ...] = (
        call.alibi, call.sinks, call.q_scale, call.k_scale, call.v_scale, call.out_scale, part, count, rows,
        call.scale, call.softcap, call.left, call.right, layout.table_stride, layout.num_seqs,
    )  # fmt: skip
    if plan.kernel is split_kv_kernel:
        tail = (*tail, plan.segments)
    elif plan.variant in ("mixed", "warp_specialized"):
        tail = (*tail, plan.segments, blocks)
    elif plan.variant == "static_grid":
        tail = (*tail, call.forced)
    if plan.bound is not None and _binding[0]:
        _launch_bound(plan.bound, plan, call, addresses, (*grid, stream), tail)
    else:
        _dispatch(plan, call, grid, tail)
    if plan.kernel is split_kv_kernel and plan.segments > 1 and not call.fused:
        _reduce(plan, call, grid, part, rows)


def _reduce(plan: Plan, call: Call, grid: tuple[int, ...], part: torch.Tensor | None, rows: int) -> None:
    """The second launch of an unfused split: one program per row."""
    names = dict(zip(plan.kernel.arg_names[-len(plan.constants) :], plan.constants, strict=True))
    keep = {
        "G", "HKV", "BLOCK_M", "TILE", "D", "D_PAD", "O_TOK", "O_HEAD", "CAUSAL",
        "WINDOW", "FRESH", "FP8_MAX", "KEPT", "DECODE",
    }  # fmt: skip
    reduce_kernel[(plan.kept, grid[1], plan.heads_kv)](
        call.out, call.cu, call.blocks, call.lens, call.sinks, call.v_scale, call.out_scale, part, rows, call.left,
        call.right, call.lens.shape[0], plan.segments, **{name: names[name] for name in keep},
        CHUNK=reduce_chunk(plan.d_pad, 4), num_warps=4,
    )  # fmt: skip


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


def _dispatch(plan: Plan, call: Call, grid: tuple[int, ...], tail: tuple[Any, ...]) -> None:
    """Triton's own dispatch, which compiles and launches; later launches are bound."""
    settle_cache_keys()
    pages = page_descriptors(plan, call) if plan.tma[0] else (None, None)
    new = new_descriptors(plan, call) if plan.tma[1] else (None, None)
    compiled = plan.kernel[grid](
        call.q, call.k, call.v, *pages, call.new_k, call.new_v, *new, call.out, call.table, call.cu, call.blocks,
        call.lens, *tail, *plan.constants, **plan.options,
    )  # fmt: skip
    if _binding[0] and compiled is not None and hasattr(compiled, "packed_metadata"):
        plan.bound = bind(compiled, plan.tma)
        if plan.variant == "static_grid":
            plan.resident = resident_programs(compiled, plan.options["num_warps"])


def _launch_bound(
    bound: Bound,
    plan: Plan,
    call: Call,
    addresses: tuple[int, ...],
    head: tuple[int, ...],
    tail: tuple[Any, ...],
) -> None:
    """The tensors of every call go by address: for one with `data_ptr` the launcher would ask the driver."""
    q, k, v, new_k, new_v, out, table, cu, lens = addresses
    pages: tuple[Any, ...] = (None, None)
    new: tuple[Any, ...] = (None, None)
    if plan.tma[0]:
        pages = bound.descriptors(0, (k, v, call.layout.pages), page_descriptors, plan, call)
    if plan.tma[1]:
        new = bound.descriptors(1, (new_k, new_v, call.layout.tokens), new_descriptors, plan, call)
    bound.launch(
        *head, *bound.head, q, k, v, *pages, new_k, new_v, *new, out, table, cu, call.blocks, lens, *tail,
        *plan.constants,
    )  # fmt: skip
