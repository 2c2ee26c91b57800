"""The launch contract: whatever a shipped selector or the default answers can be launched. Nothing runs on a device.

Every config that they can return, over layouts and features, and 20,000 random batches per vendor: checked, chosen,
divided, planned and laid out as for Hopper, for an older NVIDIA GPU and for AMD. Tensors are meta tensors.
"""

from __future__ import annotations

import inspect
import random
from itertools import product

import pytest
import torch
from heurgen_kernels.config import ALLOWED, Config, normalise
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.device.arguments import (
    DESCRIPTORS,
    NUMBERS,
    OWN_NUMBERS,
    Features,
    Sizes,
    Strides,
    Tensors,
)
from heurgen_kernels.device.split_kv import split_kv_kernel
from heurgen_kernels.host import combine, validate
from heurgen_kernels.host.apart import apart, crowded, parts_of, prompts_alone, separable, some_between
from heurgen_kernels.host.call import Call
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.launch import arguments_of, dispatched
from heurgen_kernels.host.nearest import adapted, shared_memory
from heurgen_kernels.host.plan import addresses_of, launch_grid, make_plan, plan_key, roomy_segments
from heurgen_kernels.host.segments import SEGMENTS, block_count, block_rows, cut
from heurgen_kernels.host.select import FEATURES, NO_WINDOW, choose, choose_segments, shipped
from heurgen_kernels.host.widen import pages_for, widened

DEVICES = {
    "nvidia": (
        Device("nvidia", (9, 0), 132), Device("nvidia", (8, 0), 108), Device("nvidia", (8, 6), 84, "", 101376),
        Device("nvidia", (10, 0), 148, "", 232448), Device("nvidia", (12, 0), 170, "", 101376),
    ),
    "amd": (Device("amd", None, 304),),
}  # fmt: skip
HEADS = ((32, 8), (64, 8), (28, 4), (16, 1), (8, 1), (32, 32), (5, 1))
SIZES = (64, 80, 128, 256)
PAGES = (16, 32, 64, 128, 256)
# (sequences, new tokens, new tokens of the longest, tokens of the longest, tokens of all)
BATCHES = ((1, 1, 1, 9000, 9000), (9, 9, 1, 700, 3000), (1, 3000, 3000, 3000, 3000), (5, 904, 900, 1500, 4000),
           (3, 12, 4, 2000, 5000), (300, 300, 1, 12, 3000), (2, 514, 257, 70000, 90000))  # fmt: skip
FLAGS = tuple(product((False, True), repeat=6))  # fresh, prefix known, window, soft cap, sinks, fp8 cache
# What CUDA and HIP take of a grid.
GRID = (2**31 - 1, 65535, 65535)
SIGNATURE = ("tensors", *DESCRIPTORS, *NUMBERS)
LAYOUT = ("sizes", "strides", "features", "BLOCK_M", "TILE")


def call_of(batch, heads, size, page, flags, device):
    """A checked call of tensors without memory."""
    num_seqs, tokens, max_q, max_k, total_k = batch
    fresh, prefix, window, softcap, sinks, fp8 = flags
    pages = -(-max_k // page)

    def meta(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device="meta")

    cache = device.fp8[0] if fp8 else torch.bfloat16
    q = meta(tokens, heads[0], size)
    k = meta(pages * num_seqs, page, heads[1], size, dtype=cache)
    new = meta(tokens, heads[1], size) if fresh else None
    scale = meta(1, dtype=torch.float32) if fp8 else None
    call = Call(
        q, k, k, meta(num_seqs, pages, dtype=torch.int32), meta(num_seqs + 1, dtype=torch.int32),
        meta(num_seqs, dtype=torch.int32), q, max_q, max_k, 0.1, new, new, 127 if window else -1, 0,
        30.0 if softcap else 0.0, None, meta(heads[0]) if sinks else None, None, scale, scale, None, total_k=total_k,
        choose=choose_segments(None, device.vendor), prefix=prefix or not fresh,
    )  # fmt: skip
    validate.check(call, device)
    return call


def fits_the_signature(plan, call, items, blocks):
    """Each argument is where its name stands, and is what the name says."""
    kernel = plan.kernel
    combined = combine.combines(plan, call)
    arguments = dispatched(plan, call, *arguments_of(plan, call, 0, items, blocks, combined))
    variant = kernel.fn.__name__.removesuffix("_kernel")
    start = (*SIGNATURE, *OWN_NUMBERS[variant], *LAYOUT)
    assert tuple(kernel.arg_names[: len(start)]) == start
    assert len(arguments) == len(kernel.arg_names)
    constants = len(kernel.arg_names) - len(plan.constants)
    assert arguments[constants:] == plan.constants
    given = dict(zip(kernel.arg_names, arguments, strict=True))
    assert [type(given[name]) for name in ("tensors", *LAYOUT)] == [
        Tensors,
        Sizes,
        Strides,
        Features,
        int,
        int,
    ]
    assert all(isinstance(given[name], int | float) for name in start[5:-5] if name != "second_from")
    part = 4 * plan.kept * plan.d_pad
    static = plan.variant == "static_grid" and plan.decode and plan.d_pad <= 128 and part >= 8192
    parted = (plan.kernel is split_kv_kernel and part >= 4096) or static
    assert (given.get("second_from") is not None) == (parted and call.layout.device.hopper)
    annotated = inspect.signature(kernel.fn).parameters.values()
    assert [p.annotation != p.empty for p in annotated] == [i >= constants for i in range(len(arguments))]
    assert all(
        (given[name] is not None) == has for name, has in zip(DESCRIPTORS, doubled(plan.tma), strict=True)
    )
    tensors = given["tensors"]
    assert (tensors.q, tensors.k, tensors.lens, tensors.sinks) == (call.q, call.k, call.lens, call.sinks)
    if plan.segments > 1:
        assert tensors.part.numel() == given["part_rows"] * (plan.d_pad + 2)
        assert tensors.counters.numel() >= plan.counters + plan.item_counters * items
    if combined:
        second_fits(plan, call, given)


def second_fits(plan, call, given):
    """The second launch of split keys knows the first one's numbers by the same names; a program for each row, of
    warp_specialized for 512 numbers of a part.
    """
    kernel, rows = combine.KERNELS[plan.variant], given["part_rows"]
    names = kernel.arg_names[1:]
    found = dict(zip(names, combine.arguments_of(plan, call, rows), strict=True))
    assert {name: found[name] for name in names if name not in ("CHUNK", "SEGMENTS", "KEPT", "DECODE")} == {
        name: given[name] for name in names if name not in ("CHUNK", "SEGMENTS", "KEPT", "DECODE")
    }
    assert found.get("KEPT", found["BLOCK_M"]) == plan.kept
    assert found.get("SEGMENTS", plan.segments) == plan.segments
    x, y, z = combine.grid_of(plan, call, rows)
    each = 512 // plan.d_pad if plan.variant == "warp_specialized" else 1
    assert (x * y * each * plan.segments, y * each, z) == (rows, plan.kept, 1)
    assert plan.segments * plan.kept * plan.d_pad * 4 > combine.ALONE


def doubled(flags):
    return [flag for flag in flags for _ in "kv"]


def most_apart(call, config):
    """New tokens up to which a sequence is no prompt."""
    parts = parts_of(config, call.layout.group, call.q.shape[2])
    return parts.more if some_between(call, parts.few, parts.more) else parts.few


def lay_out(config, call, plans):
    """What a launch does before it launches; plans: those that were made and examined."""
    device = call.layout.device
    assert normalise(config) == config
    if separable(call, config):
        parts = apart(call, config) if call.prefix else ((call, prompts_alone(config)),)
        assert (parts is None) == (call.prefix and pages_for(call, most_apart(call, config))[0] == 0)
        for part in parts or ():
            lay_out(part[1], part[0], plans)
        if parts:
            return
    if config.programs_per_sm:
        config = cut(config, call)
        assert config.num_segments in SEGMENTS
        assert config.programs_per_sm == 0
    if call.layout.copied and config.variant == "warp_specialized":
        copy = widened(call)
        assert (copy is None) == (pages_for(call)[0] == 0)
        assert device.hopper
        if copy is None:
            most = most_apart(call, crowded(config))
            few = block_rows(16, call.layout.group) // call.layout.group
            assert len(apart(call, crowded(config))) == 2 + (most > few) + pages_for(call, most)[1]
            lay_out(crowded(config), call, plans)
            return
        assert make_plan(copy, config).variant == "warp_specialized"
        lay_out(config, copy, plans)
        return
    key = plan_key(call, config, addresses_of(call))
    new = key not in plans
    plan = plans[key] = make_plan(call, config) if new else plans[key]
    grid, items, blocks = launch_grid(plan, call)
    assert len(grid) == 3
    assert all(1 <= size <= most for size, most in zip(grid, GRID, strict=True)), (config, grid)
    if plan.segments > 1 and (room := roomy_segments(plan, items, call.programs)) < plan.segments:
        lay_out(config._replace(num_segments=room), call, plans)
        return
    if plan.variant != "naive":
        numbers = block_count(
            plan.variant, plan.block_q, call.layout.num_seqs, call.layout.tokens, call.max_q
        )
        assert numbers * plan.block_q >= call.layout.tokens or plan.decode
    if new:
        sizes, _, features, block_m, tile, *_ = plan.constants
        assert block_m & (block_m - 1) == 0 or (block_m, plan.variant) == (192, "warp_specialized")
        assert block_m >= sizes.G
        assert tile in ALLOWED["TILE_SIZE"]
        assert plan.decode == (call.max_q <= block_m // sizes.G)
        assert plan.variant != "warp_specialized" or (device.hopper and block_m in (128, 192))
        assert device.descriptors or not any(plan.tma)
        fresh = call.new_k is not None and call.slots is None
        assert (fresh, call.slots is not None, call.prefix) == (
            features.FRESH,
            features.WRITE,
            features.PREFIX,
        )
        assert plan.options["num_warps"] in ALLOWED["num_warps"]
        assert device.room is None or shared_memory(adapted(config, call), call) < device.room
        fits_the_signature(plan, call, items, blocks)


def lengths(random_):
    """A batch: decodes, prompts, chunks, or all of them."""
    num_seqs = random_.choice((1, 1, 2, 5, 20, 100, 256, 1000))
    max_q = random_.choice((1, 1, 1, 2, 7, 64, 500, 4000, int(2 ** random_.uniform(0, 15))))
    tokens = random_.randint(max(max_q, num_seqs), max(max_q, min(num_seqs * max_q, 200_000), num_seqs))
    if max_q == 1:
        tokens = num_seqs
    max_k = max_q + random_.choice((0, 0, int(2 ** random_.uniform(0, 17))))
    return num_seqs, tokens, max_q, max_k, random_.randint(max_k, num_seqs * max_k)


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_20000_random_batches(vendor):
    random_ = random.Random(11)
    module, plans, reached = shipped(vendor), {}, set()
    asked = inspect.signature(module.SELECTORS[vendor]).parameters
    for number in range(20_000):
        device = DEVICES[vendor][number % len(DEVICES[vendor])]
        call = call_of(
            lengths(random_), random_.choice(HEADS), random_.choice(SIZES), random_.choice(PAGES),
            random_.choice(FLAGS), device,
        )  # fmt: skip
        given = (call.layout.num_seqs, call.layout.tokens, call.max_q, call.max_k, call.total_k)
        seen = (call.left + 1 if call.left >= 0 else NO_WINDOW, call.softcap > 0)
        features = dict(zip(FEATURES, (*given, *seen, *call.layout.features), strict=True))
        said = module.select(vendor=vendor, **{name: features[name] for name in asked})
        config = choose(call, None, vendor)
        assert set(said._fields) <= set(Config._fields)
        for answer in {config, normalise(said)}:
            lay_out(answer, call, plans)
        reached.add(config)
    assert len(reached) > 10


def configs_of(vendor):
    modules = {shipped(vendor, fp8) for fp8 in (False, True)} - {None}
    given = (item for module in modules for item in vars(module).items())
    found = {normalise(value) for name, value in given if name.startswith("_CONFIG_")}
    return [*sorted(found, key=str), *defaults_of(vendor), GRAPH]


def defaults_of(vendor):
    from heurgen_kernels.defaults import default_config

    found = set()
    for (seqs, tokens, q, k, total), (heads, heads_kv), size in product(BATCHES, HEADS, SIZES):
        for longest in (k, 600, 40_000):
            found.add(
                default_config(
                    vendor=vendor, num_seqs=seqs, total_query_tokens=tokens, max_seqlen_q=q,
                    max_seqlen_k=max(q, longest), total_seqlen_k=total, avg_seqlen_q=tokens / seqs,
                    num_query_heads=heads, num_kv_heads=heads_kv, head_size=size, page_size=16, dtype="bfloat16",
                    fresh=False, multiprocessors=132, window=1 << 30, softcap=False, sinks=False,
                )
            )  # fmt: skip
    return sorted(found, key=str)


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_every_config_over_layouts_and_features(vendor):
    """Each config meets each layout; features and batches take turns, so that all meet all layouts."""
    plans, turn = {}, 0
    for device in DEVICES[vendor]:
        for heads, size, page in product(HEADS, SIZES, PAGES):
            flags, batch = FLAGS[turn % len(FLAGS)], BATCHES[turn % len(BATCHES)]
            calls = [call_of(batch, heads, size, page, flags, device)]
            calls.append(
                call_of(BATCHES[(turn + 3) % len(BATCHES)], heads, size, page, FLAGS[-turn % 64], device)
            )
            turn += 1
            for config in configs_of(vendor):
                for call in calls:
                    lay_out(config, call, plans)
    assert len(plans) > 1000


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_recorded_decodes_that_write_new_tokens(vendor):
    """What a graph launches, over layouts and features; V that lies otherwise than K."""
    plans = {}
    for device in DEVICES[vendor]:
        for number, (heads, size, page) in enumerate(product(HEADS, SIZES, PAGES)):
            few = (1, max(1, 16 // (heads[0] // heads[1])))[number % 2]
            flags = (True, False, *FLAGS[number % 64][2:5], False)
            call = call_of((7, 7 * few, few, 9000, 30000), heads, size, page, flags, device)
            call.slots = torch.empty(7 * few, dtype=torch.int64, device="meta")
            call.new_v = torch.empty(
                (7 * few, 3, *call.new_k.shape[1:]), dtype=torch.bfloat16, device="meta"
            )[:, 1]
            validate.check(call, device)
            lay_out(GRAPH, call, plans)
    assert len(plans) >= 140 * len(DEVICES[vendor])
    strides, features = next(iter(plans.values())).constants[1:3]
    assert strides.NEW_V_TOK == 3 * strides.NEW_TOK
    assert features.WRITE
