"""Which scenario to measure next.

    score = (BASE + regret) * distance * weight

`distance` is that to the nearest measured scenario, in the scaled space of `scale.py`: far from data nothing
is known. `regret` is what the config that the tree gives here would lose in the nearest measured scenarios
(the mean of its log-slowdowns in NEIGHBOURS of them, weighted by 1 / (distance + SOFT)**2): where neighbours
disagree with the tree, a threshold is misplaced, a leaf is too coarse, or a tie was broken by noise. BASE
keeps exploring where no neighbour complains. Scenarios are taken one by one, and each that is taken counts as
measured for the distances of the next, so that a batch spreads out. `weight` is the share of real traffic.

Chosen by experiment on data/: among farthest-point sampling alone, regret alone, their product with BASE from
0.02 to 0.3, 2 to 8 neighbours and other powers, this product was best or within noise of the best, and
farthest-point sampling alone was no better than random order with a greedy learner.
`benchmarks/advise.py` measures it against random order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heurgen.audit.advise.scale import FeatureScale

if TYPE_CHECKING:
    from heurgen.logs.costs import Floats, Ints

BASE = 0.1
NEIGHBOURS = 6
SOFT = 0.05
# What a cell without a time costs: the config may not apply there. Winners-only logs say less: a neighbour
# that liked another config is a disagreement of unknown size.
UNMEASURED = math.log(3.0)
DISAGREEMENT = math.log(1.1)
# A config this near the best is worth trying beside it.
PROMISING = math.log(1.1)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is known: scaled points [S, F] and log-slowdowns [S, C] with every cell priced.

    answers [S] is the selector that answers for each scenario's device, a column of `chosen` [N, D]; None: it is [N].
    """

    points: Floats
    costs: Floats
    answers: Ints | None = None


def priced(log_slowdown: Floats, costs_known: bool) -> Floats:
    price = UNMEASURED if costs_known else DISAGREEMENT
    return np.where(np.isfinite(log_slowdown), log_slowdown, price)


def regrets(space: FeatureScale, known: Measured, points: Floats, chosen: Ints) -> tuple[Floats, Floats]:
    """Expected log-slowdown [N] of the chosen config columns at points [N, F] (-1: a config nobody measured), and the
    distances to the nearest scenario.
    """
    near, far = space.neighbours(points, known.points, NEIGHBOURS)
    weights = 1.0 / (far + SOFT) ** 2
    told = (
        chosen[:, None] if known.answers is None else np.take_along_axis(chosen, known.answers[near], axis=1)
    )
    costs = np.where(told >= 0, known.costs[near, told], UNMEASURED)
    return np.asarray((weights * costs).sum(axis=1) / weights.sum(axis=1)), far[:, 0]


def order(
    space: FeatureScale,
    known: Measured,
    points: Floats,
    chosen: Ints,
    n: int,
    weight: Floats | None = None,
) -> list[tuple[int, float, float, float]]:
    """The n best candidates, best first: (candidate, score, distance when taken, regret)."""
    regret, distance = regrets(space, known, points, chosen)
    value = (BASE + regret) * (1.0 if weight is None else weight)
    taken: list[tuple[int, float, float, float]] = []
    left = np.ones(len(points), dtype=np.bool_)
    for _ in range(min(n, len(points))):
        scores = np.where(left, value * distance, -1.0)
        best = int(scores.argmax())
        taken.append((best, float(scores[best]), float(distance[best]), float(regret[best])))
        left[best] = False
        distance = np.minimum(distance, space.distances(points, points[best : best + 1])[:, 0])
    return taken


def next_scenarios(
    space: FeatureScale, X: Floats, log_slowdown: Floats, pool: Floats, chosen: Ints, n: int
) -> list[int]:
    """`order` for a caller with feature values: the n best rows of a pool [N, F] of launches."""
    known = Measured(space.points(X), priced(log_slowdown, True))
    return [i for i, *_ in order(space, known, space.points(pool), chosen, n)]


def promising(costs: Floats, near: Sequence[int]) -> list[int]:
    """Columns that were within PROMISING of the best in one of the near scenarios [S, C], best mean first."""
    block = costs[list(near)]
    finite = np.isfinite(block)
    good = np.flatnonzero((np.where(finite, block, np.inf) <= PROMISING).any(axis=0))
    sums = np.where(finite, block, UNMEASURED)[:, good].mean(axis=0)
    return [int(c) for c in good[np.lexsort((good, sums))].tolist()]
