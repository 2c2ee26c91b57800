"""The config of a product's launch, and what its values may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..parameters import Parameters


class Config(NamedTuple):
    """One setting of all launch parameters of `matmul`.

    variant       stream_k (any GPU) | warp_specialized (Hopper; elsewhere stream_k runs in its place)
    BLOCK_M, BLOCK_N, BLOCK_K  rows of x, rows of the weight and columns of both in a step
    num_warps     of a program; of each consumer in warp_specialized, where it is 4
    num_stages    steps that are loaded ahead; fewer where they have no room
    num_splits    parts that the K of each tile is cut into
    programs_per_sm  0: each tile, or part of one, is a program's own. Else so many programs a processor share the
                  tiles, and evenly the K of those that would not go round; num_splits is then 1
    """

    variant: str = "stream_k"
    BLOCK_M: int = 16
    BLOCK_N: int = 64
    BLOCK_K: int = 64
    num_warps: int = 4
    num_stages: int = 4
    num_splits: int = 1
    programs_per_sm: int = 0


ALLOWED: Mapping[str, Iterable[Any]] = {
    "variant": ("stream_k", "warp_specialized"),
    "BLOCK_M": (16, 32, 64, 128, 256),
    "BLOCK_N": (16, 32, 64, 128, 256),
    "BLOCK_K": (16, 32, 64, 128, 256),
    "num_warps": (1, 2, 4, 8, 16),
    "num_stages": range(1, 17),
    "num_splits": range(1, 65),
    "programs_per_sm": range(17),
}


def _rule(config: Config) -> None:
    """ValueError for what does not go together."""
    if config.programs_per_sm and config.num_splits > 1:
        raise ValueError(
            f"config.num_splits is {config.num_splits} with programs_per_sm {config.programs_per_sm}; programs that "
            "share tiles cut K by themselves: num_splits must be 1"
        )
    if config.variant == "warp_specialized":
        wide = (64, 128, 256) if config.BLOCK_M == 128 else (128,)
        for name, only in (
            ("BLOCK_N", wide),
            ("BLOCK_K", (64,)),
            ("num_warps", (4,)),
            ("programs_per_sm", (0, 1)),
        ):
            if getattr(config, name) not in only:
                raise ValueError(
                    f"config.{name} is {getattr(config, name)}; warp_specialized with BLOCK_M {config.BLOCK_M} takes "
                    f"{' or '.join(map(str, only))}"
                )


PARAMETERS = Parameters(Config, ALLOWED, _rule)
normalise, normalised = PARAMETERS.normalise, PARAMETERS.normalised
