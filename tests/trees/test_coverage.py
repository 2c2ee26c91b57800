"""The cut that settles coverage, and tables of which many cells are missing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import constants, fit
from heurgen.trees.build import choices
from heurgen.trees.coverage import settling_cut, sparse
from heurgen.trees.node import Cut
from heurgen.trees.options import FitOptions, Strategy
from heurgen.trees.problem import UNIT, Problem, priced, problem
from heurgen.trees.regime import regime
from tests.trees.modelled import matmul, mixed_matmul
from tests.trees.synthetic import covered_apart, solvers, surface, swept_apart, table, winners_only


@pytest.mark.parametrize(
    ("kinds", "type_", "cut"),
    [
        ([0.0, 1.0, 2.0, 7.0, 8.0, 9.0], "int", Cut(0, 2.0, 7.0)),
        ([0.0, 1.0, 2.0, 3.0], "category", Cut(0, left=(0, 1))),
        ([0.0, 2.0, 2.0, 3.0], "int", None),  # 2 lies on both sides
        ([0.0, 1.0, 1.0, 2.0], "category", None),
    ],
)
def test_a_cut_settles_coverage_where_the_sides_do_not_meet(
    kinds: list[float], type_: str, cut: Cut | None
) -> None:
    assert settling_cut(problem(covered_apart(kinds, type_))) == cut


def test_what_is_covered_everywhere_or_in_three_ways_is_settled_by_no_cut() -> None:
    x = np.arange(6.0)[:, None]
    column = [TableColumn("x", "int")]
    assert settling_cut(problem(table(column, x, np.ones((6, 2))))) is None
    thirds = np.ones((6, 3))
    thirds[:2, 0], thirds[2:4, 1] = np.nan, np.nan
    assert settling_cut(problem(table(column, x, thirds))) is None


def in_turn(*columns: list[float], type_: str = "int") -> Problem:
    """Config 0 covers the first and third scenario, config 1 the others, config 2 none, config 3 all."""
    first = (np.arange(4) % 2 == 0)[:, None]
    times = np.where(np.hstack([first, ~first, first & ~first, first | ~first]), 1.0, np.nan)
    values = ("a", "b", "c", "d") if type_ == "category" else ()
    described = [TableColumn(f"x{i}", type_, values=values) for i in range(len(columns))]  # type: ignore[arg-type]
    return problem(table(described, np.column_stack(columns), times))


def test_the_first_scenarios_kind_may_lie_above_and_a_shared_value_settles_nothing() -> None:
    # x0 alternates, x1 has 5 on both sides; x2 is below on the second and fourth.
    assert settling_cut(in_turn([0.0, 1.0, 2.0, 3.0], [5.0, 4.0, 6.0, 5.0], [7.0, 1.0, 9.0, 2.0])) == Cut(
        2, 2.0, 7.0
    )
    cut = settling_cut(in_turn([0.0, 1.0, 2.0, 3.0], type_="category"))
    assert cut == Cut(0, left=(0, 2))


def test_a_config_that_covers_nothing_is_nothing_to_settle() -> None:
    times = np.array([[1.0, np.nan]] * 4)
    assert settling_cut(problem(table([TableColumn("x", "int")], np.arange(4.0)[:, None], times))) is None


def test_half_of_the_cells_is_not_most() -> None:
    p = in_turn([0.0, 1.0, 2.0, 3.0])
    assert p.covered.mean() == 0.5
    assert settling_cut(p) is None
    assert not sparse(p)


def test_a_table_is_sparse_where_many_cells_are_missing_and_no_cut_says_which() -> None:
    assert sparse(problem(matmul(80)))
    assert not sparse(problem(surface(80, 8, 3, holes=0.2)))
    # Three configs run on the first scenario alone, one on the four others: in both tables as many cells are missing.
    first = np.arange(5)[:, None] == 0
    times = np.where(first == [True, True, True, False], 1.0, np.nan)
    x = TableColumn("x", "int")
    assert not sparse(problem(table([x], np.array([[0.0], [1.0], [1.0], [2.0], [3.0]]), times)))
    assert sparse(problem(table([x], np.array([[1.0], [0.0], [1.0], [2.0], [3.0]]), times)))
    # Of winners alone nothing says that the others do not apply.
    assert not sparse(problem(winners_only(matmul(80))))


def test_a_log_merged_of_sweeps_is_not_sparse_where_the_gaps_are_in_configs_that_no_leaf_needs() -> None:
    merged = problem(swept_apart(mixed_matmul(300), 6, 12, 0.15))
    assert merged.covered.mean() < 0.2
    r = regime(merged, FitOptions())
    assert (r.by_chance, r.sparse, r.careful, r.between) == (False, False, False, True)
    # The best configs of these do not run everywhere, and those of a log of listed solvers are mostly not listed.
    assert sparse(problem(swept_apart(matmul(300), 3, 8, 0.2)))
    assert sparse(problem(solvers(300, 20, 5)))


def test_where_few_configs_are_best_anywhere_the_others_count_too() -> None:
    """One config is best on all but three scenarios, the others run on a quarter and slowly."""
    times = np.where((np.arange(100)[:, None] + np.arange(9)) % 4 == 0, 3.0, np.nan)
    times[:, 0] = 1.0
    times[:3, 1] = 0.5
    x = np.random.RandomState(0).permutation(100).astype(np.float64)[:, None]
    assert sparse(problem(table([TableColumn("x", "int")], x, times)))


def test_a_sparse_table_has_no_points_between_and_counts_what_is_uncovered_less() -> None:
    p = problem(matmul(80))
    r = regime(p, FitOptions())
    assert (r.sparse, r.between) == (True, False)
    other = replace(p, sparse=True)
    c = constants.LEARNER
    assert (p.guide.max(), other.guide.max()) == (c.uncovered * UNIT, c.sparse_uncovered * UNIT)
    assert (other.guide[p.covered] == np.minimum(p.cost[p.covered], c.sparse_uncovered * UNIT)).all()
    # Held-out figures and labels count coverage as ever.
    assert (other.soft == p.soft).all()
    share = 1 - p.covered.mean(axis=0)
    assert priced(p).leaf_price.tolist() == np.rint(c.doubt * UNIT * share).tolist()
    assert priced(other).leaf_price.tolist() == np.rint(c.sparse_doubt * UNIT * share).tolist()


def test_one_config_is_kept_for_the_few_launches_in_which_the_others_are_hopeless() -> None:
    """Of two configs the naive one runs everywhere; a second halves fifty scenarios, a third saves three from 1000x."""
    x = np.arange(100)
    times = np.where((x[:, None] + np.arange(7)) % 4 == 0, 3.0, np.nan)
    times[:, 0] = np.where(x < 97, 1.0, 1000.0)
    times[:50, 1], times[97:, 2] = 0.5, 1.0
    t = table([TableColumn("x", "int")], np.arange(100.0)[:, None], times)
    found = fit(t, FitOptions(strategy="joint", max_configs=2))
    assert {config[0] for config in found.configs} == {16, 48}
    # What is reported of held-out launches is their slowdown, not what training counts.
    single = fit(t, FitOptions(max_configs=1)).choice["held_out"]
    assert single["max_slowdown"] == pytest.approx(1000.0, rel=1e-4)
    assert single["invalid_share"] == 0


def losers_left_out(full: CostTable, limit: float) -> CostTable:
    """As a sweep leaves it that measured what is within `limit` of the best."""
    lost = full.log_slowdown > math.log(limit)
    times, log = (np.where(lost, np.nan, cells) for cells in (full.times, full.log_slowdown))
    return replace(full, times=times, log_slowdown=log)


@pytest.mark.parametrize("strategy", ["joint", "auto"])
def test_a_log_that_says_it_is_pruned_is_learnt_as_well_as_a_whole_one(strategy: Strategy) -> None:
    full = surface(150, 10, 3)
    left = losers_left_out(full, 1.15)

    def mean(table: CostTable) -> float:
        found = choices(fit(table, FitOptions(strategy=strategy)), full, np.arange(150))
        return float(full.log_slowdown[np.arange(150), found].mean())

    told = mean(replace(left, pruned=True))
    assert told < min(0.6 * mean(left), mean(full) + 0.001)


def test_held_out_figures_count_a_pruned_gap_as_not_measured() -> None:
    left = replace(losers_left_out(surface(150, 10, 3), 1.02), pruned=True)
    held = fit(left).choice["held_out"]
    assert held["invalid_share"] > 0.02
    assert held["max_slowdown"] <= 1.02
