"""The choice among candidates by what they cost held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heurgen.logs.costs import CostTable
from heurgen.trees import constants
from heurgen.trees.joint import Settings
from heurgen.trees.problem import UNIT, Floats, Ints
from heurgen.trees.regime import Regime


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """What cross-validation compares: held-out costs, their mean, and the means of leaves and configs of the fits.

    `cost` is `LEARNER.uncovered` where the choice was invalid; such a choice counts `LEARNER.invalid` in `mean`.
    `rows` and `chosen` are the table's scenario and config column of each cost, one repeat of the folds after another.
    """

    strategy: str
    settings: Settings
    mean: float = math.nan
    leaves: float = 0.0
    configs: float = 0.0
    cost: Floats = field(default_factory=lambda: np.zeros(0))
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    chosen: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """One fit's costs of held-out rows, the rows and what it chose there, its leaves and configs."""

    cost: Floats
    rows: Ints
    chosen: Ints
    leaves: int
    configs: int


def rank(c: Candidate) -> tuple[float, float]:
    return c.mean, c.leaves


def candidate_of(strategy: str, settings: Settings, held: list[Held]) -> Candidate:
    cost = np.concatenate([h.cost for h in held])
    leaves, configs = (sum(x) / len(held) for x in ([h.leaves for h in held], [h.configs for h in held]))
    rows, chosen = np.concatenate([h.rows for h in held]), np.concatenate([h.chosen for h in held])
    return Candidate(strategy, settings, mean_cost(cost), leaves, configs, cost, rows, chosen)


def mean_cost(cost: Floats) -> float:
    """The mean held-out cost, an invalid choice at `LEARNER.invalid`."""
    return math.fsum(np.minimum(cost, constants.LEARNER.invalid).tolist()) / len(cost)


def preferred(scored: Sequence[Candidate], r: Regime) -> Candidate:
    """The candidate of the sizes that ship."""
    found = pick(smoothed(scored) if r.few else scored, r.tolerance, r.repeats)
    found = next(c for c in scored if c.settings == found.settings)
    return found if r.usual is None else or_usual(found, scored, r.usual, r.repeats)


def unseen(
    chosen: Candidate, first: Candidate, sizes: Sequence[Candidate], tests: Sequence[Ints], r: Regime
) -> Candidate:
    """The chosen candidate with held-out costs that had no say in its sizes.

    The least held-out mean of fifty candidates is partly luck, by 0.0004 to 0.005 on few or noisy scenarios. So each
    fold is answered by the candidate of `sizes` that the other folds prefer; by the chosen one where they prefer
    `first` as all folds together do. Told so, nine logs of 120 to 400 scenarios were 1.0492, 1.1639 and 1.0040 (means
    of three of a kind); on some 1,400 new launches each they were 1.0504, 1.1625 and 1.0037.

    tests  the rows that each fold holds out, in the order of the candidates' costs
    """
    if chosen.strategy != "joint":
        return chosen
    cost, config = chosen.cost.copy(), chosen.chosen.copy()
    fold = np.repeat(np.arange(len(tests)), [len(rows) for rows in tests])
    for number, rows in enumerate(tests):
        others = ~np.isin(chosen.rows, rows)
        parts = [replace(c, cost=c.cost[others], mean=mean_cost(c.cost[others])) for c in sizes]
        settings = preferred(parts, r).settings
        if settings != first.settings:
            other = next(c for c in sizes if c.settings == settings)
            own = fold == number
            cost[own], config[own] = other.cost[own], other.chosen[own]
    return replace(chosen, cost=cost, chosen=config)


def measured(c: Candidate, table: CostTable) -> Candidate:
    """The candidate with measured held-out costs in place of estimates: invalid where the choice was not measured."""
    log = table.log_slowdown[c.rows, c.chosen]
    return replace(c, cost=held_out_cost(np.rint(log * UNIT) / UNIT))


def held_out_cost(log: Floats) -> Floats:
    """Log-slowdowns as held-out costs: `LEARNER.uncovered` where one is not finite, less where a choice ran, however
    slowly.
    """
    limit = constants.LEARNER.uncovered
    return np.where(np.isfinite(log), np.minimum(log, limit - 1), limit)


def smoothed(scored: Sequence[Candidate]) -> list[Candidate]:
    """Every candidate with its held-out costs averaged with those of the next smaller and larger number of configs.

    On few scenarios held-out means differ by luck more than by merit, and the least of many is the luckiest. Luck does
    not spread to the neighbours; merit does. Beyond the largest number every set is that of the largest. Below the
    smallest it stands in itself: with one neighbour for two, half its mean would be that of the next, mostly better.
    """
    place = {(c.settings.n_configs, c.settings.price): c for c in scored}
    counts = sorted({count for count, _ in place})
    found = []
    for (count, price), c in place.items():
        i = counts.index(count)
        around = [place[n, price].cost for n in (counts[0], *counts, counts[-1])[i : i + 3]]
        cost: Floats = np.minimum(around, constants.LEARNER.invalid).sum(axis=0) / len(around)
        found.append(replace(c, cost=cost, mean=mean_cost(cost)))
    return found


def pick(scored: Sequence[Candidate], tolerance: float, n_repeats: int) -> Candidate:
    """The best held-out mean; or fewer configs and leaves that are surely within the tolerance of it.

    Surely: by one standard error of the difference. Repeats hold the same scenarios out again, so they make
    the mean steadier but count once in its error.
    """
    best = min(scored, key=rank)
    near = [c for c in scored if c.mean + error(c.cost, best.cost, n_repeats) <= best.mean + tolerance]
    return min([*near, best], key=lambda c: (c.settings.n_configs, c.leaves, c.mean))


def or_usual(chosen: Candidate, scored: Sequence[Candidate], usual: int, n_repeats: int) -> Candidate:
    """The candidate of the usual number of configs at the usual price, unless the chosen one is surely better.

    Surely: by two standard errors of the difference. Of thirty candidates the best leads by one of them by luck.
    """
    other = next(
        c for c in scored if (c.settings.n_configs, c.settings.price) == (usual, constants.LEARNER.price)
    )
    surely = chosen.mean + 2 * error(chosen.cost, other.cost, n_repeats) < other.mean
    return chosen if surely else other


def error(a: Floats, b: Floats, n_repeats: int) -> float:
    """Standard error of the mean difference of two candidates' costs on the same held-out scenarios."""
    invalid = constants.LEARNER.invalid
    difference = np.minimum(a, invalid) - np.minimum(b, invalid)
    spread = difference - math.fsum(difference.tolist()) / len(difference)
    return math.sqrt(math.fsum((spread**2).tolist()) * n_repeats) / len(difference)
