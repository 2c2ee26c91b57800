"""Cells that were not measured by chance: a random search, an interrupted sweep, lost lines.

A cell without a measurement mostly says that the config does not apply: a block that does not fit, a solver that was
not worth listing. So coverage comes first, and of a config that was measured in half of a region nobody knows whether
it runs in the other half. In a log of random samples that rule leaves nothing to choose from: every config lacks cells
everywhere, and the one that was drawn most often ships for all. There the gaps say nothing, and what the config would
have cost is estimated from the scenarios around. A cell that failed is never such a gap.

Where a search measured some of the configs that run, and others do not run there, gaps follow from features in part,
and no estimate tells the two apart. What `searched` finds counts as lost, as gaps of a pruned log do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from heurgen.trees import constants
from heurgen.trees.node import Branch, Tip, Tree, goes_left, parted
from heurgen.trees.points import standardised
from heurgen.trees.problem import UNIT, Bools, Floats, Ints, Problem
from heurgen.trees.spread import evenly, nearest, within_float32

# Scenarios with gaps, weighed by how much they tell, from which on chance can be told from kind.
ENOUGH = 30
# See `gaps_by_chance`: of gaps by chance the first two are 0.7 to 1.6 and the last 0.03 at most, on other logs 5 to
# 2,600 and 0.2 to 1.0.
UNEVEN, TOGETHER, NEAR = 3.0, 2.5, 0.1
# What a scenario has and its CLOSE nearest have, too, beyond what they would by chance: as a share of that, and in its
# roots. 12 random ones of 232 configs of a log like mixed_mm: 0.2 to 0.6 and 2.9 to 7.8, and 80 % of what was chosen by
# estimates did not run. By chance 0.05 and 1.4 at most.
CLOSE, MORE, SURE = 4, 0.12, 2.5
# Of the configs that were measured in the nearest scenario, the share that was measured, below which a search left the
# others out. Random searches of logs like mm, mixed_mm and flex attention have 0.05 to 0.66, logs of what does not run
# 0.81 to 0.99, of listed solvers 0.54 to 0.70.
SEARCHED = 0.5
# Nearest scenarios that a cell is estimated from, and how often effects are taken in turn. Estimates of tests' surfaces
# (400 x 20; 30 and 70 % missing; without noise and with 10 %) are off by 0.15, 0.25, 0.22, 0.30 of what configs differ
# by. From 4 scenarios: 0.15, 0.22, 0.28, 0.32; from 16: 0.18, 0.31, 0.22, 0.34. One pass: 0.16, 0.30, 0.23, 0.34; four
# passes, 2 or 16 rounds: the same.
NEIGHBOURS, ROUNDS, PASSES = 8, 8, 2
# Scenarios, spread over the log, that may be the nearest of one, and that `searched` looks at.
ASKED = 4000
# Of what is to be farther apart than any features.
FAR = 1000.0
# Distances that are held at once.
CELLS = 2**24


def gaps_by_chance(p: Problem) -> bool:
    """Whether which cells were not measured follows neither from the config, nor the others, nor the features.

    A scenario that lacks a share of its cells would lack each with that probability. Beyond this, of the cells:

    - uneven: do some configs lack more than others? (mean square over configs, of one by chance 1)
    - together: do two configs lack the same scenarios? (mean square over pairs, by chance 1)
    - near: do scenarios lack what the nearest one lacks? (correlation, by chance 0) And have they what the nearest few
      have? Where little of a log was measured that says more.

    A limit of size shows in all three; that a size is no multiple of 8, which neighbours do not share, in the first
    two. A config that was measured in every scenario, as a search measures today's default, tells nothing of gaps.
    """
    untried = p.untried[:, p.untried.any(axis=0)]
    share = untried.sum(axis=1) / max(untried.shape[1], 1)
    rows = np.flatnonzero((share > 0) & (share < 1))
    weight = share[rows] * (1 - share[rows])
    if not len(rows) or weight.sum() ** 2 < ENOUGH * (weight**2).sum():
        return False
    gaps = untried[rows] - share[rows][:, None]
    n = gaps.shape[1]
    uneven = (gaps.sum(axis=0) ** 2).mean() / weight.sum()
    # Gaps less their scenario's share add up to 0, so two configs' are opposite by chance, too.
    pairs = gaps.T @ gaps + weight.sum() / (n - 1)
    together = ((pairs**2).sum() - (np.diag(pairs) ** 2).sum()) / (n * (n - 1) * (weight**2).sum())
    if not (uneven < UNEVEN and together < TOGETHER):
        return False
    near = np.concatenate(list(_nearest(_features(p, rows), CLOSE)))
    if not (gaps * gaps[near[:, 0]]).sum() < NEAR * n * weight.sum():
        return False
    measured, left = ~untried[rows], 1 - share[rows]
    both = sum(int((measured & measured[other]).sum()) for other in near.T)
    expected = n * float((left[:, None] * left[near]).sum())
    return bool(both - expected < max(MORE * expected, SURE * math.sqrt(expected)))


def searched(p: Problem, device: Ints) -> bool:
    """Whether most of the configs that were measured in a scenario were not in the nearest one on its device.

    A limit of size, or any other kind of launch on which a config does not run, spares neighbours together. Such logs
    of random searches, 12 configs of each of 300 scenarios, would give 1.19 (flex attention) and 1.15 with 80 % of the
    choices not running (mixed_mm), and give 1.09 and 1.13 (`python -m benchmarks.pruned`).

    device: of the rows.
    """
    if len(p.X) < ENOUGH or not p.untried.any():
        return False
    rows = evenly(len(p.X), ASKED)
    near = np.concatenate(list(_nearest(_features(p, rows, device), 1)))[:, 0]
    alike = device[rows] == device[rows][near]  # not of a scenario alone
    measured = ~p.untried[rows]
    there = measured[near[alike]]
    return bool((measured[alike] & there).sum() < SEARCHED * there.sum())


def estimated(p: Problem) -> Problem:
    """The problem with a cost in every cell that was not measured; `untried` still tells them.

    One that would have failed costs an invalid choice, and is not covered.

    A measured cost is what its scenario costs more than others, plus what its config does, plus what it does here. The
    last is taken from the nearest scenarios where the config was measured. All are whole numbers of cost units: sums of
    them are exact, so the estimates are the same on every processor.
    """
    known = p.covered
    cost = np.where(known, p.cost, 0.0)
    row, column = effects(cost, known)
    per_config = max(float(known.mean()), 0.01)
    features = _features(p, np.arange(len(p.X)))
    near = np.concatenate(list(_nearest(features, int(2 * NEIGHBOURS / per_config) + 1)))
    here = np.zeros_like(cost)
    for _ in range(PASSES):
        here = _around(np.where(known, cost - row - column, 0.0), known, near)
        row = _mean(np.where(known, cost - column - here, 0.0), known, 1)
    filled = np.where(known, cost, row + column + here)
    fails = failing(p)
    runs: Bools = (known | p.untried) & ~fails
    filled -= np.where(runs, filled, np.inf).min(axis=1, keepdims=True)
    c = constants.LEARNER
    filled = np.minimum(filled, np.rint((c.uncovered - 1) * UNIT))
    filled = np.where(fails, np.rint(c.invalid * UNIT), filled)
    return replace(p, cost=np.where(known | p.untried, filled, p.cost), covered=runs)


def effects(cost: Floats, known: Bools) -> tuple[Floats, Floats]:
    """What a scenario costs more than others [N, 1] and a config [1, C], by the known cells, in whole numbers."""
    row, column = np.zeros((len(cost), 1)), np.zeros((1, cost.shape[1]))
    for _ in range(ROUNDS):
        column = _mean(np.where(known, cost - row, 0.0), known, 0)
        row = _mean(np.where(known, cost - column, 0.0), known, 1)
    return row, column


def failing(p: Problem) -> Bools:
    """Which cells [N, C] that were not measured would have failed, by what failed: one tree a config.

    A failure mostly follows a rule of the features, such as a limit of shared memory or a stride. Of cells taken from
    logs like flash attention's backward and convolutions' (60 to 95 % by chance) trees find 0.996 and more of those
    that fail and call 0.0008 of the others so at most; a majority of the eight nearest 0.57 to 0.86, and 0.027.
    """
    from sklearn.tree import DecisionTreeClassifier  # here, since few logs need it

    X, found = within_float32(p.X), np.zeros_like(p.untried)
    failed: Bools = ~p.covered & ~p.untried
    for config in np.flatnonzero(failed.any(axis=0) & p.untried.any(axis=0)).tolist():
        asked = ~p.untried[:, config]
        tree = DecisionTreeClassifier(random_state=0).fit(X[asked], failed[asked, config])
        found[~asked, config] = tree.predict(X[~asked])
    return found


def tried(p: Problem, tree: Tree) -> Tree:
    """The tree with no config in a leaf that was measured on none of its scenarios: estimates alone ship nothing.

    A leaf in whose scenarios no config was measured gives way to its sibling.
    """
    known = p.covered & ~p.untried

    def walk(node: Tree, rows: Ints) -> Tree:
        measured: Bools = np.asarray(known[rows].any(axis=0))
        if isinstance(node, Tip):
            if not measured.any() or measured[node.config]:
                return node
            return Tip(int(np.where(measured, p.cost[rows].sum(axis=0), np.inf).argmin()))
        left = goes_left(p, rows, node.cut)
        below, above = parted(rows, left)
        for side, other in ((below, node.right), (above, node.left)):
            if len(side) and not known[side].any():
                return walk(other, rows)
        return Branch(node.cut, walk(node.left, below), walk(node.right, above))

    return walk(tree, np.flatnonzero(p.real)) if p.guessed else tree


def _mean(cost: Floats, known: Bools, axis: int) -> Floats:
    """Means of the known cells along an axis, rounded to whole units; 0 where none is known."""
    count = known.sum(axis=axis, keepdims=True)
    found: Floats = np.rint(cost.sum(axis=axis, keepdims=True) / np.maximum(count, 1))
    return found


def _around(cost: Floats, known: Bools, near: Ints) -> Floats:
    """The mean cost [N, C] of a config in the first NEIGHBOURS of each row's nearest rows [N, K] where it is known.

    Neighbour by neighbour over its known cells: where few are known, all pairs of neighbours and configs took nine
    tenths of a training.
    """
    n_configs = cost.shape[1]
    configs, value, has = np.nonzero(known)[1], cost[known], known.sum(axis=1)
    begins = np.cumsum(has) - has
    sums, used = np.zeros(cost.size), np.zeros(cost.size, dtype=np.int64)
    for other in near.T:
        n = has[other]
        row = np.repeat(np.arange(len(other)), n)
        at = np.arange(len(row)) + np.repeat(begins[other] - (np.cumsum(n) - n), n)
        cell = row * n_configs + configs[at]  # each once
        wanted = used[cell] < NEIGHBOURS
        cell, at = cell[wanted], at[wanted]
        used[cell] += 1
        sums[cell] += value[at]
    return np.asarray(np.rint(sums / np.maximum(used, 1)).reshape(cost.shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """All given features of some rows as distances see them.

    numbers  float64 [n, F]  of unit spread
    names    categories [n] each, with what they add to a squared distance where they differ: a category is as far from
             every other as two units, a device farther from others than any features. A column a value would take time
             and memory with the values: of 5,000 scenarios of 1,000 models nine tenths of what `train` took
    """

    numbers: Floats
    names: tuple[tuple[Floats | Ints, float], ...]


def _features(p: Problem, rows: Ints, device: Ints | None = None) -> _Features:
    given = [i for i, c in enumerate(p.columns) if not c.derived]
    kinds = [i for i in given if p.columns[i].type == "category"]
    numbers = standardised(p, [i for i in given if i not in kinds])
    names: list[tuple[Floats | Ints, float]] = [(p.X[rows, i], 2.0) for i in kinds]
    if device is not None:
        names.append((device[rows], 2 * FAR**2))
    return _Features(numbers[rows], tuple(names))


def _nearest(features: _Features, count: int) -> Iterator[Ints]:
    """The `count` nearest other rows of each, nearest first, of ASKED; in parts."""
    numbers, n = features.numbers, len(features.numbers)
    asked = evenly(n, ASKED)
    count = min(count, len(asked) - 1)
    step = max(1, CELLS // len(asked))
    for start in range(0, n, step):
        own = np.arange(start, min(start + step, n))
        distance = np.zeros((len(own), len(asked)))
        for column in numbers.T:
            distance += (column[own, None] - column[asked]) ** 2
        for name, far in features.names:
            distance[name[own, None] != name[asked]] += far
        distance = np.round(distance, 9)
        distance[own[:, None] == asked] = np.inf
        yield asked[nearest(distance, count)]
