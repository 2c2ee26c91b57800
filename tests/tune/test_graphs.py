"""Recorded launches, with a pretended torch: what is recorded, in which order, and what is timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune.graphs import KEPT, LAUNCHES, GraphTimer
from heurgen.tune.run import TuneOptions, run_tune


class Device:
    """Counts what is done; a launch takes 1, 2, 3, ... ms in a graph."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.replays = 0
        outer = self

        class Event:
            def __init__(self, enable_timing: bool, external: bool) -> None:
                assert enable_timing
                assert external
                self.at = 0.0

            def record(self) -> None:
                outer.done.append("event")
                self.at = float(outer.done.count("launch") ** 2)

            def elapsed_time(self, other: Event) -> float:
                return other.at - self.at

        class Graph:
            def replay(self) -> None:
                outer.replays += 1

        @contextmanager
        def graph(made: Graph) -> Iterator[None]:
            outer.done.append("record")
            yield
            outer.done.append("recorded")

        self.torch: Any = SimpleNamespace(
            cuda=SimpleNamespace(Event=Event, CUDAGraph=Graph, graph=graph, synchronize=lambda: None)
        )

    def sample(self, timer: GraphTimer, key: str) -> float:
        return timer.sample(key, lambda: self.done.append("flush"), lambda: self.done.append("launch"))


def test_a_launch_is_timed_after_a_flush_in_the_graph() -> None:
    device = Device()
    timer = GraphTimer(device.torch)
    # Launch i of the graph, after one before it, goes from i**2 to (i + 1)**2: the median is that of the third.
    assert device.sample(timer, "a") == 4**2 - 3**2
    assert device.done == ["launch", "record", *["flush", "event", "launch", "event"] * LAUNCHES, "recorded"]
    device.sample(timer, "a")
    assert (device.done.count("record"), device.replays) == (1, 2)


def test_few_graphs_are_kept() -> None:
    device = Device()
    timer = GraphTimer(device.torch)
    for key in [*map(str, range(KEPT + 1)), "1", "0"]:
        device.sample(timer, key)
    assert device.done.count("record") == KEPT + 2  # "0" was let go, "1" was not
    timer.clear()
    device.sample(timer, "0")
    assert device.done.count("record") == KEPT + 3


def test_no_graphs_in_the_interpreter(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="graphs are replayed on a GPU"):
        run_tune(TuneOptions("tests.tune.fakes:tunable", tmp_path / "l.csv", interpret=True, timing="graph"))
