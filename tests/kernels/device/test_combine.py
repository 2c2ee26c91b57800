"""The second launch of split keys, asked for from two parts of a block on: in the interpreter, on Hopper as it runs."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels import caches
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.host import combine, hardware, launch
from heurgen_kernels.host.segments import with_segments
from heurgen_kernels.tools.static_tunable import Forced

from tests.kernels.batches import LIMITS, clean, config, error_after_change, error_of, make_batch, recorded

DECODES = [(1, 150), (1, 90), (1, 3), (1, 1)]
FEW = [(4, 150), (2, 97), (1, 20)]  # several new tokens
LONG = [(30, 100), (5, 150), (1, 60)]  # several Q blocks a sequence
ON_GPU = torch.cuda.is_available()


@pytest.fixture
def seconds(device, monkeypatch):
    """Second launches: the grid of each."""
    if ON_GPU and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("second launches are for Hopper")
    caches.forget()
    monkeypatch.setattr(combine, "ALONE", 0)
    for variant in combine.LARGE_PARTS:
        monkeypatch.setitem(combine.LARGE_PARTS, variant, 0)
    made, real_plan, real_combine = [], launch.make_plan, launch.combine

    def make_plan(call, config):
        """As on Hopper. The interpreter has no dependent launches: one launch ends before the next begins."""
        made = real_plan(call, config)
        decodes = made.variant == "static_grid" and made.decode
        if made.segments > 1 and (made.variant == "split_kv" or decodes):
            made.second_from = combine.least_parts(made.kept, made.d_pad)
            made.second_constants = combine.constants_of(made)
        return made

    def noted(given, call, *rest):
        made.append(combine.grid_of(given, call, rest[-1]))
        real_combine(given, call, *rest)

    if device == "cpu":
        monkeypatch.setattr(launch, "make_plan", make_plan)
        monkeypatch.setattr(combine, "OPTIONS", {"num_warps": 1})
    monkeypatch.setattr(launch, "combine", noted)
    yield made
    caches.forget()


@pytest.mark.parametrize(
    ("lengths", "grid"), [(DECODES, (8, 2, 1)), (FEW, (6, 8, 1)), (LONG, (2 * (36 // 8 + 3), 16, 1))]
)
@pytest.mark.parametrize("segments", [2, 7, 40])
def test_parts_of_every_block_are_combined(device, seconds, lengths, grid, segments):
    batch = make_batch(lengths, heads=(4, 2), device=device)
    assert error_of(batch, config("split_kv", segments=segments)) < LIMITS[torch.float16]
    assert seconds == [grid]


@pytest.mark.parametrize(
    "features",
    [{"window": (40, -1)}, {"causal": False, "window": (20, 5)}, {"causal": False}, {"softcap": 20.0}],
    ids=str,
)
@pytest.mark.parametrize("variant", ["split_kv", "static_grid"])
@pytest.mark.parametrize("lengths", [DECODES, FEW])
def test_features(device, seconds, features, variant, lengths):
    batch = make_batch(lengths, heads=(2, 1), size=48, device=device)
    assert error_of(batch, config(variant, segments=8), **features) < LIMITS[torch.float16]
    assert len(seconds) == 1


@pytest.mark.parametrize("variant", ["split_kv", "static_grid"])
def test_sinks_and_scales_count_once(device, seconds, variant):
    one = torch.full((), 0.5, device=device)
    sinks = torch.linspace(-1, 2, 4, device=device)
    batch = make_batch(DECODES, heads=(4, 2), device=device, cache=torch.float8_e4m3fn)
    scales = {"k_scale": one, "v_scale": one * 3}
    assert error_of(batch, config(variant, segments=8), sinks=sinks, **scales) < 2 * LIMITS[torch.float16]
    assert len(seconds) == 1


def test_new_tokens_at_hand(device, seconds):
    batch = make_batch(FEW, heads=(4, 2), device=device, fresh=True)
    assert error_of(batch, config("split_kv", segments=6)) < LIMITS[torch.float16]
    assert len(seconds) == 1


def test_large_blocks(device, seconds):
    batch = make_batch(FEW, heads=(16, 1), device=device)
    assert error_of(batch, Config("split_kv", 64, 32, 4, 2, 5)) < LIMITS[torch.float16]
    assert seconds == [(3, 64, 1)]


def test_blocks_of_few_parts_are_combined_at_once(device, seconds, monkeypatch):
    """Of sequences of 10, 6 and 1 parts the first has a second launch."""
    monkeypatch.setattr(combine, "ALONE", 4 * 4 * 32 * 6)
    batch = make_batch([(1, 160), (1, 96), (1, 10)], heads=(4, 1), device=device)
    assert error_of(batch, config("split_kv", segments=10)) < LIMITS[torch.float16]
    assert len(seconds) == 1
    seconds.clear()
    assert error_of(batch, config("split_kv", segments=6)) < LIMITS[torch.float16]
    assert seconds == []


@pytest.mark.parametrize("heuristics", [None, Forced(1), Forced(5)], ids=str)
def test_lengths_change_between_launches_of_one_plan(device, seconds, heuristics):
    batch = clean(make_batch(DECODES, heads=(4, 2), device=device))
    out, setting = torch.empty_like(batch["q"]), config("static_grid", segments=8)
    for lengths in (DECODES, [(1, 1)] * 4, [(1, 149), (0, 0), (1, 2), (0, 7)], [(0, 0)] * 4):
        launched = lambda: paged_attention(**batch, out=out, config=setting, heuristics=heuristics)  # noqa: E731
        assert error_after_change(batch, lengths, out, launched) < LIMITS[torch.float16], lengths
    assert len(seconds) == 4


@pytest.mark.parametrize(("num_seqs", "second"), [(1, True), (16, True), (33, True), (34, False)])
def test_a_static_grid_has_a_second_launch_where_its_batch_is_small(
    device, seconds, num_seqs, second, monkeypatch
):
    """4 parts a processor are shared by the batch: 2 or more of each of 33 sequences' two heads on 132 processors."""
    if device == "cpu":
        monkeypatch.setitem(hardware._devices, torch.device("cpu"), hardware.Device("nvidia", None, 132))
    elif torch.cuda.get_device_properties(0).multi_processor_count != 132:
        pytest.skip("counts the 132 processors of an H100 or H200")
    batch = make_batch([(1, 20)] * num_seqs, heads=(8, 8), size=16, device=device)
    assert error_of(batch, config("static_grid", segments=2)) < LIMITS[torch.float16]
    assert bool(seconds) == (num_seqs * 8 * 2 <= 528) == second


def test_decodes_apart_from_prompts(gpu, seconds):
    """Prompts of the batch, another launch's, have no parts: their rows are not touched."""
    lengths = [(1, 2000), (300, 900), (5, 700), (1, 30), (129, 129)]
    batch = make_batch(
        lengths, (32, 8), 128, 16, torch.bfloat16, device=gpu, cache=torch.float8_e4m3fn
    )  # fmt: skip
    scale = {name: torch.full((), 0.25, device=gpu) for name in ("k_scale", "v_scale")}
    setting = with_segments(Config("mixed", 128, 64, 4, 3, 1, 4), 8)
    assert error_of(batch, setting, **scale) < 2 * LIMITS[torch.bfloat16]
    assert len(seconds) == 2  # of decodes, of prompts


def test_recorded(gpu, seconds):
    """Replayed over and over, lengths changing, with counters and parts left as each replay leaves them."""
    batch = clean(make_batch(DECODES, heads=(32, 8), size=128, device=gpu))
    for variant in ("split_kv", "static_grid"):
        out = torch.empty_like(batch["q"])
        graph = recorded(lambda: paged_attention(**batch, out=out, config=config(variant, segments=24)))  # noqa: B023
        for lengths in (DECODES, [(1, 33), (1, 150), (1, 150), (1, 2)], [(1, 1)] * 4):
            error = error_after_change(batch, lengths, out, lambda: [graph.replay() for _ in range(20)])  # noqa: B023
            assert error < LIMITS[torch.float16], (variant, lengths)
    assert len(seconds) == 4
