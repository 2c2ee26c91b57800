"""`warm_up`: everything that the selectors can answer for a model, compiled and loaded before the first launch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import torch

from ..api import paged_attention
from ..config import Config, normalise
from ..defaults import GRAPH
from ..device.static_grid import FEW
from ..host.apart import crowded, parts_of, prompts_alone, taken_apart
from ..host.call import DTYPE_NAMES
from ..host.hardware import FP8, Device, device_of
from ..host.nearest import for_device, in_one_launch, padded, unspecialised
from ..host.pages import write_pages
from ..host.plan import SCRATCH_LIMIT, kept_rows, lengths_at_once
from ..host.segments import SEGMENTS, block_rows, fewer_segments, heads_of_block, uncut, with_segments
from ..host.select import FEATURES, NO_WINDOW, bind
from ..host.widen import COPY_LIMIT, PAGE, STEP, page_bytes
from .answers import Range, answers
from .compiling import compile_ahead
from .layouts import Layout, crowd, example, sparse

Kind = TypeVar("Kind")
# Keys from which on no tile is larger: see `uncut`.
MANY_KEYS = 1024


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a warm-up did. launches: kinds of launch it went through; compiled: kernels that were not in Triton's
    cache; seconds of wall time.
    """

    launches: int
    compiled: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest batches, as `warm_up` is told them. ValueError for what is no whole number of 1 and more."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_seqlen: int

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{limit.name} is {value!r}; expected a whole number of 1 and more")


class Graphs(NamedTuple):
    """Of recorded decodes: their configs, and the most new tokens of a sequence; None: as many as one Q block holds."""

    configs: tuple[Config, ...] = ()
    max_seqlen_q: int | None = None

    @classmethod
    def told(cls, configs: Iterable[Any], max_seqlen_q: int | None) -> Graphs:
        """As `warm_up` is told them. ValueError for no configs, and for what is no whole number of 1 and more."""
        if not isinstance(configs, Iterable):
            raise ValueError(f"graphs is {configs!r:.80}; expected a list of configs")
        if max_seqlen_q is not None and not (isinstance(max_seqlen_q, Integral) and max_seqlen_q >= 1):
            raise ValueError(
                f"max_graph_seqlen_q is {max_seqlen_q!r}; expected a whole number of 1 and more, or None"
            )
        return cls(tuple(map(normalise, configs)), max_seqlen_q)


def warm_up(
    layouts: Iterable[Layout],
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    max_seqlen: int,
    heuristics: Any = None,
    graphs: Iterable[Any] = (GRAPH,),
    max_graph_seqlen_q: int | None = None,
    device: torch.device | str | None = None,
    processes: int | None = None,
) -> WarmUp:
    """Compiles all that launches of these layouts can ask for, so that none of them compiles.

    max_num_seqs, max_num_batched_tokens, max_seqlen   sequences and new tokens of a batch, tokens of a sequence (new
                  and cached), at most
    heuristics    as in `paged_attention`
    graphs        configs, of any kind that `paged_attention` takes, that decodes from pages are launched with besides,
                  as under recorded graphs; of layouts with `written` they write new K and V
    max_graph_seqlen_q   new tokens of a sequence in these launches, at most; None: as many as one Q block holds
    device        the current GPU where None
    processes     that compile at the same time; None for as many as there are processors, 1 for this one alone

    Kernels come from Triton's cache on disk where they are in it. Tensors of the later launches must be aligned to 16
    bytes, as torch's and vLLM's are; others compile when they come.

    ValueError for heuristics that do more with their features than compare and compute, for limits and processes below
    1, for layouts that no launch can have, and for graphs that are no configs; RuntimeError where device is None and
    there is no GPU, and where Triton interprets. Triton's own error for the first kernel that does not compile or fit
    the GPU, once all others are there.
    """
    started = time.perf_counter()
    limits = Limits(max_num_seqs, max_num_batched_tokens, max_seqlen)
    layouts = each("layouts", layouts, Layout)
    check(layouts)
    place, decodes = place_of(device), Graphs.told(graphs, max_graph_seqlen_q)
    calls = [call for layout in layouts for call in calls_of(layout, place, limits, heuristics, decodes)]
    made = [partial(paged_attention, **call) for call in calls]
    made += [partial(write_pages, *stored(layout, place)) for layout in layouts if layout.stored]
    return WarmUp(len(made), compile_ahead(made, processes), time.perf_counter() - started)


def each(name: str, given: Any, kind: type[Kind]) -> list[Kind]:
    """What a warm-up is for, each once. ValueError for what is of another type."""
    found: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(one, kind) for one in found):
        raise ValueError(f"{name} is {given!r:.80}; expected a list of {kind.__name__}")
    return list(dict.fromkeys(found))


def check(layouts: Iterable[Layout]) -> None:
    """ValueError for what no launch can have."""
    for layout in layouts:
        heads, heads_kv = layout.num_query_heads, layout.num_kv_heads
        if heads < 1 or heads_kv < 1 or heads % heads_kv:
            raise ValueError(
                f"{heads} query heads do not divide into {heads_kv} KV heads; expected a multiple"
            )
        for name, value in (("head_size", layout.head_size), ("page_size", layout.page_size)):
            if value < 1:
                raise ValueError(f"{name} is {value}; expected 1 or more")


def place_of(device: torch.device | str | None) -> torch.device:
    """What is compiled for: the current GPU where None or no GPU's number is given, by its number, since another may be
    the current one later. RuntimeError where there is none.
    """
    place = torch.device("cuda" if device is None else device)
    if place.type != "cuda" or place.index is not None:
        return place
    if not torch.cuda.is_available():
        raise RuntimeError("there is no GPU that torch can use, and kernels are compiled for one")
    return torch.device("cuda", torch.cuda.current_device())


def calls_of(
    layout: Layout,
    place: torch.device,
    limits: Limits,
    heuristics: Any,
    graphs: Graphs,
) -> list[dict[str, Any]]:
    """Keywords of `paged_attention` for every kind of launch that calls of a layout within the limits can ask for."""
    seqs, tokens, longest = limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_seqlen
    gpu = device_of(place)
    select = bind(heuristics, gpu.vendor, (layout.cache_dtype or layout.dtype) in FP8, gpu)
    batch = {
        "num_seqs": (1, seqs), "total_query_tokens": (1, tokens), "max_seqlen_k": (1, longest),
        "total_seqlen_k": (1, seqs * longest), "avg_seqlen_q": (0, tokens),
    }  # fmt: skip
    calls = []
    for has_prefix in ((None,) if layout.pages else ()) + layout.fresh:
        fresh = has_prefix is not None
        least = layout.fresh_from if fresh else 1
        if least > tokens:
            continue
        call = {**example(layout, place, fresh), "has_prefix": has_prefix, "heuristics": heuristics}
        features = {**batch, **features_of(layout, gpu, fresh), "max_seqlen_q": (least, tokens)}
        alone = has_prefix is False
        if alone:  # new tokens are all keys
            features |= {"max_seqlen_k": (least, min(tokens, longest)), "total_seqlen_k": (1, tokens)}
        kinds = launches(features, select, Graphs() if fresh or layout.written else graphs, gpu, alone)
        found = [call | {"max_seqlen_q": max_q, "config": config} for max_q, config in kinds]
        calls += found + [again | sparse(place) for again in found if spreads(again, layout)]
        calls += of_many(found, layout, place, limits)
        if crowds(features):
            calls += [again | crowd(layout, place) for again in found if taken_apart(again["config"])]
    if layout.written:
        call = {**example(layout, place, False, True), "heuristics": heuristics}
        kinds = recorded(graphs, {**batch, **features_of(layout, gpu, False)}, gpu)
        found = [call | {"max_seqlen_q": max_q, "config": config} for max_q, config in kinds]
        calls += found + of_many(found, layout, place, limits)
    return [{"max_seqlen_k": 1, **call} for call in calls]


def crowds(features: Mapping[str, Any]) -> bool:
    """Whether the copy of a batch's fp8 pages may be too small for all its sequences."""
    pages = features["num_seqs"][1] * -(-features["max_seqlen_k"][1] // PAGE) + STEP
    size: int = pages * page_bytes(features["num_kv_heads"], features["head_size"])
    return str(features["dtype"]).startswith("float8") and size > COPY_LIMIT


def spreads(call: dict[str, Any], layout: Layout) -> bool:
    """Whether such a call compiles another kernel where most of a batch's tokens are of few sequences, see
    `host.segments.spread`.
    """
    group, config = layout.num_query_heads // layout.num_kv_heads, call["config"]
    return config.variant == "warp_specialized" and heads_of_block(128, group) != group


def of_many(
    calls: list[dict[str, Any]], layout: Layout, place: torch.device, limits: Limits
) -> list[dict[str, Any]]:
    """Those that compile another kernel for many sequences, for these: see `host.plan.lengths_at_once`."""
    if lengths_at_once(limits.max_num_seqs, layout.num_kv_heads, device_of(place)) == FEW.value:
        return []
    empty = sparse(place, FEW.value)
    return [call | empty for call in calls if call["config"].variant == "static_grid"]


def stored(layout: Layout, place: torch.device) -> list[torch.Tensor | None]:
    """Arguments of `write_pages`: a launch that compiles as the layout's do."""
    names = ("key", "value", "key_cache", "value_cache", "slot_mapping", "k_scale", "v_scale")
    made = example(layout, place, False, True)
    return [made[name] for name in names]


def features_of(layout: Layout, device: Device, fresh: bool) -> dict[str, Any]:
    """What a layout says of `host.select.FEATURES`."""
    return {
        "num_query_heads": layout.num_query_heads, "num_kv_heads": layout.num_kv_heads,
        "head_size": layout.head_size, "page_size": layout.page_size,
        "dtype": DTYPE_NAMES[layout.cache_dtype or layout.dtype], "fresh": fresh,
        "window": (1, NO_WINDOW - 1) if layout.window else NO_WINDOW, "softcap": layout.softcap,
        "sinks": layout.sinks is not None, "multiprocessors": device.processors,
    }  # fmt: skip


def launches(
    features: dict[str, Any], select: Any, graphs: Graphs, gpu: Device, alone: bool
) -> list[tuple[int, Config]]:
    """(max_seqlen_q, config) of every kind of launch: calls of one kind run the same compiled kernel.

    What is compiled follows from the longest query in steps: one token; a few, that one Q block holds; more.
    alone: of batches without cached tokens.
    """
    group = features["num_query_heads"] // features["num_kv_heads"]
    ordered = {name: features[name] for name in FEATURES}
    kinds: dict[tuple[int, Config], None] = {}
    most_seqs, (least_q, most_q) = features["num_seqs"][1], features["max_seqlen_q"]
    batches = [{"max_seqlen_q": (1, 1), "total_query_tokens": (1, most_seqs)}] if least_q == 1 else []
    batches += [{"max_seqlen_q": (max(least_q, 2), most_q)}] if most_q > 1 else []
    for these in batches:
        found = {}  # paths by what they ask for: many give one config
        for answer in answers(select, {**ordered, **these}):
            if possible(answer.within, alone):
                low, high = answer.within["max_seqlen_q"]
                longest = min(answer.within["max_seqlen_k"][1], MANY_KEYS)
                found[id(answer.config), int(low), int(high), longest] = answer.config
        for (_, low, high, longest), answered in found.items():
            for config in divided(answered, features, gpu):
                for max_q, last in steps_of(config, rows_of(config, group, gpu), group, low, high):
                    keys = min(longest, last) if alone else longest
                    if never_cut(config, answered, keys):
                        continue
                    kinds[max_q, config] = None
                    if features["dtype"].startswith("float8"):
                        kinds |= dict.fromkeys(of_copies(config, max_q, features, gpu))
    return list(dict.fromkeys((*kinds, *recorded(graphs, features, gpu))))


def never_cut(config: Config, answered: Any, keys: float) -> bool:
    """Whether a launch leaves keys whole that it is to share among the parts of a config, since there are so few. Where
    decodes are taken apart they are cut all the same, as `host.apart` says.
    """
    parted = config.num_segments > 1 and shares(answered) and not taken_apart(config)
    return parted and uncut(config.TILE_SIZE, keys)


def of_copies(
    config: Config, max_q: int, features: Mapping[str, Any], gpu: Device
) -> list[tuple[int, Config]]:
    """Further `launches` of a config over fp8 pages: where no copy, or none of all sequences can be made, of prompts
    without any, and where some sequences lie between decodes and prompts (`host.apart.some_between`).
    """
    size, group = features["head_size"], features["num_query_heads"] // features["num_kv_heads"]
    between = parts_of(config, group, size).few + 1
    if config.variant == "warp_specialized":
        parts = divided(crowded(config), features, gpu) if crowds(features) else []
        return [(max_q, unspecialised(size)), *((rows, part) for part in parts for rows in (max_q, between))]
    if taken_apart(config):
        return [(max_q, in_one_launch(config, size)), (max_q, prompts_alone(config)), (between, config)]
    return []


def recorded(graphs: Graphs, features: Mapping[str, Any], gpu: Device) -> list[tuple[int, Config]]:
    """`launches` of recorded decodes, with as many parts as the largest batches leave room for."""
    group = features["num_query_heads"] // features["num_kv_heads"]
    return [
        (max_q, fewer)
        for config in graphs.configs
        for rows in (rows_of(config, group, gpu),)
        for max_q, _ in steps(rows, group, 1, min(rows // group, graphs.max_seqlen_q or rows))
        for fewer in with_room(config, features["num_seqs"][1], max_q, features, gpu)
    ]


def rows_of(config: Config, group: int, gpu: Device) -> int:
    """Of a Q block, as the GPU runs the config."""
    return block_rows(for_device(config, gpu).BLOCK_M, group)


def with_room(
    config: Config, blocks: int, max_q: int, features: Mapping[str, Any], gpu: Device
) -> list[Config]:
    """The config, and those of fewer parts that compile another kernel, which up to so many Q blocks for each KV head
    may be launched in its place, see `host.plan.roomy_segments`: static_grid is compiled for each number of parts, what
    combines parts is a launch of its own.
    """
    heads_kv = features["num_kv_heads"]
    group = features["num_query_heads"] // heads_kv
    kept = kept_rows(config.variant, group, rows_of(config, group, gpu), max_q * group)
    part = blocks * heads_kv * kept * (padded(features["head_size"]) + 2) * 4
    least = fewer_segments(config.num_segments, SCRATCH_LIMIT // part)
    fewer = [segments for segments in SEGMENTS if least <= segments < config.num_segments]
    if config.variant != "static_grid":
        fewer = fewer[:1] if least == 1 else []
    return [config, *(config._replace(num_segments=segments) for segments in fewer)]


def possible(within: Mapping[str, tuple[float, float]], alone: bool) -> bool:
    """Whether some batch that a launch accepts lies within. alone: one without cached tokens."""
    high = {name: most for name, (_, most) in within.items()}
    low = {name: least for name, (least, _) in within.items()}

    def meet(one: str, other: str) -> bool:
        return max(low[one], low[other]) <= min(high[one], high[other])

    return bool(
        low["total_seqlen_k"] <= high["num_seqs"] * high["max_seqlen_k"]
        and low["total_query_tokens"] <= high["num_seqs"] * high["max_seqlen_q"]
        and (not alone or meet("max_seqlen_k", "max_seqlen_q"))
        and (not alone or meet("total_seqlen_k", "total_query_tokens"))
    )


def shares(config: Any) -> bool:
    """Whether the launch divides the keys of a config."""
    return bool(getattr(config, "programs_per_sm", 0))


def divided(config: Any, features: Mapping[str, Any], gpu: Device) -> list[Config]:
    """A config as launches run it: keys in one part and in many, where it leaves their number to the launch, since what
    combines many is a launch of its own (`host.combine`); in all numbers of parts that may be, of a static grid, which
    is compiled for one of them.
    """
    parts = getattr(config, "num_segments", None) or 1
    given = {name: getattr(config, name, None) for name in Config._fields}
    one = normalise({**given, "num_segments": 1, "programs_per_sm": 0})
    shared = shares(config)
    if one.variant == "static_grid" and not isinstance(parts, Range):
        wanted = [one._replace(num_segments=count) for count in (SEGMENTS if shared else (parts,))]
    elif shared:
        wanted = [with_segments(one, 1), one._replace(num_segments=SEGMENTS[-1])]
    elif isinstance(parts, Range):  # some number may have room for one
        wanted = [one, one._replace(num_segments=SEGMENTS[-1])]
    else:
        wanted = [one._replace(num_segments=parts)]
    group = features["num_query_heads"] // features["num_kv_heads"]
    block_q = rows_of(one, group, gpu) // group
    blocks = features["total_query_tokens"][1] // block_q + features["num_seqs"][1]
    return list(
        dict.fromkeys(
            fewer for with_parts in wanted for fewer in with_room(with_parts, blocks, block_q, features, gpu)
        )
    )


def steps_of(config: Config, block_m: int, group: int, low: int, high: int) -> list[tuple[int, int]]:
    """The `steps` in which a config compiles kernels of their own. The last one of these alone."""
    found = steps(block_m, group, low, high)
    return found[-1:] if config.variant in ("q_block", "warp_specialized") else found


def steps(block_m: int, group: int, low: int, high: int) -> list[tuple[int, int]]:
    """The least and the greatest max_seqlen_q of each step (see `launches`) that low to high touch, with Q blocks of
    block_m rows.

    Where one Q block holds a sequence, a step is a power of two of its rows, see `host.plan.kept_rows`.
    """
    block_q = block_m // group
    rows, last = 1 << (group - 1).bit_length(), 0
    edges = []
    while last < block_q:
        edges.append((last + 1, min(rows // group, block_q)))
        rows, last = 2 * rows, edges[-1][1]
    edges = [(1, 1), *((max(first, 2), last) for first, last in edges if last > 1), (block_q + 1, high)]
    touched = [(max(first, low), min(last, high)) for first, last in edges]
    return [(first, last) for first, last in touched if first <= last]
