"""Which kernel a config becomes: on this GPU, for this call."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.defaults import Config
from heurgen_kernels.metadata import build_metadata_host
from heurgen_kernels.plan import before_hopper, reduce_chunk, register_cap

from tests.kernels.batches import LIMITS, error_of, make_batch

SPECIALISED = Config("warp_specialized", 128, 128, 4, 2, 4)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config("split_kv", 16, 128, 4, 2, 8), Config("split_kv", 16, 128, 4, 2, 8)),
        (Config("q_block", 64, 32, 4, 2), Config("q_block", 64, 32, 4, 2)),
        (Config("mixed", 64, 64, 4, 3, 4), Config("mixed", 64, 64, 8, 2, 4)),
        (SPECIALISED, Config("q_block", 64, 64, 8, 2, 4)),
    ],
)
def test_before_hopper_blocks_are_those_that_fit(config, expected):
    assert before_hopper(config) == expected


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


def test_parts_of_a_vector_step_hold_32_registers_a_thread():
    assert reduce_chunk(4 * 128, 4) * 4 * 128 == 32 * 4 * 32
    assert reduce_chunk(4 * 128, 1) == 2
    assert reduce_chunk(64 * 256, 1) == 1


def test_a_config_that_the_warp_specialised_kernel_has_not_is_refused():
    batch = make_batch([(5, 40)])
    said = "blocks of 128 rows and consumers of 4 warps; the config has BLOCK_M 64 and num_warps 4"
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
