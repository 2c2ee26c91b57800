"""From what a caller gives to a launch: configs of any type, one plan each."""

from __future__ import annotations

from collections import namedtuple
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.caches import Cache
from heurgen_kernels.config import Config
from heurgen_kernels.host import bound, dispatch, launch
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.plan import launch_grid, make_plan

from tests.kernels.batches import LIMITS, checked, error_of, make_batch

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


def test_nothing_is_launched_without_tokens_and_one_token_is_enough(launched):
    for lengths, count in (([(0, 4), (0, 0)], 0), ([(1, 9)], 1), ([(0, 4), (1, 9)], 2)):
        paged_attention(**make_batch(lengths), config=Config("q_block", 16, 16))
        assert len(launched) == count


@pytest.mark.parametrize(
    ("setting", "own"),
    [
        (Config("naive", 16, 64, 4, 2), ()),
        (Config("q_block", 64, 32, 4, 2), ()),
        (Config("split_kv", 16, 16, 4, 2, 5), (5, None)),
        (Config("mixed", 64, 64, 4, 2, 3), (3, 2)),
        (Config("static_grid", 16, 16, 1, 3, 6), (0, None)),
    ],
)
def test_what_a_kernel_is_called_with(setting, own):
    """Scratch of float32 for the parts of every item, zeros for its counters, and its own numbers last."""
    call = checked(make_batch([(1, 300), (1, 30)]))
    plan = make_plan(call, setting)
    _, items, blocks = launch_grid(plan, call)
    (*_, part, count), numbers = launch.arguments_of(plan, call, 0, items, blocks, False)
    rows = items * plan.segments * plan.kept if plan.segments > 1 else 0
    assert numbers == (rows, call.scale, 0.0, -1, 0, call.layout.table_stride, 2, *own)
    if not rows:
        assert (part, count) == (None, None)
        return
    assert (part.dtype, part.shape) == (torch.float32, (rows * (plan.d_pad + 2),))
    assert count.numel() >= plan.item_counters * items
    assert not count.any()


@pytest.fixture
def gone(monkeypatch):
    """What `_run` handed to Triton's dispatch, to a bound launcher, to the second launch of a split."""
    found = []
    for name in ("_dispatch", "_launch_bound", "combine"):
        note = lambda *given, name=name: found.append((name, given)) or (None, ())  # noqa: E731
        monkeypatch.setattr(launch, name, note)
    return found


@pytest.mark.parametrize(
    ("variant", "heads", "segments", "names"),
    [
        # so many query heads of 128 to a KV head: parts of 2, 4 and 8 KB, 32 KB of which are left to the last program
        ("split_kv", 4, 256, ["_dispatch"]), ("split_kv", 8, 8, ["_dispatch"]),
        ("split_kv", 8, 9, ["_dispatch", "combine"]), ("split_kv", 16, 4, ["_dispatch"]),
        ("split_kv", 16, 5, ["_dispatch", "combine"]), ("static_grid", 8, 192, ["_dispatch"]),
        ("static_grid", 16, 4, ["_dispatch"]), ("static_grid", 16, 5, ["_dispatch", "combine"]),
        ("q_block", 16, 1, ["_dispatch"]), ("mixed", 16, 192, ["_dispatch"]),
    ],
)  # fmt: skip
def test_many_large_parts_have_a_second_launch(gone, monkeypatch, variant, heads, segments, names):
    """On Hopper."""
    monkeypatch.setattr(launch, "settle_cache_keys", lambda: None)
    for device in (Device("nvidia", (9, 0), 132), Device("nvidia", (8, 0), 108), Device("amd", None, 304)):
        gone.clear()
        batch = make_batch([(1, 300)], (heads, 1), 128)
        launch.launch(checked(batch, device), Config(variant, 16, 16, 4, 2, segments))
        assert [name for name, _ in gone] == (names if device.hopper else names[:1])


@pytest.mark.parametrize(("segments", "names"), [(1, ["_dispatch"]), (2, ["_dispatch", "combine"])])
def test_parts_of_prompts_are_combined_by_a_second_launch_always(gone, monkeypatch, segments, names):
    monkeypatch.setattr(launch, "settle_cache_keys", lambda: None)
    batch = make_batch([(300, 700)], (4, 2), 128, dtype=torch.bfloat16)
    call = checked(batch, Device("nvidia", (9, 0), 132))
    launch.launch(call, Config("warp_specialized", 128, 64, 4, 3, segments))
    assert [name for name, _ in gone] == names
    assert not call.second


def test_a_bound_launch_is_taken_where_no_profiler_listens(gone, monkeypatch):
    call, setting = checked(make_batch([(1, 300), (1, 30)])), Config("q_block", 16, 16)
    monkeypatch.setattr(launch, "_plans", Cache())
    launch.launch(call, setting)
    next(iter(launch._plans.values())).bound = object()
    hooks = {"launch_enter_hook": dispatch._ENTER, "launch_exit_hook": dispatch._EXIT}
    for knobs in (*({**hooks, name: None} for name in hooks), hooks, {}):
        monkeypatch.setattr(dispatch, "_KNOBS", knobs)
        launch.launch(call, setting)
    for chain in (dispatch._ENTER, dispatch._EXIT):
        monkeypatch.setattr(chain, "calls", [print])
        launch.launch(call, setting)
        monkeypatch.setattr(chain, "calls", [])
    with dispatch.compiling():
        launch.launch(call, setting)
    launch.launch(call, setting)
    past, dispatched = ["_launch_bound"], ["_dispatch"]
    assert [name for name, _ in gone] == 3 * dispatched + 2 * past + 3 * dispatched + past


class Launched(dict):
    """A kernel by its grids; one of Triton's has attributes, too."""


@pytest.mark.parametrize(("variant", "resident"), [("static_grid", 5), ("q_block", 2)])
def test_the_first_launch_is_bound_and_a_static_grid_learns_its_size(monkeypatch, variant, resident):
    """Triton's dispatch gives the compiled kernel."""
    call = checked(make_batch([(1, 300)]))
    plan = make_plan(call, Config(variant, 16, 16, 4, 2, 2))
    compiled, asked = SimpleNamespace(packed_metadata=()), []
    plan.kernel = Launched({(1, 1, 1): lambda *_, **options: asked.append(options) or compiled})
    monkeypatch.setattr(bound, "bind", lambda *given: ("bound", *given))
    monkeypatch.setattr(launch, "resident_programs", lambda *given: asked.append(given) or 5)
    monkeypatch.setattr(launch, "settle_cache_keys", lambda: None)
    launch._run(plan, call, (0,) * 9, (1, 1, 1), 1, 1)
    assert plan.bound == ("bound", compiled, launch.sources_of(plan.tma))
    assert plan.resident == resident
    assert asked == [plan.options, (compiled, 4, call.layout.place)][: 2 if variant == "static_grid" else 1]


def test_a_static_grid_learns_its_size_from_a_warm_up(monkeypatch):
    """Which binds nothing; launches that are recorded next have as many programs as fit."""
    call, compiled = checked(make_batch([(1, 300)])), SimpleNamespace(packed_metadata=())
    plan = make_plan(call, Config("static_grid", 16, 16, 4, 2, 2))
    plan.kernel = SimpleNamespace(run=lambda *_, warmup, **__: compiled if warmup else None)
    monkeypatch.setattr(launch, "resident_programs", lambda *_: 5)
    monkeypatch.setattr(launch, "settle_cache_keys", lambda: None)
    with dispatch.compiling():
        launch._run(plan, call, (0,) * 9, (1, 1, 1), 1, 1)
    assert (plan.bound, plan.resident) == (None, 5)


def test_another_gpu_is_entered_and_its_stream_asked_for(gone, monkeypatch):
    """The tensors are on GPU 1 as far as the launch can see; GPU 0 is the current one, then GPU 1."""
    call, setting, current, entered = checked(make_batch([(1, 30)])), Config("q_block", 16, 16), [0], []
    call.layout = replace(call.layout, index=1)

    @contextmanager
    def device(index):
        entered.append(index)
        current.append(index)
        yield
        current.pop()

    monkeypatch.setattr(launch, "current_device", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 70 + index, raising=False)
    monkeypatch.setattr(launch, "arguments_of", lambda plan, call, stream, *_: ((stream,), (0,)))
    launch.launch(call, setting)
    assert (entered, gone[-1][1][0][-2]) == ([1], (71,))
    current.append(1)
    launch.launch(call, setting)
    assert (entered, gone[-1][1][0][-2]) == ([1], (71,))
