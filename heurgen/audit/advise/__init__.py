"""The next scenarios, and configs, worth measuring, as a workload that `heurgen tune --workload` takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen import ir
from heurgen.audit.advise.candidates import Proposal, between
from heurgen.audit.advise.rank import NEIGHBOURS, SOFT, Measured, order, priced, promising
from heurgen.audit.advise.scale import FeatureScale, as_matrix, base_columns, scale_over
from heurgen.audit.explain import explain
from heurgen.audit.recorded import is_counted
from heurgen.audit.score import config_columns, leaf_counts, numbered_leaf, replay
from heurgen.base.text import counted, share_text
from heurgen.logs import frame

if TYPE_CHECKING:
    from pandas import DataFrame

    from heurgen.audit.advise.traffic import Traffic
    from heurgen.logs.costs import CostTable, Floats, Ints
    from heurgen.spec.kernel_spec import KernelSpec

# A leaf with fewer training scenarios is called sparse.
_SPARSE = 4
# Nearer than this to a measured scenario (in the scaled space), a candidate would repeat it.
_SAME = 0.01
# What a made-up launch counts against real traffic.
_MADE_UP = 0.25
_MAX_CONFIGS = 48
# Of the scenarios asked for, at most this share re-visits measured ones for cells that could win and for ties.
_REVISITS = 4


@dataclass(frozen=True, slots=True)
class Advice:
    """One scenario to measure. `configs` are settings by name; `scenario` is its id where it is in the log."""

    features: Mapping[str, Any]
    configs: tuple[Mapping[str, ir.Value], ...]
    score: float
    reasons: tuple[str, ...]
    scenario: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario or None,
            "features": dict(self.features),
            "configs": [dict(c) for c in self.configs],
            "score": self.score,
            "reasons": list(self.reasons),
        }


class Advised(list[Advice]):
    """Scenarios to measure, best first, as a list that is a frame where it is wanted."""

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'scenario')} to measure>"

    def to_frame(self) -> DataFrame:
        """A row a scenario and config to measure; one with blank parameters where any config will do."""
        return frame.from_records(
            {
                "rank": rank,
                "scenario": a.scenario,
                **a.features,
                **config,
                "score": a.score,
                "why": ", ".join(a.reasons),
            }
            for rank, a in enumerate(self, 1)
            for config in a.configs or ({},)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What is known of one vendor, in the terms of the ranking.

    selectors  those that answer for the table's devices, by name of the device; one where the vendor's answers for all
    columns    of each selector its configs' columns of the table, -1 for one that is not there
    real       scaled points of traffic, None without
    """

    module: ir.HeuristicModule
    selectors: Mapping[str, ir.Selector]
    table: CostTable
    space: FeatureScale
    points: Floats
    columns: tuple[tuple[int, ...], ...]
    real: Floats | None

    def serves(self, points: Floats) -> Floats:
        """What launches at points [N, F] say of real traffic, 0 to 1 [N]: as neighbours count for `rank.regrets`."""
        if self.real is None:
            return np.ones(len(points))
        return np.asarray((SOFT / (SOFT + self.space.neighbours(points, self.real, 1)[1][:, 0])) ** 2)


def advise(
    module: ir.HeuristicModule,
    table: CostTable,
    spec: KernelSpec,
    n: int = 20,
    traffic: Traffic | None = None,
) -> Advised:
    """The n scenarios most worth measuring next for one vendor, best first.

    With traffic the candidates are its scenarios, weighted by the square root of their share (counts of a
    sample are noisy); made-up and measured ones count for the less the farther they are from it. Without, scenarios
    between and beyond measured ones.
    A quarter of the places at most goes to measured scenarios: to configs that were never measured there and
    could win, and to ties within the noise between the tree's choice and the best.

    Raises:
        ModelError: the model does not fit the table.
    """
    choices = replay(module, table)
    selectors = _answering(module, table)
    candidates = _candidates(module, list(selectors.values()), table, spec, traffic)
    base = base_columns(table)
    rows = [c.features for c in candidates]
    X = table.X[:, : len(base)]
    pool = as_matrix(base, rows)
    space = scale_over(base, np.vstack([X, pool]))
    columns = tuple(
        tuple(-1 if c is None else c for c in config_columns(s, table)) for s in selectors.values()
    )
    real = space.points(pool[: len(traffic.rows)]) if traffic is not None else None
    work = _Work(module, selectors, table, space, space.points(X), columns, real)
    revisits = (
        _revisits(work, [c.column for c in choices])[: max(1, n // _REVISITS)] if table.costs_known else []
    )
    fresh = _fresh(work, candidates, pool, n)
    return Advised(sorted([*revisits, *fresh], key=lambda a: -a.score)[:n])


def _answering(module: ir.HeuristicModule, table: CostTable) -> dict[str, ir.Selector]:
    """The selector of each device of the table; of the first device alone where all have the same."""
    found = {device: module.selector(table.vendor, device) for device in sorted(set(table.device))}
    first, *others = found.items()
    return found if any(s is not first[1] for _, s in others) else dict([first])


def _candidates(
    module: ir.HeuristicModule,
    selectors: Sequence[ir.Selector],
    table: CostTable,
    spec: KernelSpec,
    traffic: Traffic | None,
) -> list[Proposal]:
    base = base_columns(table)
    own = scale_over(base, table.X[:, : len(base)])
    made = between(module, selectors, table, spec, own)
    if traffic is None:
        return made
    mean = sum(traffic.counts) / len(traffic.counts)
    real = [
        Proposal(
            row, f"real traffic, {share_text(count / sum(traffic.counts))} of it", math.sqrt(count / mean)
        )
        for row, count in zip(traffic.rows, traffic.counts, strict=True)
    ]
    return real + [Proposal(c.features, c.why, _MADE_UP) for c in made]


# --- new scenarios ----------------------------------------------------------------------------------------


def _fresh(work: _Work, candidates: Sequence[Proposal], pool: Floats, n: int) -> list[Advice]:
    points = work.space.points(pool)
    far = work.space.neighbours(points, work.points, 1)[1][:, 0] > _SAME
    keep = np.flatnonzero(far).tolist()
    if not keep:
        return []
    rows = [ir.with_derived(work.module, candidates[i].features) for i in keep]
    trees = [(s.tree, leaf_counts(s.tree)) for s in work.selectors.values()]
    leaves = [[numbered_leaf(tree, row, counts) for tree, counts in trees] for row in rows]
    answer = [[of[leaf.config] for of, (leaf, _) in zip(work.columns, ends, strict=True)] for ends in leaves]
    chosen = np.array(answer, dtype=np.int64)
    weight = np.array([candidates[i].weight for i in keep]) * work.serves(points[keep])
    several = {device: i for i, device in enumerate(work.selectors)} if len(trees) > 1 else {}
    answers = np.array([several.get(device, 0) for device in work.table.device])
    known = Measured(work.points, priced(work.table.log_slowdown, work.table.costs_known), answers)
    found = []
    for i, score, distance, regret in order(work.space, known, points[keep], chosen, n, weight):
        if distance <= _SAME:  # a launch that was taken: several pairs have the same middle
            continue
        candidate = candidates[keep[i]]
        near = work.space.neighbours(points[keep[i]][None], work.points, NEIGHBOURS)[0][0].tolist()
        reasons = _reasons(work, candidate, leaves[i], distance, regret)
        found.append(Advice(candidate.features, _configs(work, near), score, tuple(reasons)))
    return found


def _reasons(
    work: _Work, candidate: Proposal, ends: Sequence[tuple[ir.Leaf, int]], distance: float, regret: float
) -> list[str]:
    told = [candidate.why]
    # the log may have got more features since
    asked = {f.name: candidate.features[f.name] for f in work.module.features}
    outside = explain(work.module, work.table.vendor, asked).outside
    told += [f"{o.feature} lies outside the training range" for o in outside]
    for (device, selector), (leaf, number) in zip(work.selectors.items(), ends, strict=True):
        if leaf.n_scenarios < _SPARSE and is_counted(selector.tree):
            of = f" of {device}" if len(ends) > 1 else ""
            told.append(f"leaf {number + 1}{of} rests on {counted(leaf.n_scenarios, 'scenario')}")
    if work.table.costs_known and regret > 0.02:
        told.append(f"the tree's choice loses {100 * math.expm1(regret):.0f} % among the nearest scenarios")
    told.append(f"distance {distance:.2f} to the nearest measured scenario")
    return told


def _configs(work: _Work, near: Sequence[int]) -> tuple[Mapping[str, ir.Value], ...]:
    """The configs that ship, and those near the best in the nearest scenarios; the rest is not worth a launch."""
    columns = [c for of in work.columns for c in of if c >= 0] + promising(work.table.log_slowdown, near)
    return tuple(work.table.config_of(c) for c in list(dict.fromkeys(columns))[:_MAX_CONFIGS])


# --- measured scenarios -----------------------------------------------------------------------------------


def _revisits(work: _Work, chosen: Sequence[int | None]) -> list[Advice]:
    """Measured scenarios with cells that could win, or a tie within the noise, best first."""
    near, far = work.space.neighbours(work.points, work.points, NEIGHBOURS)
    serves = work.serves(work.points)
    found = []
    for s in range(work.table.n_scenarios):
        winners = _could_win(work, s, near[s], far[s])
        tied = _tied(work, s, chosen[s])
        gain = max([g for _, g in winners], default=0.0)
        columns = [c for c, _ in winners] + tied
        if not columns:
            continue
        reasons = []
        if winners:
            reasons.append(
                f"{counted(len(winners), 'config')} never measured here could win, by its neighbours"
            )
        if tied:
            reasons.append("the choice and the best are a tie within the noise: measure both again")
        features = work.table.features_of(s)
        settings = tuple(work.table.config_of(c) for c in dict.fromkeys(columns))
        score = max(gain, 0.1 * float(work.table.noise[s]) if tied else 0.0) * float(serves[s])
        found.append(Advice(features, settings, score, tuple(reasons), work.table.scenario[s]))
    return sorted(found, key=lambda a: -a.score)


def _could_win(work: _Work, s: int, near: Ints, far: Floats) -> list[tuple[int, float]]:
    """Configs without a time here that beat this scenario's best by their neighbours' account, and by how much.

    A neighbour's account: the config's log-slowdown there, less what the best config of this scenario loses
    there. At least half of the neighbours must have measured it, or it may not apply here.
    """
    costs = work.table.log_slowdown
    missing = np.isnan(costs[s])
    if not missing.any():
        return []
    best = work.table.best(s)
    block = costs[near]
    finite = np.isfinite(block) & np.isfinite(block[:, best])[:, None]
    weights = np.where(finite, 1.0 / (far + SOFT)[:, None] ** 2, 0.0)
    lead = np.where(finite, block[:, best][:, None] - np.where(np.isfinite(block), block, 0.0), 0.0)
    total = weights.sum(axis=0)
    enough = missing & (2 * finite.sum(axis=0) >= len(near)) & (total > 0)
    gain = np.where(enough, (weights * lead).sum(axis=0) / np.where(total > 0, total, 1.0), -1.0)
    order_ = np.argsort(-gain, kind="stable")[:8].tolist()
    return [(int(c), float(gain[c])) for c in order_ if gain[c] > 0]


def _tied(work: _Work, s: int, column: int | None) -> list[int]:
    """The choice and the best config where they differ by less than the noise, but not by nothing."""
    if column is None:
        return []
    best, lead = work.table.best(s), work.table.log_slowdown[s, column]
    return [column, best] if best != column and 0 < lead <= work.table.noise[s] else []
