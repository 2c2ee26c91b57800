"""Candidate cuts of a node's rows: gaps between values, thinned by quantiles, and sets of categories."""

from __future__ import annotations

from itertools import combinations

import numpy as np

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
            _category_cuts(p, rows, column)
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


def _category_cuts(p: Problem, rows: Ints, column: int) -> tuple[list[Cut], Bools]:
    x = p.X[rows, column].astype(np.int64)
    present = np.unique(x).tolist()
    if len(present) < 2:
        return [], np.zeros((len(rows), 0), dtype=bool)
    sets = _all_sets(present) if len(present) <= MAX_SUBSETS else _ordered_sets(p, rows, x, present)
    block = np.column_stack([np.isin(x, s) for s in sets])
    return [Cut(column, left=s) for s in sets], block


def _all_sets(present: list[int]) -> list[tuple[int, ...]]:
    """Every division in two: the sets without the last category."""
    return [s for size in range(1, len(present)) for s in combinations(present[:-1], size)]


def _ordered_sets(p: Problem, rows: Ints, x: Ints, present: list[int]) -> list[tuple[int, ...]]:
    """Single categories, and the prefixes of orders by effect: the mean lead of one config over another here.

    For two configs the best division is a prefix of that order (Fisher 1958, Breiman et al. 1984, 9.4).
    """
    cost = p.cost[rows]
    sums = np.array([cost[x == v].sum(axis=0) for v in present])
    counts = np.array([(x == v).sum() for v in present])[:, None]
    best = int(cost.sum(axis=0).argmin())
    effect = (sums - sums[:, [best]]) / counts
    sets = {(v,) for v in present}
    for config in range(effect.shape[1]):
        order = [present[i] for i in np.lexsort((np.arange(len(present)), effect[:, config])).tolist()]
        sets |= {tuple(sorted(order[:size])) for size in range(1, len(order))}
    return sorted(sets, key=lambda s: (len(s), s))


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
