"""Columns of any size brought to one: powers of two change no digit of a value, and sums and squares stay finite."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def unit_spread(Z: Floats) -> Floats:
    """Columns of mean 0 and unit spread."""
    Z = scaled_down(Z, 0)  # whatever their size, squares are finite
    spread = Z.std(axis=0)
    found: Floats = (Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return found


def scaled_down(x: Floats, bits: int) -> Floats:
    """Columns times the power of two, at most 1, that keeps their values within +-2**bits."""
    size = np.frexp(np.abs(x).max(axis=0))[1]
    found: Floats = np.ldexp(x, -np.maximum(size - bits, 0))
    return found
