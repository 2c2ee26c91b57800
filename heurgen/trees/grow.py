"""Growth: from one leaf, the leaf with most left to gain is divided first, by its most promising test."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from heurgen.trees.bins import Bins, best_tests, cut_of, histograms
from heurgen.trees.node import Branch, Cut, Tip, Tree, parted
from heurgen.trees.problem import Bools, Floats, Ints, Problem

# Cells of the histograms that are looked at together: what a processor's cache holds.
CELLS = 2**18


@dataclass(slots=True, eq=False)
class _Leaf:
    """A leaf of the growing tree; `gain` is what it has left to gain, `sums` its histogram, dropped once divided."""

    rows: Ints
    tip: Tip
    gain: float
    level: int
    sums: Floats | None = None
    divided: _Divided | None = None
    left: int = -1
    right: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class _Divided:
    """A leaf's most promising test and the two leaves that it makes; no cut: nothing divides it."""

    cut: Cut | None
    below: _Leaf | None = None
    above: _Leaf | None = None


def grow(p: Problem, bins: Bins, depth: int, max_leaves: int) -> Tree:
    """A tree of at most `depth` tests on a path and `max_leaves` leaves; pruning comes later.

    What a leaf has left to gain is its cost beyond that of each row's own best config. A leaf without any, or with
    fewer than two scenarios, stays. Leaves that are likely next are looked at together: how they divide does not
    depend on when.
    """
    everything = np.arange(len(p.X))
    least = p.cost.min(axis=1)
    leaves = _leaves(p, least, [everything], [0], depth)
    if leaves[0].gain > 0:
        leaves[0].sums = histograms(bins, [everything])[0]
    waiting: list[tuple[float, int]] = []

    def wait(number: int) -> None:
        if leaves[number].sums is not None:
            heapq.heappush(waiting, (-leaves[number].gain, number))

    together = max(1, CELLS // (int(bins.start[-1]) * bins.weight.shape[1]))
    wait(0)
    count = 1
    while waiting and count < max_leaves:
        if leaves[waiting[0][1]].divided is None:
            first = heapq.nsmallest(min(max_leaves - count, 4 * together), waiting)
            asked = [leaves[number] for _, number in first if leaves[number].divided is None][:together]
            _divide(p, bins, least, asked, depth)
        leaf = leaves[heapq.heappop(waiting)[1]]
        found = leaf.divided
        if found is None or found.below is None or found.above is None:
            continue
        leaf.left, leaf.right = len(leaves), len(leaves) + 1
        leaves += [found.below, found.above]
        wait(leaf.left)
        wait(leaf.right)
        count += 1
    return _tree(leaves, 0)


def _leaves(p: Problem, least: Floats, parts: list[Ints], levels: list[int], depth: int) -> list[_Leaf]:
    """Leaves of these rows, without histograms; one that stays as it is has nothing left to gain."""
    rows, starts = np.concatenate(parts), np.cumsum([0, *(len(part) for part in parts[:-1])])
    cost = np.add.reduceat(p.cost.take(rows, axis=0), starts, axis=0)
    tip = (cost + p.leaf_price).argmin(axis=1)
    gain = cost[np.arange(len(parts)), tip] - np.add.reduceat(least[rows], starts)
    stays = (np.add.reduceat(p.real[rows].astype(np.int64), starts) < 2) | (np.array(levels) >= depth)
    gain[stays] = 0.0
    found = zip(parts, tip.tolist(), gain.tolist(), levels, strict=True)
    return [_Leaf(own, Tip(config), left, level) for own, config, left, level in found]


def _divide(p: Problem, bins: Bins, least: Floats, leaves: list[_Leaf], depth: int) -> None:
    """Find the leaves' tests, and the leaves on both sides with their histograms."""
    H = np.stack([leaf.sums for leaf in leaves if leaf.sums is not None])
    able: list[tuple[_Leaf, Cut]] = []
    parts: list[Ints] = []
    for leaf, found in zip(leaves, best_tests(bins, H), strict=True):
        if found is None:
            leaf.divided = _Divided(None)
            continue
        cut, left = cut_of(p, bins, leaf.rows, found)
        able.append((leaf, cut))
        parts += parted(leaf.rows, left)
    if not able:
        return
    sides = _leaves(p, least, parts, [leaf.level + 1 for leaf, _ in able for _ in (0, 1)], depth)
    families = list(zip([leaf for leaf, _ in able], sides[::2], sides[1::2], strict=True))
    for (leaf, below, above), (_, cut) in zip(families, able, strict=True):
        leaf.divided = _Divided(cut, below, above)
    _sum_sides(bins, families)
    for leaf in leaves:
        leaf.sums = None


def _sum_sides(bins: Bins, families: list[tuple[_Leaf, _Leaf, _Leaf]]) -> None:
    """The histograms of both sides of divided leaves: the smaller is summed, the other what is left."""
    asked = [
        (leaf, below, above) if 2 * len(below.rows) <= len(leaf.rows) else (leaf, above, below)
        for leaf, below, above in families
        if below.gain > 0 or above.gain > 0
    ]
    if not asked:
        return
    found = histograms(bins, [less.rows for _, less, _ in asked])
    for (leaf, less, more), sums in zip(asked, found, strict=True):
        assert leaf.sums is not None
        less.sums = sums.copy() if less.gain > 0 else None
        more.sums = np.subtract(leaf.sums, sums, out=leaf.sums) if more.gain > 0 else None


def _tree(leaves: list[_Leaf], number: int) -> Tree:
    leaf = leaves[number]
    if leaf.left < 0 or leaf.divided is None or leaf.divided.cut is None:
        return leaf.tip
    return Branch(leaf.divided.cut, _tree(leaves, leaf.left), _tree(leaves, leaf.right))


def gap(p: Problem, rows: Ints, column: int, left: Bools) -> Cut:
    """The cut of a number column between the rows that go left and the others."""
    x = p.X[:, column][rows]
    return Cut(column, float(x.compress(left).max()), float(x.compress(~left).min()))
