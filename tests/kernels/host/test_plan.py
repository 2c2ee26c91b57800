"""Which kernel a config becomes: on this GPU, for this call."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from heurgen_kernels.config import Config, normalise
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.heuristics import paged_attention
from heurgen_kernels.host.combine import combines
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.launch import arguments_of, dispatched
from heurgen_kernels.host.metadata import build_metadata_host
from heurgen_kernels.host.plan import (
    SCRATCH_LIMIT,
    adapted,
    before_hopper,
    kept_rows,
    launch_grid,
    make_plan,
    padded,
    parts_at_once,
    reduce_chunk,
    register_cap,
    scratch_fits,
    specialises,
    unspilled,
)
from heurgen_kernels.tools.fits import launched

from tests.kernels.batches import LIMITS, checked, error_of, make_batch, on_meta, shifted

SPECIALISED = Config("warp_specialized", 128, 128, 4, 2, 4)
SMALL = Device("nvidia", (8, 9), 142, "", 101376)
FP8 = torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config("split_kv", 16, 128, 4, 2, 8), Config("split_kv", 16, 128, 4, 2, 8)),
        (Config("q_block", 64, 32, 4, 2), Config("q_block", 64, 32, 4, 2)),
        (Config("split_kv", 32, 32, 4, 2, 8), Config("split_kv", 32, 32, 4, 2, 8)),
        (Config("split_kv", 32, 64, 4, 2, 8), Config("split_kv", 64, 64, 8, 2, 8)),
        (Config("mixed", 64, 64, 4, 3, 4), Config("mixed", 64, 64, 8, 2, 4)),
        (SPECIALISED, Config("q_block", 64, 64, 8, 2, 4)),
    ],
)
def test_before_hopper_blocks_are_those_that_fit(config, expected):
    assert before_hopper(config) == expected


@pytest.mark.parametrize(
    ("given", "config", "fewer"),
    [
        # 57,600 bytes of 101,376; at 256 columns 106,752
        ({}, (64, 64, 4, 3), (64, 64, 8, 2)), ({"size": 256}, (64, 64, 4, 3), (64, 32, 8, 2)),
        ({"size": 256}, (16, 128, 4, 2), (16, 64, 4, 2)), ({"size": 192}, (16, 128, 4, 2), (16, 64, 4, 2)),
        ({"size": 256}, (64, 32, 4, 3), (64, 32, 4, 3)),  # pages are loaded a step ahead in either case
        ({"size": 256, "fresh": True}, (64, 32, 4, 3), (64, 32, 4, 2)),
        ({"fresh": True}, (16, 32, 2, 7), (16, 32, 2, 6)),
        ({"fresh": True}, (16, 16, 4, 8), (16, 16, 4, 8)),
        ({"cache": FP8}, (16, 128, 4, 2), (16, 128, 4, 2)),
        ({"cache": FP8, "size": 256}, (64, 64, 4, 3), (64, 64, 8, 2)),
        ({"cache": FP8, "fresh": True}, (16, 128, 4, 2), (16, 64, 4, 2)),
        ({"cache": FP8, "fresh": True, "size": 256}, (32, 64, 4, 3), (64, 32, 8, 2)),
        ({"size": 256, "heads": (8, 2)}, (16, 64, 4, 2), (16, 64, 4, 2)),
        ({"size": 256, "heads": (64, 1)}, (16, 64, 4, 2), (16, 32, 4, 2)),  # the rows are 64
        ({"size": 256, "heads": (256, 1)}, (16, 32, 4, 3), (16, 16, 4, 2)),  # has no room at all
    ],
)  # fmt: skip
@pytest.mark.parametrize("variant", ["q_block", "split_kv"])
def test_fewer_stages_then_fewer_keys_where_there_is_little_shared_memory(variant, given, config, fewer):
    batch = make_batch([(5, 70)], **{"heads": (8, 2), "size": 128, "dtype": torch.bfloat16} | given)
    call = checked({name: on_meta(value) for name, value in batch.items()}, SMALL)
    assert adapted(Config(variant, *config, 3), call) == Config(variant, *fewer, 3)
    call = checked(
        {name: on_meta(value) for name, value in batch.items()}, replace(SMALL, shared_memory=166912)
    )
    assert adapted(Config(variant, *config, 3), call) == before_hopper(Config(variant, *config, 3))


def test_new_keys_alone_take_no_room_for_fp8_pages_beside_them():
    batch = make_batch([(70, 70)], (8, 2), 128, 16, torch.bfloat16, True, cache=FP8)
    call = checked({name: on_meta(value) for name, value in batch.items()}, SMALL)
    config = Config("q_block", 16, 128, 4, 2)
    assert adapted(config, call).TILE_SIZE == 64
    call.prefix = False
    assert adapted(config, call) == config


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


@pytest.mark.parametrize(
    ("variant", "tile", "segments", "both", "taken"),
    [
        ("warp_specialized", 128, 2, True, Config("warp_specialized", 128, 64, 4, 3, 2)),
        ("warp_specialized", 128, 1, True, None),
        ("warp_specialized", 128, 2, False, None),
        ("warp_specialized", 64, 2, True, None),
        ("split_kv", 128, 2, True, None),
    ],
)
def test_cut_keys_of_two_sources_take_tiles_that_do_not_spill(variant, tile, segments, both, taken):
    config = Config(variant, 128, tile, 4, 2, segments)
    assert unspilled(config, 128, both, False, False) == (taken or config)


@pytest.mark.parametrize(("head_size", "segments", "both", "window", "softcap", "rows"), [
    (64, 1, False, False, False, (192, 128, 3)), (64, 2, False, False, False, (192, 128, 3)),
    (64, 1, True, False, False, (192, 128, 3)), (64, 2, True, False, False, (128, 64, 3)),
    (64, 1, False, True, False, (128, 128, 2)), (64, 1, False, False, True, (128, 128, 2)),
    (64, 2, False, True, False, (128, 64, 3)), (80, 1, False, False, False, (128, 128, 2)),
    (128, 2, False, False, False, (128, 128, 2)), (256, 1, False, False, False, (128, 64, 2)),
])  # fmt: skip
def test_three_consumers_have_plain_narrow_heads_alone(head_size, segments, both, window, softcap, rows):
    def config(block_m, tile, stages):
        return Config("warp_specialized", block_m, tile, 4, stages, segments)

    assert unspilled(config(192, 128, 3), head_size, both, window, softcap) == config(*rows)
    if rows[0] == 128 and head_size <= 128:
        assert unspilled(config(192, 64, 4), head_size, both, window, softcap) == config(128, 64, 3)


def test_three_consumers_have_a_block_of_192_rows_in_whole_tokens():
    """A group of 5 fills 190 of them; a part of cut keys keeps all, and each consumer counts its own parts."""
    call = checked(make_meta((35, 7)), HOPPER)
    plan = make_plan(call, Config("warp_specialized", 192, 64, 4, 4, 3))
    assert (plan.block_q, plan.kept, plan.item_counters) == (192 // 5, 192, 9)
    assert plan.options["maxnreg"] * 16 * 32 == 65536


@pytest.mark.parametrize("segments", [1, 3])
def test_wide_heads_take_the_two_stages_that_fit(segments):
    for tile, stages in ((64, 3), (128, 2)):
        config = Config("warp_specialized", 128, tile, 4, stages, segments)
        for head_size in (136, 192, 256):
            assert unspilled(config, head_size, False, False, False) == Config(
                "warp_specialized", 128, 64, 4, 2, segments
            )


@pytest.mark.parametrize(
    ("segments", "both", "window", "softcap", "tile"),
    [
        (1, False, True, False, 128),
        (2, False, True, False, 64),
        (1, True, True, False, 64),
        (1, False, True, True, 64),
    ],
)
def test_tiles_of_128_where_no_two_of_what_takes_registers_meet(segments, both, window, softcap, tile):
    config = Config("warp_specialized", 128, 128, 4, 2, segments)
    assert tile == unspilled(config, 128, both, window, softcap).TILE_SIZE


@pytest.mark.parametrize(
    ("head_size", "width"), [(8, 16), (16, 16), (17, 32), (64, 64), (80, 128), (256, 256)]
)
def test_tiles_are_powers_of_two_wide(head_size, width):
    assert padded(head_size) == width


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
    assert scratch_fits(plan, SCRATCH_LIMIT // item)
    assert not scratch_fits(plan, SCRATCH_LIMIT // item + 1)


@pytest.mark.parametrize(
    ("more", "runs"),
    [
        ({}, True),
        ({"heads": (128, 1)}, True),
        ({"heads": (129, 1)}, False),
        ({"size": 32}, False),
        ({"page": 24}, False),
        ({"dtype": torch.float32}, False),
        ({"cache": torch.float8_e4m3fn}, False),
        ({"fresh": True}, True),
    ],
)
def test_what_the_warp_specialised_kernel_runs(more, runs):
    given = {"heads": (8, 2), "size": 64, "dtype": torch.bfloat16} | more
    batch = {name: on_meta(value) for name, value in make_batch([(40, 70)], **given).items()}
    assert specialises(SPECIALISED, checked(batch, HOPPER)) is runs
    assert not specialises(SPECIALISED, checked(batch, Device("nvidia", (8, 9), 142)))
    slopes = {"alibi_slopes": torch.ones(given["heads"][0], device="meta")}
    assert not specialises(SPECIALISED, checked(batch | slopes, HOPPER))


def test_an_output_of_another_type_is_not_for_the_warp_specialised_kernel():
    batch = {n: on_meta(t) for n, t in make_batch([(40, 70)], (8, 2), 64, dtype=torch.bfloat16).items()}
    out = torch.empty(batch["q"].shape, dtype=torch.float32, device="meta")
    assert not specialises(SPECIALISED, checked(batch | {"out": out}, HOPPER))
