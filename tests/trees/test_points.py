"""Points between scenarios: which are joined, where points lie, what they weigh."""

from __future__ import annotations

import numpy as np
import pytest

from heurgen.logs.costs import TableColumn
from heurgen.trees import points
from heurgen.trees.points import between, nearest_rows, standardised
from heurgen.trees.problem import Ints, Problem, problem, with_configs
from tests.trees.synthetic import surface, table


def test_points_between_are_found_once_for_sets_of_configs_that_are_covered_alike() -> None:
    t = surface(40, 5, 2, holes=0.4)
    p = problem(t)
    ranked = np.argsort(-p.covered.sum(axis=0), kind="stable")
    one, two, partial = (between(with_configs(p, ranked[list(i)]), 3, 0.5) for i in ((0,), (0, 0), (0, 4)))
    assert one.X is two.X
    assert one.shared is two.shared
    assert partial.X is not one.X
    for found, configs in ((one, ranked[[0]]), (partial, ranked[[0, 4]])):
        afresh = between(with_configs(problem(t), configs), 3, 0.5)
        assert (found.X == afresh.X).all()
        assert (found.cost == afresh.cost).all()


def test_points_between_weigh_their_share_of_the_scenarios() -> None:
    """Config 1 is twice as slow everywhere, so that every point costs the same: their sum is share x the scenarios'."""
    x = np.arange(1.0, 31.0)[:, None]
    p = problem(table([TableColumn("x", "int")], x, np.tile([1.0, 2.0], (30, 1))))
    found = between(p, 3, 0.5)
    points = found.cost[~found.real]
    assert points[:, 1].sum() == pytest.approx(0.5 * p.cost[:, 1].sum(), rel=1e-4)
    assert (points[:, 0] == 0).all()


def test_fading_points_weigh_by_the_inverse_square_of_their_lines_length_and_together_as_much() -> None:
    x = np.array([0.0, 1.0, 4.0])[:, None]
    p = problem(table([TableColumn("x", "int")], x, np.tile([1.0, 2.0], (3, 1))))
    alike, fading = between(p, 2, 1.0), between(p, 2, 1.0, fading=True)
    assert (fading.X == alike.X).all()
    assert fading.weight.sum() == pytest.approx(alike.weight.sum()) == pytest.approx(6.0)
    short, whole, long = fading.weight[3:6]  # of the pairs 0-1, 0-4 and 1-4
    assert short == pytest.approx(16 * whole) == pytest.approx(9 * long)


def test_a_negative_number_among_sizes_stands_for_none_of_them() -> None:
    """Windows of 64 and 4096 are as far apart beside -1 and 2**31 as by themselves."""
    windows = [64.0, 128, 2048, 4096, 2.0**31]
    p = problem(
        table([TableColumn("window", "int")], np.array([[-1.0], *([w] for w in windows)]), np.ones((6, 1)))
    )
    found = between(p, 2, 1.0)
    assert (found.X[~found.real] >= 1).all()
    assert ((found.X[:, 0] > 200) & (found.X[:, 0] < 2000)).any()
    Z = standardised(p, [0])[:, 0]
    assert np.diff(Z[1:]) / (Z[2] - Z[1]) == pytest.approx([1, 4, 1, 19])


def test_numbers_of_which_several_are_negative_are_joined_as_they_are() -> None:
    x = np.array([[-2.0], [-1.0], [3.0]])
    found = between(problem(table([TableColumn("x", "int")], x, np.ones((3, 1)))), 2, 1.0)
    assert sorted(found.X[~found.real, 0].tolist())[0] == pytest.approx(-1.75)
    assert ((found.X[:, 0] > -1) & (found.X[:, 0] < 3)).any()


def test_the_nearest_rows_are_others_that_differ() -> None:
    Z = np.array([[0.0], [1.0], [3.0], [0.0]])
    assert nearest_rows(Z, np.arange(4), 9)[[0, 2]].tolist() == [[1, 2, -1, -1], [1, 0, 3, -1]]
    assert nearest_rows(Z, np.array([2]), 2).tolist() == [[1, 0]]


def by_whole_order(p: Problem, neighbours: int) -> Ints:
    """The pairs of `between`, from all rows in the order of their distance."""
    Z = standardised(p, [i for i, c in enumerate(p.columns) if not c.derived and c.type in ("int", "float")])
    kinds = np.hstack(
        [p.X[:, [i for i, c in enumerate(p.columns) if c.type in ("category", "bool")]], p.covered]
    )
    found = set()
    for i in range(len(Z)):
        distance = np.round(((Z - Z[i]) ** 2).sum(axis=1), 9)
        alike = np.flatnonzero((kinds == kinds[i]).all(axis=1) & (distance > 0))
        order = alike[np.argsort(distance[alike], kind="stable")][:neighbours]
        found |= {(min(i, j), max(i, j)) for j in order.tolist()}
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


@pytest.mark.parametrize("kept", [1, 4, points.KEPT])
@pytest.mark.parametrize(
    ("n", "features", "holes", "categories"),
    [(150, 3, 0.4, 3), (200, 2, 0.0, 2), (60, 4, 0.8, 5), (300, 1, 0.2, 40)],
)
def test_the_pairs_are_the_nearest_of_a_kind_however_few_rows_are_kept(
    monkeypatch: pytest.MonkeyPatch, kept: int, n: int, features: int, holes: float, categories: int
) -> None:
    monkeypatch.setattr(points, "KEPT", kept)
    p = problem(surface(n, 5, features, holes=holes, categories=categories))
    for neighbours in (3, 12):
        assert (points._pairs(p, neighbours)[0] == by_whole_order(p, neighbours)).all()
