"""Counters of split keys: zeros that every launch leaves as zeros."""

from __future__ import annotations

from dataclasses import dataclass

import torch

COUNTERS = 1 << 20


@dataclass(slots=True)
class Arena:
    """Zeros for launches that are being recorded; the first `used` belong to some."""

    zeros: torch.Tensor
    used: int = 0


_counters: dict[tuple[int, int], torch.Tensor] = {}
_arenas: dict[int, list[Arena]] = {}


def counters(device: torch.device, stream: int, items: int) -> torch.Tensor:
    """Zeros that every launch leaves as zeros. One buffer per stream: launches on one stream never overlap.

    Recorded launches may: their graphs replay on any stream. Each takes counters of its own out of an arena.
    """
    index = device.index or 0
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return recorded_counters(device, items)
    buffer = _counters.get((index, stream))
    if buffer is None:
        buffer = _counters[index, stream] = torch.zeros(COUNTERS, dtype=torch.int32, device=device)
    arenas = _arenas.setdefault(index, [])  # never freed: graphs may hold any of them
    if not arenas or 2 * arenas[-1].used > COUNTERS:
        arenas.append(Arena(torch.zeros(COUNTERS, dtype=torch.int32, device=device)))
    return buffer


def recorded_counters(device: torch.device, items: int) -> torch.Tensor:
    """Counters that no other launch uses, from the arena that eager launches fill up.

    Where it is spent, or nothing was launched before the recording, zeros of the graph's own pool: they are
    written anew at every replay, which costs a node of the graph.
    """
    arenas = _arenas.get(device.index or 0)
    if not arenas or arenas[-1].used + items > COUNTERS:
        return torch.zeros(items, dtype=torch.int32, device=device)
    arena = arenas[-1]
    first = arena.used
    arena.used += -(-items // 4) * 4  # keeps the 16-byte alignment that a compiled kernel may assume
    return arena.zeros[first : first + items]
