"""The literal strategy: one classification tree per parameter, repaired to configs that were measured.

The trees are laid over each other; every combination of their leaves that holds scenarios becomes a leaf of one
joint tree, and combinations without scenarios dissolve into their sibling. A leaf whose values form no config
that was measured, without failing, on all its scenarios takes the nearest config that was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from heurgen.logs.costs import CostTable
from heurgen.trees.configs import choose
from heurgen.trees.estimator import classifier, encode, from_estimator
from heurgen.trees.joint import Fitted, Settings, or_single
from heurgen.trees.node import Branch, Tip, Tree, goes_left, parted, real_cost
from heurgen.trees.problem import UNIT, Floats, Ints, Problem, with_configs


def fit_per_parameter(
    p: Problem, table: CostTable, s: Settings, chosen: Ints, overlay_depth: int
) -> tuple[Fitted, dict[str, Any]]:
    """The repaired tree, and what repair cost.

    `chosen` are the configs that winners are taken from. `s.depth` and `s.max_leaves` limit each parameter's
    tree; `overlay_depth` the joint one. Of all depths up to the limit the deepest ships unless a shallower one
    has a lower training objective.
    """
    best, repair = _at_depth(p, table, replace(s, depth=1), chosen, overlay_depth)
    for depth in range(2, s.depth + 1):
        found, repaired = _at_depth(p, table, replace(s, depth=depth), chosen, overlay_depth)
        if real_cost(found.p, found.tree) <= real_cost(best.p, best.tree):
            best, repair = found, repaired
    return or_single(p, best), repair


def parameter_trees(
    p: Problem, table: CostTable, s: Settings, chosen: Ints
) -> tuple[list[Tree], list[list[Any]]]:
    """For each parameter: its tree, whose tips are numbers of values, and the values."""
    rows = np.arange(len(p.X))
    cost = p.cost[:, chosen]
    winner = p.configs[chosen[cost.argmin(axis=1)]]
    regret = cost.mean(axis=1) - cost.min(axis=1)
    weight = regret / regret.mean() if regret.any() else None
    X, meaning = encode(p, rows)
    trees: list[Tree] = []
    domains = []
    for k in range(len(table.parameters)):
        values = [table.configs[c][k] for c in winner.tolist()]
        domain = list(dict.fromkeys(sorted(values, key=lambda v: (v is not None, v if v is not None else 0))))
        codes = np.array([domain.index(v) for v in values])
        domains.append(domain)
        if len(domain) == 1:
            trees.append(Tip(0))
            continue
        sizes = {"max_depth": s.depth, "max_leaf_nodes": max(s.max_leaves, 2)}
        estimator = classifier(X, codes, weight, criterion="entropy", **sizes)
        major = estimator.classes_[estimator.tree_.value[:, 0, :].argmax(axis=1)]
        trees.append(from_estimator(p, rows, estimator, X, meaning, lambda node, m=major: int(m[node])))  # type: ignore[misc]
    return trees, domains


def _at_depth(
    p: Problem, table: CostTable, s: Settings, chosen: Ints, overlay_depth: int
) -> tuple[Fitted, dict[str, Any]]:
    trees, domains = parameter_trees(p, table, s, chosen)
    cells: list[tuple[Ints, tuple[Any, ...]]] = []
    number = {config: i for i, config in enumerate(table.configs)}
    place = {column: i for i, column in enumerate(p.configs.tolist())}

    def overlay(left_over: list[Tree], rows: Ints, codes: tuple[int, ...], depth: int) -> Tree:
        if not left_over or depth == 0:
            cells.append((rows, tuple(d[c] for d, c in zip(domains, codes, strict=False))))
            return Tip(len(cells) - 1)
        first, rest = left_over[0], left_over[1:]
        if isinstance(first, Tip):
            return overlay(rest, rows, (*codes, first.config), depth)
        left = goes_left(p, rows, first.cut)
        if left.all() or not left.any():
            return overlay([first.left if left.all() else first.right, *rest], rows, codes, depth)
        below, above = parted(rows, left)
        return Branch(
            first.cut,
            overlay([first.left, *rest], below, codes, depth - 1),
            overlay([first.right, *rest], above, codes, depth - 1),
        )

    tree = overlay(trees, np.arange(len(p.X)), (), overlay_depth)
    wanted = [place.get(number.get(values, -1), -1) for _, values in cells]
    labels = _repaired(p, table, cells, wanted, s.n_configs)
    used = with_configs(p, np.array(sorted(set(labels))))
    position = {c: i for i, c in enumerate(used.configs.tolist())}
    final = _labelled(tree, [position[int(p.configs[i])] for i in labels])
    return Fitted(used, final), _repair_cost(p, cells, wanted, labels)


def _labelled(tree: Tree, labels: list[int]) -> Tree:
    if isinstance(tree, Tip):
        return Tip(labels[tree.config])
    below, above = _labelled(tree.left, labels), _labelled(tree.right, labels)
    return below if below == above and isinstance(below, Tip) else Branch(tree.cut, below, above)


def _repaired(
    p: Problem,
    table: CostTable,
    cells: list[tuple[Ints, tuple[Any, ...]]],
    wanted: list[int],
    max_configs: int,
) -> list[int]:
    """The config (index into the problem's) of each cell."""
    every = np.arange(len(p.configs))
    labels = [
        w if w >= 0 and p.covered[rows, w].all() else _nearest(p, table, rows, values, every)
        for (rows, values), w in zip(cells, wanted, strict=True)
    ]
    used = np.array(sorted(set(labels)))
    if len(used) <= max_configs:
        return labels
    cost: Floats = np.array([p.cost[rows][:, used].sum(axis=0) for rows, _ in cells])
    kept = used[choose(cost, max_configs)]
    return [
        label if label in kept else _nearest(p, table, rows, values, kept)
        for (rows, values), label in zip(cells, labels, strict=True)
    ]


def _nearest(p: Problem, table: CostTable, rows: Ints, values: tuple[Any, ...], among: Ints) -> int:
    """The config with fewest uncovered scenarios, then fewest changed parameters, then least cost."""
    uncovered = (~p.covered[np.ix_(rows, among)]).sum(axis=0)
    configs = [table.configs[c] for c in p.configs[among].tolist()]
    changed = np.array([sum(a != b for a, b in zip(c, values, strict=False)) for c in configs])
    cost = p.cost[np.ix_(rows, among)].sum(axis=0)
    return int(among[np.lexsort((among, cost, changed, uncovered))[0]])


def _repair_cost(
    p: Problem, cells: list[tuple[Ints, tuple[Any, ...]]], wanted: list[int], labels: list[int]
) -> dict[str, Any]:
    """The share of scenarios repaired, and how much slower their new config is than the trees' own choice.

    The latter counts the repaired scenarios on which the trees' choice was measured; None where there are none.
    """
    repaired, extra = 0, []
    for (rows, _), want, label in zip(cells, wanted, labels, strict=True):
        if want == label:
            continue
        repaired += len(rows)
        if want >= 0:
            known = rows[p.covered[rows, want] & p.covered[rows, label]]
            extra += ((p.cost[known, label] - p.cost[known, want]) / UNIT).tolist()
    return {
        "repaired_share": round(repaired / len(p.X), 6),
        "repair_mean_log_slowdown": round(sum(extra) / len(extra), 6) if extra else None,
    }
