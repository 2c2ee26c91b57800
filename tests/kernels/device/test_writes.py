"""Launches that write the new tokens' K and V to the pages and attend to them (`slot_mapping`)."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels import caches
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.host import hardware
from heurgen_kernels.tools.static_tunable import Forced

from tests.kernels.batches import LIMITS, config, halves, make_batch, written

HALF = LIMITS[torch.float16]


@pytest.fixture
def few(device, monkeypatch):
    """The device, with so few processors in the interpreter that programs go round their loop several times."""
    if device == "cpu":
        caches.forget()
        monkeypatch.setitem(hardware._devices, torch.device("cpu"), hardware.Device("nvidia", None, 3))
    return device


# (new tokens, all tokens): the first and the last slot of a page and of a tile, all tokens new, none at all, new tokens
# in two tiles, pages and segments
DECODES = [(1, 49), (1, 48), (0, 20), (1, 65), (1, 1), (0, 0)]
CHECKED = [(4, 49), (3, 18), (0, 9), (4, 67), (4, 4), (1, 33)]


@pytest.mark.parametrize(("lengths", "heads"), [(DECODES, (4, 2)), (CHECKED, (8, 2)), (CHECKED, (2, 2))])
def test_decodes_and_the_tokens_of_speculation(few, lengths, heads):
    for forced in (1, 3):
        batch = make_batch(lengths, heads, fresh=True, device=few)
        assert written(batch, config("static_grid", segments=8), heuristics=Forced(forced)) < HALF


def test_one_part_of_keys_needs_no_scratch(few):
    for lengths in (DECODES, CHECKED):
        batch = make_batch(lengths, (4, 2), fresh=True, device=few)
        assert written(batch, config("static_grid", segments=1)) < HALF


@pytest.mark.parametrize("page", [16, 48, 256])
@pytest.mark.parametrize("tile", [16, 64])
def test_pages_and_tiles(few, page, tile):
    """Pages that hold tiles, tiles that hold pages, and neither; K and V in one tensor."""
    batch = halves(make_batch(CHECKED, (2, 1), page=page, fresh=True, device=few))
    assert written(batch, config("static_grid", tile=tile, segments=4), heuristics=Forced(3)) < HALF


@pytest.mark.parametrize("size", [64, 80, 256])
def test_head_sizes(few, size):
    batch = make_batch([(4, 35), (1, 16)], (4, 2), size, fresh=True, device=few)
    assert written(batch, config("static_grid", segments=4), heuristics=Forced(2)) < HALF


@pytest.mark.parametrize(
    "features",
    [
        {"window": (40, -1)}, {"window": (2, -1)}, {"window": (0, -1)}, {"causal": False},
        {"causal": False, "window": (20, 5)}, {"softcap": 20.0, "window": (30, -1)},
        {"sinks": torch.linspace(-2.0, 3.0, 64)}, {"alibi_slopes": torch.linspace(0.01, 0.3, 64)},
    ],
    ids=lambda features: "-".join(features),
)  # fmt: skip
@pytest.mark.parametrize("heads", [(2, 1), (33, 1)], ids=str)
def test_features(few, heads, features):
    """Blocks of 16 rows, which mask every tile of a window, and of 64, which have a lead, a bulk and a tail."""
    heads_of = ("sinks", "alibi_slopes")
    given = {k: v[: heads[0]].to(few) if k in heads_of else v for k, v in features.items()}
    batch = make_batch(CHECKED if heads[0] < 33 else DECODES, heads, fresh=True, device=few)
    assert written(batch, config("static_grid", segments=8), heuristics=Forced(4), **given) < HALF


def test_new_k_and_v_that_lie_differently_and_slots_that_are_none(few):
    """V is a view of a fused projection, K is not; a server's padding and its dry runs have negative slots."""
    batch = make_batch(CHECKED, (2, 2), fresh=True, device=few)
    fused = torch.randn((batch["q"].shape[0], 5, 2, 32)).half().to(few)
    batch["value"] = fused[:, 3]
    assert written(batch, config("static_grid", segments=8)) < HALF
    assert written(batch, config("static_grid", segments=8), without=(0, 5, 9)) < HALF


def test_what_is_not_written_is_refused(few):
    batch = make_batch([(1, 20), (1, 3)], (4, 2), fresh=True, device=few)
    slots = torch.arange(2, device=few)
    setting = config("static_grid")
    paged_attention(**batch | {"max_seqlen_q": 8}, slot_mapping=slots, config=setting)
    for changes, said in (
        ({"key": None, "value": None}, "they are None"),
        ({"slot_mapping": slots.int()}, "expected contiguous int64"),
        ({"slot_mapping": slots[:1]}, "one number per token"),
        ({"key_cache": batch["key_cache"].to(torch.float8_e4m3fn),
          "value_cache": batch["value_cache"].to(torch.float8_e4m3fn)}, "written as they are"),
        ({"config": Config("q_block")}, "static_grid alone writes"),
        ({"max_seqlen_q": 9}, "of at most BLOCK_M // query heads per KV head tokens a sequence, here 8"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            paged_attention(**batch | {"slot_mapping": slots, "config": setting} | changes)


def test_what_a_graph_launches(few):
    batch = make_batch([(1, 300), (1, 16), (0, 0)], (8, 2), 128, fresh=True, device=few)
    assert written(batch, GRAPH) < HALF
