"""benchmarks/clock.py: how often it takes times."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from clock import Clock


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


def test_a_stall_of_the_host_is_outlasted(clock):
    """Three of five rounds met it: five more pairs of rounds are taken, of the others too."""
    stalled, counts = taking(0.3, 0.31, 0.024, 0.3, 0.024)
    other, others = taking(0.04)
    assert clock.medians([stalled, other], 5) == [0.024, 0.04]
    assert (len(counts), len(others)) == (15, 15)
