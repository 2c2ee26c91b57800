"""Costs summed over the bins of every column: the most promising test of a node in one pass over its rows.

A number column has a bin per distinct value, or quantiles of them where there are many; a category column a bin per
category. The histogram of a node holds, for every bin of every column, the summed costs [C] of its rows and the
number of scenarios among them. Costs are whole numbers, so sums are exact: a histogram is the same whether it was
summed over rows or is a parent's less a sibling's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heurgen.trees import constants
from heurgen.trees.node import Cut
from heurgen.trees.problem import NOT_WINNER, UNIT, Bools, Floats, Ints, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The rows of a problem by bins; B bins over all columns.

    code    int32 [N, F]        bin of each row in each column, numbered over all columns
    start   int64 [F + 1]       first bin of each column
    owner   int64 [B]           column of each bin
    weight  float64 [N, C + 2]  costs; the row's weight; 1.0 for a scenario, 0.0 for a point between
    sets    columns that are categories
    ordered bool [B]            bins of the other columns
    whole   whether all weights are whole numbers: there are no points between scenarios
    floor   what is added to every config's mean cost, see `promise`; None: winners alone are known, no costs
    """

    code: NDArray[np.int32]
    start: Ints
    owner: Ints
    weight: Floats
    sets: tuple[int, ...]
    ordered: Bools
    whole: bool
    floor: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A test: which bins of the column, counted from its first, go left; and its promise, the less the better."""

    column: int
    left: Bools
    promise: float


def binned(p: Problem) -> Bins:
    """The bins of a problem, by its guiding costs: a config that fails on one scenario of a thousand stays in view."""
    if p.shared.codes is None:
        codes = [_codes(p.X[:, i], c.type == "category") for i, c in enumerate(p.columns)]
        p.shared.codes = np.column_stack(codes).astype(np.int32)
    sizes = p.shared.codes.max(axis=0) + 1
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    sets = tuple(i for i, c in enumerate(p.columns) if c.type == "category")
    floor = constants.LEARNER.sparse_floor if p.sparse else constants.LEARNER.floor
    return Bins(
        code=p.shared.codes + start[:-1].astype(np.int32),
        start=start,
        owner=owner,
        weight=np.column_stack([p.guide, p.weight, p.real.astype(np.float64)]),
        sets=sets,
        ordered=~np.isin(owner, sets),
        whole=bool(p.real.all()),
        floor=None if p.labels_only else floor,
    )


def _codes(x: Floats, category: bool) -> Ints:
    """The bin of each value of a column, from 0."""
    limit = constants.LEARNER.bins
    code = np.unique(x, return_inverse=True)[1].reshape(-1)
    if not category and int(code.max()) >= limit:
        below = np.cumsum(np.bincount(code))
        code = np.unique(((below - 1) * limit // len(x))[code], return_inverse=True)[1].reshape(-1)
    return code


def histograms(bins: Bins, parts: Sequence[Ints]) -> Floats:
    """Summed weights of each part's rows, bin by bin [K, B, C + 2]."""
    from scipy.sparse import csc_array  # comes with scikit-learn

    rows = np.concatenate(parts)
    n, width = len(rows), bins.code.shape[1]
    shape = (len(parts) * int(bins.start[-1]), n)
    first = np.arange(len(parts), dtype=np.int32) * np.int32(bins.start[-1])
    code = bins.code.take(rows, axis=0) + np.repeat(first, [len(part) for part in parts])[:, None]
    places = np.arange(0, n * width + 1, width, dtype=np.int32)
    weight = bins.weight.take(rows, axis=0)
    found: Floats = csc_array((np.ones(n * width), code.reshape(-1), places), shape) @ weight
    return found.reshape(len(parts), -1, bins.weight.shape[1])


def best_tests(bins: Bins, H: Floats) -> list[Found | None]:
    """The most promising test of each node, by their histograms H [K, B, C + 2]; None where none divides its scenarios.

    Of equal tests the first column's lowest wins (see `problem.column_order`).
    """
    total = H[:, : bins.start[1]].sum(axis=1)
    promises = _promises(bins, H, total)
    at = promises.argmin(axis=1)
    least = promises[np.arange(len(H)), at].tolist()
    found: list[Found | None] = []
    for k, (place, value) in enumerate(zip(at.tolist(), least, strict=True)):
        column = int(bins.owner[place])
        best = Found(column, np.arange(bins.start[column], bins.start[column + 1]) <= place, value)
        for column in bins.sets:
            own = slice(bins.start[column], bins.start[column + 1])
            better = _best_set(H[k, own], total[k], bins.floor)
            if better is not None and (better[1], column) < (best.promise, best.column):
                best = Found(column, better[0], better[1])
        found.append(best if np.isfinite(best.promise) else None)
    return found


def _promises(bins: Bins, H: Floats, total: Floats) -> Floats:
    """What every test of a number column promises [K, B]: its bins up to this one go left. Empty bins add none."""
    found = np.full(H.shape[:2], np.inf)
    asked = np.flatnonzero((H[:, :, -2] > 0) & bins.ordered)
    node, place = np.divmod(asked, H.shape[1])
    if bins.whole:
        left = _sums_to(_rows(H, asked), node * len(bins.start) + bins.owner[place])
    else:
        left = _rows(np.cumsum(H, axis=1), asked) - bins.owner[place][:, None] * total[node]
    found.reshape(-1)[asked] = promise(left, total.take(node, axis=0), bins.floor)
    return found


def _rows(H: Floats, asked: Ints) -> Floats:
    """Rows of histograms [K, B, C + 2], counted over all of them [Q, C + 2]."""
    return H.reshape(-1, H.shape[2]).take(asked, axis=0)


def _sums_to(sums: Floats, run: Ints) -> Floats:
    """Cumulated sums [Q, C + 2] within runs of equal `run` [Q]: whole numbers, which lose nothing by running on."""
    left = np.cumsum(sums, axis=0)
    first = np.flatnonzero(np.diff(run, prepend=-1))
    before = left[first - 1]
    before[:1] = 0.0
    left -= np.repeat(before, np.diff(first, append=len(run)), axis=0)
    return left


def promise(left: Floats, total: Floats, floor: float | None) -> Floats:
    """What tests promise whose left sides sum to left [Q, C + 2], of `total` ([C + 2], or of each): less is better [Q].

    The cost of the two best leaves alone is blind to a test that moves two configs nearer to changing places: where
    one config wins all over a node, every test looks useless, and growth stops before two tests that would pay
    together. So each side counts `n (sum over configs of mean cost**-2)**(-1/2)`: nearly the best config's cost where
    it is far ahead, and less the more the others catch up. As a concave function of the sums it never rises by a
    division. (On MIOpen's find-db a greedy tree by the cost alone ends at 1.085, by this at 1.024 held out.)

    Where winners alone are known, a config that mostly loses may lose by a little or not run at all, and only where it
    won it is known to run. There each side counts `sum over configs of n sqrt(share of wins x share of losses)` (Kearns
    and Mansour 1996), which gains most where a config that never wins on a side is parted from one that does. Only
    products, quotients and square roots are used: they round alike on every processor.
    """
    found = _side(left, floor) + _side(total - left, floor)
    found[(left[:, -1] == 0) | (left[:, -1] == total[..., -1])] = np.inf
    return found


def _side(sums: Floats, floor: float | None) -> Floats:
    if floor is None:
        losses = sums[:, :-2] / (NOT_WINNER * UNIT)
        wins = np.maximum(sums[:, -2:-1] - losses, 0.0)
        mixed: Floats = np.sqrt(wins * losses).sum(axis=1)
        return mixed
    cost = sums[:, :-2] + floor * UNIT * np.maximum(sums[:, -2:-1], 1e-9)
    cost *= cost
    found: Floats = 1.0 / np.sqrt(np.reciprocal(cost, out=cost).sum(axis=1))
    return found


def _best_set(H: Floats, total: Floats, floor: float | None) -> tuple[Bools, float] | None:
    """The best prefix of the categories in the orders by effect: the mean lead of a config over the best one.

    For two configs the best division is such a prefix (Fisher 1958; Breiman et al. 1984, 9.4). Where categories
    abound, the configs that would gain most alone give the orders, within `LEARNER.set_cells`.
    """
    present = np.flatnonzero(H[:, -1] > 0)
    if len(present) < 2:
        return None
    sums = H[present]
    lead = sums[:, :-2] - sums[:, [int(total[:-2].argmin())]]
    gain = np.minimum(lead, 0.0).sum(axis=0)
    limit = max(1, constants.LEARNER.set_cells // sums.size)
    configs = np.sort(np.lexsort((np.arange(len(gain)), gain))[:limit])
    # Where one config wins in every category, that of least lead still divides by how near it comes.
    configs = configs[gain[configs] < 0] if (gain < 0).any() else configs
    order = np.argsort((lead[:, configs] / sums[:, [-2]]).T, axis=1, kind="stable")
    if len(present) == 2:  # of two categories there are two orders
        order = order[np.sort(np.unique(order[:, 0], return_index=True)[1])]
    promises = promise(np.cumsum(sums[order], axis=1).reshape(-1, H.shape[1]), total, floor)
    at = int(promises.argmin())
    if not np.isfinite(promises[at]):
        return None
    left = np.zeros(len(H), dtype=bool)
    left[present[order[at // len(present), : at % len(present) + 1]]] = True
    return left, float(promises[at])


def cut_of(p: Problem, bins: Bins, rows: Ints, found: Found) -> tuple[Cut, Bools]:
    """The test as a cut of these rows, and which of them go left."""
    left: Bools = found.left[bins.code[:, found.column][rows] - bins.start[found.column]]
    x = p.X[:, found.column][rows]
    if found.column in bins.sets:
        return Cut(found.column, left=tuple(np.unique(x[left]).astype(np.int64).tolist())), left
    return Cut(found.column, float(x.compress(left).max()), float(x.compress(~left).min())), left
