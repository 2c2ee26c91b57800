"""From what a caller gives to a launch: configs of any type, one plan each."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.caches import Cache
from heurgen_kernels.host import launch

from tests.kernels.batches import LIMITS, error_of, make_batch

HALF = LIMITS[torch.float16]


@pytest.fixture
def launched(monkeypatch):
    """(BLOCK_M, TILE_SIZE, variant) of each launch; nothing runs."""
    found = []

    def note(plan, *_):
        names = dict(zip(plan.kernel.arg_names[-len(plan.constants) :], plan.constants, strict=True))
        found.append((names["BLOCK_M"], names["TILE"], plan.variant))

    monkeypatch.setattr(launch, "_run", note)
    monkeypatch.setattr(launch, "_plans", Cache())
    return found


def generated(**values):
    return namedtuple("Config", values)(**values)


def test_modules_whose_parameters_stand_in_another_order_do_not_collide(launched):
    batch = make_batch([(3, 40)])
    given = [
        generated(variant="split_kv", TILE_SIZE=16, BLOCK_M=64, programs_per_sm=1),
        generated(variant="split_kv", BLOCK_M=16, TILE_SIZE=64, programs_per_sm=1),
    ]
    assert given[0] == given[1]
    for config in (*given, *given):
        paged_attention(**batch, config=config)
        paged_attention(**batch, heuristics=SimpleNamespace(select=lambda config=config, **_: config))
    expected = [(64, 16), (64, 16), (16, 64), (16, 64)]
    assert [found[:2] for found in launched] == 2 * expected


def test_a_config_that_changes_launches_what_it_says_now(launched):
    batch = make_batch([(3, 40)])
    config = SimpleNamespace(variant="q_block", TILE_SIZE=16)
    heuristics = SimpleNamespace(select=lambda **_: config)
    for tile in (16, 32, 64, 16):
        config.TILE_SIZE = tile
        paged_attention(**batch, config=config)
        paged_attention(**batch, heuristics=heuristics)
    assert [found[1] for found in launched] == [16, 16, 32, 32, 64, 64, 16, 16]
    assert len(launch._plans) == 3


def test_selectors_may_answer_with_a_mapping(launched):
    batch = make_batch([(3, 40)])
    paged_attention(**batch, heuristics=lambda **_: {"variant": "mixed", "BLOCK_M": 32, "TILE_SIZE": 16})
    assert launched == [(32, 16, "mixed")]


def test_a_wrong_answer_of_a_selector_is_refused_before_the_launch(launched):
    batch = make_batch([(3, 40)])
    for config in ({"BLOCK_M": 48}, generated(variant="2d")):
        with pytest.raises(ValueError, match=r"config\.(BLOCK_M is 48|variant is '2d'); allowed: "):
            paged_attention(**batch, heuristics=lambda config=config, **_: config)
    assert launched == []


@pytest.mark.parametrize("queries", [(300, 600), (255, 256, 257), (63, 64, 65, 33)])
@pytest.mark.parametrize("variant", ["static_grid", "split_kv"])
def test_longer_queries_never_take_the_plan_of_shorter_ones(device, variant, queries):
    """A plan for sequences of one Q block each, and one for more: on both sides of every block."""
    for rows in (64, 256):
        for tokens in queries:
            batch = make_batch([(tokens, tokens), (1, 3)], heads=(1, 1), size=16, device=device)
            setting = {"variant": variant, "BLOCK_M": rows, "TILE_SIZE": 64, "num_segments": 2}
            assert error_of(batch, setting) < HALF
