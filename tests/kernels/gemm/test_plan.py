"""How a config becomes what one product can run: tiles shared, stages that have room, the nearest config."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.gemm import plan
from heurgen_kernels.gemm.config import Config
from heurgen_kernels.gemm.plan import Form, adapted, form_of, share, slot_of, stages_that_fit
from heurgen_kernels.tools.fits import SHARED_LIMIT
from heurgen_kernels.tools.matmul_fits import Shape, meta_product

SPECIAL = Config("warp_specialized", 128, 128, 64, 4, 12)
FEW = Config("stream_k", 16, 64, 64)
NARROW = Config("warp_specialized", 64, 64, 64, 4, 12, 1, 1)  # one consumer
INSTEAD = Config("stream_k", 128, 64, 32, 8, 3)  # of SPECIAL where there are no descriptors
UNREAD = Config("stream_k", 64, 64, 32, 8, 3, 1, 2)  # where they can not read or write rows
PAIRS = Config("stream_k", 64, 64, 64, 4, 3, 1, 2)
UNSTORED = Config("stream_k_tma", 64, 128, 64, 4, 5, 1, 1)  # where they can not write alone
DESCRIBED = Config("stream_k_tma", 16, 64, 128, 4, 8)
WIDE = Config("stream_k", 16, 64, 256, 4, 4)
VECTOR = Config("vector", 2, 8, 512, 2, 4)
STREAM = FEW._replace(num_splits=0, programs_per_sm=2)
LONG = Config("stream_k", 16, 32, 256, 4, 5)
SQUARE = Config("stream_k", 256, 256, 64, 8, 4)


def test_tiles_are_programs_of_their_own_unless_something_is_asked():
    work = share(FEW, 33, 640, 1000, False, 132)
    assert work[:7] == (3, 10, 16, 30, 0, 1, 30)
    assert (work.programs, work.slots, work.mode) == (30, 0, 0)
    assert share(SPECIAL, 4096, 4096, 4096, False, 132).programs == 132


@pytest.mark.parametrize(
    ("splits", "size", "expected"), [(4, 4096, 4), (4, 128, 2), (4, 64, 1), (1, 4096, 1)]
)
def test_no_part_of_k_is_less_than_a_step(splits, size, expected):
    work = share(FEW._replace(num_splits=splits), 1, 640, size, False, 132)
    assert (work.splits, work.items, work.slots) == (expected, 10 * expected, 10 * expected * (expected > 1))
    assert work.mode == (1 if expected > 1 else 0)


@pytest.mark.parametrize(
    ("per_sm", "width", "whole", "splits"),
    [
        (1, 132 * 64, 132, 1),
        (1, 66 * 64, 0, 2),
        (2, 66 * 64, 0, 4),
        (1, 198 * 64, 132, 2),
        (1, 131 * 64, 131, 1),
    ],
)
def test_tiles_that_do_not_go_round_are_cut_until_all_are_busy(per_sm, width, whole, splits):
    work = share(FEW._replace(programs_per_sm=per_sm), 16, width, 4096, False, 132)
    assert (work.whole, work.splits) == (whole, splits)
    assert work.items == work.whole + (work.n_tiles - work.whole) * splits


def test_a_stream_needs_one_row_of_tiles_and_steps_for_all():
    stream = FEW._replace(num_splits=0, programs_per_sm=1)
    work = share(stream, 16, 640, 4096, False, 132)
    assert (work.left, work.programs, work.slots, work.mode) == (10, 132, 264, 2)
    assert share(stream, 17, 640, 4096, False, 132).left == 0
    assert share(stream, 16, 640, 512, False, 132).left == 0  # 80 steps
    assert share(stream, 16, 132 * 64, 4096, False, 132).left == 0  # nothing is left


def test_the_last_program_of_a_tile_reads_few_parts():
    work = share(SPECIAL._replace(programs_per_sm=1), 7000, 640, 768, False, 132)
    assert (work.whole, work.splits, work.slots) == (264, 8, 88)
    assert share(NARROW, 64, 128, 8192, False, 132).splits == 32
    assert share(FEW._replace(programs_per_sm=1), 16, 64, 16384, False, 132).splits == 132


def test_partial_sums_stay_within_their_memory(monkeypatch):
    config = FEW._replace(num_splits=8)
    monkeypatch.setattr(plan, "SCRATCH_LIMIT", 4 * slot_of(config, False) * 45)
    assert share(config, 16, 640, 4096, False, 132).splits == 4
    monkeypatch.setattr(plan, "SCRATCH_LIMIT", 4 * slot_of(config, False) * 15)
    assert share(config, 16, 640, 4096, False, 132).slots == 0


def test_stages_have_room():
    for rows, width, gated in (
        (16, 128, False), (64, 128, False), (128, 128, False), (128, 256, False), (16, 128, True), (128, 128, True),
        (32, 64, False), (64, 64, False), (64, 64, True), (64, 80, False), (64, 144, False), (64, 256, False),
        (128, 96, False), (128, 160, False), (128, 192, False),
    ):  # fmt: skip
        form = form_of(SPECIAL._replace(BLOCK_M=rows, BLOCK_N=width), gated)
        call = SimpleNamespace(gated=gated, weight=torch.empty(1, dtype=torch.bfloat16))
        stages = stages_that_fit(SPECIAL, form, call)
        step = ((2 * width if gated else width) + rows) * 64 * 2
        stored = 2 * rows * (128 if width == 256 else width)
        assert 2 <= stages <= 12
        assert stages * step + stored < SHARED_LIMIT["sm_90"]
        assert stages == 12 or (stages + 1) * step + stored > SHARED_LIMIT["sm_90"] - 2048
    assert stages_that_fit(SPECIAL._replace(num_stages=2), form, call) == 2
    bytes_ = SimpleNamespace(gated=False, weight=torch.empty(1, dtype=torch.float8_e4m3fn))
    form = form_of(SPECIAL, True)
    assert stages_that_fit(SPECIAL, form, bytes_) == 8 > stages_that_fit(SPECIAL, form, call)


@pytest.mark.parametrize(
    ("rows", "width", "gated", "expected", "sums"),
    [
        (16, 128, False, Form(True, 2, 16, 0), 128 * 16),
        (16, 128, True, Form(True, 2, 16, 0), 256 * 16),
        (64, 64, False, Form(True, 1, 64, 0), 64 * 64),
        (64, 64, True, Form(True, 1, 64, 0), 128 * 64),
        (64, 80, False, Form(False, 1, 64, 16), 64 * 80),
        (64, 144, False, Form(False, 1, 128, 16), 64 * 144),
        (64, 256, False, Form(False, 1, 256, 0), 64 * 256),
        (64, 128, False, Form(True, 2, 64, 0), 128 * 64),
        (128, 64, False, Form(False, 2, 64, 0), 128 * 64),
        (128, 96, False, Form(False, 2, 64, 32), 128 * 96),
        (128, 160, False, Form(False, 2, 128, 32), 128 * 160),
        (128, 192, False, Form(False, 2, 128, 64), 128 * 192),
        (128, 256, False, Form(False, 2, 256, 0), 128 * 256),
        (256, 128, False, Form(True, 2, 256, 0), 256 * 128),
    ],
)
def test_who_computes_which_rows_of_a_tile(rows, width, gated, expected, sums):
    config = SPECIAL._replace(BLOCK_M=rows, BLOCK_N=width)
    assert form_of(config, gated) == expected
    assert slot_of(config, gated) == sums


@pytest.mark.parametrize(
    ("config", "shape", "target", "expected"),
    [
        (SPECIAL, Shape(), "sm_90", SPECIAL),
        (SPECIAL, Shape(), "sm_80", INSTEAD),
        (SPECIAL._replace(programs_per_sm=1), Shape(residual=True), "sm_80", INSTEAD),
        (SPECIAL._replace(BLOCK_M=64, num_splits=3), Shape(), "gfx942", Config("stream_k", 64, 64, 32, 8, 3, 3)),
        (SPECIAL._replace(BLOCK_M=32, num_splits=2), Shape(), "sm_80", Config("stream_k", 32, 64, 64, 4, 3, 2)),
        (SPECIAL._replace(BLOCK_M=256), Shape(), "sm_80", INSTEAD),
        # of 64 rows of x all widths, where the weight may be on the right
        (NARROW._replace(BLOCK_N=144), Shape(), "sm_90", NARROW._replace(BLOCK_N=144)),
        (NARROW._replace(BLOCK_N=80), Shape(gated=True), "sm_90", NARROW._replace(BLOCK_N=128)),
        (NARROW._replace(BLOCK_N=256), Shape(scaled="row"), "sm_90", NARROW._replace(BLOCK_N=128)),
        (SPECIAL, Shape(N=4100), "sm_90", UNSTORED),
        (SPECIAL._replace(programs_per_sm=1), Shape(N=50257, residual=True), "sm_90", UNSTORED),
        (NARROW, Shape(N=4100), "sm_90", UNSTORED),
        (NARROW._replace(BLOCK_M=32), Shape(N=4100), "sm_90", UNSTORED._replace(BLOCK_M=32, num_stages=6)),
        (SPECIAL, Shape(N=4100, gated=True), "sm_90", UNREAD),
        (SPECIAL, Shape(N=4100, scaled="row"), "sm_90", UNREAD),
        (SPECIAL, Shape(K=4100), "sm_90", PAIRS),
        (SPECIAL, Shape(K=4101), "sm_90", PAIRS._replace(BLOCK_N=128, BLOCK_K=32, num_stages=4)),
        (SPECIAL, Shape(K=4098), "sm_90", PAIRS._replace(BLOCK_N=128, BLOCK_K=32, num_stages=4)),
        (SPECIAL, Shape(N=4095, K=4101), "sm_90", PAIRS),
        (SPECIAL, Shape(N=8191, K=4100), "sm_90", PAIRS),
        (SPECIAL, Shape(N=8192, K=4100), "sm_90", PAIRS._replace(BLOCK_N=128, BLOCK_K=32, num_stages=4)),
        (SPECIAL, Shape(K=4100, scaled="row"), "sm_90", UNREAD),
        (SPECIAL._replace(BLOCK_N=256), Shape(gated=True), "sm_90", SPECIAL),
        (SPECIAL._replace(BLOCK_M=256), Shape(gated=True), "sm_90", SPECIAL),
        (SPECIAL._replace(BLOCK_N=96), Shape(gated=True), "sm_90", SPECIAL),
        (SPECIAL._replace(BLOCK_N=160), Shape(K=4100), "sm_90", PAIRS),
        (NARROW, Shape(gated=True), "sm_90", NARROW),
        (NARROW, Shape(), "sm_90", NARROW),
        (NARROW, Shape(), "sm_80", Config("stream_k", 64, 64, 32, 8, 3, 1, 1)),
        (FEW, Shape(K=4104), "sm_90", FEW),
        (FEW, Shape(K=4104), "sm_80", FEW),
        (FEW, Shape(N=4101, K=4104), "sm_90", FEW),
        (FEW, Shape(K=4100), "sm_90", FEW),
        (FEW, Shape(K=4098), "sm_80", FEW),
        (FEW, Shape(K=4101), "sm_90", FEW._replace(BLOCK_K=32, num_stages=2, programs_per_sm=2)),
        (FEW, Shape(K=4101), "sm_80", FEW._replace(BLOCK_K=32, num_stages=2)),
        (FEW._replace(num_splits=4), Shape(K=4101), "sm_90", FEW._replace(BLOCK_K=32, num_stages=2, num_splits=4)),
        (FEW, Shape(K=4112), "sm_90", FEW),
        (STREAM, Shape(), "sm_80", STREAM),
        (DESCRIBED, Shape(), "sm_90", DESCRIBED),
        (DESCRIBED, Shape(gated=True, N=4100), "sm_90", DESCRIBED._replace(num_stages=6)),
        (DESCRIBED._replace(programs_per_sm=2), Shape(), "sm_80", FEW._replace(num_stages=3, programs_per_sm=2)),
        (DESCRIBED._replace(num_splits=3), Shape(K=4100), "sm_90", FEW._replace(num_stages=3, num_splits=3)),
        (DESCRIBED._replace(BLOCK_M=128, num_splits=3), Shape(), "gfx90a", INSTEAD),
        (DESCRIBED._replace(BLOCK_M=128, num_splits=3), Shape(K=4100), "sm_90", PAIRS._replace(
            num_splits=3, programs_per_sm=0)),
        (DESCRIBED._replace(BLOCK_M=32), Shape(K=4100), "sm_90", PAIRS._replace(BLOCK_M=32, num_stages=4)),
        (WIDE, Shape(gated=True, scaled="row"), "sm_80", WIDE._replace(BLOCK_K=128)),
        (WIDE, Shape(gated=True, scaled="block"), "sm_80", WIDE._replace(BLOCK_N=32, BLOCK_K=128)),
        (WIDE._replace(BLOCK_K=64), Shape(gated=True, scaled="row"), "sm_80", WIDE._replace(BLOCK_K=64)),
        (WIDE, Shape(gated=True, scaled="row"), "sm_90", WIDE),
        (WIDE, Shape(gated=True, scaled="row"), "gfx942", WIDE),
        (WIDE, Shape(scaled="row"), "sm_80", WIDE),
        (WIDE, Shape(gated=True), "sm_80", WIDE),
        (VECTOR, Shape(gated=True, scaled="row"), "sm_80", VECTOR._replace(num_warps=4)),
        (VECTOR, Shape(), "gfx942", VECTOR),
        (LONG, Shape(), "sm_89", LONG),  # 98,304 bytes of 101,376
        (LONG, Shape(gated=True), "sm_80", LONG),
        (LONG, Shape(gated=True), "sm_90", LONG),
        (LONG, Shape(gated=True), "sm_89", LONG._replace(num_stages=3)),
        (LONG._replace(BLOCK_M=256), Shape(gated=True), "sm_89", LONG._replace(BLOCK_M=256, BLOCK_K=128, num_stages=2)),
        (WIDE, Shape(), "sm_89", WIDE._replace(num_stages=3)),
        (WIDE, Shape(scaled="row"), "sm_89", WIDE),
        (WIDE._replace(BLOCK_N=128), Shape(gated=True, scaled="row"), "sm_89", WIDE._replace(
            BLOCK_N=128, BLOCK_K=128, num_stages=3)),
        (WIDE._replace(BLOCK_K=128, num_stages=6), Shape(N=4064, gated=True, scaled="block"), "sm_89", WIDE._replace(
            BLOCK_K=128, num_stages=5)),
        (SQUARE, Shape(), "sm_89", SQUARE._replace(BLOCK_N=64, num_stages=3)),
        (SQUARE, Shape(), "sm_80", SQUARE),
        (DESCRIBED, Shape(gated=True), "sm_89", FEW._replace(num_stages=3)),
        (VECTOR._replace(BLOCK_N=16), Shape(gated=True), "sm_89", VECTOR._replace(
            BLOCK_N=16, num_warps=8, num_stages=3)),
        (VECTOR, Shape(gated=True), "sm_90", VECTOR._replace(num_warps=4)),
        (VECTOR._replace(BLOCK_M=1), Shape(gated=True), "sm_90", VECTOR._replace(BLOCK_M=1)),
    ],
)  # fmt: skip
def test_the_nearest_config_that_a_call_can_run(config, shape, target, expected):
    assert adapted(config, meta_product(shape, target)) == expected


@pytest.mark.parametrize("config", [FEW, STREAM, DESCRIBED, NARROW, SPECIAL, SPECIAL._replace(BLOCK_M=256)])
def test_rows_that_no_descriptor_reads_keep_two_programs_busy_on_each_of_hoppers_processors(config):
    """In tiles of 64 rows at the most, unless the config says how many parts K has."""
    call = meta_product(Shape(K=4101), "sm_90")
    for asked in (config, config._replace(num_splits=0, programs_per_sm=1)):
        given = adapted(asked, call)
        assert (given.num_splits, given.programs_per_sm) == (1, 2)
        assert given.BLOCK_M <= 64
        assert share(given, 16, 4096, 4101, False, 132).programs >= 256  # of 32 or 64 tiles
    split = adapted(config._replace(num_splits=4, programs_per_sm=0), call)
    assert split == given._replace(num_splits=4, programs_per_sm=0)


def test_a_matrix_that_starts_inside_16_bytes_has_no_descriptor():
    call = meta_product(Shape(), "sm_90")
    assert plan.specialises(call)
    apart = torch.empty((call.x.shape[0], call.x.shape[1] + 4), dtype=call.x.dtype, device="meta")
    call.x = apart[:, : call.x.shape[1]]
    assert not plan.specialises(call)


def test_a_row_that_is_repeated_has_no_descriptor():
    call = meta_product(Shape(), "sm_90")
    call.x = torch.empty(call.x.shape[1], dtype=call.x.dtype, device="meta").expand(call.x.shape)
    assert not plan.specialises(call)
    assert not plan.describes(call, call.x, call.weight)
