"""Which kernel a config becomes: on this GPU, for this call."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from heurgen_kernels.config import Config, normalise
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.heuristics import paged_attention, paged_attention_fp8
from heurgen_kernels.host.combine import combines
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.launch import arguments_of, dispatched
from heurgen_kernels.host.metadata import build_metadata_host
from heurgen_kernels.host.plan import (
    SCRATCH_LIMIT,
    SCRATCH_LIMIT_UNSURE,
    kept_rows,
    launch_grid,
    make_plan,
    parts_at_once,
    reduce_chunk,
    register_cap,
    roomy_segments,
)
from heurgen_kernels.tools.fits import launched

from tests.kernels.batches import LIMITS, checked, error_of, make_batch, on_meta, shifted

SPECIALISED = Config("warp_specialized", 128, 128, 4, 2, 4)


def test_registers_are_capped_where_three_programs_fit_a_processor():
    assert register_cap(Config("q_block", 64, 32, 4, 2), 128, True) == 168
    assert register_cap(Config("q_block", 64, 32, 4, 2), 128, False) is None
    assert register_cap(Config("q_block", 64, 64, 4, 2), 128, True) is None
    assert register_cap(Config("mixed", 64, 32, 4, 2), 128, True) is None
    assert register_cap(Config("q_block", 64, 32, 4, 2), 256, True) is None


def test_small_blocks_may_use_all_registers():
    assert register_cap(Config("split_kv", 16, 128, 4, 2, 8), 128, False) == 255
    assert register_cap(Config("q_block", 16, 128, 4, 2), 128, True) is None
    assert register_cap(Config("static_grid", 16, 16, 1, 3, 8), 128, True) is None


def test_parts_of_a_vector_step_hold_128_registers_a_thread_and_64_with_four_warps():
    assert reduce_chunk(4 * 128, 1) * 4 * 128 == 128 * 32
    assert reduce_chunk(4 * 128, 2) * 4 * 128 == 128 * 2 * 32
    assert reduce_chunk(4 * 128, 4) * 4 * 128 == 64 * 4 * 32
    assert reduce_chunk(64 * 256, 1) == 1


@pytest.mark.parametrize(("more", "fresh"), [
    ({}, False), ({"page": 128}, True), ({"size": 256}, True), ({"cache": torch.float8_e4m3fn}, False),
])  # fmt: skip
@pytest.mark.parametrize("module", [paged_attention, paged_attention_fp8])
def test_consumer_blackwell_runs_what_ada_does(more, fresh, module):
    """So that what is compiled for 8.9 says what it takes: 12.x has 99 KB of shared memory, too, and multiplies with
    the same instructions. Not so 10.x.
    """
    given = {"page": 16, "size": 128, "heads": (32, 8), "dtype": torch.bfloat16} | more
    batch = {key: on_meta(value) for key, value in make_batch([(200, 300)], fresh=fresh, **given).items()}
    devices = [
        Device("nvidia", (major, minor), 142, "", 101376) for major, minor in ((8, 9), (12, 0), (10, 0))
    ]
    ada, consumer, server = (
        [
            (plan.kernel, plan.constants, plan.options)
            for name, config in vars(module).items()
            if name.startswith("_CONFIG_")
            for plan in (make_plan(checked(batch, device), normalise(config)),)
        ]
        for device in devices
    )
    assert ada == consumer != server


def test_a_config_that_the_warp_specialised_kernel_has_not_is_refused():
    batch = make_batch([(5, 40)])
    said = "config.BLOCK_M is 64; warp_specialized has blocks of 128 or 192 rows"
    with pytest.raises(ValueError, match=said):
        error_of(batch, SPECIALISED._replace(BLOCK_M=64))


def test_metadata_of_a_config_that_another_one_answers_for_is_not_used():
    """Blocks of 128 rows were counted, blocks of 64 are launched."""
    batch = make_batch([(70, 70), (1, 33), (40, 90)])
    metadata = build_metadata_host([70, 1, 40], SPECIALISED.BLOCK_M // 2, "cpu")
    assert error_of(batch, SPECIALISED, metadata=metadata) < LIMITS[torch.float16]


@pytest.mark.parametrize("fresh", [False, True])
def test_where_it_cannot_run_another_kernel_answers_for_the_warp_specialised_one(fresh):
    batch = make_batch([(5, 40), (1, 33)], fresh=fresh)
    assert error_of(batch, SPECIALISED) < LIMITS[torch.float16]


HOPPER = Device("nvidia", (9, 0), 132)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "given", [c for n, c in vars(paged_attention).items() if n.startswith("_CONFIG_")], ids=str
)
def test_every_config_of_the_shipped_selector_is_planned_uncut(given, fresh):
    """A generated config has no `num_segments`; those that are not cut at launch keep none."""
    call = checked(prompt(fresh), HOPPER)
    config = normalise(given)
    assert config.programs_per_sm == getattr(given, "programs_per_sm", 0)
    plan = make_plan(call, config)
    assert plan.segments == 1
    assert plan.variant == given.variant


def make_meta(heads):
    batch = make_batch([(3000, 3000)], heads, 64, 16, torch.bfloat16)
    return {name: on_meta(value) for name, value in batch.items()}


@cache
def prompt(fresh):
    batch = make_batch([(3000, 3000)], (32, 8), 128, 16, torch.bfloat16, fresh)
    return {name: on_meta(value) for name, value in batch.items()}


def key_of(batch):
    from heurgen_kernels.host.plan import addresses_of, plan_key

    call = checked(batch)
    return plan_key(call, Config(), addresses_of(call))


def test_a_compiled_kernel_is_shared_where_the_same_tensors_are_aligned():
    """Which of them lies off 16 bytes counts, not by how much one of them does."""
    batch = make_batch([(5, 40), (1, 33)], fresh=True)
    names = ("q", "key_cache", "value_cache", "key", "value", "block_table", "cu_seqlens_q", "seq_lens")
    keys = [key_of(batch | {name: shifted(batch[name])}) for name in names]
    assert len({key_of(batch), key_of(batch | {"q": batch["q"].clone()}), *keys}) == 1 + len(names)
    slopes = torch.ones(4)
    assert key_of(batch | {"sinks": slopes}) != key_of(batch | {"sinks": shifted(slopes)})


def described(call, config):
    """The plans of the kernels that a launch runs, each with its config, all of whose descriptors Triton takes."""
    found = []
    for part, given in launched(call, config):
        plan = make_plan(part, given)
        dispatched(
            plan, part, *arguments_of(plan, part, 0, *launch_grid(plan, part)[1:], combines(plan, part))
        )
        found.append((plan, given))
    return found


FORMS = [
    Config("q_block", 64, 64, 4, 3), Config("split_kv", 16, 16, 2, 3, 8), GRAPH, Config("mixed", 64, 32, 4, 2, 4),
    Config("mixed", 128, 128, 4, 2, 1, 4), SPECIALISED,
]  # fmt: skip
each_form = pytest.mark.parametrize("config", FORMS, ids=lambda c: f"{c.variant}-{c.BLOCK_M}")
each_cache = pytest.mark.parametrize("cache", [None, torch.float8_e4m3fn], ids=["16-bit", "fp8"])


@each_cache
@each_form
@pytest.mark.parametrize("fresh", [False, True])
def test_no_descriptor_is_of_a_tensor_that_begins_anywhere(config, cache, fresh):
    """Triton would end in an AssertionError. What needs descriptors is answered by another kernel, the others read such
    tensors through pointers.
    """
    batch = make_batch([(40, 70), (1, 33)], (4, 2), 64, 128, torch.bfloat16, fresh, cache=cache)
    needed = ("key", "value") if fresh else ()
    needed += ("key_cache", "value_cache") if cache is None else ()
    names = [name for name, value in batch.items() if isinstance(value, torch.Tensor)]
    for name in names:
        call = checked(batch | {name: shifted(batch[name])}, HOPPER)
        for plan, given in described(call, config):
            if given.variant == "warp_specialized":
                assert plan.variant == ("q_block" if name in needed else "warp_specialized"), name


@each_cache
@each_form
@pytest.mark.parametrize("prefix", [False, True])
def test_there_is_no_descriptor_of_no_pages(config, cache, prefix):
    """Prompts whose K and V are at hand, before a server has a cache. Triton describes no empty tensor."""
    batch = make_batch([(40, 40), (1, 1)], (4, 2), 64, 128, torch.bfloat16, True, cache=cache)
    none = {name: batch[name][:0] for name in ("key_cache", "value_cache")}
    call = checked(batch | none | {"block_table": batch["block_table"][:, :0]}, HOPPER)
    call.prefix = prefix
    plans = described(call, config)
    assert cache is not None or not plans[0][0].tma[0]


@each_form
def test_pages_that_nobody_reads_may_be_one_number_repeated(config):
    """Strides of 0, by which kernels would divide."""
    batch = make_batch([(40, 40), (1, 1)], (4, 2), 64, 128, torch.bfloat16, True)
    one = torch.zeros(64, dtype=torch.bfloat16).expand(3, 128, 2, 64)
    call = checked(batch | {"key_cache": one, "value_cache": one}, HOPPER)
    call.prefix = False
    for plan, _ in described(call, config):
        strides = plan.constants[1]
        assert 0 not in (strides.K_PAGE, strides.K_TOK, strides.V_TOK)


def test_a_compiled_kernel_is_shared_by_batches_of_any_size():
    keys = [
        key_of(make_batch([(1, 30)] * count + [(300 + count, 900)], seed=count)) for count in range(1, 40, 7)
    ]
    assert len(set(keys)) == 1


@pytest.mark.parametrize(
    ("count", "heads", "width"),
    [
        (1, (8, 2), 32),
        (32, (8, 8), 32),
        (33, (8, 2), 256),
        (33, (1, 1), 256),
        (8, (32, 32), 32),
        (9, (32, 32), 256),
    ],
)
def test_a_static_grid_is_compiled_for_few_sequences_and_for_many(count, heads, width):
    """132 processors: 33 blocks of 8 KV heads are two for each, more are many."""
    from heurgen_kernels.host.plan import addresses_of, plan_key

    call = checked(on_meta(make_batch([(1, 30)] * count, heads)), HOPPER)
    assert make_plan(call, GRAPH).constants[-1] == width
    one = checked(on_meta(make_batch([(1, 30)], heads)), HOPPER)
    assert (plan_key(call, GRAPH, addresses_of(call)) == plan_key(one, GRAPH, addresses_of(one))) == (
        width == 32
    )


def test_a_compiled_kernel_is_not_shared_by_masks_of_another_kind():
    """A window or a bound is a number of the launch; whether there is one is a constant of the kernel."""
    from heurgen_kernels.host.plan import addresses_of, plan_key

    call, keys = checked(make_batch([(5, 40)])), []
    for left, right, softcap in (
        (-1, 0, 0.0),
        (-1, -1, 0.0),
        (0, 0, 0.0),
        (9, 0, 0.0),
        (-1, 0, 1.0),
        (-1, 0, 30.0),
    ):
        call.left, call.right, call.softcap = left, right, softcap
        keys.append(plan_key(call, Config(), addresses_of(call)))
    assert [keys.index(key) for key in keys] == [0, 1, 2, 2, 4, 4]


def test_a_window_of_the_token_itself_is_a_window():
    call = checked(make_batch([(5, 40)]))
    call.left = 0
    assert make_plan(call, Config()).constants[2].WINDOW


def test_a_compiled_kernel_is_not_shared_by_slopes_of_another_type():
    batch = make_batch([(1, 30)])
    assert key_of(batch | {"alibi_slopes": torch.ones(4)}) != key_of(
        batch | {"alibi_slopes": torch.ones(4).half()}
    )


def test_three_consumers_have_a_block_of_192_rows_in_whole_tokens():
    """A group of 5 fills 190 of them; a part of cut keys keeps all; nobody counts parts, a second launch combines."""
    call = checked(make_meta((35, 7)), HOPPER)
    plan = make_plan(call, Config("warp_specialized", 192, 64, 4, 4, 3))
    assert (plan.block_q, plan.kept, plan.item_counters) == (192 // 5, 192, 0)
    assert plan.options["maxnreg"] * 16 * 32 == 65536


@pytest.mark.parametrize(
    ("variant", "group", "block_m", "rows", "kept"),
    [
        ("split_kv", 4, 16, 4, 4),
        ("split_kv", 4, 16, 20, 16),
        ("split_kv", 4, 64, 20, 32),
        ("static_grid", 5, 16, 5, 8),
        ("mixed", 4, 64, 400, 16),
        ("mixed", 20, 64, 20, 32),
        ("warp_specialized", 4, 128, 4, 128),
        ("warp_specialized", 4, 192, 4, 192),
    ],
)
def test_a_part_keeps_the_rows_that_are_in_use(variant, group, block_m, rows, kept):
    assert kept_rows(variant, group, block_m, rows) == kept


def test_parts_are_combined_one_by_one_where_more_would_spill():
    split, static = Config("split_kv", 16, 64, 4, 2, 8), Config("static_grid", 16, 64, 4, 2, 8)
    assert parts_at_once(split, 4095, True) == parts_at_once(static, 4095, True) == 8192 // 4095
    assert parts_at_once(split, 512, False) == parts_at_once(static, 512, True) == 16
    assert parts_at_once(static, 512, False) == 1
    assert parts_at_once(split, 4096, True) == 1


def test_blocks_of_64_rows_combine_half_as_many_large_parts_at_once():
    """Four of 32 rows of 64 columns spilled 42 registers with a window and sinks (64/8 heads of 64, 3 new tokens)."""
    large, small = Config("split_kv", 64, 64, 4, 3, 8), Config("split_kv", 16, 64, 4, 2, 8)
    assert parts_at_once(small, 32 * 64, True) == 4
    assert parts_at_once(large, 32 * 64, True) == 2
    assert parts_at_once(large, 2047, True) == parts_at_once(small, 2047, True) == 4
    assert parts_at_once(large, 4096, True) == 1


def test_scratch_holds_exactly_what_the_limit_allows():
    batch = make_batch([(1, 700)], (8, 2), 64, 16, torch.bfloat16)
    call = checked({name: on_meta(value) for name, value in batch.items()}, HOPPER)
    plan = make_plan(call, Config("split_kv", 16, 64, 4, 2, 8))
    item = 8 * 4 * (64 + 2) * 4  # parts, rows of each, elements with M and L, bytes
    for programs, limit in ((0, SCRATCH_LIMIT), (264, SCRATCH_LIMIT_UNSURE)):
        assert roomy_segments(plan, limit // item, programs) == 8
        assert roomy_segments(plan, limit // item + 1, programs) == 6
        assert roomy_segments(plan, limit // item * 8 + 8, programs) == 1
