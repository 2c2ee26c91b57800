"""Points on which a config would fail, crossed from two scenarios."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen.ir import expr
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, fit, joint
from heurgen.trees.build import choices
from heurgen.trees.crossed import POINTS, SCENARIOS, crossed, free
from heurgen.trees.joint import Settings
from heurgen.trees.learn import selector
from heurgen.trees.problem import UNIT, Shared, problem
from heurgen.trees.regime import regime
from heurgen.trees.suggest import with_derived
from tests.trees.modelled import convolutions, limited_attention
from tests.trees.synthetic import surface, table

ALL = frozenset({"head_size", "bytes", "rows"})
EACH = frozenset((name,) for name in ALL)


def by_a_product(n: int, seed: int) -> CostTable:
    """Of three configs the first is the fastest, and fails where head size times bytes exceeds 256."""
    rng = np.random.RandomState(seed)
    head, size = rng.choice([64.0, 96, 128, 192, 256], n), rng.choice([1.0, 2, 4], n)
    rows = np.floor(2 ** (12 * rng.rand(n)))
    lead = 1 + 0.3 * (rows > 100)
    times = np.column_stack([np.where(head * size > 256, np.inf, 1.0), 1.6 / lead, 1.4 * lead])
    columns = [TableColumn(name, "int") for name in ("head_size", "bytes", "rows")]
    X = np.column_stack([head, size, rows])
    return table(columns, X, times * np.exp(0.01 * rng.randn(n, 3)))


def test_points_are_launches_on_which_a_config_fails() -> None:
    p = problem(by_a_product(200, 0))
    found = crossed(p, ALL, EACH)
    added = np.flatnonzero(~found.real)
    assert len(added)
    assert (found.X[: len(p.X)] == p.X).all()
    named = [c.name for c in p.columns]
    assert (found.X[added][:, named.index("head_size")] * found.X[added][:, named.index("bytes")] > 256).all()
    # Each has but one feature of another scenario, and its own costs beside the failure.
    origin = np.array([np.flatnonzero(p.index == i)[0] for i in found.index[added]])
    assert ((found.X[added] != p.X[origin]).sum(axis=1) == 1).all()
    weight = SCENARIOS / 200 / (3 * POINTS / (3 * 200))
    runs = found.covered[added]
    assert (found.cost[added][runs] == np.rint(weight * p.cost[origin])[runs]).all()
    assert (found.cost[added][~runs] == np.rint(weight * 3.0 * UNIT)).all()
    assert (found.weight[added] == weight).all()


def test_none_where_nothing_failed_or_scenarios_do_not_differ() -> None:
    p = problem(surface(120, 8, 3))
    assert crossed(p, {"x0"}, {("x0",)}) is p
    log = by_a_product(60, 0)
    p = problem(replace(log, X=np.repeat(log.X[:1], 60, axis=0)))
    assert crossed(p, ALL, EACH) is p


def test_a_feature_of_one_value_is_not_crossed() -> None:
    log = by_a_product(200, 0)
    more = replace(
        log, X=np.column_stack([log.X, np.ones(200)]), columns=(*log.columns, TableColumn("groups", "int"))
    )
    few, many = (
        crossed(problem(log), ALL, EACH),
        crossed(problem(more), ALL | {"groups"}, EACH | {("groups",)}),
    )
    assert many.X.shape[1] == 4
    assert (many.X[:, [c.name for c in many.columns].index("groups")] == 1).all()
    assert len(many.X) == len(few.X)


def test_features_beyond_float32_are_crossed_as_well() -> None:
    """scikit-learn takes none."""
    p = problem(by_a_product(200, 0))
    large = replace(p, X=p.X * 2.0**900, shared=Shared())
    with np.errstate(over="raise"):
        assert free(large) == free(p)
        assert np.array_equal(crossed(large, ALL, EACH).cost, crossed(p, ALL, EACH).cost)


def test_problems_of_the_same_points_share_what_follows_from_them() -> None:
    p = problem(by_a_product(200, 0))
    assert crossed(p, ALL, EACH).shared is crossed(replace(p, cost=p.cost + 1), ALL, EACH).shared


def test_where_points_are_crossed() -> None:
    log = by_a_product(200, 0)
    assert regime(problem(log), FitOptions()).crosses == ALL
    assert not regime(problem(by_a_product(50, 0)), FitOptions()).crosses  # 23 failures
    unknown = replace(log, columns=(*log.columns[:2], replace(log.columns[2], derived=True)))
    assert not regime(problem(unknown), FitOptions()).crosses


def test_what_is_derived_is_derived_again() -> None:
    """A spec that names one derived feature loses no crossed points for it."""
    log = by_a_product(200, 0)
    wide = with_derived(log, {"width": expr.parse("head_size * bytes"), "left": expr.parse("rows % bytes")})
    p = problem(wide)
    r = regime(p, FitOptions())
    assert (r.crosses, r.moves) == (ALL, EACH)
    found = crossed(p, r.crosses, r.moves)
    assert len(found.X) > len(p.X)
    X = dict(zip([c.name for c in found.columns], found.X.T, strict=True))
    assert (X["width"] == X["head_size"] * X["bytes"]).all()
    assert (X["left"] == X["rows"] % X["bytes"]).all()
    assert (X["width"][~found.real] > 256).all()


def test_launches_whose_derived_features_are_no_numbers_are_left_out() -> None:
    log = by_a_product(200, 0)
    large = replace(log, X=log.X * [2.0**1014, 1, 1])
    wide = with_derived(large, {"width": expr.parse("head_size * bytes")})
    p = replace(problem(wide), X=np.nan_to_num(wide.X, posinf=1.0))
    found = crossed(p, ALL, EACH)
    assert np.isfinite(found.X).all()
    assert len(p.X) < len(found.X) < len(crossed(problem(log), ALL, EACH).X)


def test_what_was_not_measured_by_a_rule_is_a_limit_too() -> None:
    log = by_a_product(200, 0)
    times = np.where(np.isinf(log.times), np.nan, log.times)
    assert regime(problem(replace(log, times=times)), FitOptions()).crosses == ALL


@pytest.mark.parametrize("n", [60, 3000])
def test_a_feature_that_follows_from_others_is_not_crossed(n: int) -> None:
    """Lengths of batches, and a type that is drawn by itself: all but that go together."""
    rng = np.random.RandomState(0)
    seqs, longest = 2.0 ** rng.randint(0, 7, n), np.floor(2 ** (13 * rng.rand(n)))
    total = np.floor(seqs * longest * (0.4 + 0.6 * rng.rand(n)))
    X = np.column_stack([seqs, longest, total, rng.randint(0, 3, n), np.full(n, 7.0)])
    columns = [TableColumn(name, "int") for name in ("num_seqs", "longest", "total", "dtype", "page")]
    p = problem(table(columns, X, np.ones((n, 2))))
    assert free(p)[0] == {"dtype"}
    alone = problem(table(columns[:1], X[:, :1], np.ones((n, 2))))
    assert free(alone) == ({"num_seqs"}, {("num_seqs",)})


def test_a_layers_features_move_together_where_they_say_the_same_and_with_all_its_batches() -> None:
    """A tree that has seen a layer with one batch knows all features of the layer with the next."""
    p = problem(convolutions(24, 0))
    alone, moves = free(p)
    assert alone == {"n", "dtype"}
    assert {frozenset(together) for together in moves} >= {
        frozenset(together)
        for together in (("n",), ("dtype",), ("stride",), ("h", "w"), ("r", "pad"), ("c",), ("k",))
    }
    found = crossed(p, frozenset(), moves)
    assert found.supposed is not None
    assert (found.X is p.X, found.cost is p.cost) == (True, True)
    X = dict(zip([c.name for c in p.columns], found.supposed.X.T, strict=True))
    assert (X["h"] == X["w"]).all()
    assert (X["pad"] == X["r"] // 2).all()
    assert found.supposed.fails.any(axis=1).all()


def test_what_all_follows_or_does_not_vary_moves_not() -> None:
    """Of lengths that follow from each other none is asked twice; of one feature there is no other."""
    X = np.column_stack([2.0 ** np.arange(9), np.full(9, 7.0)])
    log = table([TableColumn("m", "int"), TableColumn("page", "int")], X, np.ones((9, 2)))
    assert free(problem(log)) == ({"m"}, {("m",)})
    still = problem(replace(log, X=np.repeat(log.X[:1], 9, axis=0)))
    assert not any(free(still))
    assert crossed(still, {"m"}, {("m",)}) is still


@pytest.mark.parametrize("n", range(1, 6))
def test_of_few_scenarios_nothing_says_what_follows_from_others(n: int) -> None:
    """Below five a fold is empty."""
    times = np.ones((n, 80))
    times[:, :35] = np.inf
    X = np.column_stack([2.0 ** np.arange(n), np.arange(n) % 2])
    log = table([TableColumn("m", "int"), TableColumn("n", "int")], X, times)
    assert fit(log).n_scenarios == n
    assert n > 4 or not any(free(problem(log)))


def test_fewer_launches_fail() -> None:
    """On logs of 150 scenarios, where regions reach beyond limits by the luck of a few."""
    invalid = {True: 0.0, False: 0.0}
    for seed in range(6):
        log = limited_attention(1650, 60, seed)
        train, test = np.split(np.random.RandomState(seed).permutation(1650), [150])
        r = regime(problem(log, train), FitOptions(strategy="joint"))
        assert r.crosses
        for crosses in (r.crosses, frozenset[str]()):
            own = r if crosses else replace(r, crosses=crosses, moves=frozenset())
            fitted = joint.fit_joint(problem(log, train), own, Settings(8, 0.03, 8, 40, spare=2))
            at = choices(selector(fitted, log, np.sort(train), "joint", {}), log, test)
            invalid[bool(crosses)] += float(np.isinf(log.times[test, at]).mean())
    assert 0 < invalid[True] < 0.6 * invalid[False]
