"""The nearest config that a call and a GPU can run: by shared memory, registers, and what kernels lack."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from heurgen_kernels.config import Config
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.nearest import adapted, in_registers, padded, specialises, unspilled

from tests.kernels.batches import checked, make_batch, on_meta

SPECIALISED = Config("warp_specialized", 128, 128, 4, 2, 4)
HOPPER = Device("nvidia", (9, 0), 132)
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
def test_blocks_in_registers_are_those_that_fit(config, expected):
    assert in_registers(config) == expected


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
    assert adapted(Config(variant, *config, 3), call) == in_registers(Config(variant, *config, 3))


def test_new_keys_alone_take_no_room_for_fp8_pages_beside_them():
    batch = make_batch([(70, 70)], (8, 2), 128, 16, torch.bfloat16, True, cache=FP8)
    call = checked({name: on_meta(value) for name, value in batch.items()}, SMALL)
    config = Config("q_block", 16, 128, 4, 2)
    assert adapted(config, call).TILE_SIZE == 64
    call.prefix = False
    assert adapted(config, call) == config


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
