"""What the GPU tests of attention run: sequences, configs, and samples of the products of features."""

from __future__ import annotations

import itertools
import os
import random

import torch
from heurgen_kernels.config import Config, normalise
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.heuristics import paged_attention, paged_attention_fp8

SEQUENCES = {
    "chunk": [(1, 1328), (5, 18), (129, 463)],
    "decode": [(1, 523), (1, 37), (1, 2011)],
    "ones": [(1, 1)] * 533,
    "prompts": [(533, 533)] * 33,
    "two": [(256, 256), (128, 128)],
    "three": [(320, 320)] * 3,
    "long decode": [(1, 1513), (1, 245), (1, 102), (1, 123), (1, 3454), (1, 434), (1, 345), (1, 34)],
}
HEADS = [(4, 4), (8, 2), (5, 1), (32, 8), (64, 8), (28, 4)]
CONFIGS = [
    Config("naive", 16, 32, 4, 1, 1),
    Config("q_block", 16, 32, 2, 2, 1),
    Config("q_block", 64, 64, 4, 3, 1),
    Config("split_kv", 16, 32, 2, 3, 8),
    Config("static_grid", 16, 64, 4, 2, 8),
    Config("mixed", 64, 32, 4, 2, 4),
    Config("warp_specialized", 128, 64, 4, 3, 1),
    Config("warp_specialized", 128, 128, 4, 2, 4),
]
# A generated module holds the configs that its selector returns as constants.
CHOSEN, CHOSEN_FP8 = (
    [normalise(value) for name, value in vars(module).items() if name.startswith("_CONFIG_")]
    for module in (paged_attention, paged_attention_fp8)
)
TABLE = list(itertools.product(SEQUENCES, HEADS, (64, 128, 256), (None, 64, 256), (None, 50.0)))


def some(cases, one_in):
    """One in `one_in` of the cases, always the same, or all of them where the whole table is asked for."""
    if os.environ.get("HEURGEN_WHOLE_TABLE"):
        return list(cases)
    return random.Random(0).sample(list(cases), -(-len(cases) // one_in))


SAMPLE = some(TABLE, 10)
# most of the time of the check is compiling these: four kernels each
SHAPES = list(itertools.product([(32, 8), (28, 4), (5, 1)], (64, 128), (16, 128, 784), (64, 128), (1, 3)))
# heads of at most three quarters of their padded columns: weights times V are two products
NARROW = [
    ((10, 5), 80, 16, 128, 3), ((40, 10), 96, 16, 128, 1), ((40, 10), 96, 128, 128, 3), ((16, 4), 160, 16, 128, 1),
    ((16, 4), 192, 16, 128, 3),
]  # fmt: skip
# all columns, some of them padding
BETWEEN = [((8, 2), 112, 16, 128, 1), ((8, 2), 120, 128, 64, 3), ((16, 4), 208, 16, 64, 1)]
FEATURES = list(
    itertools.product(
        [(0, 0, 0), (100, 0, 1), (700, 30.0, 0), (33, 0, 0), (0, 8.0, 1)],
        (64, 80, 96, 128, 192, 256), (16, 128), (1, 3),
    )
)  # fmt: skip
PARTS = list(
    itertools.product(
        (64, 128, 256),
        [
            ((16, 1), 1, 16),
            ((16, 1), 2, 32),
            ((8, 1), 8, 64),
            ((32, 8), 4, 16),
            ((32, 8), 5, 32),
            ((12, 1), 3, 64),
            ((4, 4), 8, 16),
        ],
        (5, 24, 96),
    )
)
# fp8 pages under warp_specialized: (heads, head size, page, type of the pages, of Q, rows, keys of a tile, parts)
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
WIDENED = [
    ((32, 8), 128, 16, E4M3, torch.bfloat16, 128, 128, 1), ((32, 8), 128, 16, E4M3, torch.bfloat16, 128, 64, 3),
    ((28, 4), 128, 256, E4M3, torch.float16, 128, 128, 3), ((8, 2), 128, 32, E5M2, torch.bfloat16, 128, 64, 1),
    ((8, 2), 80, 48, E4M3, torch.bfloat16, 128, 64, 1), ((8, 2), 96, 16, E4M3, torch.float16, 128, 128, 2),
    ((64, 8), 64, 16, E4M3, torch.bfloat16, 192, 128, 1), ((64, 8), 64, 128, E5M2, torch.float16, 192, 128, 3),
    ((8, 4), 256, 16, E4M3, torch.bfloat16, 128, 64, 1), ((8, 2), 192, 64, E4M3, torch.bfloat16, 128, 64, 2),
]  # fmt: skip
# (heads, TILE_SIZE, num_stages, num_segments)
THREE_CONSUMERS = [
    (heads, tile, stages, segments)
    for heads in ((10, 2), (7, 1), (16, 16), (64, 8), (128, 1))
    for tile, stages in ((128, 3), (64, 4))
    for segments in (1, 3)
]
# Query heads of a KV head that leave more than a twentieth of a block's rows empty: (heads, head size, BLOCK_M, parts).
UNEVEN = [
    ((24, 2), 128, 128, 1), ((12, 1), 128, 128, 3), ((10, 1), 256, 128, 1), ((24, 2), 96, 128, 2),
    ((71, 1), 64, 128, 1), ((20, 1), 64, 192, 1), ((71, 1), 64, 192, 3),
]  # fmt: skip
# Tensors off 16 bytes: (config, type of the pages where it is not Q's)
ANYWHERE = [
    *itertools.product(CONFIGS, (None, E4M3)), (Config("mixed", 128, 128, 4, 2, 1, 4), E4M3), (GRAPH, None)
]  # fmt: skip
WIDENED_FEATURES = {
    "none": {}, "all see all": {"causal": False}, "window": {"window": (99, -1)}, "long window": {"window": (699, -1)},
    "cap": {"window": (32, -1), "softcap": 30.0},
}  # fmt: skip
