"""Distances between scenarios: what is near is likely to like the same config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen.trees.spread import nearest

if TYPE_CHECKING:
    from heurgen.logs.costs import CostTable, Floats, Ints, TableColumn

# A feature whose values span more than this factor counts by its logarithm.
_LOG_FROM = 20.0
# What is smaller counts as this much where logarithms are taken, and a feature that spans less as constant.
_LEAST = 1e-300
# Distances that are worked on at once.
_CELLS = 1 << 22
# Points that a tree is asked for beyond those that are wanted: equally near ones, and the point itself.
_SPARE = 6
# What is nearer than this share of a distance is so whatever the order in which squares were summed.
_ROUNDING = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class FeatureScale:
    """Base features scaled to 0..1 over all points (derived ones would count twice); categories differ by 1.

    `low` and `span` are of `_warped` values.
    """

    columns: tuple[TableColumn, ...]
    low: Floats
    span: Floats
    log: tuple[bool, ...]

    def points(self, X: Floats) -> Floats:
        """Scaled points [S, F] of feature values [S, F]; categories and bools stay codes."""
        scaled = X.astype(np.float64, copy=True)
        for i, column in enumerate(self.columns):
            if column.type in ("category", "bool"):
                continue
            scaled[:, i] = (_warped(X[:, i], self.log[i]) - self.low[i]) / self.span[i]
        return scaled

    def distances(self, a: Floats, b: Floats) -> Floats:
        """Euclidean distances [A, B] between scaled points."""
        return self._apart(a[:, None], b[None])

    def _apart(self, a: Floats, b: Floats) -> Floats:
        """Euclidean distances [A, B] between scaled points [A, 1, F] and [1 or A, B, F]."""
        total = np.zeros((len(a), b.shape[1]))
        for i, column in enumerate(self.columns):
            difference = a[..., i] - b[..., i]
            total += (difference != 0) if column.type in ("category", "bool") else difference**2
        return np.asarray(np.sqrt(total))

    def neighbours(self, a: Floats, b: Floats, k: int) -> tuple[Ints, Floats]:
        """The k nearest of b [A, k] for each of a, of equally near ones the first, and how far they are.

        Where a is b itself, no point is its own neighbour. Of many points those of its own kind are asked first: all
        distances among 40,000 take minutes. What is left is looked for in parts: all at once are more than a machine's
        memory.
        """
        k, step = min(k, len(b) - (a is b)), max(1, _CELLS // len(b))
        near, far = np.zeros((len(a), k), dtype=np.int64), np.zeros((len(a), k))
        left = np.arange(len(a)) if step >= len(a) else self._ask_own_kind(a, b, near, far)
        for start in range(0, len(left), step):
            rows = left[start : start + step]
            distances = self.distances(a[rows], b)
            if a is b:
                distances[np.arange(len(rows)), rows] = np.inf
            near[rows] = nearest(distances, k)
            far[rows] = np.take_along_axis(distances, near[rows], axis=1)
        return near, far

    def _ask_own_kind(self, a: Floats, b: Floats, near: Ints, far: Floats) -> Ints:
        """Fill in near and far [A, k] of points whose k nearest are of their own categories; which points are left.

        A tree of the numbers finds a few more than are wanted. Their distances are taken anew, so that equally near
        ones are told as in a search of all; points of other categories are 1 away at least.
        """
        from scipy.spatial import KDTree  # comes with scikit-learn; few logs need it

        named = np.array([c.type in ("category", "bool") for c in self.columns])
        kind = np.unique(np.vstack([a, b])[:, named], axis=0, return_inverse=True)[1].reshape(-1)
        own, other = kind[: len(a)], kind[len(a) :]
        k, left = near.shape[1], np.ones(len(a), dtype=bool)
        asked = k + _SPARE
        for number in np.flatnonzero(np.bincount(other) >= asked).tolist() if not named.all() else []:
            rows, places = np.flatnonzero(own == number), np.flatnonzero(other == number)
            tree = KDTree(b[places][:, ~named])
            reach, at = (np.asarray(x) for x in tree.query(a[rows][:, ~named], asked))
            found = np.sort(places[at], axis=1)
            distances = self._apart(a[rows, None], b[found])
            if a is b:
                distances[found == rows[:, None]] = np.inf
            order = np.argsort(distances, axis=1, kind="stable")[:, :k]
            near[rows], far[rows] = (np.take_along_axis(x, order, axis=1) for x in (found, distances))
            beyond = np.minimum(reach[:, -1], 1.0 if kind.any() else np.inf)
            left[rows] = far[rows, -1] >= beyond * _ROUNDING
        return np.flatnonzero(left)


def base_columns(table: CostTable) -> tuple[TableColumn, ...]:
    return tuple(c for c in table.columns if not c.derived)


def scale_over(columns: Sequence[TableColumn], X: Floats) -> FeatureScale:
    """The scales that make every numeric feature span 0..1 over the given values [S, F]."""
    low, span, log = np.zeros(len(columns)), np.ones(len(columns)), []
    for i, column in enumerate(columns):
        values = X[:, i]
        numeric = column.type not in ("category", "bool")
        log.append(bool(numeric and values.min() > 0 and values.max() / _LOG_FROM > values.min()))
        if numeric:
            warped = _warped(values, log[-1])
            low[i], width = warped.min(), warped.max() - warped.min()
            span[i] = width if width > _LEAST else 1.0
    return FeatureScale(tuple(columns), low, span, tuple(log))


def _warped(values: Floats, log: bool) -> Floats:
    """Logarithms, or halves: the difference of two halves is finite."""
    return np.log(np.maximum(values, _LEAST)) if log else values * 0.5


def as_matrix(columns: Sequence[TableColumn], rows: Sequence[Mapping[str, Any]]) -> Floats:
    """Feature values [S, F] of launches; a category that the table does not know gets a code of its own."""
    matrix = np.zeros((len(rows), len(columns)))
    for i, column in enumerate(columns):
        codes = {v: float(k) for k, v in enumerate(column.values)}
        for s, row in enumerate(rows):
            value = row[column.name]
            if column.type == "category":
                matrix[s, i] = codes.setdefault(value, float(len(codes)))
            else:
                matrix[s, i] = float(value)
    return matrix
