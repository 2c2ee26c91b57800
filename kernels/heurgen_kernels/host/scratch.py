"""Counters of split keys: zeros that every launch leaves as zeros."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

# Counters of one stream, and of one arena; a launch that needs more gets a buffer of its own size.
COUNTERS = 1 << 20
# Launches of one kind that a graph may hold, as many as a model has layers.
LAYERS = 128


@dataclass(slots=True)
class Arena:
    """Zeros, `size` of them; for launches that are being recorded, the first `used` belong to some."""

    zeros: torch.Tensor
    size: int
    used: int = 0


_counters: dict[tuple[torch.device, int, int], Arena] = {}
_arenas: dict[torch.device, list[Arena]] = {}
_taking = threading.Lock()  # two threads may record at a time


def counters(
    device: torch.device, stream: int, count: int, lane: int = 0, for_graphs: bool = False
) -> torch.Tensor:
    """At least `count` zeros that every launch leaves as zeros. One buffer per device, stream and lane: launches on one
    stream overlap in lanes of their own alone.

    Recorded launches may: their graphs replay on any stream. Each takes counters of its own out of an arena.
    for_graphs: of launches as servers record them, once for each layer, and make before the recording.
    """
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return recorded_counters(device, count)
    found = _counters.get((device, stream, lane))
    if found is None or found.size < count:
        # one that is outgrown is freed in the order of its stream
        size = max(COUNTERS, count)
        found = _counters[device, stream, lane] = Arena(kept_zeros(device, size), size)
    arenas = _arenas.setdefault(device, [])  # never freed: graphs may hold any of them
    room = arenas[-1].size - arenas[-1].used if arenas else 0
    wanted = count * (LAYERS if for_graphs else 1)
    if room < max(COUNTERS // 2, wanted):
        size = max(COUNTERS, 2 * wanted)
        arenas.append(Arena(kept_zeros(device, size), size))
    return found.zeros


def kept_zeros(device: torch.device, size: int) -> torch.Tensor:
    """Zeros that outlive a graph's pool, ready on the current stream. A thread of its own allocates them: what the
    thread of torch.compile's "reduce-overhead" does lies in the pool of its graphs, which refuse what is kept there.
    """
    if device.type != "cuda":
        return torch.zeros(size, dtype=torch.int32, device=device)
    stream = torch.cuda.current_stream(device)

    def allocate() -> torch.Tensor:
        with torch.cuda.stream(stream):
            return torch.zeros(size, dtype=torch.int32, device=device)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(allocate).result()


def recorded_counters(device: torch.device, count: int) -> torch.Tensor:
    """Counters that no other launch uses, from the arena that eager launches fill up.

    Where it is spent, or nothing was launched before the recording, zeros of the graph's own pool: they are
    written anew at every replay, which costs a node of the graph.
    """
    with _taking:
        arenas = _arenas.get(device)
        if arenas and arenas[-1].used + count <= arenas[-1].size:
            arena = arenas[-1]
            first = arena.used
            arena.used += -(-count // 4) * 4  # keeps the 16-byte alignment that a compiled kernel may assume
            return arena.zeros[first : first + count]
    return torch.zeros(count, dtype=torch.int32, device=device)
