"""The learner's constants: each names what shows why it is what it is."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

from heurgen.trees import constants


def test_every_constant_stands_under_a_comment() -> None:
    lines = inspect.getsource(constants.Constants).splitlines()
    names = {f.name for f in fields(constants.Constants)}
    for i, line in enumerate(lines):
        match = re.match(r"    (\w+): ", line)
        if match and match[1] in names:
            above = next(text for text in reversed(lines[:i]) if not re.match(r"    \w+: ", text))
            assert above.strip().startswith("#"), f"{match[1]} has no comment"


def test_lists_ascend_and_ranges_hold() -> None:
    c = constants.LEARNER
    assert list(c.prices) == sorted(set(c.prices))
    assert c.price in c.prices
    for counts in (c.counts, c.coarse_counts):
        assert list(counts) == sorted(set(counts))
        assert counts[-1] == c.pool
    assert list(c.depths) == sorted(c.depths)
    assert c.large_tolerance <= c.tolerance <= c.small_tolerance
    assert c.small < c.interpolated < c.abundant
