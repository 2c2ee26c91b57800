"""Candidate cuts of a node's rows: gaps between values, thinned by quantiles, and sets of categories."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from heurgen.trees.configs import region_costs
from heurgen.trees.node import Cut
from heurgen.trees.problem import Bools, Floats, Ints, Problem

# Look-ahead takes time with the square of the number of cuts.
MAX_CUTS_SMALL, MAX_CUTS_LARGE, LARGE = 240, 160, 1500
# Up to this many categories every subset is tried: 2**5 - 1 cuts.
MAX_SUBSETS = 6


def candidates(p: Problem, rows: Ints, limit: int | None = None) -> tuple[list[Cut], Floats]:
    """The cuts that divide the rows, and their membership matrix B [n, Q] (1.0: goes left).

    Of cuts that divide the rows alike, the first column's is kept (see `problem.column_order`).
    """
    total = limit or (MAX_CUTS_SMALL if len(rows) <= LARGE else MAX_CUTS_LARGE)
    each = max(total // max(len(p.columns), 1), 8)
    cuts: list[Cut] = []
    blocks: list[Bools] = []
    for column, description in enumerate(p.columns):
        found, block = (
            _category_cuts(p, rows, column, each)
            if description.type == "category"
            else _number_cuts(p.X[rows, column], column, each)
        )
        cuts += found
        blocks.append(block)
    B = np.hstack(blocks) if blocks else np.zeros((len(rows), 0), dtype=bool)
    keep = _distinct(B)
    return [cuts[i] for i in keep], B[:, keep].astype(np.float64)


def _number_cuts(x: Floats, column: int, limit: int) -> tuple[list[Cut], Bools]:
    values, counts = np.unique(x, return_counts=True)
    gaps = np.arange(len(values) - 1)
    if len(gaps) > limit:
        targets = len(x) * (np.arange(limit) + 1) / (limit + 1)
        gaps = np.unique(np.minimum(np.searchsorted(np.cumsum(counts), targets), len(gaps) - 1))
    cuts = [Cut(column, float(values[g]), float(values[g + 1])) for g in gaps.tolist()]
    return cuts, x[:, None] <= values[gaps][None, :]


def _category_cuts(p: Problem, rows: Ints, column: int, limit: int) -> tuple[list[Cut], Bools]:
    x = p.X[rows, column].astype(np.int64)
    present, code = np.unique(x, return_inverse=True)
    if len(present) < 2:
        return [], np.zeros((len(rows), 0), dtype=bool)
    few = len(present) <= MAX_SUBSETS
    sets = (
        _all_sets(present.tolist()) if few else _ordered_sets(p.cost[rows], code.reshape(-1), present, limit)
    )
    block = np.column_stack([np.isin(x, s) for s in sets])
    return [Cut(column, left=s) for s in sets], block


def _all_sets(present: list[int]) -> list[tuple[int, ...]]:
    """Every division in two: the sets without the last category."""
    return [s for size in range(1, len(present)) for s in combinations(present[:-1], size)]


def _ordered_sets(cost: Floats, code: Ints, present: Ints, limit: int) -> list[tuple[int, ...]]:
    """Single categories, and the prefixes of orders by effect: the mean lead of one config over another here.

    For two configs the best division is a prefix of that order (Fisher 1958, Breiman et al. 1984, 9.4). Of more than
    `limit` sets those stay whose two sides cost least, each with its best config.

    cost  float64 [n, C] of the rows; code [n]: which of `present` each is
    """
    sums, n = region_costs(cost, code), len(present)
    total, counts = sums.sum(axis=0), np.bincount(code)
    effect = (sums - sums[:, [int(total.argmin())]]) / counts[:, None]
    orders = np.argsort(effect.T, axis=1, kind="stable")
    promises = [
        _both_sides(sums, total),
        *(_both_sides(np.cumsum(sums[o[:-1]], axis=0), total) for o in orders),
    ]
    sets: set[tuple[int, ...]] = set()
    for at in np.argsort(np.concatenate(promises), kind="stable").tolist():
        if len(sets) == limit:
            break
        config, size = divmod(at - n, n - 1)
        codes = [at] if at < n else np.sort(orders[config, : size + 1])
        sets.add(tuple(present[codes].tolist()))
    return sorted(sets, key=lambda s: (len(s), s))


def _both_sides(left: Floats, total: Floats) -> Floats:
    """What divisions cost whose left sides sum to left [Q, C], with the best config on either side."""
    found: Floats = left.min(axis=1) + (total - left).min(axis=1)
    return found


def _distinct(B: Bools) -> list[int]:
    """Columns of B that divide the rows, the first of those that divide them alike."""
    seen: set[bytes] = set()
    keep = []
    flipped = B ^ B[:1]
    packed = np.ascontiguousarray(np.packbits(flipped, axis=0).T)
    for i in np.flatnonzero(flipped.any(axis=0)).tolist():
        key = packed[i].tobytes()
        if key not in seen:
            seen.add(key)
            keep.append(i)
    return keep
