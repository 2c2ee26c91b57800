"""The headline figures against numpy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heurgen.base.figures import Summary, summarise


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_figures_are_those_of_numpy(logs: list[float]) -> None:
    found, slow = summarise(logs), np.exp(logs)
    assert found.p95_slowdown == pytest.approx(np.percentile(slow, 95), rel=1e-12)
    assert found.geomean_slowdown == pytest.approx(np.exp(np.mean(logs)), rel=1e-12)
    assert found.max_slowdown == pytest.approx(slow.max(), rel=1e-12)
    assert found.within_1_1 == np.mean(slow <= 1.1)
    assert (found.invalid_share, found.n_scenarios) == (0.0, len(logs))


@pytest.mark.parametrize("n", [2, 3, 11, 19, 20, 21, 40])
def test_p95_of_few_scenarios_is_not_the_largest(n: int) -> None:
    found = summarise([0.0] * (n - 1) + [math.log(2.0)])
    assert found.p95_slowdown is not None
    assert 1.0 <= found.p95_slowdown < 2.0
    assert found.max_slowdown == 2.0


def test_p95_of_eleven_is_half_way() -> None:
    found = summarise([*[0.0] * 9, math.log(1.5), math.log(2.0)])
    assert found.p95_slowdown == pytest.approx(1.75)


@pytest.mark.parametrize(
    ("time", "best"), [(1.1, 1.0), (0.11, 0.1), (3.3, 3.0), (0.033, 0.03), (7.7e-5, 7e-5)]
)
def test_exactly_1_1_is_within(time: float, best: float) -> None:
    assert summarise([math.log(time) - math.log(best)]).within_1_1 == 1.0
    assert summarise([math.log(time * 1.0001) - math.log(best)]).within_1_1 == 0.0


def test_invalid_and_unknown() -> None:
    assert summarise([math.nan, 0.0, math.inf, 0.0]) == Summary(4, 1.0, 1.0, 1.0, 1.0, 0.5)
    assert summarise([math.nan, math.inf]) == Summary(2, invalid_share=1.0)
    assert summarise([]) == Summary(0)
    assert summarise([0.0], known=False, agreement=0.25) == Summary(1, agreement=0.25)
