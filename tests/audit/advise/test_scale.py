"""Distances between scenarios."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heurgen.audit.advise.scale import scale_over
from heurgen.logs.costs import TableColumn

COLUMNS = (TableColumn("m", "float"), TableColumn("dtype", "category", values=("a", "b")))


def test_distance_is_per_span_and_categories_differ_by_one() -> None:
    X = np.array([[0.0, 0], [10.0, 0], [5.0, 1]])
    space = scale_over(COLUMNS, X)
    found = space.distances(space.points(X), space.points(X))
    assert found[0].tolist() == [0.0, 1.0, math.sqrt(0.25 + 1)]
    wide = scale_over(COLUMNS[:1], np.array([[1.0], [100.0]]))
    assert wide.points(np.array([[10.0]]))[0, 0] == pytest.approx(0.5)
