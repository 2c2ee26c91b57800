"""From the programs that a config wants to the parts that keys are cut into.

A selector cannot learn a number of parts for every batch; it learns how many programs should run per processor, and
the launch divides. Longer sequences have more parts of one length: a batch whose longest sequence is twice the mean
has half as many programs as parts times sequences, so the mean length enters too.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import Any

from .call import Call, remember
from .defaults import Config

# Parts that are launched: few enough that a tuner meets each of them often. A wish goes to the nearest, by ratio.
SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
_EDGES = tuple((a * b) ** 0.5 for a, b in pairwise(SEGMENTS))


def block_count(variant: str, block_q: int, num_seqs: int, tokens: int, max_q: int) -> int:
    """Sequences where each has one Q block, else the upper bound of Q blocks that the kernels number through."""
    if max_q <= block_q and variant not in ("q_block", "mixed", "warp_specialized"):
        return num_seqs
    if num_seqs == 1:
        return -(-tokens // block_q)
    return tokens // block_q + num_seqs


def block_rows(block_m: int, group: int) -> int:
    """Rows of a Q block: BLOCK_M, or the query heads of a KV head where they are more, as a power of two."""
    return max(block_m, 1 << (group - 1).bit_length(), 16)


@lru_cache(maxsize=4096)
def cutter(config: Any, group: int, heads_kv: int, processors: int) -> Callable[..., Config]:
    """(num_seqs, tokens, max_q, max_k, total_k) -> the config with as many parts as give its programs_per_sm.

    group: query heads per KV head; processors: multiprocessors of the device. Of the batch: new tokens, new and all
    tokens of its longest sequence, all tokens. Written for speed, since every launch asks: with `cut` 0.4 us.
    """
    block_q = block_rows(config.BLOCK_M, group) // group
    variant, tile = config.variant, config.TILE_SIZE
    # up to so many new tokens a sequence counts once, as in `block_count`; `mixed` cuts the decodes alone
    once = inf if variant == "mixed" else block_q if variant == "split_kv" else 0
    programs = config.programs_per_sm * processors / heads_kv
    choices = tuple(with_segments(config, segments) for segments in SEGMENTS)

    def choose(num_seqs: int, tokens: int, max_q: int, max_k: int, total_k: int) -> Config:
        blocks = num_seqs
        if max_q > once:
            blocks = block_count(variant, block_q, num_seqs, tokens, max_q)
        wanted = programs * num_seqs * max_k / (blocks * total_k or 1)
        most = max_k / tile
        return choices[bisect(_EDGES, wanted if wanted < most else most)]

    return choose


_cutters: dict[tuple[int, int], tuple[Any, Callable[..., Config]]] = {}


def cut(config: Any, call: Call) -> Config:
    """The config with `num_segments` in place of `programs_per_sm`."""
    layout, max_k, total_k = call.layout, call.max_k, call.total_k
    if call.left >= 0:
        max_k = min(max_k, call.left + 1 + config.TILE_SIZE)
        total_k = min(total_k, layout.num_seqs * max_k)
    key = (id(config), layout.kind)  # the config is kept, so that its id stays its own
    found = _cutters.get(key)
    if found is None:
        made = cutter(config, layout.heads // layout.heads_kv, layout.heads_kv, layout.processors)
        found = remember(_cutters, key, (config, made))
    return found[1](layout.num_seqs, layout.tokens, call.max_q, max_k, total_k)


def with_segments(config: Any, segments: int) -> Config:
    """Keys that are not cut need no scratch: `split_kv` is then `q_block`."""
    given = {name: getattr(config, name) for name in Config._fields if hasattr(config, name)}
    variant = "q_block" if config.variant == "split_kv" and segments == 1 else config.variant
    return Config(**given | {"variant": variant, "num_segments": segments, "programs_per_sm": 0})
