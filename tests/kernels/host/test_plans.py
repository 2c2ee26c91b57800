"""Plans of many configs, batches and devices, line by line as a GPU ran them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from heurgen_kernels.config import Config
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.plan import launch_grid, make_plan

from tests.kernels.batches import checked, make_batch, on_meta

HOPPER, AMPERE, MI300X = (
    Device("nvidia", (9, 0), 132),
    Device("nvidia", (8, 0), 108),
    Device("amd", None, 304),
)
PLANNED = (
    Config("naive", 16, 64, 4, 2),
    Config("q_block", 64, 32, 4, 2),
    Config("q_block", 16, 64, 2, 3, waves_per_eu=2),
    Config("split_kv", 16, 128, 4, 2, 8),
    Config("split_kv", 32, 64, 8, 2, 1),
    Config("static_grid", 16, 16, 1, 3, 64),
    Config("mixed", 64, 64, 4, 3, 4, matrix_instr_nonkdim=16),
    Config("warp_specialized", 128, 64, 4, 3, 1),
    Config("warp_specialized", 128, 64, 4, 3, 2),
    Config("warp_specialized", 128, 128, 4, 2, 4),
    Config("warp_specialized", 192, 128, 4, 3, 3),
)
# (query tokens, tokens attended to) of each sequence, (query heads, KV heads), head size, tokens of a page, and more.
BATCHES = {
    "decode": ([(1, 700), (1, 33)], (8, 2), 64, 16, {}),
    "drafts": ([(5, 700), (4, 33)], (16, 1), 128, 128, {"fp8": True}),
    "prompts": ([(70, 70), (300, 300)], (8, 2), 80, 64, {"fresh": True, "softcap": 30.0}),
    "chunks": ([(300, 900), (1, 40)], (8, 8), 256, 128, {"fresh": True, "sinks": torch.ones(8)}),
}


@cache
def batch_of(name, fp8):
    lengths, heads, size, page, more = BATCHES[name]
    more = dict(more)
    kept = fp8 if more.pop("fp8", False) else None
    batch = make_batch(lengths, heads, size, page, torch.bfloat16, more.pop("fresh", False), cache=kept)
    return {key: on_meta(value) for key, value in (batch | more).items()}


def planned(call, config):
    """The plan of a call, and how it is launched, in a line."""
    plan, device = make_plan(call, config), call.layout.device
    constants = " ".join(getattr(c, "__name__", None) or str(c) for c in plan.constants)
    options = " ".join(f"{k}={value}" for k, value in plan.options.items())
    return (
        f"{device.vendor} {device.processors} {' '.join(map(str, config))}: {plan.kernel.fn.__name__} {constants} "
        f"| {options} | block_q {plan.block_q} heads {plan.heads_kv} parts {plan.segments} of {plan.kept}x{plan.d_pad} "
        f"decode {plan.decode} tma {plan.tma} rows {plan.rows} counters {plan.counters} {plan.item_counters} "
        f"second {plan.second_from} "
        f"| {launch_grid(plan, call)}"
    )


def test_plans_are_those_that_a_gpu_ran(update_golden):
    """tests/golden/plans.txt: kernel, constants, options, grid. A change here asks for `make gpu-check`."""
    calls = {
        name: [checked(batch_of(name, device.fp8[0]), device) for device in (HOPPER, AMPERE, MI300X)]
        for name in BATCHES
    }
    lines = [
        f"{name} {planned(call, config)}" for name in BATCHES for config in PLANNED for call in calls[name]
    ]
    path = Path(__file__).parents[2] / "golden" / "plans.txt"
    if update_golden:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for line, proved in zip(lines, path.read_text(encoding="utf-8").splitlines(), strict=True):
        assert line == proved
