"""The config of a launch, and a documented guess for where no generated heuristics apply.

The guess is the fallback alone: selectors generated from measured logs (heurgen_kernels/heuristics) replace it.
"""

from __future__ import annotations

from typing import NamedTuple


class Config(NamedTuple):
    """One setting of all launch parameters. Any object with these attributes serves as a config.

    variant       naive | q_block | split_kv | static_grid | mixed | gather
    BLOCK_M       rows (query token, query head) of a Q block; raised to the query heads per KV head where smaller
    TILE_SIZE     keys per step, any power of two from 16, independent of the page size
    num_segments  parts that the longest sequence's keys are cut into (split_kv, static_grid, decodes of mixed)
    waves_per_eu, matrix_instr_nonkdim  AMD alone
    """

    variant: str = "q_block"
    BLOCK_M: int = 16
    TILE_SIZE: int = 64
    num_warps: int = 4
    num_stages: int = 2
    num_segments: int = 1
    waves_per_eu: int | None = None
    matrix_instr_nonkdim: int | None = None


VARIANTS = ("naive", "q_block", "split_kv", "static_grid", "mixed", "gather")


def default_config(
    *,
    vendor: str,
    num_seqs: int,
    total_query_tokens: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    num_query_heads: int,
    num_kv_heads: int,
    head_size: int,
    page_size: int,
    dtype: str,
    fresh: bool,
    multiprocessors: int,
) -> Config:
    """A reasonable config. Decodes: keys are split until the processors are busy. Prompts: larger blocks for longer
    prompts (the crossings follow the first H200 measurements in /data, rounded)."""
    tile = 64 if head_size <= 128 else 32
    if max_seqlen_q == 1 or total_query_tokens * num_query_heads <= 16 * num_seqs * num_kv_heads:
        wanted = -(-2 * multiprocessors // (num_seqs * num_kv_heads))
        segments = 1 << max(min(wanted, -(-max_seqlen_k // 128), 64) - 1, 0).bit_length()
        variant = "split_kv" if segments > 1 else "q_block"
        return Config(variant, 16, tile, 4, 3 if vendor == "nvidia" else 2, segments)
    long = max_seqlen_q * num_query_heads // num_kv_heads
    block = 16 if long <= 32 else 64 if long <= 2048 or head_size > 128 else 128
    return Config("q_block", block, tile, 4 if block < 128 else 8, 2, 1)
