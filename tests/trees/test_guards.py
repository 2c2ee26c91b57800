"""Guards: a config stays away from launches of a kind on which it was never seen to work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.logs.groups import settings
from heurgen.trees import FitOptions, constants, fit, guards, joint
from heurgen.trees.build import choices
from heurgen.trees.guards import _limit, _tip, guarded, limits
from heurgen.trees.joint import Settings, finish, grown
from heurgen.trees.learn import selector
from heurgen.trees.node import Branch, Cut, Tip, goes_left, height, n_leaves
from heurgen.trees.problem import UNIT, Bools, Ints, Problem, Supposed, problem
from heurgen.trees.regime import regime, spare_leaves, spare_tests
from tests.trees.modelled import convolutions
from tests.trees.synthetic import table


def strided(n: int = 240, flip: bool = False) -> CostTable:
    """Config 0 is measured for stride 1 alone, and wins there on large batches; config 1 works everywhere.

    Strides of 2 are a third of the scenarios below batch 96 and none above: luck, which a launch need not share.
    `flip`: the stride is counted downwards, so that the limit is a least value.
    """
    rng = np.random.RandomState(0)
    batch = np.sort(rng.permutation(4 * n)[:n] % 128 + 1.0)
    stride = np.where((batch < 96) & (np.arange(n) % 3 == 0), 2.0, 1.0)
    times = np.column_stack([np.where(batch > 64, 0.5, 2.0), np.ones(n)])
    times[stride == 2, 0] = np.nan
    X = np.column_stack([batch, 3 - stride if flip else stride])
    return table([TableColumn("batch", "int"), TableColumn("stride", "int")], X, times)


def unseen(t: CostTable, batch: int, stride: int) -> CostTable:
    X = np.repeat([[float(batch), float(stride)]], t.n_scenarios, axis=0)
    return replace(t, X=X)


def test_a_config_that_never_ran_at_a_stride_is_not_sent_there() -> None:
    joint = FitOptions(strategy="joint")
    for flip, tried in ((False, (FitOptions(max_depth=3), joint)), (True, (joint,))):
        t = strided(flip=flip)
        for options in tried:
            found = fit(t, options)
            for batch in (1, 65, 97, 128, 1000):
                one, two = (
                    choices(found, unseen(t, batch, 3 - s if flip else s), np.arange(1)).item()
                    for s in (1, 2)
                )
                assert one == (0 if batch > 64 else 1), (batch, ir.to_json(found))
                assert two == 1, batch


def named(n: int = 240) -> CostTable:
    """`strided`, whose stride is a name."""
    t = strided(n)
    kinds = TableColumn("kind", "category", values=("other", "unit"))
    return replace(t, columns=(t.columns[0], kinds), X=np.column_stack([t.X[:, 0], t.X[:, 1] == 1]))


def test_a_config_that_never_ran_under_a_category_is_not_sent_there() -> None:
    t = named()
    (limit,) = [k for k in limits(problem(t)) if k.cut.left]
    assert (limit.cut, limit.within_left) == (Cut(limit.cut.column, left=(0,)), False)
    for options in (FitOptions(strategy="joint", max_depth=3), FitOptions(strategy="joint")):
        found = fit(t, options)
        for batch in (1, 97, 128, 1000):
            one, other = (choices(found, unseen(t, batch, k), np.arange(1)).item() for k in (1, 0))
            assert one == (0 if batch > 64 else 1), (batch, ir.to_json(found))
            assert other == 1, batch
    few = np.concatenate([np.flatnonzero(t.X[:, 1] == 1), np.flatnonzero(t.X[:, 1] == 0)[:3]])
    assert not [k for k in limits(problem(t, few)) if k.cut.left]


def test_limits_need_evidence() -> None:
    t = strided()
    p = problem(t)
    (limit,) = [k for k in limits(p) if p.columns[k.cut.column].name == "stride"]
    assert (limit.cut.low, limit.cut.high, limit.within_left) == (1.0, 2.0, True)
    assert limit.configs.tolist() == [config == 0 for config in p.configs.tolist()]
    few = np.concatenate([np.flatnonzero(t.X[:, 1] == 1), np.flatnonzero(t.X[:, 1] == 2)[:3]])
    assert not [k for k in limits(problem(t, few)) if k.cut.column == 1]


def test_what_failed_is_more_evidence_than_what_was_not_measured() -> None:
    """A few scenarios of stride 2: that a config failed in all of them says that it does not run there."""
    t = strided(48)
    stop = np.isnan(t.times)
    assert 3 / 0.75 <= stop[:, 0].sum() < 20 / 0.75
    failed = table(t.columns, t.X, np.where(stop, np.inf, t.times))
    for log, found in ((t, False), (failed, True)):
        p = problem(log)
        assert found == any(p.columns[k.cut.column].name == "stride" for k in limits(p))


def test_guards_stay_within_depth_and_leaves_and_move_no_scenario() -> None:
    p = problem(strided())
    zero, one = (p.configs.tolist().index(c) for c in (0, 1))
    tree = Branch(Cut(0, 96.0, 97.0), Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one)), Tip(zero))
    known = limits(p)
    found = guarded(p, tree, known, 0.0, 4, 8)
    assert (n_leaves(found), height(found)) == (4, 2)
    assert isinstance(found, Branch)
    assert found.right == Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one))
    assert guarded(p, tree, known, 0.0, 4, 3) == Branch(tree.cut, tree.left, tree.right)
    assert guarded(p, tree, known, 0.0, 1, 8) == tree
    assert guarded(p, tree, known, 1e12, 4, 8) == tree
    assert guarded(p, Tip(zero), known, 0.0, 4, 8) == Tip(zero)


def test_nodes_without_a_scenario_beyond_any_limit_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    p = problem(strided())
    asked: list[Cut] = []

    def noted(p: Problem, rows: Ints, cut: Cut) -> Bools:
        asked.append(cut)
        return goes_left(p, rows, cut)

    monkeypatch.setattr(guards, "goes_left", noted)
    within = Branch(Cut(0, 96.0, 97.0), Tip(0), Tip(1))
    tree = Branch(Cut(1, 1.0, 2.0), within, Tip(1))
    assert guarded(p, tree, limits(p), 0.0, 4, 8) == tree
    assert asked == [tree.cut]


def test_guards_have_tests_to_spare_below_the_default_depth_alone() -> None:
    p = problem(strided())
    known = limits(p)
    for spare, deepest in ((0, 1), (1, 2)):
        s = Settings(2, 0.0, 1, 8, spare=spare)
        assert height(finish(p, grown(p, s), s, known)) == deepest
    assert spare_tests(FitOptions()) == constants.LEARNER.guard_tests
    assert spare_tests(FitOptions(max_depth=8)) == 0


def test_guards_have_leaves_to_spare_where_many_cells_are_missing_and_no_limit_is_named() -> None:
    p = problem(strided())
    s = Settings(2, 0.0, 1, 2, spare=1, spare_leaves=1)
    for careful, most in ((False, 2), (True, 3)):
        q = replace(p, careful=careful)
        assert n_leaves(finish(q, grown(q, s), s, limits(q))) == most
    r = regime(p, FitOptions())
    assert spare_leaves(FitOptions(), r) == 10
    assert [spare_leaves(o, r) for o in (FitOptions(max_depth=8), FitOptions(max_leaves=40))] == [0, 0]


def test_wary_guards_pay_the_usual_price_where_that_of_a_leaf_is_high() -> None:
    p = problem(strided())
    known = limits(replace(p, careful=True))
    for wary, price, deepest in ((False, 0.3, 1), (False, 0.03, 2), (True, 0.3, 2)):
        s = Settings(2, price, 1, 8, spare=1, wary=wary)
        assert height(finish(p, grown(p, s), s, known)) == deepest, (wary, price)


def test_careful_guards_may_fill_the_depth_that_a_shallower_tree_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tree of two tests is made worse than that of one, which ships: its guard may be the second test."""
    p = problem(strided())
    monkeypatch.setattr(joint, "grown", lambda p, s: grown(p, replace(s, depth=s.depth % 2)))
    for careful in (False, True):
        r = replace(regime(p, FitOptions()), careful=careful, between=False)
        found = joint.fit_joint(p, r, Settings(2, 0.0, 2, 8))
        assert height(found.tree) == 1 + careful


def test_what_answers_beyond_a_guard_is_not_stopped_by_a_limit_of_its_own() -> None:
    p = problem(strided())
    rows = np.flatnonzero(p.X[:, 0] > 96)
    zero, one = (p.configs.tolist().index(c) for c in (0, 1))
    stopped = np.arange(2) == zero
    assert _tip(p, rows, np.zeros(2, dtype=bool)) == _tip(p, rows, np.ones(2, dtype=bool)) == Tip(zero)
    assert _tip(p, rows, stopped) == Tip(one)


def test_a_limit_lies_beside_the_nearest_value_that_was_never_covered() -> None:
    x, configs = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([True])
    above, below = (_limit(x, 3, *edge, configs, True) for edge in ((True, 2.0), (False, 8.0)))
    assert (above.cut, above.beyond.tolist()) == (Cut(3, 2.0, 4.0), [False, False, True, True, True])
    assert (below.cut, below.beyond.tolist()) == (Cut(3, 4.0, 8.0), [True, True, True, False, False])
    # Of the others as many as lie beyond, those next to it.
    assert (above.near.tolist(), below.near.tolist()) == (
        [True, True, False, False, False],
        [False, False, False, True, True],
    )
    assert _limit(x, 3, False, 2.0, configs, True).near.tolist() == [False, True, False, False, False]
    assert not _limit(x, 3, False, 2.0, configs, False).near.any()


def test_a_region_that_comes_near_a_limit_is_guarded_though_its_test_kept_all_beyond_away() -> None:
    """No stride of 2 from batch 96 on, of eighty before it: no chance, yet no test says stride 1."""
    p = problem(strided())
    zero, one = (p.configs.tolist().index(c) for c in (0, 1))
    tree = Branch(Cut(0, 96.0, 97.0), Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one)), Tip(zero))
    price = UNIT * constants.LEARNER.invalid * constants.LEARNER.guard_near / 2
    found = guarded(p, tree, limits(replace(p, careful=True)), price, 4, 8)
    assert found == replace(tree, right=Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one)))
    assert guarded(p, tree, limits(p), price, 4, 8) == tree


def test_a_guard_is_worth_the_launches_that_are_supposed_beyond_it() -> None:
    """Of many scenarios of stride 2, all of few layers, none is in a leaf: less of a sign than their number says."""
    p = problem(strided())
    zero, one = (p.configs.tolist().index(c) for c in (0, 1))
    tree = Branch(Cut(0, 96.0, 97.0), Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one)), Tip(zero))
    known, price = limits(p), 10.0 * UNIT
    assert guarded(p, tree, known, price, 4, 8) == tree
    X = np.array([[120.0, 2.0], [90.0, 2.0]])
    fails = np.zeros((2, 2), dtype=bool)
    fails[:, zero] = True
    guard = Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one))
    # a launch of 3.0 log-slowdowns; one of two is in the leaf
    for weight, right in ((4.0, guard), (3.0, Tip(zero))):
        found = guarded(replace(p, supposed=Supposed(X, fails, weight)), tree, known, price, 4, 8)
        assert isinstance(found, Branch)
        assert (found.left, found.right) == (tree.left, right)
    runs = Supposed(X, ~fails, 100.0)
    assert guarded(replace(p, supposed=runs), tree, known, price, 4, 8) == tree


def test_what_answers_beyond_a_guard_runs_on_most_launches_that_are_supposed_there() -> None:
    t = strided()
    p = problem(table(t.columns, t.X, np.column_stack([t.times, np.full(t.n_scenarios, 1.5)])))
    zero, one, two = (p.configs.tolist().index(c) for c in (0, 1, 2))
    tree = Branch(Cut(0, 96.0, 97.0), Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(one)), Tip(zero))
    X = np.array([[120.0, 2.0]] * 3)
    for share, answer in ((1, one), (2, two)):
        fails = np.zeros((3, 3), dtype=bool)
        fails[:, zero], fails[:share, one] = True, True
        found = guarded(replace(p, supposed=Supposed(X, fails, 4.0)), tree, limits(p), UNIT, 4, 8)
        assert isinstance(found, Branch)
        assert found.right == Branch(Cut(1, 1.0, 2.0), Tip(zero), Tip(answer))


def test_fewer_launches_of_unseen_layers_fail() -> None:
    """Winograd and FFT fail for most layers; trees tell a layer by its sizes as well as by its filter and stride."""
    log = convolutions(24, 0)
    layer = settings(log.X, [i for i, c in enumerate(log.columns) if c.name not in ("n", "dtype")])
    invalid = {True: 0.0, False: 0.0}
    for fold in range(4):
        out = np.isin(layer, np.random.RandomState(0).permutation(layer.max() + 1)[fold::4])
        train, test = np.flatnonzero(~out), np.flatnonzero(out)
        r = regime(problem(log, train), FitOptions(strategy="joint"))
        assert ("r", "pad") in r.moves or ("pad", "r") in r.moves
        for moves in (r.moves, frozenset[tuple[str, ...]]()):
            s = Settings(16, 0.03, 8, 40, spare=2)
            fitted = joint.fit_joint(problem(log, train), replace(r, moves=moves), s)
            at = choices(selector(fitted, log, train, "joint", {}), log, test)
            invalid[bool(moves)] += float(np.isinf(log.times[test, at]).mean())
    assert invalid[True] < 0.3 * invalid[False]
