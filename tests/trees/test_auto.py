"""The choice among candidates by cross-validation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.logs.costs import TableColumn
from heurgen.trees import auto, build, constants, fit
from heurgen.trees.auto import Candidate, held_out_choices, held_out_groups
from heurgen.trees.build import choices
from heurgen.trees.joint import Fitted, Settings
from heurgen.trees.learn import fit_rows
from heurgen.trees.node import Branch, Cut, Tip
from heurgen.trees.options import FitOptions
from heurgen.trees.problem import problem
from heurgen.trees.regime import regime
from tests.trees.synthetic import surface, table


def candidate(mean: float, leaves: float, spread: float = 0.0, n: int = 40) -> Candidate:
    cost = mean + spread * np.where(np.arange(n) % 2, 1.0, -1.0)
    return Candidate("joint", Settings(8, 0.03, 8, 24), mean, leaves, 8.0, cost)


@pytest.mark.parametrize(("n_scenarios", "expected"), [(6, 3), (70, 3), (300, 2), (1500, 1)])
def test_few_scenarios_are_divided_several_times_and_every_group_is_held_out_once_a_time(
    n_scenarios: int, expected: int
) -> None:
    r = regime(problem(surface(n_scenarios, 2, 3)), FitOptions())
    held = np.array(list(held_out_groups(r)))
    assert r.repeats == expected
    assert (held.sum(axis=0) == expected).all()


def test_held_out_choices_ask_for_no_leaf_what_it_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    log = surface(40, 4, 2)
    p = problem(log)
    tree = Branch(Cut(0, 100.0, 200.0), Tip(0), Tip(1))
    monkeypatch.setattr(build, "evidence", lambda *_: pytest.fail("asked"))
    found = held_out_choices(log, Fitted(p, tree), p.index)
    assert set(found.tolist()) == set(p.configs[:2].tolist())


def test_too_few_groups_are_not_divided() -> None:
    t = surface(5, 3, 2)
    p = problem(t)
    found = auto.choose(t, FitOptions(), p, regime(p, FitOptions()))
    assert (found.compared, found.beyond) == ((), None)
    assert found.chosen.strategy == "joint"
    assert (found.chosen.settings.depth, found.chosen.settings.max_leaves) == (2, 4)


@pytest.mark.parametrize(
    ("first", "others", "better", "asked"),
    [(0.1, 0.1, False, 5), (0.5, 0.05, False, 15), (0.5, 0.5, True, 15)],
)
def test_a_tree_a_parameter_is_better_over_all_repeats_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, first: float, others: float, better: bool, asked: int
) -> None:
    """first, others: what the candidate beside it costs held out in the first repeat, and in the other two."""
    t = surface(60, 4, 2)
    p = problem(t)
    r = regime(p, FitOptions())
    folds = list(auto._folds(t, p, r))
    seen: list[int] = []

    def held(fold: auto._Fold, *_: object) -> auto.Held:
        seen.append(len(seen))
        n = len(fold.test)
        return auto.Held(np.full(n, 0.2), fold.test, np.zeros(n, dtype=np.int64), 1, 1)

    monkeypatch.setattr(auto, "_held", held)
    cost = np.concatenate([np.full(60, first), np.full(120, others)])
    chosen = replace(candidate(float(cost.mean()), 8), cost=cost)
    found, other = auto._or_per_parameter(chosen, folds, t, chosen.settings, r)
    assert found is (other if better else chosen)
    assert (len(seen), len(other.cost)) == (asked, 12 * asked)


def test_progress_ends_at_its_total_though_steps_are_left_out() -> None:
    seen: list[tuple[int, int]] = []
    steps = auto._Steps(lambda done, total: seen.append((done, total)), 2)
    for _ in range(3):
        steps.step()
    steps.finish()
    assert seen == [(1, 2), (2, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize(
    ("n_scenarios", "options", "expected"),
    [
        (70, FitOptions(), 8),
        (70, FitOptions(max_configs=12), None),
        (70, FitOptions(prefer="small"), None),
        (100, FitOptions(), None),
    ],
)
def test_a_number_of_configs_is_usual_where_few_scenarios_and_no_caller_say_another(
    n_scenarios: int, options: FitOptions, expected: int | None
) -> None:
    assert regime(problem(surface(n_scenarios, 12, 3)), options).usual == expected
    if expected:
        assert regime(problem(surface(n_scenarios, 3, 3)), options).usual == 3


def test_larger_limits_are_tried_where_the_trees_reach_theirs() -> None:
    t = surface(12, 2, 1)
    p = problem(t)
    r = regime(p, FitOptions(max_leaves=2))
    contest = auto.choose(t, FitOptions(max_leaves=2), p, r, lambda done, of: None)
    assert contest.beyond is not None
    chosen, larger = contest.chosen.settings, contest.beyond.settings
    assert (larger.max_leaves, larger.depth) == (2 * chosen.max_leaves, chosen.depth + 2)
    assert auto._beyond(candidate(0.05, 10), [], t, r, False) is None
    assert auto._beyond(replace(candidate(0.05, 24), strategy="optimal"), [], t, r, True) is None


def test_default_limits_give_way_where_twice_the_leaves_pay_and_nobody_named_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of four configs is four times as fast as the others in three stretches of a feature: 12 leaves, not 8."""
    monkeypatch.setattr(constants, "LEARNER", replace(constants.LEARNER, leaves=8))
    x = np.arange(504.0)
    winner = (x // 42) * 3 % 4
    t = table([TableColumn("m", "int")], x[:, None], np.where(winner[:, None] == np.arange(4), 1.0, 4.0))
    found = fit(t, FitOptions())
    assert sum(1 for _ in ir.leaves(found.tree)) > 8
    assert found.choice["limits"]["max_leaves"] == 16
    for options in (FitOptions(max_leaves=8), FitOptions(prefer="small"), FitOptions(max_depth=8)):
        assert not regime(problem(t), options).widens
    assert regime(problem(surface(60, 2, 1)), FitOptions()).widens


def test_more_configs_are_tried_at_limits_that_have_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next two numbers of configs: what is beyond them waits until one of them has paid."""
    t = surface(60, 12, 2)
    p = problem(t)
    r, none = regime(p, FitOptions()), np.zeros(40, dtype=np.int64)
    assert r.counts == (1, 2, 4, 6, 8, 12)
    own = replace(candidate(0.05, 80), settings=Settings(4, 0.03, 10, 80))
    for means, expected in (
        ({6: 0.045, 8: 0.04, 12: 0.01}, 8),
        ({6: 0.04, 8: 0.04}, 6),
        ({6: 0.05, 8: 0.06}, 4),
    ):

        def fits(fold, table, s, r, prices, means=means):  # type: ignore[no-untyped-def]
            leaves = 80 + s.n_configs
            return [
                (s, auto.Held(candidate(means[s.n_configs], leaves).cost, none, none, leaves, s.n_configs))
            ]

        monkeypatch.setattr(auto, "_joint_fits", fits)
        found = auto._fuller(own, [None], t, r)  # type: ignore[list-item]
        assert found.settings == replace(own.settings, n_configs=expected)
    most = replace(own, settings=replace(own.settings, n_configs=12))
    assert auto._fuller(most, [], t, r) is most


def test_a_sparse_table_grows_by_other_rules_where_these_are_surely_better_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none, own = np.zeros(40, dtype=np.int64), Settings(8, 0.03, 8, 24)
    t = surface(60, 3, 2)
    r = regime(problem(t), FitOptions())
    doubtful, dense = replace(own, doubtful=True), replace(own, dense=True)
    for means, spread, expected in (
        ({doubtful: 0.04, dense: 0.045}, 0.0, doubtful),
        ({doubtful: 0.045, dense: 0.04}, 0.0, dense),
        ({doubtful: 0.05, dense: 0.06}, 0.0, own),
        ({doubtful: 0.04, dense: 0.06}, 0.1, own),  # by less than its standard error, 0.1 / sqrt(40)
    ):

        def fits(fold, table, s, r, prices, means=means, spread=spread):  # type: ignore[no-untyped-def]
            cost = candidate(means.get(s, 0.05), 10, 0.0 if s == own else spread).cost
            return [(s, auto.Held(cost, none, none, 10, 8))]

        monkeypatch.setattr(auto, "_joint_fits", fits)
        assert auto._ruled([None], t, own, r) == expected  # type: ignore[list-item]


def test_guards_get_the_usual_price_unless_that_is_surely_worse_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    t = surface(60, 3, 2)
    p = problem(t)
    r, none = regime(p, FitOptions()), np.zeros(40, dtype=np.int64)
    own = replace(candidate(0.05, 10), settings=Settings(8, 0.3, 8, 24))
    for mean, spread, wary in (
        (0.05, 0.0, True),
        (0.051, 0.0, False),
        (0.051, 0.02, True),
        (0.06, 0.02, False),
    ):
        held = auto.Held(candidate(mean, 10, spread).cost, none, none, 10, 8)
        monkeypatch.setattr(auto, "_joint_fits", lambda fold, table, s, r, prices, held=held: [(s, held)])
        found = auto._warier(own, [None], t, r)  # type: ignore[list-item]
        assert found.settings == replace(own.settings, wary=wary)
    usual = replace(own, settings=replace(own.settings, price=constants.LEARNER.price))
    assert auto._warier(usual, [], t, r) is usual
    many = replace(r, n_scenarios=constants.LEARNER.abundant + 1)
    assert auto._warier(own, [], t, many) is own


def test_names_of_few_scenarios_each_are_no_feature_where_sizes_tell_all() -> None:
    """150 launches of a hundred models whose names say nothing, by the times of others."""
    costs = []
    for seed in range(2):
        plain = surface(750, 12, 3, seed=seed, noise=0.1)
        name = np.random.RandomState(seed).randint(0, 100, 750)
        column = TableColumn("model", "category", values=tuple(f"m{i:02d}" for i in range(100)))
        named = table((*plain.columns, column), np.column_stack([plain.X, name]), plain.times)
        rows = np.random.RandomState(seed).permutation(750)
        train, test = np.sort(rows[:150]), np.sort(rows[150:])
        found = [
            t.log_slowdown[test, choices(fit_rows(t, train, FitOptions()), t, test)].mean()
            for t in (plain, named)
        ]
        costs.append(found)
    without, with_names = np.mean(costs, axis=0)
    assert with_names < without + 0.01
