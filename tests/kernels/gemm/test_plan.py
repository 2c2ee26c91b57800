"""How a config becomes what one product can run: tiles shared, stages that have room, the nearest config."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.gemm import plan
from heurgen_kernels.gemm.config import Config
from heurgen_kernels.gemm.plan import adapted, aligned, share, slot_of, stages_that_fit
from heurgen_kernels.tools.fits import SHARED_LIMIT
from heurgen_kernels.tools.matmul_fits import Shape, meta_product

SPECIAL = Config("warp_specialized", 128, 128, 64, 4, 12)
FEW = Config("stream_k", 16, 64, 64)
INSTEAD = Config("stream_k", 128, 64, 32, 8, 3)  # of SPECIAL where descriptors can not
STREAM = FEW._replace(num_splits=0, programs_per_sm=2)


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


def test_partial_sums_stay_within_their_memory(monkeypatch):
    config = FEW._replace(num_splits=8)
    monkeypatch.setattr(plan, "SCRATCH_LIMIT", 4 * slot_of(config, False) * 45)
    assert share(config, 16, 640, 4096, False, 132).splits == 4
    monkeypatch.setattr(plan, "SCRATCH_LIMIT", 4 * slot_of(config, False) * 15)
    assert share(config, 16, 640, 4096, False, 132).slots == 0


def test_stages_have_room():
    for block, gated in ((16, False), (64, False), (128, False), (256, False), (16, True), (128, True)):
        stages = stages_that_fit(SPECIAL, block, gated)
        step = ((256 if gated else 128) + block) * 64 * 2
        stored = 128 * min(block, 128) * 2
        assert 2 <= stages <= 12
        assert stages * step + stored < SHARED_LIMIT["sm_90"]
        assert stages == 12 or (stages + 1) * step + stored > SHARED_LIMIT["sm_90"] - 2048
    assert stages_that_fit(SPECIAL._replace(num_stages=2), 128, False) == 2


@pytest.mark.parametrize(
    ("config", "shape", "target", "expected"),
    [
        (SPECIAL, Shape(), "sm_90", SPECIAL),
        (SPECIAL, Shape(), "sm_80", INSTEAD),
        (SPECIAL._replace(programs_per_sm=1), Shape(residual=True), "sm_80", INSTEAD),
        (SPECIAL._replace(BLOCK_M=64, num_splits=3), Shape(), "gfx942", Config("stream_k", 64, 64, 32, 8, 3, 3)),
        (SPECIAL._replace(BLOCK_M=32, num_splits=2), Shape(), "sm_80", Config("stream_k", 32, 64, 64, 4, 3, 2)),
        (SPECIAL._replace(BLOCK_M=256), Shape(), "sm_80", INSTEAD),
        (SPECIAL, Shape(N=4100), "sm_90", INSTEAD),
        (SPECIAL, Shape(K=4100), "sm_90", INSTEAD),
        (SPECIAL._replace(BLOCK_N=256), Shape(gated=True), "sm_90", SPECIAL),
        (SPECIAL._replace(BLOCK_M=256), Shape(gated=True), "sm_90", SPECIAL),
        (FEW, Shape(K=4104), "sm_90", Config("warp_specialized", 16, 128, 64, 4, 12, 1, 1)),
        (FEW, Shape(K=4104), "sm_80", FEW._replace(BLOCK_K=32, num_stages=2)),
        (FEW, Shape(K=4100), "sm_90", FEW._replace(BLOCK_K=32, num_stages=2)),
        (FEW, Shape(K=4112), "sm_90", FEW),
        (STREAM, Shape(), "sm_80", STREAM),
    ],
)  # fmt: skip
def test_the_nearest_config_that_a_call_can_run(config, shape, target, expected):
    assert adapted(config, meta_product(shape, target)) == expected


@pytest.mark.parametrize("which", range(5))
def test_each_address_counts(which):
    addresses = [512, 1024, 0, 0, 4096]
    assert aligned(tuple(addresses)) is True
    addresses[which] += 8
    assert aligned(tuple(addresses)) == tuple(place != which for place in range(5))


def test_a_matrix_that_starts_inside_16_bytes_has_no_descriptor():
    call = meta_product(Shape(), "sm_90")
    assert plan.specialises(call)
    apart = torch.empty((call.x.shape[0], call.x.shape[1] + 4), dtype=call.x.dtype, device="meta")
    call.x = apart[:, : call.x.shape[1]]
    assert not plan.specialises(call)
