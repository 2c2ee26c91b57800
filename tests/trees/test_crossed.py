"""Points on which a config would fail, crossed from two scenarios."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, joint
from heurgen.trees.build import choices
from heurgen.trees.crossed import POINTS, SCENARIOS, crossed
from heurgen.trees.joint import Settings
from heurgen.trees.learn import selector
from heurgen.trees.problem import UNIT, problem
from heurgen.trees.regime import regime
from tests.trees.modelled import attention, limited_attention
from tests.trees.synthetic import table


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
    found = crossed(p)
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
    p = problem(attention(120))
    assert crossed(p) is p
    log = by_a_product(60, 0)
    p = problem(replace(log, X=np.repeat(log.X[:1], 60, axis=0)))
    assert crossed(p) is p


def test_a_feature_of_one_value_is_not_crossed() -> None:
    log = by_a_product(200, 0)
    more = replace(
        log, X=np.column_stack([log.X, np.ones(200)]), columns=(*log.columns, TableColumn("groups", "int"))
    )
    few, many = crossed(problem(log)), crossed(problem(more))
    assert many.X.shape[1] == 4
    assert (many.X[:, [c.name for c in many.columns].index("groups")] == 1).all()
    assert len(many.X) == len(few.X)


def test_problems_of_the_same_points_share_what_follows_from_them() -> None:
    p = problem(by_a_product(200, 0))
    assert crossed(p).shared is crossed(replace(p, cost=p.cost + 1)).shared


def test_where_points_are_crossed() -> None:
    log = by_a_product(200, 0)
    assert regime(problem(log), FitOptions()).crosses
    assert not regime(problem(by_a_product(50, 0)), FitOptions()).crosses  # 23 failures
    assert not regime(problem(attention(300)), FitOptions()).crosses  # nothing failed
    derived = replace(log, columns=(*log.columns[:2], replace(log.columns[2], derived=True)))
    assert not regime(problem(derived), FitOptions()).crosses


def test_fewer_launches_fail() -> None:
    """On logs of 150 scenarios, where regions reach beyond limits by the luck of a few."""
    invalid = {True: 0.0, False: 0.0}
    for seed in range(6):
        log = limited_attention(1650, 60, seed)
        train, test = np.split(np.random.RandomState(seed).permutation(1650), [150])
        r = regime(problem(log, train), FitOptions(strategy="joint"))
        assert r.crosses
        for crosses in (True, False):
            fitted = joint.fit_joint(
                problem(log, train), replace(r, crosses=crosses), Settings(8, 0.03, 8, 40, spare=2)
            )
            at = choices(selector(fitted, log, np.sort(train), "joint", {}), log, test)
            invalid[crosses] += float(np.isinf(log.times[test, at]).mean())
    assert 0 < invalid[True] < 0.6 * invalid[False]
