"""Growth looks at many leaves together, and must find what looking at one after another finds."""

from __future__ import annotations

import numpy as np
import pytest

from heurgen.trees import grow as growth
from heurgen.trees.bins import Bins, best_tests, binned, cut_of, histograms, promise
from heurgen.trees.grow import grow
from heurgen.trees.node import Branch, Tree, best_tip, n_leaves
from heurgen.trees.points import between
from heurgen.trees.problem import Ints, Problem, problem, with_configs
from tests.trees.synthetic import surface


def one_by_one(p: Problem, bins: Bins, depth: int, max_leaves: int) -> Tree:
    """The same tree by the plainest code: every leaf's rows are summed anew, one leaf is divided at a time."""
    trees: dict[str, Tree] = {"": best_tip(p, np.arange(len(p.X)))}
    rows: dict[str, Ints] = {"": np.arange(len(p.X))}
    born, done = {"": 0}, set[str]()

    def gain(path: str) -> float:
        own = p.cost[rows[path]]
        return float((own[:, best_tip(p, rows[path]).config] - own.min(axis=1)).sum())

    while sum(path not in done for path in rows) < max_leaves:
        open_ = [
            q for q in rows if q not in done and len(q) < depth and gain(q) > 0 and p.real[rows[q]].sum() > 1
        ]
        found = None
        for path in sorted(open_, key=lambda q: (-gain(q), born[q])):
            found = best_tests(bins, histograms(bins, [rows[path]]))[0]
            if found is not None:
                break
        if found is None:
            break
        cut, left = cut_of(p, bins, rows[path], found)
        done.add(path)
        for side, own in (("l", rows[path][left]), ("r", rows[path][~left])):
            rows[path + side], born[path + side] = own, len(born)
            trees[path + side] = best_tip(p, own)
        trees[path] = Branch(cut, trees[path + "l"], trees[path + "r"])

    def built(path: str) -> Tree:
        own = trees[path]
        return Branch(own.cut, built(path + "l"), built(path + "r")) if isinstance(own, Branch) else own

    return built("")


@pytest.mark.parametrize("cells", [1, 10_000, 2**18])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_tree_as_one_leaf_at_a_time(seed: int, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "CELLS", cells)
    p = problem(surface(90, 6, 3, holes=0.3, seed=seed, categories=4 * (seed % 2)))
    bins = binned(p)
    for depth, leaves in ((6, 40), (6, 7), (2, 40)):
        tree = grow(p, bins, depth, leaves)
        assert tree == one_by_one(p, bins, depth, leaves)
        assert n_leaves(tree) <= leaves


def test_points_between_divide_no_scenarios_of_their_own() -> None:
    p = between(with_configs(problem(surface(40, 5, 3, seed=3)), np.arange(4)), 3, 0.15)
    assert not p.real.all()
    assert grow(p, binned(p), 5, 20) == one_by_one(p, binned(p), 5, 20)


def test_the_most_promising_test_of_all() -> None:
    """Against every division that a bin's edge makes, each promise from the rows themselves."""
    p = problem(surface(60, 7, 3, holes=0.2, seed=5))
    bins = binned(p)
    found = best_tests(bins, histograms(bins, [np.arange(60)]))[0]
    total = bins.weight.sum(axis=0)
    sums = [bins.weight[p.X[:, f] <= v].sum(axis=0) for f in range(3) for v in np.unique(p.X[:, f])]
    assert found is not None
    assert found.promise == promise(np.array(sums), total, bins.floor).min()
