"""A grown tree made better for slowdown: tests moved, leaves relabelled, branches pruned at a price per leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heurgen.trees.bins import Bins, Found, cut_of
from heurgen.trees.grow import gap
from heurgen.trees.node import Branch, Cut, Tip, Tree, best_tip, doubt, goes_left, n_leaves, parted, row_costs
from heurgen.trees.problem import Bools, Floats, Ints, Problem


def total(p: Problem, rows: Ints, tree: Tree) -> float:
    """What the rows cost in the tree, and its leaves' doubt."""
    return float(row_costs(p, rows, tree).sum()) + doubt(p, tree)


def relabel(p: Problem, rows: Ints, tree: Tree) -> Tree:
    """Every leaf with the config that costs least there; a leaf without scenarios gives way to its sibling."""
    if isinstance(tree, Tip):
        return best_tip(p, rows)
    left = goes_left(p, rows, tree.cut)
    below, above = parted(rows, left)
    if not p.real[below].any():
        return relabel(p, rows, tree.right)
    if not p.real[above].any():
        return relabel(p, rows, tree.left)
    cut = tree.cut if tree.cut.left else gap(p, rows, tree.cut.column, left)
    return Branch(cut, relabel(p, below, tree.left), relabel(p, above, tree.right))


# --- the best test above two given subtrees -----------------------------------------------------------------


def move(p: Problem, bins: Bins, rows: Ints, tree: Tree) -> Tree:
    """One pass over the nodes, top down: each test gives way to the best one above its two subtrees, if that pays."""
    if isinstance(tree, Tip):
        return tree
    left = goes_left(p, rows, tree.cut)
    below, above = row_costs(p, rows, tree.left), row_costs(p, rows, tree.right)
    cut = _best_cut(p, bins, rows, below - above, left)
    if cut is not None:
        moved = relabel(p, rows, Branch(cut, tree.left, tree.right))
        if total(p, rows, moved) < float(np.where(left, below, above).sum()) + doubt(p, tree):
            tree = moved
            if isinstance(tree, Tip):
                return tree
            left = goes_left(p, rows, tree.cut)
    within, beyond = parted(rows, left)
    return Branch(tree.cut, move(p, bins, within, tree.left), move(p, bins, beyond, tree.right))


def _best_cut(p: Problem, bins: Bins, rows: Ints, gain: Floats, left: Bools) -> Cut | None:
    """The test that sends every row where it costs least; None where the present one, by `left`, is as good.

    gain  float64 [n]  what each row costs on the left more than on the right, subtrees given
    """
    now = float(gain[left].sum())
    code, size = bins.code.take(rows, axis=0), int(bins.start[-1])
    width = code.shape[1]
    sums = np.bincount(code.reshape(-1), weights=np.repeat(gain, width), minlength=size)
    count = np.bincount(code.reshape(-1), minlength=size)
    below = np.cumsum(sums) - bins.owner * gain.sum()
    n_below = np.cumsum(count) - bins.owner * len(rows)
    below[(n_below == 0) | (n_below == len(rows))] = np.inf
    for column in bins.sets:
        below[bins.start[column] : bins.start[column + 1]] = np.inf
    at = int(below.argmin())
    column = int(bins.owner[at])
    own = np.arange(bins.start[column], bins.start[column + 1])
    best = Found(column, own <= at, float(below[at]))
    for column in bins.sets:
        side = slice(int(bins.start[column]), int(bins.start[column + 1]))
        lower = sums[side] < 0
        if lower.any() and not lower[count[side] > 0].all() and float(sums[side][lower].sum()) < best.promise:
            best = Found(column, lower, float(sums[side][lower].sum()))
    return cut_of(p, bins, rows, best)[0] if best.promise < now else None


# --- pruning ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A node: where its rows begin and end among the weighed tree's, its best config, what its rows cost in it [n]."""

    start: int
    stop: int
    tip: Tip
    alone: Floats
    total: float
    cut: Cut | None = None
    left: _Node | None = None
    right: _Node | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """A tree with what each node would cost as one leaf. Rows lie leaf by leaf, hence those of a node together."""

    rows: Ints
    root: _Node


@dataclass(slots=True, eq=False)
class _Kept:
    """What pruning keeps: summed costs of the node as a leaf and as it stands, its doubt, its number of leaves.

    `weakest` is the weakest branch from here on: what it saves per leaf, its depth, its place from the left.
    """

    tip: Tip
    alone: float
    cost: float
    doubt: float
    n_leaves: int = 1
    cut: Cut | None = None
    left: _Kept | None = None
    right: _Kept | None = None
    weakest: tuple[float, int, int] | None = None


def weighed(p: Problem, tree: Tree) -> Weighed:
    parts: list[Ints] = []
    _collect(p, np.arange(len(p.X)), tree, parts)
    rows, stops = np.concatenate(parts), np.cumsum([len(part) for part in parts]).tolist()
    cost = p.cost.take(rows, axis=0)
    ends = iter(zip([0, *stops], stops, strict=False))

    def node(tree: Tree) -> tuple[_Node, Floats]:
        if isinstance(tree, Tip):
            start, stop = next(ends)
            return whole(start, stop, cost[start:stop].sum(axis=0))
        (left, below), (right, above) = node(tree.left), node(tree.right)
        found, sums = whole(left.start, right.stop, below + above)
        return replace(found, cut=tree.cut, left=left, right=right), sums

    def whole(start: int, stop: int, sums: Floats) -> tuple[_Node, Floats]:
        best = int((sums + p.leaf_price).argmin())
        return _Node(start, stop, Tip(best), cost[start:stop, best], float(sums[best])), sums

    return Weighed(rows, node(tree)[0])


def _collect(p: Problem, rows: Ints, tree: Tree, parts: list[Ints]) -> None:
    """The rows of each leaf, left to right."""
    if isinstance(tree, Tip):
        parts.append(rows)
        return
    left = goes_left(p, rows, tree.cut)
    below, above = parted(rows, left)
    _collect(p, below, tree.left, parts)
    _collect(p, above, tree.right, parts)


def prune(p: Problem, tree: Weighed, price: float, max_leaves: int) -> Tree:
    """The best subtree at `price` per leaf, without splits that only leads within the noise pay for.

    Beyond `max_leaves` the weakest link goes first (Breiman et al. 1984, 3.3): the branch whose leaves save least,
    per leaf, over one leaf in its place.
    """
    noise, real = p.noise[tree.rows], p.real[tree.rows]
    now = np.empty(len(tree.rows))

    def kept(node: _Node) -> _Kept:
        """What is kept of the node; `now` gets what each of its rows costs in it."""
        own = slice(node.start, node.stop)
        alone = _Kept(node.tip, node.total, node.total, float(p.leaf_price[node.tip.config]))
        if node.left is None or node.right is None:
            now[own] = node.alone
            return alone
        below, above = kept(node.left), kept(node.right)
        same = below.n_leaves == above.n_leaves == 1 and below.tip == above.tip
        found = _joined(node.tip, node.total, node.cut, below, above)
        gain = alone.cost - found.cost + alone.doubt - found.doubt
        pays = not same and gain > price * (found.n_leaves - 1)
        if pays and beyond_noise(node.alone - now[own], real[own], noise[own]):
            return found
        now[own] = node.alone
        return alone

    return _within(kept(tree.root), max_leaves)


def _joined(tip: Tip, alone: float, cut: Cut | None, below: _Kept, above: _Kept) -> _Kept:
    n = below.n_leaves + above.n_leaves
    return _Kept(tip, alone, below.cost + above.cost, below.doubt + above.doubt, n, cut, below, above)


def beyond_noise(lead: Floats, real: Bools, noise: Floats) -> bool:
    """Whether leads larger than the noise of their scenario, taken alone, speak for the change."""
    carried: Bools = real & (np.abs(lead) > noise)
    return float(lead[carried].sum()) > 0


# --- the weakest link ---------------------------------------------------------------------------------------


def _within(kept: _Kept, max_leaves: int) -> Tree:
    """The tree, its weakest branches made leaves until it has at most `max_leaves`."""
    if kept.n_leaves > max_leaves:
        _find_weakest(kept, 0, 0)
    while kept.n_leaves > max_leaves:
        _drop_weakest(kept)
    return _tree(kept)


def _find_weakest(node: _Kept, level: int, place: int) -> None:
    for side, at in ((node.left, 2 * place), (node.right, 2 * place + 1)):
        if side is not None:
            _find_weakest(side, level + 1, at)
    _compare(node, level, place)


def _compare(node: _Kept, level: int, place: int) -> None:
    """Set `weakest` from the node's own and its sides'; of equal ones the shallowest, then the leftmost."""
    if node.left is None or node.right is None:
        node.weakest = None
        return
    own = ((node.alone - node.cost) / (node.n_leaves - 1), level, place)
    node.weakest = min(w for w in (own, node.left.weakest, node.right.weakest) if w is not None)


def _drop_weakest(root: _Kept) -> None:
    assert root.weakest is not None
    _, level, place = root.weakest
    above, node = list[_Kept](), root
    for bit in range(level - 1, -1, -1):
        above.append(node)
        side = node.right if place >> bit & 1 else node.left
        assert side is not None
        node = side
    saved, fewer = node.alone - node.cost, node.n_leaves - 1
    node.cut, node.left, node.right, node.cost, node.n_leaves, node.weakest = (
        None,
        None,
        None,
        node.alone,
        1,
        None,
    )
    for depth in range(level - 1, -1, -1):
        parent = above[depth]
        parent.cost += saved
        parent.n_leaves -= fewer
        _compare(parent, depth, place >> (level - depth))


def _tree(kept: _Kept) -> Tree:
    if kept.cut is None or kept.left is None or kept.right is None:
        return kept.tip
    return Branch(kept.cut, _tree(kept.left), _tree(kept.right))


def with_max_leaves(p: Problem, tree: Tree, max_leaves: int) -> Tree:
    """A tree as it is, down to at most `max_leaves` leaves by its weakest links."""
    if n_leaves(tree) <= max_leaves:
        return tree
    found = weighed(p, tree)

    def kept(node: _Node, tree: Tree) -> _Kept:
        if isinstance(tree, Tip) or node.left is None or node.right is None:
            tip = tree if isinstance(tree, Tip) else node.tip
            cost = float(p.cost[found.rows[node.start : node.stop], tip.config].sum())
            return _Kept(tip, cost, cost, 0.0)
        return _joined(
            node.tip, node.total, tree.cut, kept(node.left, tree.left), kept(node.right, tree.right)
        )

    return _within(kept(found.root, tree), max_leaves)
