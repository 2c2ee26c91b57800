"""Distances between scenarios."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from heurgen.audit.advise import scale
from heurgen.audit.advise.scale import FeatureScale, as_matrix, base_columns, scale_over
from heurgen.logs.costs import Floats, TableColumn
from tests.audit.views import costs

COLUMNS = (TableColumn("m", "float"), TableColumn("dtype", "category", values=("a", "b")))


def test_distance_is_per_span_and_categories_differ_by_one() -> None:
    X = np.array([[0.0, 0], [10.0, 0], [5.0, 1]])
    space = scale_over(COLUMNS, X)
    found = space.distances(space.points(X), space.points(X))
    assert found[0].tolist() == [0.0, 1.0, math.sqrt(0.25 + 1)]
    wide = scale_over(COLUMNS[:1], np.array([[1.0], [100.0]]))
    assert wide.points(np.array([[10.0]]))[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "log"),
    [([1.0, 20.0], False), ([1.0, 21.0], True), ([0.0, 100.0], False), ([-5.0, 500.0], False)],
)
def test_a_feature_that_spans_more_than_a_factor_of_20_counts_by_its_logarithm(
    values: list[float], log: bool
) -> None:
    space = scale_over(COLUMNS[:1], np.array(values)[:, None])
    assert space.log == (log,)
    assert space.points(np.array(values)[:, None])[:, 0].tolist() == [0.0, 1.0]


def test_a_feature_of_one_value_is_no_distance() -> None:
    space = scale_over(COLUMNS[:1], np.array([[7.0], [7.0]]))
    assert space.points(np.array([[7.0]])).tolist() == [[0.0]]


def test_derived_columns_would_count_twice() -> None:
    assert [c.name for c in base_columns(costs())] == ["m", "dtype"]
    derived = replace(costs(), columns=(costs().columns[0], TableColumn("work", "int", derived=True)))
    assert [c.name for c in base_columns(derived)] == ["m"]


def test_unknown_categories_get_codes_of_their_own() -> None:
    rows = [{"m": 3, "dtype": name} for name in ("b", "new", "other", "new")]
    assert as_matrix(COLUMNS, rows).tolist() == [[3, 1], [3, 2], [3, 3], [3, 2]]


def test_the_nearest_are_the_earlier_ones_on_a_tie_and_never_a_point_itself() -> None:
    X = np.array([[0.0, 0], [1.0, 0], [2.0, 0], [2.0, 1]])
    space = scale_over(COLUMNS, X)
    points = space.points(X)
    near, far = space.neighbours(points[1:2], points[[0, 2]], 5)
    assert (near.tolist(), far.tolist()) == ([[0, 1]], [[0.5, 0.5]])
    near, far = space.neighbours(points, points, 2)
    assert near.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert far[2].tolist() == [0.5, 1.0]
    assert space.neighbours(points[:1], points[:1], 2)[0].tolist() == [[0]]  # another array of the same point


def test_neighbours_are_found_without_all_distances_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 30, 100), np.arange(100) // 4]).astype(
        np.float64
    )  # kinds of too few
    space = scale_over(COLUMNS, X)
    points, most, real = space.points(X), [0], FeatureScale.distances
    whole = space.neighbours(points, points, 4)

    def counted(self: FeatureScale, a: Floats, b: Floats) -> Floats:
        most.append(len(a) * len(b))
        return real(self, a, b)

    monkeypatch.setattr(FeatureScale, "distances", counted)
    monkeypatch.setattr(scale, "_CELLS", 700)
    parts = space.neighbours(points, points, 4)
    assert max(most) == 700
    assert all(np.array_equal(x, y) for x, y in zip(whole, parts, strict=True))


@pytest.mark.parametrize("named", [True, False])
def test_few_distances_are_taken_of_many_points(monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 900, 1500), rng.integers(0, 3, 1500)]).astype(np.float64)
    X[:2, 1] = 3.0  # a kind of too few
    space = scale_over(COLUMNS[: 1 + named], X)
    points, taken, real = space.points(X[:, : 1 + named]), [0], FeatureScale.distances
    others = points[::3].copy()
    whole = [space.neighbours(points, b, 4) for b in (points, others)]

    def counted(self: FeatureScale, a: Floats, b: Floats) -> Floats:
        taken[0] += len(a) * len(b)
        return real(self, a, b)

    monkeypatch.setattr(FeatureScale, "distances", counted)
    monkeypatch.setattr(scale, "_CELLS", 100_000)
    found = [space.neighbours(points, b, 4) for b in (points, others)]
    assert taken[0] < 0.1 * len(points) ** 2
    assert all(
        np.array_equal(x, y) for w, f in zip(whole, found, strict=True) for x, y in zip(w, f, strict=True)
    )
