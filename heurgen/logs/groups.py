"""Which scenarios are held out together, where the spec does not say it: those of one shape.

A log often measures a shape several times over: with two page sizes, in two dtypes, on two GPUs. To hold one of
these out and train on the others flatters. So scenarios share a group that agree in all lengths and sizes. These are
the given numbers of more than FEW values in the log (not derived, not constant on every device, no strides); the rest,
such as page sizes, numbers of heads, layouts, dtypes and flags, are variants of a shape. Where that would leave fewer
than a quarter as many groups as there are settings of all features, or fewer than ten (a grid of few sizes, or hardly
any numbers), scenarios equal in all numbers make a group, and failing that those equal in all features. Of a grid of
few shapes by many batch sizes that asks for other batches of these shapes, not for other shapes: docs/spec.md has what
either tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heurgen.spec.kernel_spec import Column

FEW = 8
# Groups that a rule must leave: this share of the settings of all features, and at least so many (or all settings).
SHARE, LEAST = 0.25, 10


def grouped_features(
    features: Sequence[Column], X: NDArray[np.float64], device: NDArray[np.int64]
) -> tuple[str, ...]:
    """The names of the features that make a group; in the order of the spec.

    features  the given ones
    X         float64 [S, F]  their values (more columns may follow)
    device    int64 [S]       the device of each scenario
    """
    own = [i for i in range(len(features)) if i not in device_columns(X[:, : len(features)], device)]
    n = _n_settings(X, own)
    for columns in _rules(features, X, own):
        if columns and _n_settings(X, columns) >= max(SHARE * n, min(LEAST, n)):
            return tuple(features[i].name for i in columns)
    return tuple(f.name for f in features)


def settings(X: NDArray[np.float64], columns: Sequence[int]) -> NDArray[np.int64]:
    """Rows equal in some columns share a number; numbers are in the sorted order of the rows, from 0."""
    if not columns:
        return np.zeros(len(X), dtype=np.int64)
    return np.unique(X[:, columns], axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def device_columns(X: NDArray[np.float64], device: NDArray[np.int64]) -> tuple[int, ...]:
    """The columns that vary, but not on any one device: they are features of the device."""
    _, first, which = np.unique(device, return_index=True, return_inverse=True)
    fixed = (X[first[which.reshape(-1)]] == X).all(axis=0) & (X[:1] != X).any(axis=0)
    return tuple(np.flatnonzero(fixed).tolist())


def strides(sizes: Mapping[str, NDArray[np.float64]]) -> set[str]:
    """The names of those that are 1 or one of the sizes before them in every scenario: a log of matrix products that
    has m, k, n and the strides of both operands has six numbers, and three sizes in two layouts.
    """
    kept: list[NDArray[np.float64]] = []
    found = set()
    for name, x in sizes.items():
        if np.any([x == 1, *(x == size for size in kept)], axis=0).all():
            found.add(name)
        else:
            kept.append(x)
    return found


def _rules(features: Sequence[Column], X: NDArray[np.float64], own: list[int]) -> Iterator[list[int]]:
    numbers = [i for i in own if features[i].type in ("int", "float")]
    many = {features[i].name: X[:, i] for i in numbers if len(np.unique(X[:, i])) > FEW}
    yield [i for i in numbers if features[i].name in many.keys() - strides(many)]
    yield numbers
    yield own


def _n_settings(X: NDArray[np.float64], columns: list[int]) -> int:
    return int(settings(X, columns).max()) + 1
