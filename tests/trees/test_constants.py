"""The learner's constants: each names what shows why it is what it is."""

from __future__ import annotations

import inspect
from dataclasses import fields
from itertools import takewhile

import pytest

from benchmarks.constants import tried
from heurgen.trees import constants


@pytest.mark.parametrize("name", [f.name for f in fields(constants.Constants)])
def test_every_constant_stands_below_the_command_that_shows_it(name: str) -> None:
    lines = inspect.getsource(constants.Constants).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"    {name}: "))
    above = "\n".join(takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[:at])))
    assert f"`constants.py {name} " in above
    values = tried(name)
    assert len(values) > 1
    assert getattr(constants.LEARNER, name) in values


def test_lists_ascend_and_ranges_hold() -> None:
    c = constants.LEARNER
    assert list(c.prices) == sorted(set(c.prices))
    assert c.price in c.prices
    for counts in (c.counts, c.coarse_counts):
        assert list(counts) == sorted(set(counts))
        assert counts[-1] == c.pool
    assert list(c.depths) == sorted(c.depths)
    assert c.large_tolerance <= c.tolerance <= c.small_tolerance
    assert c.small < c.interpolated // c.pool < c.abundant
