"""Costs of few scenarios, drawn towards what the scenarios around say.

Below a hundred scenarios a leaf has two or three, and what one config leads another by there is as much luck, of the
shapes (a wave more or less) and of the clock, as it is the region's. A Gaussian process over the sizes tells them apart
in part.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from heurgen.trees import constants
from heurgen.trees.chance import effects
from heurgen.trees.points import standardised
from heurgen.trees.problem import UNIT, Floats, Problem

# Lengths, in spreads of the columns, and shares of noise that are tried: those whose estimates of scenarios left out
# are nearest stand.
LENGTHS, NOISES = (0.5, 1.0, 2.0, 4.0), (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
# Costs are rounded to this many units (0.00006), coarser than what processors differ by.
GRAIN = 64.0


def shrunk(p: Problem) -> Problem:
    """The problem with `LEARNER.shrunk` of what a Gaussian process makes of its costs, the rest of it as measured.

    What a scenario costs with all configs and a config in all scenarios stays; the rest is estimated. A cell that
    failed stays so; estimates of others take its config to do there what it does in the mean.
    """
    cost = np.where(p.covered, p.cost, 0.0)
    row, column = effects(cost, p.covered)
    rest = np.where(p.covered, cost - row - column, 0.0) / UNIT
    found = cost + constants.LEARNER.shrunk * UNIT * (_estimate(_places(p), rest) - rest)
    found -= np.where(p.covered, found, np.inf).min(axis=1, keepdims=True)
    return replace(p, cost=np.where(p.covered, np.rint(found / GRAIN) * GRAIN, p.cost))


def _places(p: Problem) -> Floats:
    """Scenarios as distances see them: numbers, which all together weigh as the given ones would, and categories."""
    numbers = [i for i, c in enumerate(p.columns) if c.type in ("int", "float")]
    kinds = [i for i, c in enumerate(p.columns) if not c.derived and c.type in ("category", "bool")]
    given = sum(not p.columns[i].derived for i in numbers)
    own = [(p.X[:, [i]] == np.unique(p.X[:, i])).astype(np.float64) for i in kinds]
    return np.hstack([standardised(p, numbers) * np.sqrt(given / max(len(numbers), 1)), *own])


def _estimate(Z: Floats, y: Floats) -> Floats:
    """Of y [N, C] at places Z, by a kernel and a noise of which y left out, a row at a time, is estimated best."""
    distance = ((Z[:, None, :] - Z[None]) ** 2).sum(axis=2)
    best, found = np.inf, y
    for length, noise in product(LENGTHS, NOISES):
        inverse = np.linalg.inv(np.exp(-distance / (2 * length**2)) + noise * np.eye(len(Z)))
        left = inverse @ y
        missed = round(float(np.abs(left / np.diag(inverse)[:, None]).mean()), 6)
        if missed < best:
            best, found = missed, y - noise * left
    return found
