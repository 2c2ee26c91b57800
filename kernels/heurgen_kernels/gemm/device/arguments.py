"""What the kernels of a product are called with, by name."""

from __future__ import annotations

from typing import Any, NamedTuple


class Tensors(NamedTuple):
    """Pointers; None for what a call has not.

    x [M, K], weight [N, K], bias [N], residual [M, N], out [M, N]
    scale     of a weight of 8 bits, see `scales.py`
    part      float32 scratch of tiles whose K is shared: blocks of sums, see `work`
    counters  int32 zeros that every launch leaves as zeros
    """

    x: Any
    weight: Any
    bias: Any
    residual: Any
    out: Any
    scale: Any
    part: Any
    counters: Any
