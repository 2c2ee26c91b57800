"""What becomes the config of a product's launch, and what is refused before anything is compiled."""

from __future__ import annotations

import re
from collections import namedtuple
from types import SimpleNamespace

import pytest
from heurgen_kernels.gemm.config import ALLOWED, PARAMETERS, Config, normalise

WIDE = {"variant": "warp_specialized", "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_stages": 12}
VECTOR = {"variant": "vector", "BLOCK_M": 1, "BLOCK_N": 8, "BLOCK_K": 512}


def generated(**values):
    return namedtuple("Config", values)(**values)


@pytest.mark.parametrize("kind", [dict, SimpleNamespace, generated])
def test_all_that_says_the_same_is_one_config(kind):
    assert normalise(kind(**WIDE)) is normalise(Config(**WIDE))
    assert normalise(kind(**dict(reversed(WIDE.items())))) == Config(**WIDE)


def test_every_parameter_has_values_and_the_defaults_are_allowed():
    assert tuple(ALLOWED) == Config._fields == PARAMETERS.names
    assert normalise({}) == Config()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variant": "split_k"}, "config.variant is 'split_k'; allowed: vector, stream_k, "),
        ({"BLOCK_N": 48}, "config.BLOCK_N is 48; allowed: 4, 8, 16, 32, 64, 80, 96, 128, 144, 160, 192, 256"),
        ({"num_stages": 0}, "config.num_stages is 0; allowed: integers from 1 to 16"),
        ({"num_splits": 1025}, "config.num_splits is 1025; allowed: integers from 0 to 1024"),
        ({"num_warps": True}, "config.num_warps is True; allowed: 1, 2, 4, 8, 16"),
        ({"num_splits": 0}, "config.num_splits is 0 with programs_per_sm 0; K is cut into num_splits parts"),
        ({"num_splits": 2, "programs_per_sm": 3}, "config.num_splits is 2 with programs_per_sm 3; K is cut"),
        (
            WIDE | {"BLOCK_N": 32},
            "BLOCK_N is 32; warp_specialized with BLOCK_M 128 takes 64 or 96 or 128 or 160",
        ),
        (WIDE | {"BLOCK_M": 32}, "BLOCK_N is 256; warp_specialized with BLOCK_M 32 takes 64 or 128"),
        (WIDE | {"BLOCK_N": 144}, "BLOCK_N is 144; warp_specialized with BLOCK_M 128 takes 64 or 96 or 128"),
        (WIDE | {"BLOCK_M": 16, "BLOCK_N": 64}, "BLOCK_N is 64; warp_specialized with BLOCK_M 16 takes 128"),
        ({"BLOCK_N": 96}, "BLOCK_N is 96; stream_k with BLOCK_M 16 takes 16 or 32 or 64"),
        (WIDE | {"BLOCK_K": 128}, "BLOCK_K is 128; warp_specialized with BLOCK_M 128 takes 64"),
        (WIDE | {"num_warps": 8}, "num_warps is 8; warp_specialized with BLOCK_M 128 takes 4"),
        (
            WIDE | {"programs_per_sm": 2},
            "programs_per_sm is 2; warp_specialized with BLOCK_M 128 takes 0 or 1",
        ),
        (WIDE | {"BLOCK_M": 2}, "config.BLOCK_M is 2; warp_specialized with BLOCK_M 2 takes 16 or 32 or 64"),
        ({"BLOCK_M": 1}, "config.BLOCK_M is 1; stream_k with BLOCK_M 1 takes 16 or 32 or 64 or 128 or 256"),
        ({"BLOCK_N": 8}, "config.BLOCK_N is 8; stream_k with BLOCK_M 16 takes 16 or 32 or 64 or 128 or 256"),
        (
            {"variant": "stream_k_tma", "BLOCK_K": 512},
            "BLOCK_K is 512; stream_k_tma with BLOCK_M 16 takes 16",
        ),
        (VECTOR | {"BLOCK_M": 16}, "BLOCK_M is 16; vector with BLOCK_M 16 takes 1 or 2"),
        (VECTOR | {"BLOCK_N": 32}, "BLOCK_N is 32; vector with BLOCK_M 1 takes 4 or 8 or 16"),
        (VECTOR | {"BLOCK_K": 128}, "BLOCK_K is 128; vector with BLOCK_M 1 takes 256 or 512"),
        (VECTOR | {"num_warps": 16}, "num_warps is 16; vector with BLOCK_M 1 takes 1 or 2 or 4 or 8"),
        (VECTOR | {"num_stages": 5}, "num_stages is 5; vector with BLOCK_M 1 takes 1 or 2 or 3 or 4"),
        (VECTOR | {"num_splits": 2}, "num_splits is 2; vector with BLOCK_M 1 takes 1"),
        (VECTOR | {"programs_per_sm": 1}, "programs_per_sm is 1; vector with BLOCK_M 1 takes 0"),
    ],
)
def test_what_no_launch_knows_is_refused_by_name(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        normalise(given)


@pytest.mark.parametrize(("splits", "programs"), [(1, 0), (7, 0), (1, 3), (0, 2)])
def test_k_is_whole_cut_or_as_programs_ask(splits, programs):
    assert normalise({"num_splits": splits, "programs_per_sm": programs})[-2:] == (splits, programs)
