"""From the programs that a config wants to the parts that keys are cut into.

A selector cannot learn a number of parts for every batch; it learns how many programs should run per processor, and
the launch divides. Longer sequences have more parts of one length: a batch whose longest sequence is twice the mean
has half as many programs as parts times sequences, so the mean length enters too. In a batch that mixes decodes and a
chunk of a long prompt most Q blocks are of the longest sequence, each of which is cut: they are counted apart.
warp_specialized has as many programs as processors. Where each sequence has as many new tokens, its parts are those
that end them soonest (`makespan.py`). Else the host does not know which sequence has how many: where that matters, the
kernel counts Q blocks on the device.
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
from .makespan import NONE, Blocks, costs_of, fewest_segments

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


# (num_seqs, tokens, max_q, max_k, total_k, left) -> (a config with num_segments, programs that its parts are to give,
# see `Call.programs`). Of the batch: new tokens, new and all tokens of its longest sequence, all tokens; its window.
Chooser = Callable[[int, int, int, int, int, int], tuple[Config, int]]
_cutters: Cache[tuple[Config, int, int, int, int], Chooser] = shared()
_cuts: Cache[tuple[int, int], tuple[Config, Chooser]] = shared()
# What each part of a block's keys costs beside them, in keys of heads of 128, where there are so many parts: (constant,
# of each part).
PART_COST = (680, 130)


def cutter(config: Config, group: int, heads_kv: int, size: int, processors: int) -> Chooser:
    """What gives the config as many parts as make its programs_per_sm.

    group: query heads per KV head; size: of a head; processors: multiprocessors of the device. Written for speed, since
    every launch asks: 0.6 us, where the kernel is to count blocks 1.7; of as many new tokens in each sequence 0.3, and
    5 where their lengths are new (two cores of a server, no GPU).
    """
    key = (config, group, heads_kv, size, processors)
    return _cutters.get(key) or _cutters.keep(key, _cutter(*key))


def least_keys(block_q: int, num_seqs: int, tokens: int, max_k: int, total_k: int) -> float:
    """Keys that all Q blocks of so many sequences, two at the least, read at the fewest: where the longest has as few
    new tokens as can be, which is what is left of it if all cached tokens are its own, and the others have theirs
    evenly. A sequence's keys are read once at the least, and its new tokens by each of its blocks.
    """
    rest = total_k - max_k
    new = min(max(tokens - rest, 1), tokens)
    return -(-new // block_q) * max_k + max(rest, (tokens - new) ** 2 / (block_q * (num_seqs - 1)))


def most_parts(programs: float, max_k: int, read: float, fixed: float) -> float:
    """Parts of the longest sequence that its keys are worth, if all Q blocks read so many; 1 where they save less than
    twice their cost (fixed: `fixed_cost`), since the blocks may read more: replayed with what was measured of 540
    batches of a server that is as good as once the cost, with which a sixth more are cut for nothing.
    """
    parts = min(programs * max_k / read, (max_k / PART_COST[1]) ** 0.5)
    saved = max_k - max(max_k / parts, read / programs)
    return parts if saved > 2 * (fixed + PART_COST[1] * parts) else 1


def fixed_cost(size: int) -> float:
    """The first number of PART_COST, of heads of another size: as much time, in which as many more keys are read as
    heads are narrower.
    """
    return PART_COST[0] * 128 / size


def _cutter(config: Config, group: int, heads_kv: int, size: int, processors: int) -> Chooser:
    block_q = block_rows(config.BLOCK_M, group) // group
    variant, tile = config.variant, config.TILE_SIZE
    # up to so many new tokens a sequence counts once, as in `block_count`; `mixed` cuts the decodes alone
    once = inf if variant == "mixed" else block_q if variant == "split_kv" else 0
    asked = config.programs_per_sm * processors
    programs = asked / heads_kv
    # parts of one sequence: about four programs of all its KV heads to a processor, a few tokens' rows to a part
    limit = max(64, 512 // heads_kv)
    choices = tuple(with_segments(config, segments) for segments in SEGMENTS)
    fixed = fixed_cost(size)
    specialised = variant == "warp_specialized"
    soonest = _soonest(config, block_q, heads_kv / processors, size, limit)

    def choose(
        num_seqs: int, tokens: int, max_q: int, max_k: int, total_k: int, left: int
    ) -> tuple[Config, int]:
        if specialised and (num_seqs == 1 or tokens == num_seqs * max_q):
            return soonest(num_seqs, tokens, max_k, total_k, left), 0
        if left >= 0:
            max_k, total_k = seen_keys(tile, left, num_seqs, max_k, total_k)
        # blocks of the longest sequence, and of the others at their mean
        blocks, deep = num_seqs, 1
        if max_q > once:
            blocks, deep = block_count(variant, block_q, num_seqs, tokens, max_q), -(-max_q // block_q)
        others = (blocks - deep) * (total_k - max_k) / (num_seqs - 1) if num_seqs > 1 else 0
        wanted = programs * max_k / (deep * max_k + others or 1)
        most = min(max_k / tile, limit)
        found = bisect(_EDGES, wanted if wanted < most else most)
        # A window leaves no sequence much longer than others: nothing gained (10 batches of one H200, 0.77 to 1.06).
        if specialised and left < 0 and max_k > 4 * fixed:
            wanted = most_parts(programs, max_k, least_keys(block_q, num_seqs, tokens, max_k, total_k), fixed)
            if (bound := bisect(_EDGES, wanted if wanted < most else most)) > found:
                return choices[bound], asked
        return choices[found], 0

    return choose


def _soonest(
    config: Config, block_q: int, share: float, size: int, limit: int
) -> Callable[[int, int, int, int, int], Config]:
    """(num_seqs, tokens, max_k, total_k, left) of sequences of as many new tokens each -> the config with as many
    segments, `limit` at the most, as end its programs soonest. share: KV heads to a program.
    """
    tile, costs = config.TILE_SIZE, costs_of(size)
    numbers = SEGMENTS[: bisect(SEGMENTS, limit)]
    choices = {segments: with_segments(config, segments) for segments in numbers}
    chosen: Cache[tuple[int, ...], Config] = Cache()

    def found(num_seqs: int, tokens: int, max_k: int, total_k: int, left: int) -> Config:
        longest, rest = even_blocks(block_q, num_seqs, tokens // num_seqs, max_k, total_k, left, tile)
        return choices[fewest_segments(longest, rest, share, tile, costs, numbers)]

    def choose(*batch: int) -> Config:
        return chosen.get(batch) or chosen.keep(batch, found(*batch))

    return choose


def even_blocks(
    block_q: int, num_seqs: int, new: int, max_k: int, total_k: int, left: int, tile: int
) -> tuple[Blocks, Blocks]:
    """Q blocks of the longest sequence, and of the others, which have as many new tokens each and the keys that are
    left, evenly.
    """
    seen = left + block_q + tile if left >= 0 else max_k
    each = -(-new // block_q)
    rest = NONE
    if num_seqs > 1:
        rest = blocks_at((num_seqs - 1) * each, block_q, new, (total_k - max_k) / (num_seqs - 1), seen)
    return blocks_at(each, block_q, new, max_k, seen), rest


def blocks_at(number: int, block_q: int, new: int, keys: float, seen: int) -> Blocks:
    """Q blocks of sequences of so many new tokens, and new and cached ones. seen: keys of a block at the most."""
    far = max(min(keys, seen), 1)
    return Blocks(number, max(min(keys - new + block_q, far), 1), far)


def uncut(tile: int, max_k: float) -> bool:
    """Whether `cutter` cuts no batch of so few keys, in tiles of so many."""
    return bool(max_k / tile < _EDGES[0])


_prompts: Cache[tuple[Any, ...], int] = shared()


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
    """(keys of the longest sequence, of all sequences) that a tile of a new token's window reaches."""
    max_k = min(max_k, left + 1 + tile)
    return max_k, min(total_k, num_seqs * max_k)


def cut(config: Config, call: Call) -> Config:
    """The config with `num_segments` in place of `programs_per_sm`; sets the call's `programs`."""
    layout = call.layout
    key = (id(config), layout.kind)  # equal configs are one object, see `config.normalise`
    found = _cuts.get(key)
    if found is None:
        made = cutter(config, layout.group, layout.heads_kv, call.q.shape[2], layout.device.processors)
        found = _cuts.keep(key, (config, made))
    config, call.programs = found[1](
        layout.num_seqs, layout.tokens, call.max_q, call.max_k, call.total_k, call.left
    )
    return config


def fewer_segments(segments: int, room: int) -> int:
    """So many parts, or where there is no room for them the most of SEGMENTS that have room, 1 at the least."""
    return segments if segments <= room else SEGMENTS[max(bisect(SEGMENTS, room) - 1, 0)]


def with_segments(config: Config, segments: int) -> Config:
    """Keys that are not cut need no scratch: `split_kv` is then `q_block`."""
    variant = "q_block" if config.variant == "split_kv" and segments == 1 else config.variant
    return config._replace(variant=variant, num_segments=segments, programs_per_sm=0)
