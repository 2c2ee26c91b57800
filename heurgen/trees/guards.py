"""Guards: tests that keep a config from launches of a kind on which it was never seen to work.

A leaf serves more than its scenarios. Its config may have succeeded in all of them while its region, through the
luck of a few scenarios, also takes in launches that the config does not apply to. On MIOpen's find-db a solver for
stride 1 wins the leaf `filter_h <= 1, batch > 63`: the two training problems there with stride 2 went to the other
side of the last test, and nothing on the leaf's path says stride 1. A guard says it: `stride_h <= 1`, else a config
that works.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from heurgen.trees import constants
from heurgen.trees.node import (
    Branch,
    Cut,
    Tip,
    Tree,
    assign,
    best_tip,
    goes_left,
    height,
    n_leaves,
    parted,
    tips,
)
from heurgen.trees.problem import UNIT, Bools, Floats, Ints, Problem
from heurgen.trees.refine import with_max_leaves

# Of the leaves allowed, one in so many may make way for guards.
SHARE = 4
# Scenarios beyond a guard from which its config is chosen, where a node above has so many.
ENOUGH = 5


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """A cut beyond which no scenario is covered by some configs.

    cut      what is within goes left; right where `within_left` is False
    beyond   bool [n]  which scenarios lie beyond
    near     bool [n]  as many of the others as lie beyond, those next to the limit (and their equals); none where
             the problem is not `careful`
    configs  bool [C]  which configs stop there
    """

    cut: Cut
    within_left: bool
    beyond: Bools
    near: Bools
    configs: Bools


@dataclass(frozen=True, slots=True, eq=False)
class _Guard:
    """A limit to put above the node at the end of `path` (True: left); what it saves; the leaf for what is beyond."""

    path: tuple[bool, ...]
    limit: Limit
    saved: float
    tip: Tip


def guarded(p: Problem, tree: Tree, known: list[Limit], price: float, depth: int, max_leaves: int) -> Tree:
    """The tree with guards where they are likely to save more than `price`, in cost units, within both limits of size.

    A guard routes no scenario otherwise; where leaves are short, the weakest branches make way for guards, and their
    scenarios end in one leaf.
    """
    found = _found(p, tree, known, price)
    over = n_leaves(tree) + len(found) - max_leaves
    if over > 0:
        tree = with_max_leaves(p, tree, max(n_leaves(tree) - over, max_leaves - max_leaves // SHARE))
        found = _found(p, tree, known, price)
    found = sorted(found, key=lambda g: -g.saved)[: max(0, max_leaves - n_leaves(tree))]
    return _with(tree, (), found, depth)


def _with(tree: Tree, path: tuple[bool, ...], guards: list[_Guard], depth: int) -> Tree:
    if isinstance(tree, Branch):
        left = _with(tree.left, (*path, True), guards, depth)
        tree = Branch(tree.cut, left, _with(tree.right, (*path, False), guards, depth))
    for g in guards:
        if g.path == path and len(path) + height(tree) < depth:
            sides = (tree, g.tip) if g.limit.within_left else (g.tip, tree)
            tree = Branch(g.limit.cut, *sides)
    return tree


def _found(p: Problem, tree: Tree, known: list[Limit], price: float) -> list[_Guard]:
    """The guards that are likely to save more than the price: each above the highest node without a scenario beyond."""
    if not known or isinstance(tree, Tip):
        return []
    beyond = np.column_stack([limit.beyond for limit in known])
    column = np.array([limit.cut.column for limit in known])
    stops = np.array([limit.configs for limit in known])
    near = np.column_stack([limit.near for limit in known])
    real = np.flatnonzero(p.real)
    points, failing, fails = _failing(p, tree, known)
    weight = p.supposed.weight if p.supposed else 0.0
    found: list[_Guard] = []

    def walk(
        node: Branch, rows: Ints, at: Ints, count: Ints, path: tuple[bool, ...], above: list[Ints]
    ) -> None:
        if not count.any():
            return  # nothing to keep off here or below
        above = [*above, rows]
        within, others = parted(rows, goes_left(p, real[rows], node.cut))
        low, high = parted(at, goes_left(points, at, node.cut)) if len(at) else (at, at)
        lower = beyond.take(within, axis=0).sum(axis=0)
        sides = ((True, node.left, within, low, lower), (False, node.right, others, high, count - lower))
        for side, below, own, there, inside in sides:
            able = (count > 0) & (inside == 0) & (column != node.cut.column)
            if able.any():
                able &= stops[:, sorted({tip.config for tip in tips(below)})].any(axis=1)
                put(np.flatnonzero(able), own, there, count, (*path, side), above)
            if isinstance(below, Branch):
                walk(below, own, there, inside, (*path, side), above)

    def put(able: Ints, own: Ints, at: Ints, count: Ints, path: tuple[bool, ...], above: list[Ints]) -> None:
        """Find guards above the node at the end of `path`; `own`: its scenarios, of its parent's, which end `above`;
        `at`: its points.
        """
        rows, held = above[-1], np.zeros(len(real), dtype=bool)
        share, likely = len(own) / len(rows), (failing[at].sum(axis=0) * weight).tolist()
        asked = [
            (_saved(int(count[i]), share, bool(near[own, i].any()), likely[i]), i) for i in able.tolist()
        ]
        for saved, i in sorted(((s, i) for s, i in asked if s > price), key=lambda a: (-a[0], a[1])):
            kept_off = rows[beyond[rows, i]]
            if not held[kept_off].all():
                held[kept_off] = True
                stopped: Bools = np.asarray(stops[beyond[own].all(axis=0)].any(axis=0))
                tip = _tip(p, real[_nearest(above, beyond[:, i])], stopped | _most(fails[at[failing[at, i]]]))
                found.append(_Guard(path, known[i], saved, tip))

    walk(tree, np.arange(len(real)), np.arange(len(points.X)), beyond.sum(axis=0), (), [])
    return found


def _failing(p: Problem, tree: Tree, known: list[Limit]) -> tuple[Problem, Bools, Bools]:
    """The supposed launches on which the config that the tree gives them would fail; beyond which limits of that config
    each lies [launches, limits]; which configs would fail [launches, C].
    """
    s = p.supposed
    if s is None:
        return replace(p, X=p.X[:0]), np.zeros((0, len(known)), dtype=bool), p.covered[:0]
    points, rows = replace(p, X=s.X), np.arange(len(s.X))
    given = assign(points, rows, tree)
    kept = s.fails[rows, given]
    points, given, rows = replace(p, X=s.X[kept]), given[kept], np.arange(int(kept.sum()))
    beyond = [(goes_left(points, rows, m.cut) != m.within_left) & m.configs[given] for m in known]
    return points, np.column_stack(beyond), s.fails[kept]


def _most(fails: Bools) -> Bools:
    """Which configs fail on most of some launches."""
    found: Bools = 2 * fails.sum(axis=0) > len(fails)
    return found


def _tip(p: Problem, rows: Ints, stopped: Bools) -> Tip:
    """The best config for the rows, of those that are not stopped unless all are: by a limit on the guarded side of the
    guard, or by launches that are supposed there.
    """
    if stopped.all():
        return best_tip(p, rows)
    return best_tip(replace(p, leaf_price=np.where(stopped, np.inf, p.leaf_price)), rows)


def _saved(beyond: int, share: float, close: bool, likely: float) -> float:
    """What a guard is likely to save at a node with a share of its parent's scenarios, `beyond` of which are beyond.

    Had the cut nothing to do with the limit, beyond * share of them would be here. That none is makes it the less
    likely the more they are: about exp(-beyond * share), by products alone, which round alike everywhere. Where many
    scenarios are of a kind, a layer with all its batches, chance is not that small: supposed launches that are here
    say so, `likely` is what they weigh.

    Mostly the cut does have to do with it, if only roughly (m * n <= 41000 keeps most short m off, not all). Of a node
    whose scenarios come close to the limit the next launch is beyond the last of them once in as many as it has.
    """
    expected = beyond * share
    damped = 1.0 + expected / 2
    c = constants.LEARNER
    launches = max(expected / (damped * damped * damped * damped), c.guard_near if close else 0.0, likely)
    return c.invalid * UNIT * launches


def _nearest(above: list[Ints], beyond: Bools) -> Ints:
    """The scenarios beyond of the lowest node above that has ENOUGH of them, else of the root."""
    for rows in reversed(above):
        own = rows[beyond[rows]]
        if len(own) >= ENOUGH:
            return own
    return above[0][beyond[above[0]]]


# --- limits -------------------------------------------------------------------------------------------------


def limits(p: Problem) -> list[Limit]:
    """The limits of every config in every given number column, where chance would not explain them.

    Where a config covers a share of all scenarios, `LEARNER.guard_evidence` times the reciprocal of the share must lie
    beyond: were it applicable there, that many of them would be expected to be covered. What was tried and failed says
    more than what was not measured: of such scenarios `LEARNER.failed_evidence` times as many do.
    """
    c = constants.LEARNER
    real = np.flatnonzero(p.real)
    X, covered = p.X[real], p.covered[real]
    share, failed = covered.mean(axis=0), ~covered & ~p.untried[real]
    lost: Bools = np.asarray(failed.any(axis=0))
    runs = {
        config: np.flatnonzero(covered[:, config])
        for config in np.flatnonzero((share > 0) & (share < 1)).tolist()
    }
    found: dict[tuple[int, bool, float], Bools] = {}
    kinds: list[Limit] = []
    for column, description in enumerate(p.columns):
        if description.type == "category":
            kinds += _kinds(X[:, column], column, covered, failed)
            continue
        if description.derived:
            continue
        x = np.ascontiguousarray(X[:, column])
        ordered = np.sort(x)
        for config, where in runs.items():
            own = x.take(where)
            for low, edge in ((True, float(own.max())), (False, float(own.min()))):
                beyond = len(x) - ordered.searchsorted(edge, "right") if low else ordered.searchsorted(edge)
                enough = beyond * share[config] >= c.guard_evidence
                if not enough and lost[config]:
                    there = x[failed[:, config]]
                    count = int(((there > edge) if low else (there < edge)).sum())
                    enough = count * share[config] >= c.failed_evidence
                if enough:
                    stops = found.setdefault((column, low, edge), np.zeros(len(share), dtype=bool))
                    stops[config] = True
    return [
        _limit(X[:, column], column, low, edge, configs, p.careful)
        for (column, low, edge), configs in found.items()
    ] + kinds


def _kinds(x: Floats, column: int, covered: Bools, failed: Bools) -> Iterator[Limit]:
    """The limits of a category column: values under which some configs were covered in no scenario."""
    c, share = constants.LEARNER, covered.mean(axis=0)
    for code in np.unique(x).tolist():
        own = x == code
        enough = own.sum() * share >= c.guard_evidence
        enough |= failed[own].sum(axis=0) * share >= c.failed_evidence
        stops: Bools = np.asarray(enough & ~covered[own].any(axis=0))
        if stops.any():
            cut = Cut(column, left=(int(code),))
            yield Limit(cut, False, own, np.zeros(len(x), dtype=bool), stops)


def _limit(x: Floats, column: int, within_left: bool, edge: float, configs: Bools, near: bool) -> Limit:
    beyond = x > edge if within_left else x < edge
    other = float(x[beyond].min() if within_left else x[beyond].max())
    cut = Cut(column, edge, other) if within_left else Cut(column, other, edge)
    close = _near(-x if within_left else x, beyond) if near else np.zeros(len(x), dtype=bool)
    return Limit(cut, within_left, beyond, close, configs)


def _near(inwards: Floats, beyond: Bools) -> Bools:
    """As many scenarios as lie beyond a limit, of those within it, from the limit inwards."""
    others = np.where(beyond, np.inf, inwards)
    last = min(int(beyond.sum()), int((~beyond).sum())) - 1
    return np.asarray((others <= np.partition(others, last)[last]) & ~beyond)
