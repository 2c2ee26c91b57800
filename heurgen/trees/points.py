"""Points between scenarios: costs interpolated on lines between neighbours, which a tree is grown and pruned with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heurgen.trees import constants
from heurgen.trees.problem import Bools, Floats, Ints, Problem, Shared
from heurgen.trees.spread import nearest, unit_spread

# A line between scenarios counts as no shorter, in spreads of the columns: lines of near repeats would hide the others.
SHORTEST = 0.05
# Nearest rows of a row that are kept for all problems of these rows: what is nearest of its own kind is mostly there.
KEPT = 96


def between(p: Problem, neighbours: int, share: float, fading: bool = False) -> Problem:
    """The problem with points added between each scenario and its nearest neighbours, so many of each.

    A small log leaves wide gaps, and many thresholds and features separate its scenarios equally well. Costs
    interpolated on the line between neighbours (geometric in positive columns, as launch costs scale) say which
    of them sits where the costs cross. On the H200 log this lowers the held-out geometric mean slowdown from
    1.061 to 1.047. All points together weigh `share` times the scenarios, all alike or, `fading`, by the inverse
    square of their line's length.

    `p` holds the chosen configs: neighbours are joined only where the same ones of them are covered.
    """
    pairs, length = _pairs(p, neighbours)
    if not len(pairs):
        return p
    steps = constants.LEARNER.steps
    worth = 1 / np.maximum(length, SHORTEST) ** 2 if fading else np.ones(len(pairs))
    weight = worth * (share * p.n_real / (worth.sum() * steps))
    a, b = pairs[:, 0], pairs[:, 1]
    shares = [step / (steps + 1) for step in range(1, steps + 1)]
    if pairs.tobytes() not in p.shared.lines:
        Z, logs = _scaled(p)
        X = np.vstack([p.X, *(_line(p, Z, logs, a, b, w) for w in shares)])
        p.shared.lines[pairs.tobytes()] = X, Shared()
    X, shared = p.shared.lines[pairs.tobytes()]
    cost = [np.rint(((1 - w) * p.cost[a] + w * p.cost[b]) * weight[:, None]) for w in shares]
    origin = np.tile(a, steps)
    return with_points(p, X, shared, np.vstack(cost), p.covered[origin], origin, np.tile(weight, steps))


def with_points(
    p: Problem, X: Floats, shared: Shared, cost: Floats, covered: Bools, origin: Ints, weight: Floats
) -> Problem:
    """The problem with points behind its rows, none of them a scenario. X: of the rows and the points, `shared` what
    follows from it; cost, covered: [points, configs], costs by their weights; origin: the row that each belongs to.
    """
    n = len(origin)
    return replace(
        p,
        X=X,
        cost=np.vstack([p.cost, cost]),
        covered=np.vstack([p.covered, covered]),
        untried=np.vstack([p.untried, np.zeros((n, p.untried.shape[1]), dtype=bool)]),
        real=np.concatenate([p.real, np.zeros(n, dtype=bool)]),
        noise=np.concatenate([p.noise, np.zeros(n)]),
        index=np.concatenate([p.index, p.index[origin]]),
        weight=np.concatenate([p.weight, weight]),
        shared=shared,
    )


def _scaled(p: Problem) -> tuple[Floats, Bools]:
    """Columns as distances see them: logs where positive but for what is no size; and which are logs."""
    X = np.where(_sizeless(p), 1.0, p.X)
    logs: Bools = np.asarray((X > 0).all(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        Z = np.where(logs, np.log(X), X)
    return Z, logs


def _sizeless(p: Problem) -> Bools:
    """Which cells [N, F] hold a number that stands for no size: the one negative value among whole positive ones.

    A window of -1 is none. As a size it would make distances those of differences, to which windows of 64 and 4096 are
    the same beside one of 2**31. It counts as 1. With no lines to it logs of attention are worse: 60 scenarios 1.140,
    120 1.113, for 1.123 and 1.106 (four each).
    """
    low = p.X.min(axis=0)
    none: Bools = low == p.X
    whole = np.array([c.type == "int" for c in p.columns])
    return np.asarray(none & whole & (low < 0) & ((p.X > 0) | none).all(axis=0))


def standardised(p: Problem, columns: list[int]) -> Floats:
    """Some columns as distances see them: logs where positive, of unit spread."""
    found: Floats = np.round(unit_spread(_scaled(p)[0][:, columns]), 9)
    return found


def _pairs(p: Problem, neighbours: int) -> tuple[Ints, Floats]:
    """Pairs (i < j) of a row and one of its nearest neighbours, with equal categories and coverage [P, 2].

    And how far apart they are [P], in spreads of the columns.
    """
    given = [i for i, c in enumerate(p.columns) if not c.derived and c.type in ("int", "float")]
    kinds = [i for i, c in enumerate(p.columns) if c.type in ("category", "bool")]
    Z = standardised(p, given)
    kind = np.unique(np.hstack([p.X[:, kinds], p.covered]), axis=0, return_inverse=True)[1].reshape(-1)
    if p.shared.near is None:
        p.shared.near = nearest_rows(Z, np.arange(len(Z)), KEPT)
    near = p.shared.near
    same = (kind[near] == kind[:, None]) & (near >= 0)
    same &= np.cumsum(same, axis=1) <= neighbours
    i, at = np.nonzero(same)
    found = [np.column_stack([i, near[i, at]])]
    beyond = (same.sum(axis=1) < neighbours) & (near[:, -1] >= 0) & (near.shape[1] < len(Z))
    for own in np.unique(kind[beyond]).tolist():
        rows = np.flatnonzero(kind == own)
        if len(rows) > 1:
            close = nearest_rows(Z[rows], np.flatnonzero(beyond[rows]), neighbours)
            i, at = np.nonzero(close >= 0)
            found.append(np.column_stack([rows[beyond[rows]][i], rows[close[i, at]]]))
    pairs = np.unique(np.sort(np.vstack(found), axis=1).astype(np.int64), axis=0)
    return pairs, np.sqrt(((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2).sum(axis=1))


def nearest_rows(Z: Floats, asked: Ints, count: int) -> NDArray[np.int32]:
    """The other rows of Z by distance from the rows asked, nearest first, of equal distance by place [len(asked),
    at most count]; -1 in the place of the row itself and those equal to it.
    """
    count = min(count, len(Z))
    found = np.empty((len(asked), count), dtype=np.int32)
    for at, row in enumerate(asked.tolist()):
        distance = np.round(((Z - Z[row]) ** 2).sum(axis=1), 9)
        distance[distance == 0] = np.inf
        places = nearest(distance[None], count)[0]
        found[at] = np.where(np.isfinite(distance[places]), places, -1)
    return found


def _line(p: Problem, Z: Floats, logs: Bools, a: Ints, b: Ints, w: float) -> Floats:
    """Points at share w of the way from rows a to rows b; products and ratios of columns stay consistent."""
    mixed = (1 - w) * Z[a] + w * Z[b]
    with np.errstate(over="ignore"):
        mixed = np.where(logs, np.exp(mixed), mixed)
    # to 40 bits: the last ones of an exponential are the processor's own; and by the least of these below: a point that
    # meets a scenario's own size (32 between 16 and 64) can not be parted from it, and trees are worse
    fraction, exponent = np.frexp(mixed)
    mixed = np.ldexp(np.rint(np.ldexp(fraction, 40)) - 1, exponent - 40)
    return np.where(
        p.X[a] == p.X[b], p.X[a], np.clip(mixed, np.minimum(p.X[a], p.X[b]), np.maximum(p.X[a], p.X[b]))
    )
