"""Mixed batches over fp8 pages on Hopper: prompts and decodes in launches of their own.

warp_specialized is the fastest for prompts but reads 16-bit pages, of which a copy is made; for decodes, which read
each key once, that would cost more than they take: split_kv reads fp8 pages as they are, in small Q blocks, and where
sequences may have more new tokens than these hold (drafts that are checked, ends of prompts) in larger ones too. The
host does not know which sequences are which: each kernel leaves the others out, by what it reads of cu_seqlens_q, and
the copy's kernel numbers the prompts' Q blocks for warp_specialized. Where the copy may be too small for all prompts,
those that it has no room for have no Q blocks there, and one more launch, of q_block, reads their fp8 pages.

Launches of split_kv need nothing of those ahead of them: each begins when all programs of the one before have begun, on
the processors that these leave, and its last program ends after them (`device/dependent.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..caches import Cache, shared
from ..config import Config
from .call import Call
from .nearest import unspecialised
from .plan import alignment
from .segments import SEGMENTS, block_rows, prompt_segments
from .widen import widened

# Of decodes, by head size up to so many: (keys of a tile, warps, stages). One H200, 32/8 heads of 128, best of three.
DECODES = {128: (16, 1, 5), 256: (32, 2, 3)}
# Where the query heads of a KV head are more than a small block's rows.
MANY_HEADS = (64, 4, 2)
# Of sequences between decodes and prompts: (rows, keys of a tile, warps, stages), and programs for each processor: the
# best in the fp8 logs of those that hold such a sequence in one block.
BETWEEN = {128: (64, 64, 4, 3), 256: (32, 64, 4, 3)}
BETWEEN_PROGRAMS = 3


class Parts(NamedTuple):
    """few, more: new tokens of a decode at the most, and of a sequence between decodes and prompts; block_q: of a
    prompt's Q block; prompts: configs by num_segments.
    """

    few: int
    more: int
    block_q: int
    prompts: dict[int, Config]
    decodes: Config
    between: Config


_parts: Cache[tuple[Config, int], Parts] = shared()


def taken_apart(config: Config) -> bool:
    """Whether `mixed` takes prompts and decodes over pages that can be copied apart."""
    return config.variant == "mixed" and config.BLOCK_M > 64


def separable(call: Call, config: Config) -> bool:
    """Whether the prompts and the decodes of a call are taken apart, where a copy can be made."""
    return taken_apart(config) and call.layout.copied


def crowded(config: Config) -> Config:
    """What a config of warp_specialized is where a copy of all sequences' keys would be too large."""
    return Config("mixed", 128, config.TILE_SIZE, 4, config.num_stages, 1, 4)


def prompts_alone(config: Config) -> Config:
    """What a separable config is where no pages are read."""
    return Config("warp_specialized", 128, config.TILE_SIZE, 4, config.num_stages)


def apart(call: Call, config: Config) -> list[tuple[Call, Config]] | None:
    """(The call over a copy of the prompts' keys, which `widen` fills; its config), the same of what may lie between
    prompts and decodes, of decodes, and of the prompts that the copy may have no room for: of a separable call that
    reads pages. None where no copy can be made.

    config: of the prompts, whose keys are cut as `prompt_segments` says, but for programs_per_sm, which is the
    decodes'; without it all are cut into num_segments parts.
    """
    layout = call.layout
    key = (config, layout.kind)
    few, more, block_q, prompts, decodes, between = _parts.get(key) or _parts.keep(
        key, parts_of(config, layout.group, call.q.shape[2])
    )
    most = more if some_between(call, few, more) else few
    copy = widened(call, most, block_q)
    if copy is None:
        return None
    segments = prompt_segments(call, block_q) if config.programs_per_sm else config.num_segments
    launches = [(copy, prompts[segments])]
    if most > few:
        launches.append((part_of(call, few, more), between))
    launches.append((part_of(call, 0, few), decodes))
    if copy.wide.room.limited:
        rest = part_of(call, most, 0)
        rest.blocks = copy.wide.blocks()
        launches.append((rest, unspecialised(call.q.shape[2])))
    return launches


def batch_key(call: Call, config: Config, addresses: tuple[int, ...]) -> tuple[Any, ...]:
    """Calls of one key, such as a batch's in the layers of a model, have the same launches: all that `apart` and what
    is planned of its parts ask of a call, as numbers. addresses: `plan.addresses_of`.
    """
    return (
        config, call.layout, call.max_q, call.max_k, call.total_k, call.told, call.left, call.right >= 0,
        call.softcap > 0, call.prefix, call.programs, alignment(call, addresses),
    )  # fmt: skip


def some_between(call: Call, few: int, more: int) -> bool:
    """Whether sequences of more than `few` and at most `more` new tokens are to be expected: the longest one, or one of
    the others if all have some. Where an empty one hides another, prompts' launches take it.
    """
    layout = call.layout
    spare = layout.tokens - call.max_q - (layout.num_seqs - 1)
    return few < more and (spare >= few or few < call.max_q <= more)


def part_of(call: Call, above: int, upto: int) -> Call:
    """The call, over its fp8 pages, for sequences of more than `above` and at most `upto` new tokens, 0: any number."""
    part = Call(
        call.q, call.k, call.v, call.table, call.cu, call.lens, call.out, upto or call.max_q, call.max_k, call.scale,
        call.new_k, call.new_v, call.left, call.right, call.softcap, call.alibi, call.sinks, call.q_scale, call.k_scale,
        call.v_scale, call.out_scale, total_k=call.total_k, above=above, upto=upto,
    )  # fmt: skip
    part.layout = call.layout
    return part


def parts_of(config: Config, group: int, head_size: int) -> Parts:
    rows, size = block_rows(16, group), 128 if head_size <= 128 else 256
    tile, warps, stages = DECODES[size] if rows == 16 else MANY_HEADS
    prompts = prompts_alone(config)
    between = Config("split_kv", *BETWEEN[size], config.num_segments, BETWEEN_PROGRAMS)
    return Parts(
        rows // group,
        max(BETWEEN[size][0], rows) // group,
        128 // group,
        {segments: prompts._replace(num_segments=segments) for segments in {*SEGMENTS, config.num_segments}},
        Config("split_kv", 16, tile, warps, stages, config.num_segments, config.programs_per_sm),
        between if config.programs_per_sm else between._replace(programs_per_sm=0),
    )
