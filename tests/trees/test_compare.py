"""The cross-validated comparison of strategies."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from heurgen.base.errors import UsageError
from heurgen.logs.costs import TableColumn
from heurgen.trees import evaluate
from heurgen.trees.compare import Report, _beyond, _correlation, _ranks, divisions
from tests.trees.synthetic import surface, table, winners_only

SEEN: list[tuple[int, int]] = []


@pytest.fixture(scope="module")
def report() -> Report:
    told = SEEN.append
    return evaluate(surface(40, 6, 2, holes=0.2), folds=3, progress=lambda done, total: told((done, total)))


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
    assert (rows["oracle"].geomean_slowdown, rows["oracle"].p95_slowdown, rows["oracle"].within_1_1) == (
        1,
        1,
        1,
    )
    assert (rows["best single config"].leaves, rows["best single config"].configs) == (1, 1)
    for row in report.rows:
        assert row.geomean_slowdown is not None
        assert row.p95_slowdown is not None
        assert row.max_slowdown is not None
        assert 1 <= row.geomean_slowdown <= row.max_slowdown
        assert row.p95_slowdown <= row.max_slowdown
        assert 0 <= (row.invalid_share or 0) < 1
    assert (rows["auto"].geomean_slowdown or 9) < (rows["best single config"].geomean_slowdown or 0)


def test_the_report_is_json_and_text(report: Report) -> None:
    data = report.to_dict()
    assert json.loads(json.dumps(data))["rows"][0]["strategy"] == "oracle"
    lines = report.to_text().splitlines()
    assert lines[0] == "nvidia: 3 folds over scenarios, 1 repeat"
    assert lines[1].split() == (
        "strategy geomean p95 max within 1.1x invalid scenarios leaves configs".split()
    )


def test_every_fit_reports_progress(report: Report) -> None:
    # Three folds, and the split beyond.
    total = 4 * len(report.rows)
    assert list(SEEN) == [(i + 1, total) for i in range(total)]


def test_winners_have_unknown_slowdowns() -> None:
    found = evaluate(winners_only(surface(24, 3, 2)), folds=2)
    assert {r.geomean_slowdown for r in found.rows} == {None}
    agreed = {r.strategy: r.agreement for r in found.rows}
    assert agreed["oracle"] == 1.0
    assert all(share is not None for share in agreed.values())
    assert "unknown" in found.to_text()


def test_too_few_groups_for_the_folds() -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(surface(4, 3, 2), folds=5)
    assert str(caught.value).startswith("4 groups of scenarios cannot be put into 5 folds, 1 time (")


def test_every_group_is_held_out_once_and_together() -> None:
    t = surface(23, 3, 2)
    splits = list(divisions(t, 4, 2))
    for repeat in (splits[:4], splits[4:]):
        assert sorted(np.concatenate([test for _, test in repeat]).tolist()) == list(range(23))
    for train, test in splits:
        assert not set(t.group[train].tolist()) & set(t.group[test].tolist())
    assert [test.tolist() for _, test in splits[:4]] != [test.tolist() for _, test in splits[4:]]


def test_the_dominant_feature_is_the_one_whose_ranks_follow_the_best_time() -> None:
    x = np.arange(10.0)
    X = np.column_stack([np.arange(10) % 2, x, -x])
    columns = [
        TableColumn("parity", "int"),
        TableColumn("size", "int"),
        TableColumn("depth", "int", derived=True),
    ]
    t = table(columns, X, np.column_stack([np.exp(x), 2 * np.exp(x)]))
    found = _beyond(t)
    assert found is not None
    name, (train, test) = found
    assert name == "size"
    assert (train.tolist(), test.tolist()) == (
        sorted(np.flatnonzero(t.X[:, 1] < 7).tolist()),
        np.flatnonzero(t.X[:, 1] >= 7).tolist(),
    )


def test_no_group_is_below_and_beyond() -> None:
    """Two groups of a custom `group`, whose sizes go from 0 to 8 and from 1 to 9, and eight small ones of one row."""
    x = np.r_[np.arange(10.0), np.full(8, 0.5)]
    t = table([TableColumn("size", "float")], x[:, None], np.column_stack([np.exp(x), 2 * np.exp(x)]))
    size = t.X[:, 0]
    t = replace(t, group=np.where(size == 0.5, 2 + np.arange(18), size.astype(int) % 2))
    found = _beyond(t)
    assert found is not None
    train, test = found[1]
    assert size[test].tolist() == [4, 5, 6, 7, 8, 9]
    assert size[train].tolist() == [0.5] * 8


def test_without_a_number_or_with_one_value_there_is_no_beyond() -> None:
    times = np.array([[1.0, 2.0]] * 4)
    kind = TableColumn("kind", "category", values=("a", "b"))
    assert _beyond(table([kind], np.array([[0.0], [0.0], [1.0], [1.0]]), times)) is None
    assert _beyond(table([TableColumn("x", "int")], np.full((4, 1), 7.0), times)) is None


def test_equal_values_share_their_mean_rank() -> None:
    assert _ranks(np.array([5.0, 1.0, 5.0, 9.0])) == [1.5, 0.0, 1.5, 3.0]
    assert _correlation([0.0, 1.0, 2.0], [2.0, 1.0, 0.0]) == -1.0
    assert _correlation([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]) == 1.0
    assert _correlation([1.0, 1.0, 1.0], [0.0, 1.0, 2.0]) == 0.0
