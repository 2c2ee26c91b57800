"""benchmarks/clock.py: how often it takes times, and that none has the host in it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from clock import SPINS, Clock


@pytest.fixture
def clock(monkeypatch):
    """A clock whose calls say how long they take."""
    made = object.__new__(Clock)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(made, "once", lambda call: (SimpleNamespace(elapsed_time=lambda end: end), call()))
    return made


def taking(*times):
    """A call that takes these times, the last of them from then on; and how often it was called."""
    counts = []

    def call():
        counts.append(1)
        return times[min(len(counts), len(times)) - 1]

    return call, counts


def test_a_median_is_of_so_many_rounds(clock):
    call, counts = taking(3.0, 1.0, 1.1, 1.2, 1.3)
    assert clock.medians([call], 5) == [1.2]
    assert len(counts) == 5


def test_a_loser_is_timed_twice_but_for_the_first_four(clock):
    calls, counts = zip(*(taking(time) for time in (1.0, 9.0, 9.0, 9.0, 9.0, 1.4)), strict=True)
    assert clock.medians(calls, 5) == [1.0, 9.0, 9.0, 9.0, 9.0, 1.4]
    assert [len(count) for count in counts] == [5, 5, 5, 5, 2, 5]


@pytest.mark.parametrize(("late", "spins"), [(0, SPINS[:1]), (1, SPINS[:2]), (2, SPINS), (9, SPINS)])
def test_a_call_that_the_gpu_waited_for_is_launched_again_behind_a_longer_spin(monkeypatch, late, spins):
    """The first `late` launches take the host longer than the GPU spins: their begin has passed when they end."""
    spun, launched = [], []
    passed = iter([True] * late + [False])
    event = lambda enable_timing: SimpleNamespace(record=lambda: None, query=lambda: next(passed))  # noqa: E731
    monkeypatch.setattr(torch.cuda, "Event", event)
    monkeypatch.setattr(torch.cuda, "_sleep", spun.append)
    made = object.__new__(Clock)
    made._flush = torch.zeros(1)
    made.once(lambda: launched.append(1))
    assert tuple(spun) == spins
    assert len(launched) == len(spins)
