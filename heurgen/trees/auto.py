"""Strategy, number of configs and size by cross-validation over groups of scenarios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from heurgen.ir import MAX_DEPTH
from heurgen.logs.costs import CostTable
from heurgen.trees import constants, joint
from heurgen.trees.build import route, to_ir
from heurgen.trees.chance import tried
from heurgen.trees.guards import limits
from heurgen.trees.joint import Fitted, Pool, Settings
from heurgen.trees.node import n_leaves, tips
from heurgen.trees.options import FitOptions
from heurgen.trees.per_parameter import fit_per_parameter
from heurgen.trees.preference import (
    Candidate,
    Held,
    candidate_of,
    error,
    mean_cost,
    measured,
    preferred,
    rank,
    unseen,
)
from heurgen.trees.problem import UNIT, Bools, Floats, Ints, Problem, groups
from heurgen.trees.refine import with_max_leaves
from heurgen.trees.regime import Regime, ruled, spare_leaves, spare_tests

# Depth of one parameter's tree as a candidate.
PARAMETER_DEPTH = 3
# What `tail=None` compares beside 0, and the mean log-slowdown that a better p95 may cost.
TAIL, TAIL_LOSS = 1.0, 0.002
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Contest:
    """The candidate to fit, all that were compared (none without cross-validation), and what a cap costs.

    `beyond` has twice the leaves and two tests more on a path, where the chosen trees may reach a limit; else None.
    `unseen` holds the held-out costs to report, see `unseen`: those of `chosen` flatter, since they chose it.
    """

    chosen: Candidate
    compared: tuple[Candidate, ...] = ()
    beyond: Candidate | None = None
    unseen: Candidate | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """One fold: the part to fit, its pool of configs, and the rows held out with their true costs [n, C].

    `fitted` holds what sets of configs gave: from some number on, a larger one gives the same set.
    """

    part: Problem
    pool: Pool
    test: Ints
    truth: Floats
    fitted: dict[tuple[bytes, Settings], list[Held]] = field(default_factory=dict)


def choose(
    table: CostTable,
    options: FitOptions,
    p: Problem,
    r: Regime,
    progress: Progress = lambda done, total: None,
) -> Contest:
    """Compare numbers of configs, prices of a leaf and strategies on the same folds.

    Numbers of configs ascend until `r.patience` of them in a row lower no mean. Limits that the caller left open are
    widened, and more configs compared at them, for as long as that lowers the mean by `LEARNER.doubling`.
    """
    price = constants.LEARNER.price
    tail, spare = options.tail or 0.0, spare_tests(options)
    extra = spare_leaves(options, r)
    limit = Settings(r.counts[-1], price, r.max_depth, r.max_leaves, tail, r.few, spare, extra)
    if not r.validates:
        small = replace(limit, depth=min(2, r.max_depth), max_leaves=min(r.max_leaves, 4))
        return Contest(Candidate("joint", small))
    folds = list(_folds(table, p, r))
    tell = _Steps(progress, (len(r.counts) + 1) * len(folds))
    if r.compares_rules:
        limit = _ruled(folds, table, limit, r)
    if r.crowded:
        limit = _nameless(folds, table, limit, r)
    if r.compares_points:
        limit = replace(limit, lightly=_lighter(folds, table, limit, r))
    scored = _by_counts(folds, table, limit, r, tell)
    sizes, first = tuple(scored), preferred(scored, r)
    chosen = first
    if not options.tail:
        chosen, other = _or_per_parameter(chosen, folds, table, limit, r)
        scored.append(other)
    if chosen.strategy == "joint" and options.tail is None and r.compares_tails:
        chosen = _steadier(chosen, folds, table, r)
        scored += [chosen] if chosen.settings.tail else []
    if r.careful and chosen.strategy == "joint" and not chosen.settings.dense:
        chosen = _warier(chosen, folds, table, r)
    beyond, widened = _beyond(chosen, folds, table, r, options.max_depth is not None), False
    while r.widens and (beyond is not None or widened):
        wider = _fuller(beyond or chosen, folds, table, r)
        if wider.mean + constants.LEARNER.doubling >= chosen.mean:
            break
        chosen, widened = wider, True
        scored.append(chosen)
        beyond = _beyond(chosen, folds, table, r, False)
    tell.finish()
    reported = unseen(chosen, first, sizes, [fold.test for fold in folds], r)
    return Contest(chosen, tuple(scored), beyond, measured(reported, table) if p.guessed else reported)


@dataclass(slots=True)
class _Steps:
    """Progress over steps of which the last may be left out."""

    tell: Progress
    total: int
    done: int = 0

    def step(self) -> None:
        self.done += 1
        self.tell(min(self.done, self.total), self.total)

    def finish(self) -> None:
        self.tell(self.total, self.total)


def _by_counts(
    folds: list[_Fold], table: CostTable, limit: Settings, r: Regime, tell: _Steps
) -> list[Candidate]:
    """Every number of configs at every price, until more of them lower no mean."""
    scored: list[Candidate] = []
    idle, best = 0, math.inf
    for count in r.counts:
        found: dict[Settings, list[Held]] = {}
        for fold in folds:
            for at, held in _joint_fits(fold, table, replace(limit, n_configs=count), r, r.prices):
                found.setdefault(at, []).append(held)
            tell.step()
        scored += [candidate_of("joint", settings, held) for settings, held in found.items()]
        now = min(s.mean for s in scored)
        idle, best = (0, now) if now < best else (idle + 1, best)
        if idle >= r.patience:
            break
    return scored


def held_out_groups(r: Regime) -> Iterator[Bools]:
    """For every fold of every repeat, which groups [n_groups] it holds out."""
    for repeat in range(r.repeats):
        fold = np.random.RandomState(repeat).permutation(r.n_groups) % min(
            constants.LEARNER.folds, r.n_groups
        )
        yield from (fold == k for k in range(int(fold.max()) + 1))


def _folds(table: CostTable, p: Problem, r: Regime) -> Iterator[_Fold]:
    group, truth = groups(p), _truth(table, p)
    for held in held_out_groups(r):
        out = held[group]
        part = ruled(table, p.index[~out], r, p.configs)
        yield _Fold(part, joint.pool(part, r), p.index[out], truth[out])


def _truth(table: CostTable, p: Problem) -> Floats:
    """What each config costs held out [N, C]: the log-slowdown, or its estimate; `LEARNER.uncovered` where invalid."""
    limit = constants.LEARNER.uncovered
    if p.labels_only:
        return np.asarray(p.soft / UNIT)
    log = table.log_slowdown[np.ix_(p.index, p.configs)]
    if p.guessed:
        log = p.cost / UNIT
    known = np.minimum(np.where(p.covered, log, 0.0), limit - 1)
    return np.where(p.covered, np.rint(known * UNIT) / UNIT, limit)


# --- candidates ---------------------------------------------------------------------------------------------


def _joint_fits(
    fold: _Fold, table: CostTable, s: Settings, r: Regime, prices: tuple[float, ...]
) -> Iterator[tuple[Settings, Held]]:
    """A tree grown once and pruned at every price."""
    chosen = fold.pool.best(s)
    key = chosen.tobytes(), replace(s, n_configs=len(chosen))
    if key not in fold.fitted:
        small = joint.prepared(fold.part, chosen, r, s)
        grown = joint.grown(small, s)
        known = limits(small)
        trees = [joint.finish(small, grown, replace(s, price=price), known) for price in prices]
        held = {tree: _held(fold, table, Fitted(small, tree)) for tree in dict.fromkeys(trees)}
        fold.fitted[key] = [held[tree] for tree in trees]
    for price, found in zip(prices, fold.fitted[key], strict=True):
        yield replace(s, price=price), found


def _or_per_parameter(
    chosen: Candidate, folds: list[_Fold], table: CostTable, limit: Settings, r: Regime
) -> tuple[Candidate, Candidate]:
    """The chosen candidate, or one tree a parameter where that is surely better; and the latter."""
    settings = replace(
        limit, n_configs=min(8, limit.n_configs), price=0.0, depth=min(PARAMETER_DEPTH, limit.depth)
    )
    held = list[Held]()
    # The other repeats are asked where the first says yes: luck of one division chose trees that all disown.
    for repeats in (1, r.repeats):
        for fold in folds[len(held) : len(folds) * repeats // r.repeats]:
            configs = fold.pool.best(settings)
            found = fit_per_parameter(fold.part, table, settings, configs, limit.depth)[0]
            tree = tried(found.p, with_max_leaves(found.p, found.tree, limit.max_leaves))
            held.append(_held(fold, table, Fitted(found.p, tree)))
        other = candidate_of("per-parameter", settings, held)
        cost = chosen.cost[: len(other.cost)]
        if other.mean + error(other.cost, cost, repeats) >= mean_cost(cost) - r.tolerance:
            return chosen, other
    return other, other


def _held(fold: _Fold, table: CostTable, fitted: Fitted) -> Held:
    chosen = held_out_choices(table, fitted, fold.test)
    column = {c: i for i, c in enumerate(fold.part.configs.tolist())}
    at = [column[c] for c in chosen.tolist()]
    used = {tip.config for tip in tips(fitted.tree)}
    return Held(fold.truth[np.arange(len(at)), at], fold.test, chosen, n_leaves(fitted.tree), len(used))


def held_out_choices(table: CostTable, fitted: Fitted, rows: Ints) -> Ints:
    """The table's config column that a fit chooses for each of the rows, by the thresholds that would ship."""
    tree = to_ir(fitted.p, fitted.tree, range(fitted.p.cost.shape[1]))
    return route(tree, table.columns, table.X[rows])


def _lighter(folds: list[_Fold], table: CostTable, s: Settings, r: Regime) -> bool:
    """Whether the usual points between are not surely better held out at these sizes than light ones.

    Surely: by one standard error of the difference.
    """

    usual, light = (_tried(at, folds, table, r) for at in (s, replace(s, lightly=True)))
    return usual.mean + error(light.cost, usual.cost, r.repeats) >= light.mean


def _nameless(folds: list[_Fold], table: CostTable, s: Settings, r: Regime) -> Settings:
    """These sizes without tests for categories of few scenarios a value, unless such tests are better held out.

    Of a hundred models' names some set goes with any noise, though sizes that are features, too, may tell all.
    """
    return min((_tried(at, folds, table, r) for at in (replace(s, nameless=True), s)), key=rank).settings


def _ruled(folds: list[_Fold], table: CostTable, s: Settings, r: Regime) -> Settings:
    """These sizes of a sparse table by its rules; with full doubt, or by the rules of other tables, where that is
    surely better held out.

    Where configs apply to some categories alone, as solvers do, few scenarios of each tell less than doubt does.
    Surely: by one standard error of the difference.
    """
    usual, *others = (
        _tried(at, folds, table, r) for at in (s, replace(s, doubtful=True), replace(s, dense=True))
    )
    other = min(others, key=rank)
    surely = other.mean + error(other.cost, usual.cost, r.repeats) < usual.mean
    return (other if surely else usual).settings


def _tried(s: Settings, folds: list[_Fold], table: CostTable, r: Regime) -> Candidate:
    """What these settings cost held out; all prices are fitted, which are compared later."""
    fits = (found for fold in folds for found in _joint_fits(fold, table, s, r, r.prices))
    return candidate_of("joint", s, [held for settings, held in fits if settings == s])


def _alone(s: Settings, folds: list[_Fold], table: CostTable, r: Regime) -> Candidate:
    """What these settings cost held out; no other price is fitted."""
    held = [h for fold in folds for _, h in _joint_fits(fold, table, s, r, (s.price,))]
    return candidate_of("joint", s, held)


def _steadier(chosen: Candidate, folds: list[_Fold], table: CostTable, r: Regime) -> Candidate:
    """The same sizes with a tail, where that has the better held-out p95 at no loss of the mean beyond TAIL_LOSS."""
    s = replace(chosen.settings, tail=TAIL)
    found = _alone(s, folds, table, r)
    better = np.quantile(found.cost, 0.95) < np.quantile(chosen.cost, 0.95) - 1e-9
    return found if better and found.mean <= chosen.mean + TAIL_LOSS else chosen


def _warier(chosen: Candidate, folds: list[_Fold], table: CostTable, r: Regime) -> Candidate:
    """The same sizes with guards at the usual price of a leaf, where its own is higher and that is not surely worse.

    A high price says that what leaves lead by is noise. That a config fails beyond its limit mostly is none, but where
    a log lists the few fastest configs it may be. Surely: by one standard error of the difference.
    """
    c = constants.LEARNER
    # Of many scenarios every try takes seconds.
    if chosen.settings.price <= c.price or r.n_scenarios > c.abundant:
        return chosen
    s = replace(chosen.settings, wary=True)
    found = _alone(s, folds, table, r)
    return found if found.mean <= chosen.mean + error(found.cost, chosen.cost, r.repeats) else chosen


def _beyond(
    chosen: Candidate, folds: list[_Fold], table: CostTable, r: Regime, depth_named: bool
) -> Candidate | None:
    """The chosen candidate with larger limits and any price, where its trees reach the most leaves or the caller named
    the depth.
    """
    s = chosen.settings
    if chosen.strategy != "joint" or not (depth_named or chosen.leaves >= 0.9 * s.max_leaves):
        return None
    larger = replace(s, depth=min(s.depth + 2, MAX_DEPTH - s.spare), max_leaves=2 * s.max_leaves)
    return _best([larger], folds, table, r)


def _fuller(chosen: Candidate, folds: list[_Fold], table: CostTable, r: Regime) -> Candidate:
    """The candidate, or one of the next two numbers of configs at its limits, at any price: more leaves have room for
    more configs. Of a log of linear layers 24 configs are 1.0312 held out with 82 leaves and 1.0301 with 164, 16 are
    1.0346 and 1.0343.
    """
    s = chosen.settings
    more = [replace(s, n_configs=count) for count in r.counts if count > s.n_configs][:2]
    return min(chosen, _best(more, folds, table, r), key=rank) if more else chosen


def _best(tried: list[Settings], folds: list[_Fold], table: CostTable, r: Regime) -> Candidate:
    """The best of what is tried, at any price."""
    found: dict[Settings, list[Held]] = {}
    for fold in folds:
        for settings in tried:
            for at, held in _joint_fits(fold, table, settings, r, r.prices):
                found.setdefault(at, []).append(held)
    return min((candidate_of("joint", at, held) for at, held in found.items()), key=rank)
