"""The config of a product's launch, and what its values may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..parameters import Parameters


class Config(NamedTuple):
    """One setting of all launch parameters of `matmul`.

    variant       vector (one or two rows of x at a time, without the matrix unit) | stream_k | stream_k_tma (the same
                  with tensor descriptors, Hopper) | warp_specialized (Hopper). On other GPUs, and where descriptors can
                  not read the tensors, stream_k runs in place of the last two
    BLOCK_M, BLOCK_N, BLOCK_K  rows of x, rows of the weight and columns of both in a step. warp_specialized has two
                  consumers, or one where BLOCK_M is 64 but BLOCK_N not 128, or 32 and 64
    num_warps     of a program; of each consumer in warp_specialized, where it is 4
    num_stages    steps that are loaded ahead; fewer where they have no room. vector with 1: through no shared memory
    num_splits    parts that the K of each tile is cut into; 0, beside programs_per_sm: K is streamed
    programs_per_sm  where not 0, num_splits follows from it: tiles go round so many programs a processor, and the K of
                  those that would not is cut into as many parts as keep all busy. With num_splits 0, and one row of
                  tiles, those programs share it evenly instead ("stream K"), each the end of one tile and the start
                  of the next
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
    "variant": ("vector", "stream_k", "stream_k_tma", "warp_specialized"),
    "BLOCK_M": (1, 2, 16, 32, 64, 128, 256),
    "BLOCK_N": (4, 8, 16, 32, 64, 80, 96, 128, 144, 160, 192, 256),
    "BLOCK_K": (16, 32, 64, 128, 256, 512),
    "num_warps": (1, 2, 4, 8, 16),
    "num_stages": range(1, 17),
    "num_splits": range(1025),
    "programs_per_sm": range(17),
}
# BLOCK_N of warp_specialized by BLOCK_M.
WIDTHS = {
    32: (64, 128),
    64: (64, 80, 96, 128, 144, 160, 256),
    128: (64, 96, 128, 160, 192, 256),
}


def _rule(config: Config) -> None:
    """ValueError for what does not go together."""
    if (config.num_splits > 1 and config.programs_per_sm) or (
        not config.num_splits and not config.programs_per_sm
    ):
        raise ValueError(
            f"config.num_splits is {config.num_splits} with programs_per_sm {config.programs_per_sm}; K is cut into "
            "num_splits parts, or as programs_per_sm asks, with num_splits 1 or, for a stream, 0"
        )
    for name, only in _taken(config).items():
        if getattr(config, name) not in only:
            raise ValueError(
                f"config.{name} is {getattr(config, name)}; {config.variant} with BLOCK_M {config.BLOCK_M} takes "
                f"{' or '.join(map(str, only))}"
            )


def _taken(config: Config) -> Mapping[str, tuple[int, ...]]:
    """Values of what a variant does not take as ALLOWED has it."""
    rows = (16, 32, 64, 128, 256)
    if config.variant == "vector":
        return {
            "BLOCK_M": (1, 2),
            "BLOCK_N": (4, 8, 16),
            "BLOCK_K": (256, 512),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3, 4),
            "num_splits": (1,),
            "programs_per_sm": (0,),
        }
    if config.variant == "warp_specialized":
        return {
            "BLOCK_M": rows,
            "BLOCK_N": WIDTHS.get(config.BLOCK_M, (128,)),
            "BLOCK_K": (64,),
            "num_warps": (4,),
            "programs_per_sm": (0, 1),
        }
    return {"BLOCK_M": rows, "BLOCK_N": (16, 32, 64, 128, 256), "BLOCK_K": (16, 32, 64, 128, 256)}


PARAMETERS = Parameters(Config, ALLOWED, _rule)
normalise, normalised = PARAMETERS.normalise, PARAMETERS.normalised
