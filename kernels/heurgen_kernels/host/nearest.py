"""The nearest config that a call and a GPU can run."""

from __future__ import annotations

from typing import NamedTuple

import triton

from ..config import Config
from .call import Call, specialisable
from .descriptors import descriptor_sources
from .hardware import Device
from .segments import block_rows

# Bytes of a program's shared memory that what is no tile may take: barriers, sums of rows.
RESERVED = 1024


class Fit(NamedTuple):
    """What warp_specialized launches without a spill in its loop over the keys: up to so many rows, and keys of a tile,
    for heads up to head_size, with at most `many` of: keys that are cut, keys of both pages and new tokens at hand, a
    window, a soft cap; and at most `scored` of the last two.
    """

    rows: int
    tile: int
    head_size: int
    many: int
    scored: int


# The largest blocks first. Where three consumers do not fit, two are faster too.
FITTING = (Fit(192, 128, 64, 1, 0), Fit(128, 128, 128, 1, 1), Fit(128, 64, 128, 4, 2))


def adapted(config: Config, call: Call) -> Config:
    """The config, or the nearest one that this call and GPU can run: `specialises`, `unspilled`, `in_registers`,
    `fitted`.
    """
    if config.variant == "warp_specialized" and not specialises(config, call):
        config = unspecialised(call.q.shape[2])
    if config.variant == "mixed" and config.BLOCK_M > 64:
        config = in_one_launch(config, call.q.shape[2])
    both = call.new_k is not None and call.prefix
    config = unspilled(config, call.q.shape[2], both, call.left >= 0, call.softcap > 0)
    return fitted(for_device(config, call.layout.device), call)


def for_device(config: Config, device: Device) -> Config:
    """The config, or what runs in its place on a GPU whose matrix instructions read registers alone."""
    return in_registers(config) if device.from_registers else config


def in_one_launch(config: Config, head_size: int) -> Config:
    """What `mixed` is where it does not take prompts and decodes apart."""
    return config._replace(BLOCK_M=64, TILE_SIZE=64 if head_size <= 128 else 32, num_stages=2)


def unspecialised(head_size: int) -> Config:
    """What runs where warp_specialized cannot."""
    return Config("q_block", 64, 64 if head_size <= 128 else 32, 4, 2)


def unspilled(config: Config, head_size: int, both: bool, window: bool, softcap: bool) -> Config:
    """The config, cut to the largest blocks that FITTING has for the call; two stages of 64 keys for heads wider than
    128, of which more have no room in the shared memory.
    """
    if config.variant != "warp_specialized":
        return config
    if head_size > 128:
        return Config("warp_specialized", 128, 64, 4, 2, config.num_segments)
    scored = window + softcap
    many = scored + both + (config.num_segments > 1)
    fit = next(
        fit for fit in FITTING if head_size <= fit.head_size and many <= fit.many and scored <= fit.scored
    )
    rows, tile = min(config.BLOCK_M, fit.rows), min(config.TILE_SIZE, fit.tile)
    if (rows, tile) == (config.BLOCK_M, config.TILE_SIZE):
        return config
    return config._replace(BLOCK_M=rows, TILE_SIZE=tile, num_stages=2 if tile == 128 else 3)


def in_registers(config: Config) -> Config:
    """Blocks that spill where matrix instructions read registers alone: 64 rows and 8 warps for wide tiles."""
    if config.BLOCK_M < 32 or (config.BLOCK_M <= 64 and config.TILE_SIZE < 64):
        return config
    variant = "q_block" if config.variant == "warp_specialized" else config.variant
    return config._replace(variant=variant, BLOCK_M=64, TILE_SIZE=64, num_warps=8, num_stages=2)


def fitted(config: Config, call: Call) -> Config:
    """The config, or the nearest one that has room in the shared memory of a device with little of it: fewer stages,
    then tiles of fewer keys.
    """
    room = call.layout.device.room
    while room is not None and shared_memory(config, call) > room - RESERVED:
        if config.num_stages > 2:
            config = config._replace(num_stages=config.num_stages - 1)
        elif config.TILE_SIZE > 16:
            config = config._replace(TILE_SIZE=config.TILE_SIZE // 2)
        else:
            break
    return config


def shared_memory(config: Config, call: Call) -> int:
    """Bytes that a program takes at the most, but for RESERVED and `warp_specialized`: Q, the weights of a tile's
    values, and the tiles of K and V that are loaded ahead, with the numbers of their pages. Without descriptors pages
    are loaded half as far ahead, since their numbers come first. New K and V lie where cached ones of 16 bits did;
    beside fp8 pages they may take memory of their own.
    """
    d_pad, tile = padded(call.q.shape[2]), config.TILE_SIZE
    ahead = max(config.num_stages - 1, 1)
    pages = ahead if call.layout.device.descriptors else max(ahead // 2, 1)
    cached = pages * tile * (2 * d_pad * call.k.element_size() + 4) if call.prefix else 0
    new = 0 if call.new_k is None else ahead * tile * 2 * d_pad * call.new_k.element_size()
    loaded = cached + new if call.layout.fp8 else max(cached, new)
    width: int = max(call.q.element_size(), 2)
    return int(loaded) + width * block_rows(config.BLOCK_M, call.layout.group) * (d_pad + tile)


def specialises(config: Config, call: Call) -> bool:
    """Whether warp_specialized can run the call: `specialisable`, tensors that descriptors can read, and scales for all
    keys alike.
    """
    if call.new_k is not None and not (call.k_scale is None and call.v_scale is None):
        return False
    if not specialisable(call, call.layout.device, call.k.dtype):
        return False
    pages, new = descriptor_sources(call, config, padded(call.q.shape[2]), 16)
    return (pages or not call.prefix) and (new or call.new_k is None)


def padded(head_size: int) -> int:
    """The power of two that a tile of K or V is wide."""
    return max(int(triton.next_power_of_2(head_size)), 16)
