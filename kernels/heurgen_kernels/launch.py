"""From tensors and a config to a launch.

A `Plan` is everything about a launch that does not change from call to call with the same layout: the
kernel, its constexprs, the grid's shape and, after the first call, the compiled kernel. Later calls skip Triton's
dispatch (about 20 us for this many arguments) and go straight to the compiled kernel's launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from . import block, mixed, naive, q_block, split_kv, static_grid, tiles
from .call import Call
from .defaults import Config
from .descriptors import make_descriptors
from .occupancy import resident_programs
from .plan import Plan, launch_grid, make_plan, plan_key, reduce_chunk, scratch_fits
from .scratch import counters
from .split_kv import reduce_kernel, split_kv_kernel
from .warp_specialized import attend, consume, items, kernel, produce

SPECIALISED = (items, produce, attend, consume, kernel)


def settle_cache_keys() -> None:
    """Hash all kernels in one order, callees first.

    Triton 3.6 takes the constexpr globals of a callee into the hash of its caller only where the callee
    was hashed before: the key in the disk cache then depends on which kernel a process compiled first,
    and kernels compiled in
    parallel by a tuner's workers would be compiled again.
    """
    for module in (tiles, block, q_block, split_kv, static_grid, mixed, naive, *SPECIALISED):
        for function in vars(module).values():
            if isinstance(function, JITFunction):
                function.cache_key  # noqa: B018


settle_cache_keys()
_plans: dict[tuple[Any, ...], Plan] = {}


def launch(call: Call, config: Any) -> torch.Tensor:
    """Run one config. Nothing is read back from the device."""
    if call.q.shape[0] == 0 or call.lens.shape[0] == 0:
        return call.out
    key = plan_key(call, config)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = make_plan(call, config)
    if call.blocks is not None and call.block_q != plan.block_q:
        call.blocks = None  # the metadata is of other blocks: the kernel numbers them itself
        return launch(call, config)
    grid, items, blocks = launch_grid(plan, call)
    if plan.segments > 1 and not scratch_fits(plan, items):
        return launch(call, _fewer_segments(config))
    _run(plan, call, grid, items, blocks)
    return call.out


def _fewer_segments(config: Any) -> Config:
    given = {name: getattr(config, name, None) for name in Config._fields}
    return Config(**given | {"num_segments": config.num_segments // 2})


def _stream(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(torch._C._cuda_getCurrentRawStream(device.index or 0))


def _run(plan: Plan, call: Call, grid: tuple[int, ...], items: int, blocks: int) -> None:
    device = call.q.device
    stream = _stream(device)
    part, count, rows = None, None, 0
    if plan.segments > 1:
        rows = items * plan.segments * plan.kept
        part = torch.empty(rows * (plan.d_pad + 2), dtype=torch.float32, device=device)
    if plan.segments > 1 or plan.variant == "warp_specialized":
        count = counters(device, stream, 2 + 2 * items * plan.segments)
    k_desc, v_desc, new_k_desc, new_v_desc = make_descriptors(plan, call)
    head = (
        call.q, call.k, call.v, k_desc, v_desc, call.new_k, call.new_v, new_k_desc, new_v_desc, call.out, call.table,
        call.cu, call.blocks, call.lens, call.alibi, call.sinks, call.q_scale, call.k_scale, call.v_scale,
        call.out_scale, part, count, rows, call.scale, call.softcap, call.left, call.right, call.table.stride(0),
        call.lens.shape[0],
    )  # fmt: skip
    if plan.kernel is split_kv_kernel:
        head = (*head, plan.segments)
    elif plan.variant in ("mixed", "warp_specialized"):
        head = (*head, plan.segments, blocks)
    elif plan.variant == "static_grid":
        head = (*head, call.forced)
    dispatch(plan, grid, stream, (*head, *plan.constants))
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
        call.out, call.cu, call.blocks, call.lens, call.sinks, call.v_scale, call.out_scale, part, rows,
        call.left,
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
