"""What becomes the config of a launch, and what is refused before anything is compiled."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import pytest
from heurgen_kernels.config import ALLOWED, Config, normalise

SAID = {"variant": "q_block", "BLOCK_M": 64, "TILE_SIZE": 16, "num_warps": 2, "num_stages": 3}
CONFIG = Config(**SAID)


@dataclass
class Mutable:
    variant: str
    BLOCK_M: int
    TILE_SIZE: int
    num_warps: int
    num_stages: int


@dataclass(slots=True)
class Few:
    TILE_SIZE: int


class Answer:
    __slots__ = ("BLOCK_M", "elsewhere")

    @property
    def TILE_SIZE(self):
        return 2 * self.BLOCK_M


def generated(**values):
    """A named tuple of a type of its own, as each generated module has one."""
    return namedtuple("Config", values)(**values)


@pytest.mark.parametrize(
    "given",
    [
        CONFIG,
        generated(**SAID),
        generated(**dict(reversed(SAID.items()))),
        generated(programs_per_sm=0, **SAID),
        SAID,
        MappingProxyType(SAID),
        Mutable(**SAID),
        SimpleNamespace(**SAID),
        SimpleNamespace(**SAID, num_segments=None, origin="anywhere"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_all_that_says_the_same_is_one_config(given):
    for _ in range(2):
        assert normalise(given) is normalise(CONFIG)
    assert normalise(given) == CONFIG


def test_what_is_left_out_takes_the_default():
    assert normalise(Few(32)) == Config(TILE_SIZE=32)
    answer = Answer()
    answer.BLOCK_M = 32
    assert normalise(answer) == Config(BLOCK_M=32, TILE_SIZE=64)


def test_equal_tuples_of_other_orders_are_other_configs():
    here = generated(variant="q_block", TILE_SIZE=16, BLOCK_M=64)
    there = generated(variant="q_block", BLOCK_M=16, TILE_SIZE=64)
    assert here == there
    assert hash(here) == hash(there)
    assert [normalise(c)[1:3] for c in (here, there, here)] == [(64, 16), (16, 64), (64, 16)]


def test_what_changes_is_looked_at_again():
    given = SimpleNamespace(**SAID)
    first = normalise(given)
    given.TILE_SIZE = 128
    assert (first.TILE_SIZE, normalise(given).TILE_SIZE) == (16, 128)
    given.TILE_SIZE = 24
    with pytest.raises(ValueError, match="TILE_SIZE is 24; allowed: 16, 32, 64"):
        normalise(given)


def test_an_id_that_is_used_again_is_another_config():
    for warps in (1, 2, 4, 8) * 50:
        assert normalise(generated(num_warps=warps)).num_warps == warps


def test_integers_of_other_libraries_become_integers():
    numpy = pytest.importorskip("numpy")
    found = normalise({"BLOCK_M": numpy.int64(64), "variant": numpy.str_("mixed")})
    assert [type(value) for value in found[:2]] == [str, int]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"variant": "fast"},
            "config.variant is 'fast'; allowed: naive, q_block, split_kv, static_grid, mixed, warp",
        ),
        ({"variant": 3}, "config.variant is 3; allowed: naive"),
        ({"variant": []}, "config.variant is []; allowed: naive"),
        ({"BLOCK_M": 512}, "config.BLOCK_M is 512; allowed: 16, 32, 64, 128, 192, 256"),
        ({"BLOCK_M": 48}, "config.BLOCK_M is 48; allowed: 16, 32, 64, 128, 192, 256"),
        ({"BLOCK_M": 0}, "config.BLOCK_M is 0; allowed"),
        ({"BLOCK_M": 64.0}, "config.BLOCK_M is 64.0; allowed"),
        ({"BLOCK_M": "64"}, "config.BLOCK_M is '64'; allowed"),
        ({"TILE_SIZE": 8}, "config.TILE_SIZE is 8; allowed: 16, 32, 64, 128, 256"),
        ({"num_warps": True}, "config.num_warps is True; allowed: 1, 2, 4, 8, 16"),
        ({"num_warps": 3}, "config.num_warps is 3; allowed"),
        ({"num_stages": 0}, "config.num_stages is 0; allowed: integers from 1 to 8"),
        ({"num_segments": 0}, "config.num_segments is 0; allowed: integers from 1 to 1024"),
        ({"programs_per_sm": -1}, "config.programs_per_sm is -1; allowed: integers from 0 to 64"),
        ({"programs_per_sm": float("nan")}, "config.programs_per_sm is nan; allowed"),
        ({"waves_per_eu": "2"}, "config.waves_per_eu is '2'; allowed: None, 0, 1"),
        ({"matrix_instr_nonkdim": 8}, "config.matrix_instr_nonkdim is 8; allowed: None, 0, 4, 16, 32"),
        (
            {"segments": 4},
            "config has segments = 4; the parameters of a launch are variant, BLOCK_M, TILE_SIZE",
        ),
        (
            {"variant": "warp_specialized", "BLOCK_M": 64},
            "config.BLOCK_M is 64; warp_specialized has blocks of 128 or 192 rows and consumers of 4 warps: BLOCK_M",
        ),
        ({"variant": "warp_specialized", "BLOCK_M": 128, "num_warps": 8}, "num_warps must be 4"),
        ({"variant": "q_block", "BLOCK_M": 192}, "config.BLOCK_M is 192; q_block has a power of two of rows"),
    ],
)
def test_wrong_values_are_refused_by_name(values, said):
    for given in (values, generated(**values)):
        for _ in range(2):
            with pytest.raises(ValueError) as caught:  # noqa: PT011
                normalise(given)
            assert said in str(caught.value)


@pytest.mark.parametrize(
    "given", [None, 7, "q_block", ("q_block", 16), SimpleNamespace(block_m=16)], ids=repr
)
def test_what_is_no_config_is_refused(given):
    with pytest.raises(
        ValueError, match="expected an object with parameters of a launch: variant, BLOCK_M, TILE"
    ):
        normalise(given)


def test_the_defaults_are_allowed():
    assert set(ALLOWED) == set(Config._fields)
    assert normalise(Config()) == Config()
