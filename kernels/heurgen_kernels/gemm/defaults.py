"""A documented guess for where no generated heuristics apply: AMD, which nobody measured, and a missing module."""

from __future__ import annotations

from .config import Config


def default_config(*, vendor: str, M: int, N: int, K: int, gated: bool, multiprocessors: int) -> Config:
    """A reasonable config, from what the shapes say alone.

    Few rows: weights are read once and K is cut until every processor has work. Many: tiles as large as fit.
    """
    rows = next((block for block in (16, 32, 64) if block >= M), 128)
    if vendor == "amd":
        block = 64 if rows < 64 else 128
        tiles = -(-M // rows) * -(-N // block)
        splits = max(1, min(8, 2 * multiprocessors // tiles, K // 256))
        return Config("stream_k", rows, block, 64 if rows < 128 else 32, 4 if rows < 128 else 8, 2, splits)
    if rows < 128:
        return Config("stream_k", rows, 64, 64, 4, 4, 1, 3 if rows == 16 else 2)
    wide = not gated and multiprocessors <= -(-M // 128) * -(-N // 256)
    return Config("warp_specialized", 128, 256 if wide else 128, 64, 4, 12, 1, 0 if wide else 1)


def default_fp8(*, vendor: str, M: int, N: int, K: int, gated: bool, multiprocessors: int) -> Config:
    """The same for fp8 weights on NVIDIA. Steps are twice as long for the same bytes."""
    if M <= 32:
        return Config("stream_k", 16 if M <= 16 else 32, 64, 128, 4, 6 if M <= 16 else 4, 1, 2)
    rows = next((block for block in (64, 128) if block >= M), 128 if gated else 256)
    few = -(-M // rows) * -(-N // 128) < multiprocessors
    return Config("warp_specialized", rows, 128, 64, 4, 12, 1, int(few))
