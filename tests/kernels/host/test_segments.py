"""How many parts keys are cut into, from the programs that a config wants."""

from __future__ import annotations

import math
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.plan import launch_grid, make_plan
from heurgen_kernels.host.segments import (
    SEGMENTS,
    block_count,
    block_rows,
    cut,
    cutter,
    fixed_cost,
    heads_of_block,
    least_keys,
    most_parts,
    prompt_segments,
    seen_keys,
    uncut,
    with_segments,
)
from heurgen_kernels.tools.tunable import tunable

from tests.kernels.batches import checked, error_of, make_batch, on_meta

LLAMA = {"group": 4, "heads_kv": 8, "size": 128, "processors": 132}


def parts(programs, lengths, variant="split_kv", block_m=16, tile=16, **more):
    """Parts for a batch of (query tokens, tokens attended to)."""
    queries, keys = zip(*lengths, strict=True)
    choose = cutter(Config(variant, block_m, tile, programs_per_sm=programs), **(LLAMA | more))
    return choose(len(lengths), sum(queries), max(queries), max(keys), sum(keys), -1)[0].num_segments


@pytest.mark.parametrize(
    ("programs", "lengths", "expected"),
    [
        (4, [(1, 8192)], 64),  # 528 programs / 8 KV heads = 66
        (4, [(1, 8192)] * 8, 8),  # 528 / 64 = 8.25
        (1, [(1, 8192)] * 8, 2),  # 132 / 64 = 2.06
        (1, [(1, 8192)] * 64, 1),
        (4, [(1, 8192)] * 4 + [(1, 2048)] * 4, 12),  # 8.25 * 8192 / 5120 = 13.2
        (16, [(1, 40)], 3),  # no part is shorter than a tile of 16
        (16, [(1, 10)], 1),
        (4, [(64, 8192)], 4),  # 17 blocks of 4 tokens, then 528 / (16 * 8) = 4.1
    ],
)
def test_as_many_parts_as_give_the_programs(programs, lengths, expected):
    assert parts(programs, lengths) == expected


def test_more_programs_and_more_uneven_lengths_never_mean_fewer_parts():
    for count in (1, 3, 7, 50, 300):
        found = [parts(programs, [(1, 30000)] * count) for programs in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)]
        assert found == sorted(found)
        even, uneven = (parts(4, [(1, 30000)] + [(1, k)] * count) for k in (30000, 100))
        assert even <= uneven
        assert {*found, even, uneven} <= set(SEGMENTS)


@pytest.mark.parametrize(
    "lengths",
    [
        [(129, 17853), (21, 21), (145, 145)],
        [(657, 657), (155, 5393)],
        [(1, 3000)] * 8 + [(700, 6900)],
        [(1, 9000), (700, 700)],
        [(7600, 15792), (592, 592)],
        [(500, 5000), (480, 4000)],
        [(0, 0), (64, 900)],
        [(64, 900)] * 3 + [(0, 5)],
        [(1, 1), (1, 1)],
    ],
)
@pytest.mark.parametrize("block_q", [1, 16, 32])
def test_the_fewest_keys_that_blocks_read(lengths, block_q):
    queries, keys = zip(*lengths, strict=True)
    read = sum(-(-q // block_q) * k for q, k in lengths)
    given = len(lengths), sum(queries), max(keys), sum(keys) - sum(k for q, k in lengths if not q)
    assert 0 < least_keys(block_q, *given) <= read


def test_the_device_counts_blocks_where_the_host_cannot_know_them():
    """The end of a long prompt, 10 blocks beside 42 of another one, or 42 blocks beside 10: as many parts at the most
    as the first has. One sequence, or such as are all of one length and new, leave nothing open; few keys and those in
    a window gain nothing.
    """
    choose = cutter(Config("warp_specialized", 128, 128, 4, 2, programs_per_sm=1), 8, 3, 128, 132)
    whole, cut_in_three = (Config("warp_specialized", 128, 128, 4, 2, parts) for parts in (1, 3))
    assert choose(2, 812, 657, 5393, 6050, -1) == (cut_in_three, 132)
    assert choose(2, 812, 657, 5393, 6050, 4095) == (whole, 0)
    assert choose(2, 812, 657, 1300, 1957, -1) == (whole, 0)
    assert choose(1, 657, 657, 5393, 5393, -1) == (whole, 0)
    assert choose(2, 1314, 657, 5393, 6050, -1) == (whole, 0)
    assert choose(40, 40 * 300, 300, 300, 40 * 300, -1) == (whole, 0)
    narrow = cutter(Config("warp_specialized", 128, 128, 4, 2, programs_per_sm=1), 8, 3, 64, 132)
    assert narrow(2, 812, 657, 5393, 6050, -1) == (whole, 0)
    split = cutter(Config("split_kv", 16, 128, 4, 2, programs_per_sm=1), 8, 3, 128, 132)
    assert split(2, 812, 657, 5393, 6050, -1)[1] == 0


@pytest.mark.parametrize(
    ("heads", "size", "lengths", "left", "tile", "segments"),
    [  # of 140 random batches those whose parts changed: 1.10, 1.17, 1.12, 1.55, 1.10, 1.22 and 0.98 times as fast
        ((24, 8), 128, [(225, 21136), (225, 22864)], -1, 64, 4),
        ((5, 5), 96, [(873, 6698), (873, 6765), (873, 6518), (873, 6620)], -1, 128, 3),
        ((30, 5), 64, [(150, 1514), (150, 2156)], -1, 64, 1),
        ((16, 8), 80, [(658, 6980)], 1023, 64, 1),
        ((80, 5), 192, [(101, 264), (101, 2930), (101, 575), (101, 281)], -1, 64, 1),
        ((8, 1), 96, [(6, 8245 + i) for i in range(59)], 511, 64, 1),
        ((8, 2), 128, [(66, 3173), (66, 1803), (66, 3581), (66, 1498), (66, 2914)], -1, 64, 5),
    ],
    ids=str,
)
def test_prompts_of_as_many_new_tokens_are_cut_as_their_programs_end_soonest(
    heads, size, lengths, left, tile, segments
):
    queries, keys = zip(*lengths, strict=True)
    for asked in (1, 2, 64):
        config = Config("warp_specialized", 128, tile, 4, 2 if tile == 128 else 3, programs_per_sm=asked)
        choose = cutter(config, heads[0] // heads[1], heads[1], size, 132)
        found = choose(len(lengths), sum(queries), max(queries), max(keys), sum(keys), left)
        assert found == (with_segments(config, segments), 0)


@pytest.mark.parametrize(
    ("programs", "longest", "read", "parts"),
    [
        (16, 8192, 8192, 7.94),  # each part costs 130 keys: of 16, 2080 for 512 shorter ones
        (16, 8192, 65536, 2),  # two parts take as long as all blocks at once
        (16, 8192, 16 * 7500, 1),
        (16, 4000, 4000, 5.55),  # 3279 keys saved for 1401
        (16, 3000, 3000, 1),  # 2375 for 1304
    ],
)
def test_parts_are_worth_their_cost(programs, longest, read, parts):
    assert most_parts(programs, longest, read, fixed_cost(128)) == pytest.approx(parts, abs=0.01)


def test_few_keys_are_not_cut_however_many_programs_are_wanted():
    for variant in ("split_kv", "warp_specialized", "mixed"):
        for tile in (16, 32, 64, 128):
            for keys in range(1, 300):
                cut_in = parts(64, [(keys, keys)], variant, 16, tile)
                assert cut_in == 1 if uncut(tile, keys) else (cut_in > 1 or variant == "warp_specialized")


def test_parts_of_one_sequence_stop_at_four_programs_a_processor():
    for heads_kv, most in ((8, 64), (4, 128), (2, 256), (1, 256)):
        assert parts(16, [(1, 10**6)], heads_kv=heads_kv) == most


def test_two_sequences_share_the_programs_by_their_lengths():
    assert parts(1, [(1, 8192), (1, 8192)], processors=64, heads_kv=1) == 32
    assert parts(1, [(1, 8192), (1, 64)], processors=64, heads_kv=1) == 64


@pytest.mark.parametrize(
    ("variant", "blocks"),
    [("q_block", 4), ("mixed", 4), ("warp_specialized", 4), ("split_kv", 3), ("static_grid", 3)],
)
def test_which_kernels_number_the_blocks_of_decodes(variant, blocks):
    assert block_count(variant, 4, 3, 7, 4) == blocks


@pytest.mark.parametrize(
    ("block_m", "group", "rows"), [(16, 1, 16), (16, 16, 16), (16, 17, 32), (64, 5, 64), (8, 3, 16)]
)
def test_a_block_holds_the_heads_of_a_token(block_m, group, rows):
    assert block_rows(block_m, group) == rows


@pytest.mark.parametrize(
    ("block_m", "group", "heads"),
    [(128, 4, 4), (128, 7, 7), (128, 5, 5), (128, 12, 4), (128, 10, 2), (128, 24, 8), (128, 48, 16), (128, 71, 1),
     (128, 128, 128), (192, 12, 12), (192, 10, 10), (192, 20, 4), (192, 71, 1)],
)  # fmt: skip
def test_a_block_of_a_prompt_holds_fewer_heads_where_all_would_leave_rows_empty(block_m, group, heads):
    assert heads_of_block(block_m, group) == heads


PROMPTS = [(700, 900), (1, 1513), (640, 640)]


@pytest.mark.parametrize(
    ("heads", "lengths", "left", "block_q", "heads_kv"),
    [
        ((24, 2), PROMPTS, -1, 32, 6),
        ((24, 2), [(11, 11)], -1, 32, 6),
        ((24, 2), [(10, 900)], -1, 10, 2),  # one block of all heads
        ((24, 2), [(1, 900)] * 9 + PROMPTS[:1], -1, 10, 2),  # the decodes' keys would be read three times
        ((24, 2), PROMPTS, 99, 10, 2),
        ((32, 8), PROMPTS, -1, 32, 8),
        ((28, 4), PROMPTS, -1, 18, 4),  # 126 rows of 128
        ((71, 1), PROMPTS, -1, 128, 71),
    ],
)
def test_where_heads_lie_in_several_blocks(heads, lengths, left, block_q, heads_kv):
    """A plan of theirs has more KV heads, and grid, scratch and counters follow; calls of one key have one plan."""
    batch = {k: on_meta(v) for k, v in make_batch(lengths, heads, 128, dtype=torch.bfloat16).items()}
    call = checked(batch, Device("nvidia", (9, 0), 132, "", 232448))
    call.left = left
    plans = [make_plan(call, Config("warp_specialized", 128, 128, 4, 2, parts)) for parts in (1, 3)]
    assert {(plan.block_q, plan.heads_kv) for plan in plans} == {(block_q, heads_kv)}
    blocks = block_count(
        "warp_specialized", block_q, len(lengths), sum(q for q, _ in lengths), max(lengths)[0]
    )
    assert launch_grid(plans[1], call)[1:] == (blocks * heads_kv, blocks)
    other = make_plan(call, Config("q_block", 64, 64, 4, 3))
    assert (other.block_q, other.heads_kv) == (64 // (heads[0] // heads[1]) or 1, heads[1])


@pytest.mark.parametrize(
    ("left", "num_seqs", "max_k", "total_k", "seen"),
    [
        (31, 3, 900, 1700, (48, 144)),
        (31, 3, 40, 90, (40, 90)),
        (0, 3, 900, 40, (17, 40)),
    ],
)
def test_keys_that_a_window_shows(left, num_seqs, max_k, total_k, seen):
    assert seen_keys(16, left, num_seqs, max_k, total_k) == seen


def test_a_wish_goes_to_the_nearest_by_ratio():
    for wanted in range(1, 200):
        found = parts(1, [(1, 10**6)], heads_kv=1, processors=wanted)
        assert abs(math.log(found / wanted)) == min(abs(math.log(s / wanted)) for s in SEGMENTS)


def test_mixed_cuts_the_decodes_alone():
    lengths = [(1, 4000)] * 6 + [(4000, 4000)] * 2
    assert parts(4, lengths, "mixed", 64, 64) == 8  # 528 / (8 sequences * 8)
    assert parts(4, lengths, "warp_specialized", 128, 64) == 1  # 258 blocks * 8


@pytest.mark.parametrize("variant", ["q_block", "split_kv", "mixed", "warp_specialized"])
@pytest.mark.parametrize("lengths", [[(1, 21)], [(1, 21), (1, 40)], [(70, 80)], [(70, 80), (1, 9), (5, 18)]])
def test_blocks_are_those_of_the_grid(variant, lengths):
    """What the division assumes is what is launched."""
    call = checked(make_batch(lengths, size=64))
    block_m = 128 if variant == "warp_specialized" else 16
    plan = make_plan(call, Config(variant, block_m, 64, 4, 2, 2))
    grid, _, _ = launch_grid(plan, call)
    blocks = block_count(plan.variant, plan.block_q, len(lengths), call.layout.tokens, call.max_q)
    if plan.variant == "mixed":
        assert grid[0] == 2 * (blocks + 2 * len(lengths))
    else:
        assert grid[0] == 2 * blocks


def test_a_config_is_cut_at_launch():
    wish = Config("split_kv", 16, 16, 1, 3, programs_per_sm=2)
    call = checked(make_batch([(1, 400), (1, 40)]) | {"total_seqlen_k": 440})
    found = cut(wish, call)
    assert found == Config("split_kv", 16, 16, 1, 3, found.num_segments)
    if call.layout.device.processors == 132:
        assert found.num_segments == 24  # 264 / (2 * 2) * 400 / 220 = 120, but 400 keys are 25 tiles


def test_a_window_bounds_what_is_cut():
    wish = Config("split_kv", 16, 16, 1, 3, programs_per_sm=16)
    call = checked(make_batch([(1, 400), (1, 40)]))
    call.left = 31
    assert cut(wish, call).num_segments == 3  # 31 + 1 + 16 keys


def test_keys_that_are_not_cut_need_no_scratch():
    wish = Config("split_kv", 64, 32, 4, 3, programs_per_sm=1)
    assert with_segments(wish, 1) == Config("q_block", 64, 32, 4, 3)
    assert with_segments(wish, 2) == Config("split_kv", 64, 32, 4, 3, 2)
    assert with_segments(wish._replace(variant="mixed"), 1).variant == "mixed"


def test_a_total_that_is_not_given_is_assumed():
    batch = make_batch([(1, 21), (5, 18), (1, 9)])
    assert checked(batch).total_k == 51  # 21 and twice seven tenths of it, 50.4
    assert checked(batch | {"total_seqlen_k": 48}).total_k == 48
    assert checked(make_batch([(1, 21)])).total_k == 21


@pytest.mark.parametrize("total", [64, -2])
def test_a_total_beyond_the_longest_is_refused(total):
    message = rf"total_seqlen_k is {total}; 3 sequences of at most max_seqlen_k = 21 attend to 0 to 63 tokens"
    for _ in range(2):  # also where the signature is known
        with pytest.raises(ValueError, match=message):
            paged_attention(**make_batch([(1, 21), (5, 18), (1, 9)]), total_seqlen_k=total)
        checked(make_batch([(1, 21), (5, 18), (1, 9)]))


@pytest.mark.parametrize("programs", [1, 4])
@pytest.mark.parametrize("given", ["config", "heuristics"])
def test_what_is_cut_at_launch_is_right(device, programs, given):
    wish = Config("split_kv", 16, 16, 4, 2, programs_per_sm=programs)
    batch = make_batch([(1, 300), (1, 30), (3, 77)], device=device)
    if given == "config":
        assert error_of(batch, wish) < 2e-3
    else:
        heuristics = SimpleNamespace(select=lambda **_: wish)
        assert error_of(batch | {"total_seqlen_k": 407}, None, heuristics=heuristics) < 2e-3


def test_the_tuner_launches_what_a_launch_would():
    """Same parts from a scenario's features as from a call's tensors."""
    lengths = ((1, 900), (1, 300), (1, 500))
    batch = make_batch(lengths, heads=(32, 8), size=64)
    call = checked(batch | {"total_seqlen_k": 1700})
    features = {
        "num_seqs": 3, "total_query_tokens": 3, "max_seqlen_q": 1, "max_seqlen_k": 900, "total_seqlen_k": 1700,
        "num_query_heads": 32, "num_kv_heads": 8, "head_size": 64, "window": 1 << 30, "softcap": False, "fresh": False,
    }  # fmt: skip
    scenario, device = (
        SimpleNamespace(features=features),
        SimpleNamespace(multiprocessors=call.layout.device.processors),
    )
    for programs in tunable.space.parameters["programs_per_sm"][1:]:
        setting = {
            "variant": "split_kv", "BLOCK_M": 16, "TILE_SIZE": 16, "num_warps": 1, "num_stages": 3,
            "programs_per_sm": programs,
        }  # fmt: skip
        launched = tunable.launched(setting, scenario, device)
        assert Config(**launched) == cut(Config(**setting), call)
        assert list(launched) == [*list(setting)[:-1], "num_segments"]


@pytest.mark.parametrize(
    ("lengths", "left", "parts"),
    [
        ([(1, 900)] * 40 + [(700, 6900)], -1, 2),  # 176 blocks on 132 processors
        ([(1, 900)] * 40 + [(92, 16_000)], -1, 5),  # 24 blocks
        ([(1, 900)] * 40 + [(470, 2400)], -1, 1),  # 120 blocks, few keys: parts cost more than they save
        ([(1, 900)] * 24 + [(1400, 1400), (1200, 1200)], -1, 1),
        ([(1, 900)] * 40 + [(700, 6900)], 511, 1),
    ],
)
def test_prompts_are_cut_so_that_rounds_end_together(lengths, left, parts):
    queries, keys = zip(*lengths, strict=True)
    layout = namedtuple("Layout", "tokens num_seqs heads_kv device")(
        sum(queries), len(lengths), 8, Device("nvidia", (9, 0), 132)
    )
    call = SimpleNamespace(layout=layout, max_q=max(queries), max_k=max(keys), left=left)
    assert prompt_segments(call, 32) == parts
