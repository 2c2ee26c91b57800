"""The one config type of an attention launch, and what its values may be.

Values are checked by `normalise` and nowhere else: what the launch path gets is a `Config` of true values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .parameters import Parameters


class Config(NamedTuple):
    """One setting of all launch parameters. `normalise` says what else serves as a config.

    variant       naive | q_block | split_kv | static_grid | mixed | warp_specialized
    BLOCK_M       rows (query token, query head) of a Q block; raised to the query heads per KV head where smaller;
                  warp_specialized alone has 192; 64 rows are one of its two or three consumers'; more than 64 of mixed
                  are warp_specialized's over fp8 pages on Hopper (`host/apart.py`), 64 elsewhere
    TILE_SIZE     keys per step, independent of the page size
    num_warps     of a program; of each consumer in warp_specialized, where it is 4
    num_segments  parts that the longest sequence's keys are cut into (split_kv, static_grid, warp_specialized,
                  decodes of mixed)
    programs_per_sm  where not 0, num_segments follows from it at launch: as many parts as give so many programs per
                  processor, of warp_specialized mostly as many as end its programs soonest, see `host/segments.py`
    waves_per_eu, matrix_instr_nonkdim  AMD alone; None is Triton's default
    """

    variant: str = "q_block"
    BLOCK_M: int = 16
    TILE_SIZE: int = 64
    num_warps: int = 4
    num_stages: int = 2
    num_segments: int = 1
    programs_per_sm: int = 0
    waves_per_eu: int | None = None
    matrix_instr_nonkdim: int | None = None


VARIANTS = ("naive", "q_block", "split_kv", "static_grid", "mixed", "warp_specialized")
# What a launch accepts: every value that was ever measured, and what compiles beside it. 256 rows or keys fill the
# registers of sixteen warps; the interleaved instructions of CDNA are of 4, 16 or 32 rows.
ALLOWED: Mapping[str, Iterable[Any]] = {
    "variant": VARIANTS,
    "BLOCK_M": (16, 32, 64, 128, 192, 256),
    "TILE_SIZE": (16, 32, 64, 128, 256),
    "num_warps": (1, 2, 4, 8, 16),
    "num_stages": range(1, 9),
    "num_segments": range(1, 1025),
    "programs_per_sm": range(65),
    "waves_per_eu": (None, *range(9)),
    "matrix_instr_nonkdim": (None, 0, 4, 16, 32),
}


# Of warp_specialized: 64 rows are one consumer's of four warps.
SPECIALISED: Mapping[str, Iterable[Any]] = {"BLOCK_M": (128, 192), "num_warps": (4,)}


def _rule(config: Config) -> None:
    if config.variant == "warp_specialized":
        for name, values in SPECIALISED.items():
            if getattr(config, name) not in values:
                raise ValueError(
                    f"config.{name} is {getattr(config, name)}; warp_specialized has blocks of 128 or 192 rows and "
                    f"consumers of 4 warps: {name} must be {' or '.join(map(str, values))}"
                )
    elif config.BLOCK_M == 192:
        raise ValueError(f"config.BLOCK_M is 192; {config.variant} has a power of two of rows")


PARAMETERS = Parameters(Config, ALLOWED, _rule)
normalise, normalised = PARAMETERS.normalise, PARAMETERS.normalised
