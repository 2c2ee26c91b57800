"""A documented guess for where no generated heuristics apply.

The guess is the fallback alone: selectors generated from measured logs (heurgen_kernels/heuristics)
replace it.
"""

from __future__ import annotations

from .config import Config

# Config of decode launches to record in a graph, with the most segments that may be chosen. Tile, warps and stages:
# measured on an H200 by `benchmarks/static_grid.py --constants`, segments free: 1.012 of the best of each lengths.
GRAPH = Config("static_grid", 16, 16, 1, 3, 64)
# What the static grid's chooser is asked with on the device, in this order. Of decode batches num_seqs counts the
# sequences that have a query, and the lengths are those of the keys that a window leaves visible.
CHOICE = (
    "num_seqs",
    "total_query_tokens",
    "max_seqlen_k",
    "total_seqlen_k",
    "num_kv_heads",
    "multiprocessors",
)


def default_config(
    *,
    vendor: str,
    num_seqs: int,
    total_query_tokens: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    total_seqlen_k: int,
    window: int,
    softcap: bool,
    avg_seqlen_q: float,
    num_query_heads: int,
    num_kv_heads: int,
    head_size: int,
    page_size: int,
    dtype: str,
    fresh: bool,
    sinks: bool,
    multiprocessors: int,
) -> Config:
    """A reasonable config, from a first look at one H200 (bf16, 32/8 heads of 128), not from a full log.

    Decodes: about 600 programs by splitting keys, at least 64 keys a segment. Prompts of a few hundred tokens: small
    blocks. Longer prompts and batches that mix both: warp-specialised blocks of 128 rows, with keys split in two
    where they would not fill the processors twice.
    """
    group = num_query_heads // num_kv_heads
    wide = head_size > 128
    if max_seqlen_q * group <= 16:
        return _decode(vendor, num_seqs * num_kv_heads, max_seqlen_k, wide, multiprocessors)
    if vendor == "amd":
        return Config("q_block", 64, 32, 4, 1, 1)
    mixed = num_seqs > 1 and 2 * total_query_tokens < num_seqs * max_seqlen_q
    if not mixed and max_seqlen_k < 512:
        return Config("q_block", 64, 32, 4, 2, 1)
    blocks = total_query_tokens * num_query_heads // 128
    if not mixed and max_seqlen_k >= 4096:
        return Config("warp_specialized", 128, 128, 4, 2, 2 if blocks < 2 * multiprocessors else 1)
    return Config("warp_specialized", 128, 64, 4, 3, 1)


def _decode(vendor: str, items: int, max_seqlen_k: int, wide: bool, multiprocessors: int) -> Config:
    """About 6 programs a processor, of at least 64 keys each. items: sequences times KV heads."""
    most = 32 if max_seqlen_k >= 32768 else 16
    segments = _power_below(min(6 * multiprocessors // max(items, 1), max_seqlen_k // 64, most))
    tile, warps = (32, 2) if wide else (16, 1) if items > 16 else (64, 4)
    if segments == 1:
        return Config("q_block", 16, 32 if wide else 128, 4, 2, 1)
    return Config("split_kv", 16, tile, warps, 2 if vendor == "amd" else 3, segments)


def _power_below(count: int) -> int:
    """The largest power of two that is at most `count`, and at least 1."""
    return 1 << (max(count, 1).bit_length() - 1)
