"""The depth-2 solver and the candidate cuts, against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.costs import TableColumn
from heurgen.trees.candidates import candidates
from heurgen.trees.depth2 import pair_costs, stump_costs
from heurgen.trees.problem import Bools, Floats, problem
from tests.trees.synthetic import surface, table

PRICE = 3.0


def leaf(cost: Floats, own: Floats) -> float:
    return float((cost.sum(axis=0) + own).min()) + PRICE


def brute(B: Floats, cost: Floats, own: Floats, root: int) -> float:
    def below(rows: Bools) -> float:
        sides = [(rows & (B[:, j] > 0), rows & (B[:, j] == 0)) for j in range(B.shape[1])]
        split = [leaf(cost[a], own) + leaf(cost[b], own) for a, b in sides if a.any() and b.any()]
        return min([leaf(cost[rows], own), *split])

    left = B[:, root] > 0
    return below(left) + below(~left)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(1, 4))
def test_pair_costs_are_those_of_every_tree_of_depth_two(seed: int, n: int, n_configs: int) -> None:
    rng = np.random.RandomState(seed)
    p = problem(surface(n, n_configs, 2, seed=seed))
    _, B = candidates(p, np.arange(n))
    cost, own = rng.randint(0, 50, (n, n_configs)).astype(float), rng.randint(0, 9, n_configs).astype(float)
    found = pair_costs(B, cost, np.ones(n, dtype=bool), PRICE, own)
    assert found.tolist() == [brute(B, cost, own, q) for q in range(B.shape[1])]
    stumps = stump_costs(B, cost, np.ones(n, dtype=bool), PRICE, own)
    expected = [leaf(cost[B[:, q] > 0], own) + leaf(cost[B[:, q] == 0], own) for q in range(B.shape[1])]
    assert stumps.tolist() == expected


def test_a_side_without_scenarios_is_no_leaf() -> None:
    B = np.array([[1.0], [0.0], [0.0]])
    real = np.array([False, True, True])
    assert stump_costs(B, np.ones((3, 2)), real, 0.0, np.zeros(2)).tolist() == [np.inf]
    assert pair_costs(B, np.ones((3, 2)), real, 0.0, np.zeros(2)).tolist() == [np.inf]


def test_cuts_divide_the_rows_differently() -> None:
    x = np.arange(20.0)
    t = table([TableColumn("a", "int"), TableColumn("b", "int")], np.column_stack([x, -x]), np.ones((20, 2)))
    cuts, B = candidates(problem(t), np.arange(20))
    assert len(cuts) == 19  # b divides as a does, and a comes first
    assert {c.column for c in cuts} == {0}
    assert len({tuple(col) for col in B.T.tolist()}) == 19


def test_many_values_are_thinned_by_quantiles() -> None:
    x = np.asarray(np.arange(5000.0) ** 2, dtype=np.float64)
    p = problem(table([TableColumn("a", "int")], x[:, None], np.ones((5000, 2))))
    cuts, B = candidates(p, np.arange(5000))
    assert len(cuts) == 160
    shares = B.mean(axis=0)
    assert np.allclose(np.diff(shares), 1 / 161, atol=0.001)


@pytest.mark.parametrize(("n", "expected"), [(3, 3), (5, 15)])
def test_few_categories_give_every_subset(n: int, expected: int) -> None:
    kind = np.array(list(range(n)) * 3, dtype=float)
    column = TableColumn("kind", "category", values=tuple("abcdefgh")[:n])
    p = problem(table([column], kind[:, None], np.ones((3 * n, 2))))
    assert len(candidates(p, np.arange(3 * n))[0]) == expected


def test_many_categories_find_the_best_of_two_configs() -> None:
    """With two configs the best subset is a prefix of the order by effect: checked over all subsets."""
    rng = np.random.RandomState(3)
    kind = np.arange(40) % 8
    X = np.asarray(kind[:, None], dtype=np.float64)
    times = np.asarray(np.exp(rng.rand(8, 2)[kind] + 0.1 * rng.rand(40, 2)), dtype=np.float64)
    p = problem(table([TableColumn("kind", "category", values=tuple("abcdefgh"))], X, times))
    _, B = candidates(p, np.arange(40))
    x = p.X[:, 0].astype(int)
    masks = (np.array(bits)[x] > 0 for bits in product((0, 1), repeat=8) if 0 < sum(bits) < 8)
    every = [p.cost[m].sum(axis=0).min() + p.cost[~m].sum(axis=0).min() for m in masks]
    assert stump_costs(B, p.cost, p.real, 0.0, np.zeros(2)).min() == min(every)
