"""The warp-specialised kernel on a GPU, beside the float64 reference. Skipped, with its reason, elsewhere."""

from __future__ import annotations

import math

import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.device.warp_specialized.items import cut_into, seen_by_block, survey
from heurgen_kernels.host.metadata import build_metadata_host
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tests.kernels.batches import LIMITS, clean, error_after_change, error_of, halves, make_batch, recorded
from tests.kernels.gpu_cases import BETWEEN, FEATURES, NARROW, SHAPES, THREE_CONSUMERS, UNEVEN, some

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("heads", "size", "page", "tile", "segments"), some(SHAPES, 3) + NARROW + BETWEEN, ids=str
)
def test_warp_specialized(gpu, heads, size, page, tile, segments):
    """Empty, short and long sequences, chunks whose prefix ends inside a tile, V behind the last key NaN."""
    lengths = [(1, 1513), (700, 900), (64, 64), (0, 0), (33, 1000), (1, 1), (2, 3000)]
    for fresh in (False, True):
        for causal in (True, False):
            batch = make_batch(lengths, heads, size, page, torch.bfloat16, fresh, device=gpu)
            config = Config("warp_specialized", 128, tile, 4, 2 if tile == 128 else 3, segments)
            assert error_of(batch, config, causal=causal) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize(("asked", "size", "page", "segments"), some(FEATURES, 3), ids=str)
def test_warp_specialized_features(gpu, asked, size, page, segments):
    """Windows that begin in the new tokens, in the pages and across both; heads narrower than a tile; K and V in one
    tensor.
    """
    window, softcap, sinks = asked
    lengths = [(1, 1513), (700, 900), (64, 64), (0, 0), (33, 1000), (1, 1), (2, 3000), (300, 1600)]
    dtype = torch.float16 if size == 80 else torch.bfloat16
    features = {"window": (window - 1, -1), "softcap": softcap}
    if sinks:
        features["sinks"] = torch.linspace(-2, 3, 8, device=gpu)
    for fresh in (False, True):
        batch = make_batch(lengths, (8, 2), size, page, dtype, fresh, device=gpu)
        config = Config("warp_specialized", 128, 64, 4, 3, segments)
        limit = 2 * LIMITS[dtype] if softcap == 8.0 else LIMITS[dtype]  # tanh.approx, where it bends
        assert error_of(batch, config, **features) < limit
        assert error_of(halves(batch), config, **features) < limit


@pytest.mark.parametrize(("heads", "tile", "stages", "segments"), some(THREE_CONSUMERS, 2), ids=str)
def test_three_consumers(gpu, heads, tile, stages, segments):
    """Groups that do not divide 192; a group that leaves the third consumer no rows; features for which two consumers
    take over.
    """
    lengths = [(1, 1513), (700, 900), (64, 64), (0, 0), (33, 1000), (1, 1), (2, 3000), (300, 1600)]
    config = Config("warp_specialized", 192, tile, 4, stages, segments)
    for fresh, page in ((False, 16), (True, 128)):
        batch = make_batch(lengths, heads, 64, page, torch.bfloat16, fresh, device=gpu)
        sinks = torch.linspace(-2, 3, heads[0], device=gpu)
        windowed = {"window": (99, -1), "sinks": sinks}
        for features in ({}, {"causal": False}, {"sinks": sinks}, windowed, {"softcap": 30.0}):
            assert error_of(batch, config, **features) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize(("heads", "size", "block", "segments"), UNEVEN, ids=str)
def test_prompts_whose_heads_fill_no_block(gpu, heads, size, block, segments):
    """Blocks of some of a KV head's query heads; of all of them where most sequences are decodes."""
    prompts = [(700, 900), (1, 1513), (500, 2000), (640, 640), (300, 1600)]
    config = Config("warp_specialized", block, 128, 4, 3 if block == 192 else 2, segments)
    sinks = torch.linspace(-2, 3, heads[0], device=gpu)
    for lengths, fresh in (([(777, 777)], True), (prompts, False), ([(1, 900)] * 9 + prompts[:1], False)):
        batch = make_batch(lengths, heads, size, 128 if fresh else 16, torch.bfloat16, fresh, device=gpu)
        metadata = build_metadata_host([q for q, _ in lengths], block // heads[0] * heads[1] or 1, gpu)
        for more in ({}, {"sinks": sinks, "metadata": metadata}):
            assert error_of(batch, config, **more) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("growth", [0.001, 0.02, 0.05, 0.5, -0.05])
@pytest.mark.parametrize(
    ("heads", "size", "tile", "segments"),
    [
        ((8, 2), 128, 128, 1), ((8, 2), 128, 64, 3), ((8, 2), 112, 128, 1), ((4, 4), 256, 64, 1), ((4, 2), 192, 64, 3),
        ((8, 2), 96, 128, 1),
    ],
    ids=str,
)  # fmt: skip
def test_scores_that_grow(gpu, growth, heads, size, tile, segments):
    """Along the keys of each sequence, by 0.1 to 64 from a tile of 128 to the next, or they fall: sums are scaled where
    one grows by more than 5.5 (2^8).
    """
    lengths, page = [(1, 1513), (300, 1600), (200, 200), (33, 1000)], 16
    batch = make_batch(lengths, heads, size, page, torch.bfloat16, device=gpu)
    for row, (_, count) in enumerate(lengths):
        key = torch.arange(count, device=gpu)
        slots = batch["block_table"][row, key // page].long(), key % page
        batch["key_cache"][*slots, :, 0] = (growth * key)[:, None].to(torch.bfloat16)
    batch["q"][:, :, 0] = size**0.5
    config = Config("warp_specialized", 128, tile, 4, 2 if tile == 128 else 3, segments)
    for features in ({}, {"sinks": torch.linspace(-2, 3, heads[0], device=gpu)}, {"window": (700, -1)}):
        assert error_of(batch, config, **features) < LIMITS[torch.bfloat16]


DEEP = (
    [(512, 4000)],  # of one sequence, as many tokens as whole blocks have
    [(300, 4000), (700, 700), (64, 64)],
    [(64, 64), (0, 0), (300, 4000), (5, 2500), (256, 2500)],
    [(1, 6000)] * 5 + [(300, 4000), (200, 200)],  # decodes that are longer come in between
    [(1, 300)] * 40 + [(128, 2000), (200, 2500), (128, 128)],
    [(1, 50)] * 131 + [(3, 900)] * 3 + [(200, 3000), (64, 64)],  # behind the 128 that are looked at at once
)


@pytest.mark.parametrize("lengths", DEEP, ids=range(len(DEEP)))
@pytest.mark.parametrize(
    ("heads", "size", "tile", "segments"),
    [((8, 2), 128, 128, 1), ((8, 2), 128, 64, 6), ((4, 4), 256, 64, 3), ((16, 1), 64, 128, 16)],
    ids=str,
)
def test_the_rest_of_a_long_prompt_comes_first(gpu, heads, size, tile, segments, lengths):
    """Wherever it lies among the others, whose keys are cut into fewer parts: each block is computed, and once."""
    config = Config("warp_specialized", 128, tile, 4, 2 if tile == 128 else 3, segments)
    metadata = build_metadata_host([q for q, _ in lengths], 128 // heads[0] * heads[1], gpu)
    for fresh in (False, True):
        batch = make_batch(lengths, heads, size, 16, torch.bfloat16, fresh, device=gpu)
        for features in ({}, {"window": (700, -1)}, {"metadata": metadata}):
            assert error_of(batch, config, **features) < LIMITS[torch.bfloat16], features


def test_warp_specialized_with_sinks_and_metadata(gpu):
    lengths = [(1, 900), (1, 40), (300, 420), (77, 77)]
    for segments in (1, 2):
        batch = make_batch(lengths, (32, 8), 128, 16, torch.bfloat16, device=gpu)
        metadata = build_metadata_host([q for q, _ in lengths], 32, gpu)
        sinks = torch.linspace(-2, 3, 32, device=gpu)
        config = Config("warp_specialized", 128, 64, 4, 3, segments)
        error = error_of(batch, config, sinks=sinks, metadata=metadata)
        assert error < LIMITS[torch.bfloat16]


@pytest.mark.parametrize(
    ("heads", "size", "block"), [((8, 2), 128, 128), ((4, 4), 64, 192), ((6, 1), 96, 128), ((4, 2), 256, 128)], ids=str
)  # fmt: skip
def test_every_number_of_parts(gpu, heads, size, block):
    """Sequences of one part, of some and of all; blocks that end inside a combining program's rows; then the launch as
    a graph whose lengths change, replayed again and again.
    """
    lengths = [(130, 5000), (5, 2500), (1, 700), (0, 0), (67, 67), (1, 1)]
    batch = make_batch(lengths, heads, size, 16, torch.bfloat16, device=gpu)
    sinks = torch.linspace(-2, 3, heads[0], device=gpu)
    configs = [Config("warp_specialized", block, 64, 4, 3, segments) for segments in (2, 3, 4, 5, 8, 48)]
    for config in configs:
        for features in ({}, {"sinks": sinks, "window": (1500, -1)}):
            assert error_of(batch, config, **features) < LIMITS[torch.bfloat16], config
    batch = clean(batch)
    for config in configs:
        out = torch.empty_like(batch["q"])
        graph = recorded(lambda: paged_attention(**batch, out=out, config=config))  # noqa: B023
        for fewer in (lengths, [(128, 900), (9, 2500), (2, 3), (1, 40), (0, 0), (60, 60)], [(1, 5000)] * 6):
            error = error_after_change(batch, fewer, out, lambda: [graph.replay() for _ in range(10)])  # noqa: B023
            assert error < LIMITS[torch.bfloat16], (config, fewer)


@gluon.jit(do_not_specialize=["left", "num_seqs", "programs", "max_segments"])
def cut_kernel(
    found, cu, lens, left, num_seqs, programs, max_segments, HKV: gl.constexpr, BLOCK_Q: gl.constexpr,
    TILE: gl.constexpr, WINDOW: gl.constexpr,
):  # fmt: skip
    """Into how many segments the longest sequence is cut, and of how many tiles each is."""
    most = seen_by_block(left, 0, BLOCK_Q, TILE, True, WINDOW)
    _, longest, _, _, all_tiles = survey(cu, lens, num_seqs, most, BLOCK_Q, TILE, 0, True)
    segments, per_segment = cut_into(
        cu, lens, num_seqs, most, longest, all_tiles, programs, max_segments, HKV, BLOCK_Q, TILE
    )
    gl.store(found, segments)
    gl.store(found + 1, per_segment)


@pytest.mark.parametrize("left", [-1, 999])
@pytest.mark.parametrize(
    ("lengths", "heads_kv", "block_q", "tile", "programs", "most", "segments"),
    [
        ([(301, 12555), (1368, 1669), (1788, 1788)], 1, 16, 128, 132, 64, 3),  # 2.8, of 19 long blocks
        ([(1, 4000)] * 23 + [(249, 249)] * 3, 3, 25, 128, 132, 64, 1),  # 1.8, of 69 blocks for 132 programs
        ([(8438, 11492)] + [(1, 6900)] * 8, 1, 128, 64, 264, 64, 4),  # 3.7, of 66 blocks that see 7,300 keys
        ([(1652, 4021), (387, 387), *[(1, 150)] * 9], 2, 32, 128, 132, 16, 1),
        ([(1, 1000)] * 200 + [(700, 6900)] + [(0, 9999)], 1, 8, 128, 264, 64, 3),
        ([(1, 100_000)], 8, 32, 64, 132, 12, 12),  # 16.5, were there room
        ([(0, 500), (0, 0)], 8, 32, 64, 132, 4, 4),
        ([(30_000, 900_000)] * 3, 128, 1, 64, 792, 64, 1),  # more than 2^31 tiles
        ([(129, 17_853), (21, 21)], 8, 32, 64, 0, 5, 5),  # as many as there are
    ],
)
def test_keys_are_cut_for_the_blocks_that_read_them(
    gpu, lengths, heads_kv, block_q, tile, programs, most, segments, left
):
    """What the host cannot know: which sequence has how many new tokens."""
    queries, keys = zip(*lengths, strict=True)
    cu = torch.tensor([0, *queries], device=gpu).cumsum(0).to(torch.int32)
    found = torch.zeros(2, dtype=torch.int32, device=gpu)
    lens = torch.tensor(keys, dtype=torch.int32, device=gpu)
    cut_kernel[(1,)](
        found, cu, lens, left, len(lengths), programs, most, heads_kv, block_q, tile, left >= 0, num_warps=1
    )
    seen = [min(k, left + block_q + tile) if left >= 0 else k for k in keys]
    longest, count = -(-max(seen) // tile), segments
    if left >= 0 and programs:
        blocks = [-(-q // block_q) for q in queries]
        read = sum(b * -(-k // tile) for b, k in zip(blocks, seen, strict=True)) * heads_kv
        far = [
            b * -(-max(k - q // 2, 0) // tile)
            for b, q, k in zip(blocks, queries, seen, strict=True)
            if 2 * k > max(seen)
        ]
        whole = programs * longest / max(sum(far) * heads_kv, 1) + 0.02
        count = min(max(math.floor(min(programs * longest / max(read, 1) + 0.5, whole)), 1), most)
    assert found.tolist() == [count, -(-longest // count)]
