"""Into how many parts warp_specialized cuts keys: as many as end its programs soonest, by an estimate.

Programs take items, Q blocks or parts of them, as they become free. They end together where items are many; where the
longest are hardly more than the programs, or one of them is longer than all that a program else does, some wait. More
parts are shorter, but each costs the start of a pipeline, and any at all a second launch.

Costs are in keys: as much time as so many keys of a block take. Fitted to 16 batches of one H200 without windows, heads
of 64 to 256, each in one to twelve parts, in tiles of 64 and of 128 keys. Over these and 13 more, the worst of 280
beside FlashAttention-3, the parts that the estimate chooses take 1.02 of the best parts' time in the mean, one part
1.27, as many as give a program each 1.10.
"""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

# In keys of a Q block that take as long: an item ITEM_KEYS and ITEM_TIME / size of a head, the second launch
# LAUNCH_TIME / size, and there each part of the longest sequence PART_TIME / size.
ITEM_KEYS = 416
ITEM_TIME = 14_000
LAUNCH_TIME = 52_000
PART_TIME = 5_000
# Fewer parts are taken where more are no better than this.
CLOSE = 1.02
# Programs that have several items wait for the last one by this part of an item in the mean: they are not in order of
# their lengths.
WAITING = 3


class Blocks(NamedTuple):
    """Q blocks of a KV head: how many, and the keys that the first of a sequence sees, and the last."""

    number: float
    near: float
    far: float


NONE = Blocks(0, 0.0, 0.0)


class Costs(NamedTuple):
    """In keys of heads of a size: of an item, of the second launch, and there of each part."""

    item: float
    launch: float
    part: float


def costs_of(size: int) -> Costs:
    """size: of a head."""
    return Costs(ITEM_KEYS + ITEM_TIME / size, LAUNCH_TIME / size, PART_TIME / size)


def fewest_segments(
    longest: Blocks, rest: Blocks, share: float, tile: int, costs: Costs, choices: tuple[int, ...]
) -> int:
    """The least of the choices, ascending from 1, that is close to the best of them. As `times`."""
    found = times(longest, rest, share, tile, costs, choices)
    close = CLOSE * min(found)
    return next(choice for choice, time in zip(choices, found, strict=False) if time <= close)


def times(
    longest: Blocks, rest: Blocks, share: float, tile: int, costs: Costs, choices: tuple[int, ...]
) -> list[float]:
    """When the programs end for each of the choices, ascending from 1, in keys; the last ones, which take ever longer,
    are left out.

    longest, rest: blocks of the longest sequence, whose parts these are, and of the others; share: KV heads to a
    program; tile: keys of one.
    """
    item, launch, part = costs
    n, near, far = longest
    most = far
    if 2 * rest.far > far:  # they end in rounds with the longest, too
        n += rest.number
        near, far = (
            (longest.number * a + rest.number * b) / n for a, b in ((near, rest.near), (far, rest.far))
        )
        rest = NONE
    n_rest, near_rest, far_rest = rest
    long_keys = share * n * (near + far) / 2
    keys = long_keys + share * n_rest * (near_rest + far_rest) / 2
    best, found = inf, []
    for segments in choices:
        each = ceil(most / (segments * tile)) * tile
        # of a block t tiles long ceil(t / each) items; blocks lie evenly between the first and the last
        rounds = share * n * (ceil(near / each) + ceil(far / each)) / 2
        items = rounds + share * n_rest * (ceil(near_rest / each) + ceil(far_rest / each)) / 2
        together = keys + items * item
        if together > best:
            break
        if items > 1:
            together += (keys / items + item) / WAITING
        waiting = (ceil(rounds - 0.02) - rounds) * (near / ceil(near / each) + item)
        time = max(together, long_keys + rounds * item + waiting, each + item)
        time += launch + part * segments if segments > 1 else 0.0
        found.append(time)
        best = min(best, time)
    return found
