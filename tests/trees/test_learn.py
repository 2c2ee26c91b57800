"""Fitting: the properties that every log must show, and the numbers that the H200 log must reach."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.ir.schema import node_data
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, fit
from heurgen.trees.build import _just_below, choices
from heurgen.trees.learn import fit_rows
from heurgen.trees.options import Strategy
from tests.trees.synthetic import solvers, surface, table, winners_only

JOINT = FitOptions(strategy="joint")


def text(selector: ir.Selector) -> str:
    """Everything but what only the table's order of columns decides."""
    configs = [sorted(zip(selector.parameters, c, strict=True)) for c in selector.configs]
    return json.dumps(
        [configs, node_data(selector.tree), selector.strategy, dict(selector.choice)], sort_keys=True
    )


def losses(selector: ir.Selector, t: CostTable) -> list[float]:
    rows = np.arange(t.n_scenarios)
    found: list[float] = t.log_slowdown[rows, choices(selector, t, rows)].tolist()
    return found


def geomean(values: list[float]) -> float:
    return math.exp(math.fsum(values) / len(values))


def best_single(t: CostTable) -> float:
    return float(np.where(np.isfinite(t.log_slowdown), t.log_slowdown, 10.0).mean(axis=0).min())


# --- properties ---------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=8)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.6]), st.sampled_from([0, 3]), st.integers(1, 5))
def test_never_worse_than_the_best_single_config(
    seed: int, holes: float, categories: int, depth: int
) -> None:
    t = surface(40, 7, 3, holes=holes, seed=seed, categories=categories)
    found = losses(fit(t, FitOptions(strategy="joint", max_depth=depth)), t)
    priced = [x if math.isfinite(x) else 10.0 for x in found]
    assert sum(priced) / len(priced) <= best_single(t) + 1e-5


@settings(derandomize=True, deadline=None, max_examples=4)
@given(st.integers(0, 10**6), st.sampled_from(["joint", "per-parameter"]))
def test_depth_never_hurts_the_training_objective(seed: int, strategy: str) -> None:
    t = surface(40, 7, 3, holes=0.2, seed=seed)
    costs = []
    for depth in range(1, 6):
        found = losses(fit(t, FitOptions(strategy=strategy, max_depth=depth)), t)  # type: ignore[arg-type]
        costs.append(sum(x if math.isfinite(x) else 10.0 for x in found))
    assert all(b <= a + 1e-4 for a, b in pairwise(costs)), costs


def test_depth_never_hurts_auto(small: CostTable) -> None:
    costs = [sum(losses(fit(small, FitOptions(max_depth=d)), small)) for d in (1, 4)]
    assert costs[0] > costs[1]


def permuted(t: CostTable, seed: int) -> CostTable:
    """The same log with rows, columns, parameters and configs in another order."""
    rng = np.random.RandomState(seed)
    rows, columns = rng.permutation(t.n_scenarios), rng.permutation(len(t.columns))
    configs, parameters = rng.permutation(len(t.configs)), rng.permutation(len(t.parameters))
    return replace(
        t,
        columns=tuple(t.columns[i] for i in columns),
        parameters=tuple(t.parameters[i] for i in parameters),
        configs=tuple(tuple(t.configs[i][j] for j in parameters) for i in configs),
        X=t.X[np.ix_(rows, columns)],
        times=t.times[np.ix_(rows, configs)],
        log_slowdown=t.log_slowdown[np.ix_(rows, configs)],
        noise=t.noise[rows],
        group=t.group[rows],
        scenario=tuple(t.scenario[i] for i in rows),
        device=tuple(t.device[i] for i in rows),
    )


@pytest.mark.parametrize("strategy", ["auto", "joint", "per-parameter"])
@pytest.mark.parametrize("seed", [0, 1])
def test_order_changes_nothing(small: CostTable, small_fit: ir.Selector, strategy: str, seed: int) -> None:
    options = FitOptions(strategy=strategy)  # type: ignore[arg-type]
    still = small_fit if strategy == "auto" else fit(small, options)
    moved = fit(permuted(small, seed), options)
    assert text(without_rows(moved)) == text(without_rows(still))
    if strategy == "auto":
        # None: an invalid choice.
        a, b = (sorted(found.choice["held_out"]["scenarios"], key=str) for found in (moved, still))
        assert a == b


def without_rows(selector: ir.Selector) -> ir.Selector:
    """Without what is recorded by the table's rows, which move with them."""
    held = {k: v for k, v in selector.choice.get("held_out", {}).items() if k not in ("scenarios", "worst")}
    return replace(selector, choice={**selector.choice, "held_out": held})


def test_order_changes_nothing_on_the_h200_log(h200: CostTable) -> None:
    assert text(fit(permuted(h200, 2), JOINT)) == text(fit(h200, JOINT))


def test_scaling_by_powers_of_two_changes_nothing(small: CostTable, small_fit: ir.Selector) -> None:
    factor = 2.0 ** np.random.RandomState(0).randint(-5, 6, small.n_scenarios)[:, None]
    scaled = table(small.columns, small.X, small.times * factor, small.configs, small.parameters)
    assert text(fit(scaled)) == text(small_fit)


# --- rules --------------------------------------------------------------------------------------------------


def line(times: list[list[float]], x: list[float] | None = None, noise: float = 0.02) -> CostTable:
    """Scenarios at x = 16, 32, ... with these times."""
    X = np.array(x or [16.0 * (i + 1) for i in range(len(times))])[:, None]
    return table([TableColumn("x", "int")], X, np.array(times), noise=noise)


def test_a_clear_lead_splits_at_a_round_threshold() -> None:
    tree = fit(line([[1.0, 1.5]] * 10 + [[1.5, 1.0]] * 10), JOINT).tree
    assert isinstance(tree, ir.Split)
    assert (tree.feature, tree.threshold) == ("x", 170)
    assert [(leaf.config, leaf.n_scenarios, leaf.slowdown) for leaf in ir.leaves(tree)] == [
        (0, 10, 1.0),
        (1, 10, 1.0),
    ]


def test_a_threshold_fits_between_neighbouring_floats() -> None:
    """Derived features may differ in the last bit: a thousandth of that gap is no float of its own."""
    column = TableColumn("ratio", "float", derived=True)
    below = math.nextafter(8.0, 0.0)
    assert _just_below(column, below, 8.0) == below
    assert 7.999 <= _just_below(column, 7.0, 8.0) < 8.0


def test_a_lead_within_the_noise_creates_no_split() -> None:
    times = [[1.0, 1.01]] * 10 + [[1.01, 1.0]] * 10
    assert isinstance(fit(line(times, noise=0.02), JOINT).tree, ir.Leaf)
    assert isinstance(fit(line(times, noise=0.001), JOINT).tree, ir.Split)


def test_an_uncovered_config_does_not_ship_where_it_was_not_measured() -> None:
    """Config 1 is much faster on half the scenarios, and was never measured on the others between them."""
    t = line([[1.0, 0.5], [1.0, math.nan]] * 10)
    selector = fit(t, FitOptions(strategy="joint", max_depth=1))
    assert all(math.isfinite(x) for x in losses(selector, t))


@pytest.mark.parametrize(("missing_left", "threshold"), [(True, 29999), (False, 160)])
def test_the_gap_belongs_to_the_side_whose_configs_are_measured_everywhere(
    missing_left: bool, threshold: int
) -> None:
    missing = [[1.0, math.nan]] * 10 + [[1.5, 1.0]] * 10
    failed = [[1.0, 1.5]] * 10 + [[math.inf, 1.0]] * 10
    x = [16.0 * (i + 1) for i in range(10)] + [30000.0 + i for i in range(10)]
    tree = fit(line(missing if missing_left else failed, x), JOINT).tree
    assert isinstance(tree, ir.Split)
    assert tree.threshold == threshold


def test_decode_and_prefill_are_told_apart_first(h200: CostTable) -> None:
    tree = fit(h200, JOINT).tree
    assert isinstance(tree, ir.Split)
    assert (tree.feature, tree.threshold) == ("max_seqlen_q", 1)


def test_a_region_without_a_covered_config_gets_the_least_uncovered() -> None:
    t = line([[1.0, math.nan, math.nan], [math.nan, 1.0, 1.1], [math.nan, 1.0, math.nan]])
    selector = fit(t, FitOptions(strategy="joint", max_leaves=1))
    assert selector.configs == ((32,),)
    assert sum(not math.isfinite(x) for x in losses(selector, t)) == 1


@pytest.mark.parametrize("strategy", ["auto", "joint", "per-parameter"])
def test_one_leaf_that_was_named_binds_however_few_scenarios(strategy: Strategy) -> None:
    """Below 100 scenarios, where the number of configs is the usual one, with gaps of every kind and without."""
    random = surface(60, 6, 2, seed=1)
    gaps = np.random.RandomState(0).rand(60, 6) < 0.4
    gaps[np.arange(60), np.nanargmin(random.times, axis=1)] = False
    by_chance = table(random.columns, random.X, np.where(gaps, np.nan, random.times), random.configs)
    of_a_kind = surface(60, 6, 2, holes=0.5)
    for log in (surface(5, 3, 2), random, by_chance, of_a_kind, winners_only(random), solvers(60, 8, 3)):
        selector = fit(log, FitOptions(strategy=strategy, max_leaves=1))
        assert isinstance(selector.tree, ir.Leaf)


def test_categories_split_by_membership() -> None:
    rng = np.random.RandomState(0)
    kind = rng.randint(0, 9, 200)
    slow = np.isin(kind, (1, 4, 7))
    times = np.where(slow[:, None], [[2.0, 1.0]], [[1.0, 2.0]])
    columns = [TableColumn("kind", "category", values=tuple("abcdefghi")), TableColumn("x", "int")]
    t = table(columns, np.column_stack([kind, rng.randint(1, 99, 200)]), times)
    tree = fit(t, JOINT).tree
    assert isinstance(tree, ir.Membership)
    assert {tree.values, tree.others} == {("b", "e", "h"), ("a", "c", "d", "f", "g", "i")}
    assert tree.unknown_left == (tree.values == ("a", "c", "d", "f", "g", "i"))
    assert geomean(losses(fit(t, JOINT), t)) == 1.0


def test_values_beyond_float32_are_told_apart() -> None:
    """Two strides that are one float32."""
    x = [2.0**25 + 1] * 5 + [2.0**25 + 2] * 5
    tree = fit(line([[1.0, 2.0]] * 5 + [[2.0, 1.0]] * 5, x), FitOptions(strategy="joint")).tree
    assert isinstance(tree, ir.Split)
    assert tree.threshold == 2**25 + 1


def test_winners_only_logs_train_on_labels(small: CostTable) -> None:
    t = winners_only(small)
    selector = fit(t)
    assert not selector.costs_known
    assert all(leaf.slowdown is None for leaf in ir.leaves(selector.tree))
    assert "configs_geomean_slowdown" not in selector.choice
    hits = sum(x == 0 for x in losses(selector, t))
    commonest = int((t.log_slowdown == 0).sum(axis=0).max())
    assert hits > commonest


def test_leaves_hold_their_evidence(h200: CostTable) -> None:
    selector = fit(h200, JOINT)
    leaves = list(ir.leaves(selector.tree))
    assert sum(leaf.n_scenarios for leaf in leaves) == 70
    assert all(leaf.n_scenarios > 0 for leaf in leaves)
    expected = math.fsum(leaf.n_scenarios * math.log(leaf.slowdown or 0) for leaf in leaves) / 70
    assert math.exp(expected) == pytest.approx(geomean(losses(selector, h200)))
    assert {leaf.config for leaf in leaves} == set(range(len(selector.configs)))


# --- options ------------------------------------------------------------------------------------------------


def test_limits_hold(h200: CostTable) -> None:
    selector = fit(h200, FitOptions(strategy="joint", max_depth=3, max_leaves=5, max_configs=3))
    assert ir.depth(selector.tree) <= 3
    assert len(list(ir.leaves(selector.tree))) <= 5
    assert len(selector.configs) <= 3


@pytest.mark.parametrize(("count", "limit"), [(4, 1.04), (8, 1.012)])
def test_few_configs_lose_almost_nothing(h200: CostTable, count: int, limit: float) -> None:
    selector = fit(h200, FitOptions(strategy="joint", max_configs=count))
    assert len(selector.configs) <= count
    assert selector.choice["configs_geomean_slowdown"] < limit
    assert selector.choice["configs_uncovered_scenarios"] == 0


def test_per_parameter_limits(h200: CostTable) -> None:
    selector = fit(h200, FitOptions(strategy="per-parameter", max_leaves=6, max_configs=3))
    assert len(list(ir.leaves(selector.tree))) <= 6
    assert len(selector.configs) <= 3


def test_per_parameter_is_repaired_and_says_what_it_cost(h200: CostTable) -> None:
    selector = fit(h200, FitOptions(strategy="per-parameter", max_depth=3))
    assert all(math.isfinite(x) for x in losses(selector, h200))
    assert 0 <= selector.choice["repaired_share"] <= 1
    assert "repair_mean_log_slowdown" in selector.choice


def test_few_groups_take_a_small_default() -> None:
    selector = fit(line([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0]]))
    assert selector.choice["note"] == "fewer than 6 groups of scenarios: no cross-validation, a small default"
    assert ir.depth(selector.tree) <= 2


def test_one_scenario_is_enough() -> None:
    assert fit(line([[1.0, 2.0]])).tree == ir.Leaf(0, 1, 1.0, 1, ir.RunnerUp(1, 2.0, 1))


def test_the_choice_is_recorded_as_json(small_fit: ir.Selector) -> None:
    choice = dict(small_fit.choice)
    assert json.loads(json.dumps(choice)) == choice
    assert choice["requested"] == "auto"
    best = min(c["mean_log_slowdown"] for c in choice["alternatives"])
    assert choice["held_out"]["mean_log_slowdown"] >= best
    assert {c["strategy"] for c in choice["alternatives"]} == {"joint", "per-parameter"}


def test_prefer_small_gives_no_larger_tree(small: CostTable, small_fit: ir.Selector) -> None:
    short = fit(small, FitOptions(prefer="small"))
    assert len(list(ir.leaves(short.tree))) <= len(list(ir.leaves(small_fit.tree)))


# --- numbers ------------------------------------------------------------------------------------------------


def test_held_out_on_the_h200_log(h200: CostTable) -> None:
    """One of the four repeats of the benchmark, joint: 1.060 is the most allowed over all."""
    fold = (np.random.RandomState(0).permutation(70) % 5)[h200.group]
    found = []
    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        selector = fit_rows(h200, train, JOINT)
        found += h200.log_slowdown[test, choices(selector, h200, test)].tolist()
    assert all(math.isfinite(x) for x in found)
    assert geomean(found) < 1.055


def test_holes_by_shape_are_respected_on_unseen_shapes(mm: CostTable) -> None:
    test = np.arange(0, mm.n_scenarios, 5)
    train = np.setdiff1d(np.arange(mm.n_scenarios), test)
    selector = fit_rows(mm, train, JOINT)
    found = mm.log_slowdown[test, choices(selector, mm, test)]
    assert np.isfinite(found).mean() >= 0.99
    # 1.0203; 1.0312 without the rules for sparse tables (`coverage.sparse`).
    assert geomean(found[np.isfinite(found)].tolist()) < 1.025


def test_rows_are_all_that_a_fit_sees() -> None:
    t = surface(40, 4, 2)
    t = replace(t, device=tuple(f"GPU {i % 4}" for i in range(40)))
    rows = np.flatnonzero(np.arange(40) % 4 != 2)
    found = fit_rows(t, rows, JOINT)
    assert sum(leaf.n_scenarios for leaf in ir.leaves(found.tree)) == found.n_scenarios == len(rows)
    assert found.devices == ("GPU 0", "GPU 1", "GPU 3")


def test_a_depth_that_was_asked_for_is_that_of_the_held_out_figures() -> None:
    shallow, free = (fit(surface(90, 6, 3, noise=0.0), FitOptions(max_depth=d)).choice for d in (1, None))
    assert max(c["leaves"] for c in shallow["curve"]) <= 2
    assert shallow["held_out"]["mean_log_slowdown"] > free["held_out"]["mean_log_slowdown"] + 0.01
    assert shallow["beyond"]["max_depth"] == 3
    assert shallow["beyond"]["mean_log_slowdown"] < shallow["held_out"]["mean_log_slowdown"]
