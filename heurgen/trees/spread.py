"""Columns of any size brought to one (powers of two change no digit of a value, and sums and squares stay finite), and
the nearest of their rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def unit_spread(Z: Floats) -> Floats:
    """Columns of mean 0 and unit spread."""
    Z = np.ldexp(Z, -_size(Z))  # whatever their size, squares are finite and not 0
    spread = Z.std(axis=0)
    found: Floats = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return found


def scaled_down(x: Floats, bits: int) -> Floats:
    """Columns times the power of two, at most 1, that keeps their values within +-2**bits."""
    found: Floats = np.ldexp(x, -np.maximum(_size(x) - bits, 0))
    return found


def _size(x: Floats) -> NDArray[np.int32]:
    """The power of two that no value of a column reaches."""
    found: NDArray[np.int32] = np.frexp(np.abs(x).max(axis=0))[1]
    return found


def within_float32(x: Floats) -> Floats:
    """Columns for scikit-learn, which takes float32 and adds them up: those within +-2**100 as they are."""
    return scaled_down(x, 100)


def evenly(n: int, most: int) -> NDArray[np.int64]:
    """At most so many of n places, spread evenly over them, ascending."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def nearest(distance: Floats, count: int) -> NDArray[np.int64]:
    """The places of the `count` least distances of each row [N, M], in their order [N, count]; of equal ones the first,
    where a partition alone leaves it to the processor which.
    """
    at = max(count - 1, 0)
    last = np.partition(distance, at, axis=1)[:, at, None]
    less, equal = distance < last, distance == last
    less |= equal & (np.cumsum(equal, axis=1) <= count - less.sum(axis=1, keepdims=True))
    places = np.nonzero(less)[1].reshape(len(distance), count)
    order = np.argsort(np.take_along_axis(distance, places, axis=1), axis=1, kind="stable")
    found: NDArray[np.int64] = np.take_along_axis(places, order, axis=1)
    return found
