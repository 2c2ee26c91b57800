"""What a log says about a model, leaf by leaf and config by config: the numbers behind the report.

Everything here is about one view: the scenarios of one vendor's device, and the selector that answers them.
Log-slowdowns are natural logarithms; NaN marks a config never measured in the scenario, inf one that failed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heurgen import ir
from heurgen.audit.score import Choice, Score, config_columns, leaf_counts
from heurgen.base.figures import Summary, summarise

if TYPE_CHECKING:
    from heurgen.logs.costs import CostTable, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The scenarios of one device, replayed. Arrays are over the view's S scenarios.

    `rows` are their places in the table, `leaf` the leaf numbers, `slowdown` the log-slowdowns of the choices
    (NaN: not valid, or unknown).
    """

    vendor: str
    device: str
    selector: ir.Selector
    table: CostTable
    choices: tuple[Choice, ...]
    rows: Ints
    leaf: Ints
    slowdown: Floats

    @property
    def costs(self) -> Floats:
        """Log-slowdown of every config [S, C]."""
        return self.table.log_slowdown[self.rows]

    @property
    def known(self) -> bool:
        return self.table.costs_known


def views(module: ir.HeuristicModule, tables: Sequence[CostTable], score: Score) -> list[View]:
    """One view per vendor and device, in sorted order."""
    parts: dict[tuple[str, str], list[Choice]] = {}
    for choice in score.choices:
        parts.setdefault((choice.vendor, choice.device), []).append(choice)
    by_vendor = {t.vendor: t for t in tables if t.device_name is None}
    found = []
    for vendor, device in sorted(parts):
        members = tuple(parts[vendor, device])
        logs = [math.nan if c.slowdown is None else math.log(c.slowdown) for c in members]
        found.append(
            View(
                vendor,
                device,
                module.selector(vendor, device),
                by_vendor[vendor],
                members,
                np.array([c.row for c in members], dtype=np.int64),
                np.array([c.leaf_index for c in members], dtype=np.int64),
                np.array(logs),
            )
        )
    return found


def ranked(costs: Floats) -> list[tuple[int, int, float]]:
    """Configs for a set of scenarios [S, C], best first: (column, scenarios where it is valid, mean there).

    More valid scenarios come first, then the lower mean log-slowdown, then the earlier column. Configs valid
    nowhere are left out.
    """
    finite = np.isfinite(costs)
    valid = finite.sum(axis=0)
    sums = np.where(finite, costs, 0.0).sum(axis=0)
    columns = np.flatnonzero(valid)
    means = sums[columns] / valid[columns]
    order = np.lexsort((columns, means, -valid[columns]))
    return [(int(columns[i]), int(valid[columns[i]]), float(means[i])) for i in order.tolist()]


def best_single(view: View) -> int | None:
    """The column of the best config for all scenarios of the view; None where costs are unknown."""
    found = ranked(view.costs)
    return found[0][0] if view.known and found else None


@dataclass(frozen=True, slots=True)
class LeafEvidence:
    """One leaf on the log: its scenarios, the geometric-mean slowdown of its config, and the runner-up.

    The runner-up is the best other config measured in as many of the leaf's scenarios as any; `runner_valid`
    says in how many. None where the log cannot tell.
    """

    index: int
    n: int
    slowdown: float | None
    n_invalid: int
    runner_up: ir.Config | None
    runner_slowdown: float | None
    runner_valid: int


def leaf_evidence(view: View) -> list[LeafEvidence]:
    columns, costs = config_columns(view.selector, view.table), view.costs
    found = []
    for index, leaf in enumerate(ir.leaves(view.selector.tree)):
        inside = view.leaf == index
        own = view.slowdown[inside]
        finite = own[np.isfinite(own)]
        runner = None
        if view.known and inside.any():
            runner = next((r for r in ranked(costs[inside]) if r[0] != columns[leaf.config]), None)
        found.append(
            LeafEvidence(
                index,
                int(inside.sum()),
                math.exp(float(finite.mean())) if len(finite) else None,
                int((~np.isfinite(own)).sum()) if view.known else 0,
                None if runner is None else in_selector_order(view, runner[0]),
                None if runner is None else math.exp(runner[2]),
                0 if runner is None else runner[1],
            )
        )
    return found


def in_selector_order(view: View, column: int) -> ir.Config:
    """A config of the table as the selector orders its parameters."""
    config = view.table.configs[column]
    return tuple(config[view.table.parameters.index(p)] for p in view.selector.parameters)


@dataclass(frozen=True, slots=True)
class ConfigUse:
    """A config that the selector uses. `without` is the geomean of the view if it were dropped and every leaf
    that uses it took the best of the others; `invalid_without` the share of choices that would not be valid.
    """

    config: int
    n_leaves: int
    n_training: int
    n: int
    without: float | None
    invalid_without: float | None


def config_uses(view: View) -> list[ConfigUse]:
    columns = config_columns(view.selector, view.table)
    leaves = list(ir.leaves(view.selector.tree))
    chosen = np.array([leaves[i].config for i in view.leaf.tolist()], dtype=np.int64)
    found = []
    for config in sorted({leaf.config for leaf in leaves}):
        own = [i for i, leaf in enumerate(leaves) if leaf.config == config]
        others = [c for j, c in enumerate(columns) if j != config and c is not None]
        without = _without(view, own, others) if view.known and others else None
        found.append(
            ConfigUse(
                config,
                len(own),
                sum(leaves[i].n_scenarios for i in own),
                int((chosen == config).sum()),
                None if without is None else without.geomean_slowdown,
                None if without is None else without.invalid_share,
            )
        )
    return sorted(found, key=lambda u: (-u.n_training, -u.n, u.config))


def _without(view: View, leaves: Sequence[int], columns: Sequence[int]) -> Summary:
    """The figures after the given leaves each take the best of the given columns."""
    costs, new = view.costs, view.slowdown.copy()
    for leaf in leaves:
        inside = view.leaf == leaf
        if inside.any():
            order = ranked(costs[inside][:, columns])
            new[inside] = costs[inside, columns[order[0][0]]] if order else math.nan
    return summarise(new.tolist())


# --- which features matter --------------------------------------------------------------------------------


def importance(view: View) -> dict[str, float]:
    """What the tests on each column save on the log: the sum over its splits of the log-slowdown that one
    config for the whole node would cost beyond one config per side, over the selector's own configs.

    Where costs are unknown, the training scenarios that the splits route stand in for it.
    """
    counts = leaf_counts(view.selector.tree)
    columns = [c for c in config_columns(view.selector, view.table) if c is not None]
    costs = view.costs[:, columns] if columns else np.zeros((len(view.rows), 1))
    # A price for cells without a time, so that sums compare: the worst of the view's finite costs.
    finite = costs[np.isfinite(costs)]
    filled = np.where(np.isfinite(costs), costs, float(finite.max()) if len(finite) else 0.0)
    saved: dict[str, float] = {}

    def visit(node: ir.Node, first: int) -> int:
        """Scenarios of training under a node whose leaves start at number `first`."""
        if isinstance(node, ir.Leaf):
            return node.n_scenarios
        middle, last = first + counts[id(node.left)], first + counts[id(node)]
        n = visit(node.left, first) + visit(node.right, middle)
        parts = [
            (view.leaf >= a) & (view.leaf < b) for a, b in ((first, last), (first, middle), (middle, last))
        ]
        whole, left, right = (float(filled[p].sum(axis=0).min()) if p.any() else 0.0 for p in parts)
        gain = whole - left - right if view.known else float(n)
        saved[node.feature] = saved.get(node.feature, 0.0) + max(gain, 0.0) + 1e-9 * n
        return n

    visit(view.selector.tree, 0)
    return saved


def map_columns(view: View) -> tuple[str, ...]:
    """The two columns to draw scenarios over: the most important, else those with the most distinct values."""
    saved = importance(view)
    names = [c.name for c in view.table.columns]
    distinct = {n: len(np.unique(view.table.X[view.rows, i])) for i, n in enumerate(names)}
    rated = sorted(saved, key=lambda n: (-saved[n], names.index(n) if n in names else len(names)))
    rest = [n for n in names if n not in saved and not view.table.columns[names.index(n)].derived]
    rest.sort(key=lambda n: (-distinct[n], names.index(n)))
    usable = [n for n in (*rated, *rest) if n in names]
    return tuple(usable[:2])


def column_values(view: View, name: str) -> Floats:
    """One column of the view's scenarios [S]; categories by their index."""
    names = [c.name for c in view.table.columns]
    return np.asarray(view.table.X[view.rows, names.index(name)])
