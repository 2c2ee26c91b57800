"""Configs that fail wherever a size is no multiple of something, as vector loads do: no test of the size says so.

A tree cuts a size into ranges, and multiples lie in all of them. What is left of the size by a division, a derived
feature, parts them in one test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heurgen.ir import expr

if TYPE_CHECKING:
    from heurgen.logs.costs import CostTable, Floats
    from heurgen.trees.problem import Bools

# Of what a size may be a multiple: elements of a vector load, of a line of memory, of a tile.
MULTIPLES = (4, 8, 16, 32, 64, 128)
# Scenarios that are no multiple, and as many that are: fewer may agree by chance, of hundreds of configs and sizes.
LEAST = 30
# Of the scenarios that are a multiple, what share a config must succeed in.
SUCCEEDS = 0.2


@dataclass(frozen=True, slots=True)
class Alignment:
    """So many of the table's configs fail wherever `feature` is no multiple of something; `multiple` is the most."""

    feature: str
    multiple: int
    configs: int


def alignment(table: CostTable) -> Alignment | None:
    """Of the given whole-numbered size by which most configs fail; None where there is none.

    None of a size of which the spec has a remainder, either, nor of a log of winners.
    """
    if not table.costs_known:
        return None
    failed = ~np.isfinite(table.times)
    taken = frozenset().union(*(_divided(c.expression) for c in table.columns if c.expression is not None))
    found = []
    for i, column in enumerate(table.columns):
        if column.type != "int" or column.derived or column.name in taken:
            continue
        asked = [_asks(table.X[:, i], failed, multiple) for multiple in MULTIPLES]
        if any(map(np.any, asked)):
            largest = max(m for m, asks in zip(MULTIPLES, asked, strict=True) if asks.any())
            found.append(Alignment(column.name, largest, int(np.logical_or.reduce(asked).sum())))
    return max(found, key=lambda a: a.configs, default=None)


def _asks(x: Floats, failed: Bools, multiple: int) -> Bools:
    """Which configs fail in all scenarios that are no multiple, and run among smaller and among larger ones of them."""
    off = x % multiple != 0
    if min(off.sum(), (~off).sum()) < LEAST:
        return np.zeros(failed.shape[1], dtype=np.bool_)
    middle = np.median(x[off])
    below, above = ~failed[~off & (x <= middle)], ~failed[~off & (x >= middle)]
    everywhere = failed[off].all(axis=0) & (failed[~off].mean(axis=0) <= 1 - SUCCEEDS)
    asks: Bools = everywhere & below.any(axis=0) & above.any(axis=0)
    return asks


def _divided(tree: expr.Expr) -> frozenset[str]:
    """The names whose remainder an expression has."""
    match tree:
        case expr.Binary("%", left, _):
            return expr.names(left)
        case expr.Binary(_, left, right):
            return _divided(left) | _divided(right)
        case expr.Call(_, arguments):
            return frozenset().union(*map(_divided, arguments))
        case expr.Negate(operand):
            return _divided(operand)
    return frozenset()
