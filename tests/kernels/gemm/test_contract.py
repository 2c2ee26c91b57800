"""The launch contract of `matmul`: what the selector or the default answers can be launched. Nothing runs on a device.

Every config that they can return over layouts, and 2,000 random products per vendor: checked, chosen, adapted, shared,
planned and laid out as for Hopper, for an older NVIDIA GPU and for AMD. Tensors are meta tensors.
"""

from __future__ import annotations

import inspect
import random
from itertools import product

import pytest
import torch
from heurgen_kernels.gemm.call import FP8, Product, check, scale_shapes
from heurgen_kernels.gemm.config import Config, normalise
from heurgen_kernels.gemm.defaults import default_config
from heurgen_kernels.gemm.device.arguments import Tensors
from heurgen_kernels.gemm.launch import dispatched, numbers_of, scratch_of
from heurgen_kernels.gemm.padding import padded
from heurgen_kernels.gemm.plan import (
    RESERVED,
    SCRATCH_LIMIT,
    SHARED_MEMORY,
    adapted,
    addresses_of,
    make_plan,
    plan_key,
    share,
    step_bytes,
)
from heurgen_kernels.gemm.select import choose
from heurgen_kernels.heuristics import matmul as generated
from heurgen_kernels.host.bound import aligned
from heurgen_kernels.tools.fits import DEVICES

TARGETS = {"nvidia": ("sm_90", "sm_80", "sm_89", "sm_100", "sm_120"), "amd": ("gfx942", "gfx90a")}
ROWS = (1, 2, 16, 17, 33, 64, 65, 100, 128, 129, 300, 1000, 8192)
WIDTHS = (1, 7, 8, 512, 768, 3000, 4096, 5000, 14336, 28672, 128256)
SIZES = (1, 7, 8, 24, 63, 64, 100, 768, 2880, 3000, 4096, 14336, 28672)
# Without bias and residual, with both; gated; apart: columns between the rows of x, weight, residual and out.
KINDS = [
    (bias, residual, gated, apart)
    for bias, residual, gated, apart in product((False, True), (False, True), (False, True), (0, 3, 8))
    if not (gated and residual)
]
# Those of warp_specialized that differ in which descriptors they have, beside what is generated.
FORMS = [
    Config("warp_specialized", rows, width, 64, 4, 12, splits, 1)
    for rows, width, splits in ((32, 64, 0), (64, 64, 1), (128, 96, 1), (128, 160, 1), (128, 192, 1))
]
DESCRIPTORS = {
    "vector": [],
    "stream_k": ["x_desc", "w_desc"],
    "stream_k_tma": ["x_desc", "w_desc"],
    "warp_specialized": ["a_desc", "b_desc", "extra_desc", "out_desc", "residual_desc"],
}
# Of the forms of few rows, which a later selector may answer: each kind.
FEW = [
    Config("vector", 1, 16, 256, 4, 4), Config("vector", 2, 4, 512, 1, 1), Config("stream_k", 16, 32, 256, 4, 5),
    Config("stream_k_tma", 16, 64, 128, 4, 8), Config("stream_k_tma", 16, 64, 128, 4, 5, 1, 2),
    Config("stream_k_tma", 16, 64, 128, 4, 5, 0, 1), Config("stream_k_tma", 64, 128, 64, 4, 5, 1, 1),
    Config("stream_k_tma", 128, 128, 64, 8, 5, 1, 1),
]  # fmt: skip


def product_of(rows, width, size, kind, target, scaled=""):
    """A checked call of tensors without memory; width: of the output; scaled: what the scale of an fp8 weight is of."""
    bias, residual, gated, apart = kind

    def meta(height, columns, dtype=torch.bfloat16):
        return torch.empty((height, columns + apart), dtype=dtype, device="meta")[:, :columns]

    of_weight = 2 * width if gated else width
    weight = meta(of_weight, size, FP8 if scaled else torch.bfloat16)
    shape = scale_shapes(of_weight, size)[scaled] if scaled else ()
    call = Product(
        meta(rows, size), weight, meta(1, of_weight)[0] if bias else None,
        meta(rows, width) if residual else None, meta(rows, width), gated,
        torch.empty(shape, device="meta") if scaled else None,
    )  # fmt: skip
    check(call, DEVICES[target])
    return call


def fits_the_signature(plan, call, shares):
    """Each argument is where its name stands, and is what the name says."""
    kernel = plan.kernel
    arguments = dispatched(plan, call, shares, scratch_of(plan, call, 0, shares))
    names = kernel.arg_names
    assert len(arguments) == len(names)
    constants = len(names) - len(plan.constants)
    annotated = inspect.signature(kernel.fn).parameters.values()
    assert [p.annotation != p.empty for p in annotated] == [i >= constants for i in range(len(names))]
    assert arguments[constants:] == plan.constants
    given = dict(zip(names, arguments, strict=True))
    first = constants - len(numbers_of(plan, call, shares))
    assert names[:first] == ["tensors", *DESCRIPTORS[plan.config.variant]]
    assert all(type(value) is int for value in arguments[first:constants])
    of_parts = () if plan.config.variant == "vector" else ("whole", "left", "splits", "items")
    for name in ("m_tiles", "n_tiles", "units", *of_parts):
        assert given[name] == getattr(shares, name)
    tensors = given["tensors"]
    assert type(tensors) is Tensors
    assert tensors[:6] == (call.x, tensors.weight, call.bias, call.residual, call.out, call.scale)
    assert tensors.weight is call.weight or tensors.weight.dtype == torch.uint8 != call.weight.dtype
    assert (tensors.part is None) == (shares.slots == 0)
    if shares.slots:
        assert tensors.part.numel() == shares.slots * plan.slot
        assert tensors.counters.numel() >= shares.m_tiles * shares.n_tiles * plan.counters
    assert given["gate"] == (call.weight.shape[0] // 2 if call.gated else 0)
    assert (given["scale_stride"], given["scale_step"]) == call.layout.scale_strides
    if plan.specialised:
        sides = [(call.weight, call.out.shape[1]), (call.x, call.x.shape[0])]
        (a, rows_a), (b, rows_b) = sides if plan.swap else sides[::-1]
        assert given["a_desc"].base is a
        assert given["b_desc"].base is b
        rows_of_b = [
            desc.block_shape[0] for desc in (given["b_desc"], given["extra_desc"]) if desc is not None
        ]
        assert rows_of_b == [size for size in (given["BLOCK_B"], given["EXTRA"]) if size]
        assert given["extra_desc"] is None or given["extra_desc"].base is b
        assert given["BLOCK_B"] % given["out_desc"].block_shape[1] == 0 or plan.swap
        assert given["EXTRA"] % given["out_desc"].block_shape[1] == 0
        assert given["out_desc"].base is call.out
        assert (given["rows_a"], given["rows_b"]) == (rows_a, rows_b)
        assert given["out_stride"] == call.out.stride(0)
        assert (given["residual_desc"] is None) == (call.residual is None)
    else:
        counted = call.layout.counted
        described = [given[name] for name in DESCRIPTORS[plan.config.variant]]
        if plan.config.variant == "stream_k_tma":
            assert [descriptor.base for descriptor in described] == [call.x, call.weight]
            blocks = [[rows, plan.config.BLOCK_K] for rows in (plan.config.BLOCK_M, plan.config.BLOCK_N)]
            assert [descriptor.block_shape for descriptor in described] == blocks
        else:
            assert described in ([], [None, None])
        strides = [counted * given["x_stride"], counted * given["w_stride"], given["out_stride"]]
        assert strides == [call.x.stride(0), call.weight.stride(0), call.out.stride(0)]
        assert (given["rows"], given["width"]) == tuple(call.out.shape)
        assert counted * given["size"] == call.x.shape[1]


def lay_out(config, call, plans):
    """What a launch does before it launches; plans: those that were made and examined."""
    assert normalise(config) is config
    call = padded(call, config) or call
    device, layout = call.layout.device, call.layout
    launched = adapted(config, call)
    assert normalise(launched) == launched
    shares = share(launched, layout.rows, layout.width, layout.size, call.gated, device.processors)
    assert 1 <= shares.programs < 2**31
    assert shares.left or shares.programs <= shares.items
    assert 1 <= shares.splits <= shares.units
    key = plan_key(launched, layout, shares, aligned(addresses_of(call)))
    new = key not in plans
    plan = make_plan(call, launched, shares)
    kept = plans.setdefault(key, plan)
    assert (kept.kernel, kept.constants, kept.options) == (plan.kernel, plan.constants, plan.options)
    assert (kept.swap, kept.slot, kept.sources) == (plan.swap, plan.slot, plan.sources)
    assert 4 * shares.slots * plan.slot <= SCRATCH_LIMIT
    assert not plan.sources or device.hopper
    if not new:
        return
    if plan.specialised:
        block, extra, consumers, stages = plan.constants[:4]
        rows, unit = consumers * 64, 64
        held = stages * ((2 if call.gated else 1) * rows * call.weight.itemsize + 2 * (block + extra)) * unit
        held += rows * (min(block, 128) + extra) * 2
        assert stages >= 2
        assert held <= SHARED_MEMORY
        assert (call.out.shape[1] * 2) % 16 == 0
    elif plan.config.variant == "stream_k_tma":
        column = 2 * launched.BLOCK_M + (2 if call.gated else 1) * launched.BLOCK_N * call.weight.itemsize
        assert column * launched.BLOCK_K * plan.options["num_stages"] <= SHARED_MEMORY
    elif plan.config.variant == "vector":
        sums = launched.BLOCK_M * launched.BLOCK_N * launched.BLOCK_K * (2 if call.gated else 1)
        assert sums // (32 * plan.options["num_warps"]) <= 128
        assert shares.programs == shares.m_tiles * shares.n_tiles
    else:
        assert plan.options["num_stages"] <= 6
        assert not plan.swap or device.hopper
        steps = (launched.num_stages - 1) * step_bytes(launched, call)
        assert device.room is None or steps <= device.room - RESERVED
    fits_the_signature(plan, call, shares)


def configs_of(vendor):
    """Of the generated module, its numbers of parts as they can come to be, and of the default."""
    named = vars(generated).items() if vendor == "nvidia" else ()
    found = {normalise(value) for name, value in named if name.startswith("_CONFIG_")}
    found |= {normalise(config) for config in FORMS if vendor == "nvidia"}
    for m, n, k, gated, target in product(ROWS, WIDTHS, SIZES, (False, True), TARGETS[vendor]):
        processors = DEVICES[target].processors
        found.add(default_config(vendor=vendor, M=m, N=n, K=k, gated=gated, multiprocessors=processors))
    return sorted((normalise(config) for config in found), key=str)


@pytest.mark.parametrize("target", [target for found in TARGETS.values() for target in found])
def test_every_config_over_layouts(target):
    """Each config meets each kind of tensors; rows, widths and sizes take turns."""
    vendor = DEVICES[target].vendor
    plans, turn = {}, 0
    for config in [*configs_of(vendor), *map(normalise, FEW)]:
        for kind in KINDS:
            shape = (ROWS[turn % len(ROWS)], WIDTHS[turn % len(WIDTHS)], SIZES[(turn // 3) % len(SIZES)])
            lay_out(config, product_of(*shape, kind, target), plans)
            lay_out(config, product_of(config.BLOCK_M, 4096, 4096, kind, target), plans)
            turn += 1
    assert len(plans) > 100


@pytest.mark.parametrize("target", [target for found in TARGETS.values() for target in found])
def test_fp8_weights_over_layouts(target):
    """What answers for them, and what is made for 16-bit ones, which a caller may ask for all the same."""
    vendor = DEVICES[target].vendor
    plans, turn, chosen = {}, 0, set()
    for rows, width, size, gated in product(ROWS, (7, 512, 4096, 28672), (24, 3000, 4096), (False, True)):
        call = product_of(rows, width, size, (False, False, gated, 0), target, "row")
        chosen.add(choose(call, None, vendor))
    for config in sorted({*chosen, *map(normalise, FEW), *configs_of(vendor)}, key=str):
        for kind, scaled in product(KINDS, ("one", "row", "block")):
            shape = (ROWS[turn % len(ROWS)], WIDTHS[turn % len(WIDTHS)], SIZES[(turn // 3) % len(SIZES)])
            call = product_of(*shape, kind, target, scaled)
            lay_out(config, call, plans)
            lay_out(config, product_of(config.BLOCK_M, 4096, 4096, kind, target, scaled), plans)
            turn += 1
    assert len(plans) > 100


def drawn(random_, most):
    """A size between 1 and most, at times a multiple of what kernels divide by."""
    found = int(2 ** random_.uniform(0, most))
    unit = random_.choice((1, 1, 8, 64, 128))
    return max(1, found // unit * unit)


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_2000_random_products(vendor):
    random_ = random.Random(16)
    plans, reached = {}, set()
    for number in range(2_000):
        target = TARGETS[vendor][number % len(TARGETS[vendor])]
        shape = (drawn(random_, 17), drawn(random_, 18), drawn(random_, 16))
        call = product_of(*shape, random_.choice(KINDS), target)
        config = choose(call, None, vendor)
        lay_out(config, call, plans)
        reached.add(config)
    assert len(reached) >= 8


def test_nvidia_is_answered_by_the_generated_selector_and_amd_by_the_default():
    call = product_of(5, 6144, 4096, (False, False, False, 0), "gfx942")
    rows, width, size, gated, processors = call.layout.features
    given = {"M": rows, "N": width, "K": size, "gated": gated, "multiprocessors": processors}
    assert choose(call, None, "nvidia") == normalise(generated.select(vendor="nvidia", **given))
    assert choose(call, None, "amd") == normalise(default_config(vendor="amd", **given))
    assert list(generated.SELECTORS) == ["nvidia"]
