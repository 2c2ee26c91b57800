"""The interval of a held-out mean by hand."""

from __future__ import annotations

import math

import pytest

from heurgen.base.intervals import interval


def test_the_interval_of_scenarios_of_their_own_is_students() -> None:
    half = 1.5 * 4.302653 * 0.1 / math.sqrt(3)  # t of three values, and five folds' share of training
    low, high = interval(math.exp(0.4), [0.3, 0.4, 0.5, math.nan], range(4), 5) or (0.0, 0.0)
    assert (math.log(low), math.log(high)) == pytest.approx((0.4 - half, 0.4 + half), rel=1e-6)
    assert (interval(math.exp(0.1), [0.0, 0.1, 0.2], range(3), 5) or (0.0,))[0] == 1.0  # no slowdown is less


def test_repeats_of_a_shape_make_no_interval_narrower() -> None:
    logs = [0.1, 0.2, 0.4]
    once = interval(1.25, logs, range(3), 5)
    assert once is not None
    assert interval(1.25, logs * 4, [*range(3)] * 4, 5) == pytest.approx(once)
    assert (interval(1.25, logs * 4, range(12), 5) or (0.0,))[0] > once[0]
    assert interval(1.25, logs, [0, 0, 0], 5) is None
    assert interval(1.25, [0.1, math.inf], [0, 1], 5) is None
