from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import UsageError
from heurgen.tune.protocol import Settings
from heurgen.tune.timing import Failure, Method, best_few, chunks, measure, taken


class Launcher:
    """Gives each config's times in turn, the last one for ever, and writes down who was launched."""

    def __init__(self, times: dict[str, list[float | Failure]]) -> None:
        self.times, self.passes = times, list[list[str]]()

    def __call__(self, configs: Sequence[Settings]) -> Iterator[float | Failure]:
        names = [str(c["name"]) for c in configs]
        self.passes.append(names)
        for name in names:
            left = self.times[name]
            yield left.pop(0) if len(left) > 1 else left[0]

    def measure(self, best: float = math.inf, method: Method | None = None) -> list[float | Failure]:
        return measure(self, [{"name": n} for n in self.times], best, method or Method())


def test_median_of_interleaved_passes() -> None:
    launcher = Launcher({"a": [1.0, 9.0, 1.2, 1.1, 1.3], "b": [1.5, 1.4, 1.6, 1.5, 0.1]})
    assert launcher.measure() == [1.2, 1.5]
    assert [sorted(p) for p in launcher.passes] == [["a", "b"]] * 5
    assert ["b", "a"] in launcher.passes  # nobody always goes second


def test_losers_are_timed_once() -> None:
    launcher = Launcher({"best": [1.0], "close": [1.9], "loser": [2.1]})
    assert launcher.measure() == [1.0, 1.9, 2.1]
    assert sum(p.count("loser") for p in launcher.passes) == 1
    assert sum(p.count("close") for p in launcher.passes) == 5


def test_the_best_of_earlier_chunks_counts() -> None:
    launcher = Launcher({"a": [1.0], "b": [1.1]})
    assert launcher.measure(best=0.4) == [1.0, 1.1]
    assert launcher.passes == [["a", "b"]]


def test_slow_launches_need_fewer_samples() -> None:
    launcher = Launcher({"a": [6.0, 8.0, 7.0]})
    assert launcher.measure() == [7.0]
    assert len(launcher.passes) == 3


def test_failures_stay_failures() -> None:
    broken = Failure("error", "x")
    launcher = Launcher({"a": [broken], "b": [1.0], "c": [1.0, broken], "d": [math.nan], "e": [0.0]})
    assert launcher.measure() == [
        broken,
        1.0,
        broken,
        Failure("error", "the timer gave nan ms"),
        Failure("error", "the timer gave 0.0 ms"),
    ]
    assert sum(p.count("a") for p in launcher.passes) == 1


@pytest.mark.parametrize("outcome", [1.5, np.float32(1.5), np.float64(1.5)])
def test_a_number_of_any_kind_is_a_time(outcome: object) -> None:
    found = taken(outcome, "k")
    assert (found, type(found)) == (1.5, float)
    assert taken(2, "k") == 2.0
    assert taken(Failure("error", "x"), "k") == Failure("error", "x")


@pytest.mark.parametrize(
    ("outcome", "kind"), [(None, "NoneType"), ("1.5", "str"), (True, "bool"), ([1.5], "list")]
)
def test_what_is_no_time_is_told_with_its_tunable(outcome: object, kind: str) -> None:
    told = f"sample of the session of 'k' gave '{outcome}' ({kind}), expected the milliseconds of one launch, a float"
    with pytest.raises(UsageError, match=re.escape(told)):
        taken(outcome, "k")


def test_best_few() -> None:
    times = [5.0, 1.0, 1.04, 9.0, 1.2, 1.01]
    assert best_few(times, Method()) == [1, 5, 2]
    assert best_few([2.0, 1.0], Method()) == [1, 0]
    assert best_few([1.0] * 20, Method()) == list(range(8))
    assert best_few([], Method()) == []


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=30))
def test_every_config_gets_its_time(times: list[float]) -> None:
    launcher = Launcher({str(i): [t] for i, t in enumerate(times)})
    assert launcher.measure() == times
    for i, t in enumerate(times):
        wanted = 1 if t > 2 * min(times) else 3 if t > 5 else 5
        assert sum(p.count(str(i)) for p in launcher.passes) == wanted


def test_chunks() -> None:
    assert [list(c) for c in chunks([1, 2, 3, 4, 5], 2)] == [[1, 2], [3, 4], [5]]
