"""Times of launches on a GPU, host time apart: what the benchmarks of kernels share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

# Clock ticks of the GPU, 0.2 ms and more: the first that the host needs no longer than to launch a call.
SPINS = (400_000, 1_600_000, 6_400_000)


class Clock:
    """Interleaved timing with events, after a cache flush and a spin that keeps the GPU behind the host."""

    def __init__(self) -> None:
        self._flush = torch.zeros(128 * 2**20, dtype=torch.float32, device="cuda")

    def once(self, call: Callable[[], Any]) -> tuple[Any, Any]:
        """Events before and after a call; again with a longer spin where the GPU waited for the host meanwhile."""
        for spin in SPINS:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._flush.sum()  # read, not written: lines to write back would be timed with the launch
            torch.cuda._sleep(spin)
            begin.record()
            call()
            end.record()
            if not begin.query():
                break
        return begin, end

    def medians(self, calls: Sequence[Callable[[], Any]], rounds: int = 7, loser: float = 1.5) -> list[float]:
        """Milliseconds; a call slower than `loser` times the best twice is timed no more, but for the first four."""
        taken: list[list[float]] = [[] for _ in calls]
        self._timed(calls, taken, range(len(calls)), 2)
        best = min(min(t) for t in taken)
        going = [i for i, t in enumerate(taken) if min(t) <= loser * best or i < 4]
        self._timed(calls, taken, going, rounds - 2)
        return [statistics.median_low(t) for t in taken]

    def _timed(
        self, calls: Sequence[Callable[[], Any]], taken: list[list[float]], going: Sequence[int], rounds: int
    ) -> None:
        """Adds a time of each call in `going`, in turn, so many times."""
        for _ in range(rounds):
            events = [(i, *self.once(calls[i])) for i in going]
            torch.cuda.synchronize()
            for i, begin, end in events:
                taken[i].append(begin.elapsed_time(end))


def host_time(call: Callable[[], Any]) -> float:
    """Median microseconds of host time of a call, the GPU busy meanwhile."""
    times = []
    for _ in range(50):
        torch.cuda._sleep(300_000)
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        torch.cuda.synchronize()
    return statistics.median(times) * 1e6


def recorded(call: Callable[[], Any]) -> Callable[[], Any] | None:
    """The call as a CUDA graph's replay, or None where it cannot be recorded."""
    try:
        call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:
        torch.cuda.synchronize()
        return None

    def replay(_alive: Callable[[], Any] = call) -> None:
        """The call owns the memory that the graph writes to: it lives as long as the graph."""
        graph.replay()

    return replay


def ceilings(clock: Clock) -> tuple[float, float]:
    """(bytes per second of a device copy, operations per second of a bf16 matrix product), measured here."""
    source = torch.empty(2**31, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    copy, product = clock.medians([lambda: target.copy_(source), lambda: a @ b])
    return 2 * 2**31 / copy * 1e3, 2 * 8192**3 / product * 1e3
