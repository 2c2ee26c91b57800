"""From the programs that a config wants to the parts that keys are cut into.

A selector cannot learn a number of parts for every batch; it learns how many programs should run per processor, and
the launch divides. Longer sequences have more parts of one length: a batch whose longest sequence is twice the mean
has half as many programs as parts times sequences, so the mean length enters too. In a batch that mixes decodes and a
chunk of a long prompt most Q blocks are of the longest sequence, each of which is cut: they are counted apart.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from itertools import pairwise
from math import ceil, gcd, inf
from typing import Any

from ..caches import Cache, shared
from ..config import Config
from .call import Call

# Parts that are launched: few enough that a tuner meets each of them often. A wish goes to the nearest, by ratio.
SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_EDGES = tuple((a * b) ** 0.5 for a, b in pairwise(SEGMENTS))


def block_count(variant: str, block_q: int, num_seqs: int, tokens: int, max_q: int) -> int:
    """Sequences where each has one Q block, else the upper bound of Q blocks that the kernels number through."""
    if max_q <= block_q and variant not in ("q_block", "mixed", "warp_specialized"):
        return num_seqs
    if num_seqs == 1:
        return -(-tokens // block_q)
    return tokens // block_q + num_seqs


def block_rows(block_m: int, group: int) -> int:
    """Rows of a Q block: BLOCK_M, or where the query heads of a KV head are more, these as a power of two."""
    return max(block_m, 1 << (group - 1).bit_length(), 16)


def heads_of_block(block_m: int, group: int) -> int:
    """Query heads of a KV head that a Q block of a prompt holds: all, unless these leave more than a twentieth of its
    rows empty; then the most that divide both. Of 12 heads 128 rows hold 10 tokens, 8 rows empty, or 32 tokens of 4.
    """
    whole = block_m // group * group
    return group if 20 * whole >= 19 * block_m else gcd(group, block_m)


def spread(call: Call, config: Config) -> bool:
    """Whether the query heads of a KV head may lie in several Q blocks of warp_specialized, see `heads_of_block`: in
    prompts, where tokens are many. Each block reads all keys: decodes, of which such a batch has few, take as many
    times as long. Under a window more tokens in a block see more keys.
    """
    layout, max_q = call.layout, call.max_q
    group = layout.group
    if config.variant != "warp_specialized" or not group & (group - 1) or call.left >= 0 or call.above:
        return False
    return max_q * group > 128 and (layout.num_seqs == 1 or layout.num_seqs * max_q <= 2 * layout.tokens)


_cutters: Cache[tuple[Config, int, int, int], Callable[..., Config]] = shared()
_cuts: Cache[tuple[int, int], tuple[Config, Callable[..., Config]]] = shared()


def cutter(config: Config, group: int, heads_kv: int, processors: int) -> Callable[..., Config]:
    """(num_seqs, tokens, max_q, max_k, total_k) -> the config with as many parts as give its programs_per_sm.

    group: query heads per KV head; processors: multiprocessors of the device. Of the batch: new tokens, new and all
    tokens of its longest sequence, all tokens. Written for speed, since every launch asks: with `cut` 0.4 us.
    """
    key = (config, group, heads_kv, processors)
    return _cutters.get(key) or _cutters.keep(key, _cutter(*key))


def longest_new(tokens: int, max_q: int, max_k: int, total_k: int) -> int:
    """New tokens of the longest sequence: what is left of it where all cached tokens are its own, if these can be, else
    the most that a sequence has. Exact for one sequence, and for the rest of a long prompt beside new ones: the last
    129 tokens of 17,853, cut as if they were as many as the 145 of a prompt beside them, keep the others waiting.
    """
    new = max_k - (total_k - tokens)
    return new if 0 < new < max_q else max_q


def _cutter(config: Config, group: int, heads_kv: int, processors: int) -> Callable[..., Config]:
    block_q = block_rows(config.BLOCK_M, group) // group
    variant, tile = config.variant, config.TILE_SIZE
    # up to so many new tokens a sequence counts once, as in `block_count`; `mixed` cuts the decodes alone
    once = inf if variant == "mixed" else block_q if variant == "split_kv" else 0
    programs = config.programs_per_sm * processors / heads_kv
    few = 2 * processors / heads_kv
    # parts of one sequence: about four programs of all its KV heads to a processor, a few tokens' rows to a part
    limit = max(64, 512 // heads_kv)
    choices = tuple(with_segments(config, segments) for segments in SEGMENTS)

    def choose(num_seqs: int, tokens: int, max_q: int, max_k: int, total_k: int) -> Config:
        # blocks of the longest sequence, and of the others at their mean
        blocks, deep = num_seqs, 1
        if max_q > once:
            blocks, deep = block_count(variant, block_q, num_seqs, tokens, max_q), -(-max_q // block_q)
            if deep < few:  # more keep all processors busy, however long they are
                deep = -(-longest_new(tokens, max_q, max_k, total_k) // block_q)
        others = (blocks - deep) * (total_k - max_k) / (num_seqs - 1) if num_seqs > 1 else 0
        wanted = programs * max_k / (deep * max_k + others or 1)
        most = min(max_k / tile, limit)
        return choices[bisect(_EDGES, wanted if wanted < most else most)]

    return choose


def uncut(tile: int, max_k: float) -> bool:
    """Whether `cutter` cuts no batch of so few keys, in tiles of so many."""
    return bool(max_k / tile < _EDGES[0])


_prompts: Cache[tuple[Any, ...], int] = shared()
# What each part of a block's keys costs beside them, in keys, where there are so many parts: (constant, of each part).
PART_COST = (680, 130)


def prompt_segments(call: Call, block_q: int) -> int:
    """Parts that warp_specialized cuts the keys of prompts into where the batch's decodes are another launch's, so that
    its rounds end together: a chunk of 700 tokens has 176 blocks of 128 rows at 32/8 heads, for 132 processors.
    """
    layout = call.layout
    key = (layout, call.max_q, call.max_k, call.left)
    return _prompts.get(key) or _prompts.keep(key, _prompt_segments(call, block_q))


def _prompt_segments(call: Call, block_q: int) -> int:
    """As if the longest sequence were a prompt; where a decode is, the kernel cuts prompts into fewer parts."""
    layout = call.layout
    rest = max(layout.tokens - call.max_q - (layout.num_seqs - 1), 0)  # new tokens of further prompts
    rounds = (-(-call.max_q // block_q) + -(-rest // block_q)) * layout.heads_kv / layout.device.processors
    far, near = (
        call.max_k,
        call.max_k - call.max_q,
    )  # keys of the longest prompt's last block, and of its first
    if call.left >= 0:
        far, near = min(far, call.left + 1 + block_q), min(near, call.left + 1)

    def cost(parts: int) -> float:
        more = PART_COST[0] + PART_COST[1] * parts if parts > 1 else 0
        return max(
            ceil(rounds * parts) * (near / parts + more) + rounds * (far - near) / 2, far / parts + more
        )

    return min(SEGMENTS[:7], key=cost)


def seen_keys(tile: int, left: int, num_seqs: int, max_k: int, total_k: int) -> tuple[int, int]:
    """(keys of the longest sequence, of all sequences) that a tile of a new token's window reaches; left < 0: all."""
    if left < 0:
        return max_k, total_k
    max_k = min(max_k, left + 1 + tile)
    return max_k, min(total_k, num_seqs * max_k)


def cut(config: Config, call: Call) -> Config:
    """The config with `num_segments` in place of `programs_per_sm`."""
    layout = call.layout
    max_k, total_k = seen_keys(config.TILE_SIZE, call.left, layout.num_seqs, call.max_k, call.total_k)
    key = (id(config), layout.kind)  # equal configs are one object, see `config.normalise`
    found = _cuts.get(key)
    if found is None:
        made = cutter(config, layout.group, layout.heads_kv, layout.device.processors)
        found = _cuts.keep(key, (config, made))
    return found[1](layout.num_seqs, layout.tokens, call.max_q, max_k, total_k)


def with_segments(config: Config, segments: int) -> Config:
    """Keys that are not cut need no scratch: `split_kv` is then `q_block`."""
    variant = "q_block" if config.variant == "split_kv" and segments == 1 else config.variant
    return config._replace(variant=variant, num_segments=segments, programs_per_sm=0)
