"""The cross-validated comparison, the candidates' choice, and suggestions of derived features."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from heurgen.costs import CostTable, TableColumn
from heurgen.errors import UsageError
from heurgen.trees import evaluate, suggest_derived
from heurgen.trees.auto import Candidate, held_out_groups, pick, repeats
from heurgen.trees.compare import Report
from heurgen.trees.joint import Settings
from tests.trees.synthetic import surface, table, winners_only


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate(surface(40, 6, 2, holes=0.2), folds=4)


def test_rows_pool_all_held_out_scenarios(report: Report) -> None:
    names = [r.strategy for r in report.rows if r.strategy != "optimal"]
    assert names == [
        "oracle",
        "best single config",
        "winner-label tree",
        "per-parameter trees",
        "per-parameter, repaired",
        "slowdown tree",
        "auto",
    ]
    assert {r.n_scenarios for r in report.rows} == {40}
    assert [r.strategy for r in report.extrapolation] == [r.strategy for r in report.rows]
    assert report.dominant in ("x0", "x1")
    assert {r.n_scenarios for r in report.extrapolation} == {12}


def test_numbers_are_ordered(report: Report) -> None:
    rows = {r.strategy: r for r in report.rows}
    assert rows["oracle"].geomean_slowdown == 1.0
    assert (rows["best single config"].leaves, rows["best single config"].configs) == (1, 1)
    for row in report.rows:
        assert row.geomean_slowdown is not None
        assert row.p95_slowdown is not None
        assert row.max_slowdown is not None
        assert 1 <= row.geomean_slowdown <= row.max_slowdown
        assert row.p95_slowdown <= row.max_slowdown
        assert 0 <= row.invalid_share < 1
    assert (rows["auto"].geomean_slowdown or 9) < (rows["best single config"].geomean_slowdown or 0)


def test_the_report_is_json_and_text(report: Report) -> None:
    data = report.to_dict()
    assert json.loads(json.dumps(data))["rows"][0]["strategy"] == "oracle"
    lines = report.to_text().splitlines()
    assert lines[0] == "nvidia: 4 folds over scenarios, 1 repeat"
    assert lines[1].split() == (
        "strategy geomean p95 max within 1.1x invalid scenarios leaves configs".split()
    )


def test_every_fit_reports_progress() -> None:
    seen: list[tuple[int, int]] = []
    evaluate(surface(12, 3, 2), folds=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i + 1, len(seen)) for i in range(len(seen))]


def test_winners_have_unknown_slowdowns() -> None:
    found = evaluate(winners_only(surface(24, 3, 2)), folds=2)
    assert {r.geomean_slowdown for r in found.rows} == {None}
    assert "unknown" in found.to_text()


def test_too_few_groups_for_the_folds() -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(surface(4, 3, 2), folds=5)
    assert str(caught.value).startswith("4 groups of scenarios cannot be put into 5 folds, 1 time(s) (")


# --- the choice among candidates ----------------------------------------------------------------------------


def candidate(mean: float, leaves: float, spread: float = 0.0, n: int = 40) -> Candidate:
    cost = mean + spread * np.where(np.arange(n) % 2, 1.0, -1.0)
    return Candidate("joint", Settings(8), mean, leaves, cost)


def test_a_smaller_tree_wins_only_within_the_tolerance() -> None:
    best = candidate(0.05, 10)
    for tolerance in (0.002, 0.01):
        assert pick([best, candidate(0.0499 + tolerance, 5)], tolerance, 1).leaves == 5
        assert pick([best, candidate(0.0501 + tolerance, 5)], tolerance, 1).leaves == 10


def test_a_smaller_tree_must_be_surely_within_it() -> None:
    best, lucky = candidate(0.05, 10), candidate(0.051, 5, spread=0.02)
    assert pick([best, lucky], 0.002, 1) is best
    many = [candidate(0.05, 10, n=4000), candidate(0.051, 5, spread=0.02, n=4000)]
    assert pick(many, 0.002, 1).leaves == 5
    assert pick(many, 0.002, 100).leaves == 10  # a hundred repeats of forty scenarios are forty scenarios


def test_few_scenarios_are_divided_several_times_and_every_group_is_held_out_once_a_time() -> None:
    for n_groups, expected in ((6, 8), (70, 8), (300, 4), (5000, 1)):
        held = np.array(list(held_out_groups(n_groups)))
        assert repeats(n_groups) == expected
        assert (held.sum(axis=0) == expected).all()


# --- suggestions --------------------------------------------------------------------------------------------


def test_a_hidden_product_is_found() -> None:
    rng = np.random.RandomState(0)
    X = np.floor(2.0 ** (3 + 9 * rng.rand(70, 2)))
    large = X[:, 0] * X[:, 1] > 2.0**15
    times = np.where(large[:, None], [[2.0, 1.0]], [[1.0, 2.0]]) * np.exp(0.01 * rng.rand(70, 2))
    found = suggest_derived(table([TableColumn("a", "int"), TableColumn("b", "int")], X, times))
    assert found.ranked[0].expression == "a * b"
    assert found.ranked[0].pays
    assert found.ranked[0].with_it < found.ranked[0].without
    assert (
        found.to_text().splitlines()[0]
        == "nvidia: derived features that pay on held-out scenarios are marked *"
    )
    assert json.loads(json.dumps(found.to_dict()))["vendor"] == "nvidia"


def test_nothing_pays_where_one_feature_decides() -> None:
    rng = np.random.RandomState(0)
    X = np.floor(2.0 ** (3 + 9 * rng.rand(60, 2)))
    times = np.where((X[:, :1] > 64), [[2.0, 1.0]], [[1.0, 2.0]])
    found = suggest_derived(table([TableColumn("a", "int"), TableColumn("b", "int")], X, times))
    assert not any(s.pays for s in found.ranked)


def test_suggestions_need_costs_and_scenarios(small: CostTable) -> None:
    with pytest.raises(UsageError, match="a log of winners"):
        suggest_derived(winners_only(small))
    few = surface(6, 3, 2)
    with pytest.raises(UsageError, match="6 groups of scenarios are too few"):
        suggest_derived(replace(few))


def test_p95_is_the_documented_one() -> None:
    found = evaluate(surface(20, 4, 2), folds=2)
    row = next(r for r in found.rows if r.strategy == "oracle")
    assert row.p95_slowdown == 1.0
    assert math.isclose(row.within_1_1 or 0, 1.0)
