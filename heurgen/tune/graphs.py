"""Times of launches in a recorded graph, as servers run them: no host between a launch and the next."""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from heurgen.tune.timing import Method

LAUNCHES = Method().graph_launches
# Recorded graphs that are kept: two chunks of configs. Each holds memory for the outputs of its launches.
KEPT = 2 * Method().chunk


class _Recorded(NamedTuple):
    graph: Any
    events: list[tuple[Any, Any]]


class GraphTimer:
    """Records each config's graph once and replays it for every sample.

    A graph holds LAUNCHES launches, each after a flush of the cache and between two events of its own, so that
    neither the flush nor the host is timed.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._recorded: OrderedDict[str, _Recorded] = OrderedDict()

    def clear(self) -> None:
        """Let go of all graphs: their inputs are let go too."""
        self._recorded.clear()

    def sample(self, key: str, flush: Callable[[], Any], launch: Callable[[], Any]) -> float:
        """The median time of a replay's launches in ms. Raises what a launch raises that cannot be recorded."""
        recorded = self._recorded.get(key) or self._record(flush, launch)
        self._recorded[key] = recorded
        self._recorded.move_to_end(key)
        if len(self._recorded) > KEPT:
            self._recorded.popitem(last=False)
        recorded.graph.replay()
        self._torch.cuda.synchronize()
        return float(statistics.median(begin.elapsed_time(end) for begin, end in recorded.events))

    def _record(self, flush: Callable[[], Any], launch: Callable[[], Any]) -> _Recorded:
        cuda = self._torch.cuda
        launch()  # loads the kernel and what it caches: neither can be recorded
        cuda.synchronize()
        # External events stay events of their own in a graph: the host can ask them for times after a replay.
        events = [
            tuple(cuda.Event(enable_timing=True, external=True) for _ in range(2)) for _ in range(LAUNCHES)
        ]
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for begin, end in events:
                flush()
                begin.record()
                launch()
                end.record()
        cuda.synchronize()
        return _Recorded(graph, [(begin, end) for begin, end in events])
