"""The order of scenarios: far ones and those whose neighbours disagree first."""

from __future__ import annotations

import math

import numpy as np

from heurgen.audit.advise.rank import Measured, next_scenarios, order, promising, regrets
from heurgen.audit.advise.scale import base_columns, scale_over
from tests.audit.advise.test_scale import COLUMNS
from tests.audit.learner import load


def test_far_scenarios_and_those_whose_neighbours_disagree_come_first() -> None:
    X = np.array([[0.0, 0], [1.0, 0], [9.0, 0], [10.0, 0]])
    space = scale_over(COLUMNS, X)
    costs = np.array([[0.0, 0.5], [0.0, 0.5], [0.5, 0.0], [0.5, 0.0]])
    known = Measured(space.points(X), costs)
    pool = space.points(np.array([[2.0, 0], [8.0, 0], [5.0, 0]]))
    zero = np.zeros(3, dtype=np.int64)
    regret, _ = regrets(space, known, pool, zero)
    assert regret[0] < regret[2] < regret[1] < 0.5
    taken = [i for i, *_ in order(space, known, pool, zero, 3)]
    assert taken[0] == 2
    right = order(space, known, pool[:2], zero[:2], 2)
    assert [i for i, *_ in right] == [1, 0]
    weighted = order(space, known, pool[:2], zero[:2], 1, np.array([9.0, 1.0]))
    assert weighted[0][0] == 0


def test_a_batch_spreads_out() -> None:
    X = np.array([[0.0, 0]])
    pool = np.array([[10.0, 0], [9.9, 0], [5.0, 0]])
    space = scale_over(COLUMNS, np.vstack([X, pool]))
    assert next_scenarios(space, X, np.zeros((1, 1)), pool, np.zeros(3, dtype=np.int64), 2) == [0, 2]


def test_promising_configs_were_near_the_best_somewhere_near() -> None:
    costs = np.array([[0.0, 0.05, 0.5, np.nan], [0.3, 0.0, 0.5, np.inf], [0.0, 0.0, 0.0, 0.0]])
    assert promising(costs, [0, 1]) == [1, 0]


def test_advice_beats_random_order_on_the_h200_log() -> None:
    """The proof is benchmarks/advise.py, with heurgen's own learner; here a greedy tree, cheap enough to fit often."""
    _, _, (table,) = load()
    costs = np.where(np.isfinite(table.log_slowdown), table.log_slowdown, math.log(3.0))
    base = base_columns(table)
    space = scale_over(base, table.X)
    won = []
    for seed in range(20):
        order_ = np.random.RandomState(seed).permutation(table.n_scenarios)
        test, pool = order_[:21], order_[21:].tolist()
        areas = []
        for advised in (False, True):
            have, rest, losses = pool[:20], pool[20:], []
            while True:
                chosen = greedy(table.X, costs, np.array(have))
                losses.append(float(costs[test, chosen[test]].mean()))
                if not rest:
                    break
                n = min(6, len(rest))
                picked = next_scenarios(
                    space, table.X[have], table.log_slowdown[have], table.X[rest], chosen[rest], n
                )
                taken = [rest[i] for i in picked] if advised else rest[:n]
                have, rest = have + taken, [r for r in rest if r not in taken]
            areas.append(float(np.mean(losses)))
        won.append(areas[0] - areas[1])
    assert np.mean(won) > 0
    t = np.mean(won) / (np.std(won, ddof=1) / math.sqrt(len(won)))
    assert t > 1.729  # one-sided 5 % with 19 degrees of freedom


def greedy(X: np.ndarray, costs: np.ndarray, rows: np.ndarray, depth: int = 5) -> np.ndarray:
    """The config that a greedy slowdown tree on some rows chooses for every row."""
    chosen = np.empty(len(X), dtype=np.int64)

    def grow(train: np.ndarray, apply: np.ndarray, level: int) -> None:
        best: tuple[float, int, float] | None = None
        here = costs[train].sum(axis=0).min()
        for f in range(X.shape[1] if level else 0):
            order_ = train[np.argsort(X[train, f], kind="stable")]
            values, sums = X[order_, f], np.cumsum(costs[order_], axis=0)
            cut = sums[:-1].min(axis=1) + (sums[-1] - sums[:-1]).min(axis=1)
            n = np.arange(1, len(order_))
            cut = np.where((values[:-1] < values[1:]) & (n >= 2) & (len(order_) - n >= 2), cut, np.inf)
            if len(cut) and cut.min() < here - 0.02 and (best is None or cut.min() < best[0] - 1e-12):
                j = int(cut.argmin())
                best = (float(cut[j]), f, float((values[j] + values[j + 1]) / 2))
        if best is None:
            chosen[apply] = costs[train].sum(axis=0).argmin()
            return
        _, f, t = best
        for side in (True, False):
            grow(train[(X[train, f] <= t) == side], apply[(X[apply, f] <= t) == side], level - 1)

    grow(rows, np.arange(len(X)), depth)
    return chosen
