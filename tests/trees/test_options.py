"""What a caller may ask of a fit."""

from __future__ import annotations

import numpy as np
import pytest

from heurgen.base.errors import UsageError
from heurgen.trees.options import STRATEGIES, FitOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "magic"}, "unknown strategy 'magic' (one of auto, joint, per-parameter, optimal)"),
        ({"prefer": "x"}, "unknown preference 'x' (accuracy or small)"),
        ({"max_depth": 0}, "max_depth must be a whole number from 1 to 16, found '0'"),
        # A million went on for ever: only the command line knew the limit.
        ({"max_depth": 17}, "max_depth must be a whole number from 1 to 16, found '17'"),
        # A traceback of scikit-learn's, or all memory.
        (
            {"max_leaves": 10**25},
            "max_leaves must be a whole number from 1 to 1000000, found '10000000000000000000000000'",
        ),
        ({"max_leaves": True}, "max_leaves must be a whole number from 1 to 1000000, found 'True'"),
        ({"shortlist": 65}, "shortlist must be a whole number from 0 to 64, found '65'"),
        ({"shortlist": -1}, "shortlist must be a whole number from 0 to 64, found '-1'"),
        ({"shortlist": 1.0}, "shortlist must be a whole number from 0 to 64, found '1.0'"),
        ({"tail": -0.5}, "tail must be a number from 0 to 100, found '-0.5'"),
        ({"tail": 101}, "tail must be a number from 0 to 100, found '101'"),
        ({"tail": float("nan")}, "tail must be a number from 0 to 100, found 'nan'"),
        ({"tail": True}, "tail must be a number from 0 to 100, found 'True'"),
        # It was taken and did nothing.
        (
            {"strategy": "optimal", "tail": 2},
            "the strategy 'optimal' knows no tail, found '2' (leave it out, or take strategy auto or joint)",
        ),
        (
            {"strategy": "per-parameter", "tail": 0.5},
            "the strategy 'per-parameter' knows no tail, found '0.5' (leave it out, or take strategy auto or joint)",
        ),
        ({"max_configs": 2.5}, "max_configs must be a whole number from 1 to 1000000, found '2.5'"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        FitOptions(**options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_the_ends_of_every_range_are_inside() -> None:
    for strategy in STRATEGIES:
        FitOptions(strategy, max_depth=1, max_leaves=1, max_configs=1, shortlist=0, tail=0)
    FitOptions(prefer="small", max_depth=16, max_leaves=1_000_000, shortlist=64, tail=100.0)


def test_numbers_of_numpy_are_numbers() -> None:
    """ "max_leaves must be a whole number of at least 1, found '4'" was said of the 4 in np.arange(2, 8)."""
    given = FitOptions(max_leaves=np.int64(4), shortlist=np.int32(3), tail=np.float32(0.5))  # type: ignore[arg-type]
    assert given == FitOptions(max_leaves=4, shortlist=3, tail=0.5)
    assert [type(n) for n in (given.max_leaves, given.shortlist, given.tail)] == [int, int, float]
    with pytest.raises(UsageError, match=r"found '2\.0'"):
        FitOptions(max_depth=np.float64(2))  # type: ignore[arg-type]
