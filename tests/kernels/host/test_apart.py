"""Batches whose prompts and decodes are launches of their own, and what their layers share. Interpreted, on the CPU."""

from __future__ import annotations

import weakref

import pytest
import torch
import triton.language as tl
from heurgen_kernels.caches import forget
from heurgen_kernels.config import Config
from heurgen_kernels.device import widen as kernels
from heurgen_kernels.host import launch as launching
from heurgen_kernels.host import widen as widening
from heurgen_kernels.host.apart import apart
from heurgen_kernels.host.combine import combines
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.launch import launch
from heurgen_kernels.host.plan import make_plan
from heurgen_kernels.host.segments import with_segments
from heurgen_kernels.host.widen import pages_for, widen
from heurgen_kernels.tools.reference import reference_attention

from tests.kernels.batches import LIMITS, checked, halves, shifted
from tests.kernels.host.fp8_pages import E4M3, H200, batch_of

pytestmark = pytest.mark.usefixtures("small_copies")
APART = Config("mixed", 128, 64, 4, 3, 1, 4)


def error_apart(batch, left=-1, explicit=0):
    """As `test_widen.error`, of a batch that is taken apart; q_block in place of warp_specialized, which is not
    interpreted. The last sequence must be a prompt, as q_block does not read how many Q blocks there are.
    """
    call = checked(batch | {"out": torch.full_like(batch["q"], float("nan"))}, H200)
    call.left = left
    parts = apart(call, with_segments(APART, explicit) if explicit else APART)
    (copy, prompts), *others = parts
    copy.place()
    for tensor in (copy.k, copy.v):
        tensor.fill_(float("nan"))
    copy.table.fill_(-1)
    widen(call, copy)
    copy.above = 0  # with which q_block is split_kv
    launch(copy, prompts._replace(variant="q_block", TILE_SIZE=32))
    for part, given in others:
        launch(part, given)
    given = {k: v for k, v in batch.items() if not k.startswith(("max_", "total_"))}
    given |= {k: 1.0 if batch[k] is None else float(batch[k]) for k in ("k_scale", "v_scale")}
    expected = reference_attention(**given, window=(left, -1), dtype=torch.float64)
    return float((call.out.double() - expected).norm() / expected.norm())


UNEVEN = [(1, 40), (20, 280), (1, 21), (0, 9), (30, 30), (4, 60), (9, 131)]


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("left", [-1, 40])
def test_prompts_apart_from_decodes(fresh, left):
    scales = {"k_scale": None, "v_scale": None} if fresh else {}  # numbers times these are no float16's
    assert error_apart(batch_of(UNEVEN, heads=(4, 1), fresh=fresh) | scales, left) < LIMITS[torch.float16]


@pytest.mark.parametrize(("heads", "size", "cache"), [
    ((5, 1), 64, E4M3), ((16, 1), 64, E4M3), ((1, 1), 128, torch.float8_e5m2), ((32, 1), 80, E4M3), ((2, 1), 256, E4M3),
])  # fmt: skip
def test_prompts_apart_of_any_layout(monkeypatch, heads, size, cache):
    monkeypatch.setattr(widening, "PROGRAMS", 2)
    monkeypatch.setattr(kernels, "WIDTH", tl.constexpr(2))
    batch = batch_of([(1, 30), (33, 50), (1, 140), (1, 9), (18, 18)], heads=heads, size=size, cache=cache)
    assert error_apart(halves(batch)) < LIMITS[torch.float16]


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("pages", [1, 3, 4, 5, 6, 40])
def test_prompts_that_the_copy_has_no_room_for(monkeypatch, fresh, pages):
    """From the first one on that does not fit, all; none of their keys are copied. Programs look at few sequences."""
    monkeypatch.setattr(kernels, "WIDTH", tl.constexpr(2))
    monkeypatch.setattr(widening, "COPY_LIMIT", (pages + 1) * widening.page_bytes(1, 64))
    lengths = [(19, 131), (1, 40), (20, 280), (4, 60), (17, 17), (9, 300), (22, 500), (19, 19)]
    scales = {"k_scale": None, "v_scale": None} if fresh else {}
    batch = batch_of(lengths, heads=(4, 1), fresh=fresh) | scales
    call = checked(batch, H200)
    copies = pages_for(call, 16)
    assert copies == (pages, True) if pages < 40 else copies[0] >= 16
    assert error_apart(batch) < LIMITS[torch.float16]


def test_what_has_no_room_is_not_copied(monkeypatch):
    monkeypatch.setattr(widening, "COPY_LIMIT", 4 * widening.page_bytes(1, 64))
    call = checked(batch_of([(19, 130), (19, 250), (19, 100)], heads=(4, 1)), H200)
    (copy, _), _, _, (late, config) = apart(call, APART)
    copy.place()
    copy.k.fill_(7.0)
    widen(call, copy)
    assert copy.blocks.tolist() == [0, 1, 1, 1]
    assert (copy.k[0] != 7.0).any()
    assert (copy.k[2] == 7.0).all()
    assert (late.rest, late.above, late.upto, config.variant) == (True, 16, 0, "q_block")


@pytest.mark.parametrize(("heads", "lengths", "expected"), [
    ((4, 1), [(100, 300), (1, 40), (1, 30)], [(4, 0), (0, 4)]),
    ((4, 1), [(100, 300), (4, 40), (1, 30)], [(4, 0), (0, 4)]),
    ((4, 1), [(100, 300), (5, 40), (1, 30)], [(16, 0), (4, 16), (0, 4)]),  # no token to spare beside the longest
    ((4, 1), [(16, 300), (1, 40), (1, 30)], [(16, 0), (4, 16), (0, 4)]),  # the longest itself
    ((4, 1), [(17, 300), (1, 40), (1, 30)], [(4, 0), (0, 4)]),
    ((4, 1), [(100, 300), (5, 40), (0, 30)], [(4, 0), (0, 4)]),  # an empty sequence hides it
    ((20, 1), [(100, 300), (2, 40), (1, 30)], [(3, 0), (1, 3), (0, 1)]),  # heads that fill 32 rows
    ((64, 1), [(100, 300), (9, 40), (1, 30)], [(1, 0), (0, 1)]),  # that fill the largest block: nothing is between
])  # fmt: skip
def test_what_may_lie_between_decodes_and_prompts_has_a_launch_of_its_own(heads, lengths, expected):
    batch = batch_of(lengths, heads=heads)
    parts = apart(checked(batch, H200), APART)
    assert [(call.above, call.upto) for call, _ in parts] == expected
    assert [config.variant for _, config in parts] == ["warp_specialized", *["split_kv"] * (len(parts) - 1)]
    assert error_apart(batch_of(lengths[::-1], heads=heads)) < LIMITS[torch.float16]


@pytest.mark.parametrize(
    "more", [{}, {"fresh": True, "k_scale": None, "v_scale": None}, {"size": 256}, {"size": 96}]
)
@pytest.mark.parametrize("left", [-1, 40])
def test_drafts_beside_a_chunk(more, left):
    """Sequences of 5 to 16 new tokens, some behind several parts of keys, between decodes and a prompt."""
    batch = batch_of([(5, 700), (1, 90), (16, 300), (4, 33), (0, 9), (6, 6), (8, 129), (40, 200)], heads=(4, 1), **{
        name: value for name, value in more.items() if "scale" not in name
    })  # fmt: skip
    batch |= {name: value for name, value in more.items() if "scale" in name}
    for explicit in (0, 1, 3):
        assert error_apart(batch, left, explicit) < LIMITS[torch.float16]


@pytest.mark.parametrize("segments", [1, 2])
def test_prompts_apart_cut_as_asked(segments):
    assert error_apart(batch_of(UNEVEN), explicit=segments) < LIMITS[torch.float16]


def test_copies_without_decodes_have_less_room():
    lengths = [(1, 1000)] * 40 + [(90, 1000)]
    call = checked(batch_of(lengths, heads=(4, 1)) | {"total_seqlen_k": 41_000}, H200)
    assert pages_for(call, 4) == (8 * (130 // 5), False)
    assert pages_for(call) == (8 * 41, False)


def test_what_is_taken_apart(monkeypatch):
    made, launched = [], []
    monkeypatch.setattr(launching, "widen", lambda call, copy: made.append(copy))
    run = lambda plan, call, *_: launched.append((plan.variant, call.above, call.upto))  # noqa: E731
    monkeypatch.setattr(launching, "_run", run)

    def variants(device=H200, config=APART, lengths=UNEVEN, **more):
        made.clear()
        launched.clear()
        call = checked(batch_of(lengths, fresh=True, dtype=torch.bfloat16) | more, device)
        call.prefix = prefix
        launch(call, config)
        return len(made), launched

    prefix = True
    taken = [("warp_specialized", 32, 0), ("split_kv", 8, 32), ("split_kv", 0, 8)]
    assert variants() == (1, taken)
    few = [(1, 40), (50, 280), (1, 21)]
    assert variants(lengths=few) == (1, [("warp_specialized", 8, 0), ("split_kv", 0, 8)])
    assert variants(Device("nvidia", (8, 9), 142)) == (0, [("mixed", 0, 0)])
    assert variants(alibi_slopes=torch.ones(2)) == (0, [("mixed", 0, 0)])
    assert variants(config=APART._replace(BLOCK_M=64)) == (0, [("mixed", 0, 0)])
    monkeypatch.setattr(widening, "COPY_LIMIT", 3 * widening.page_bytes(1, 64))
    forget()
    for crowd in (APART, Config("warp_specialized", 128, 64, 4, 3)):
        assert variants(config=crowd) == (1, [*taken, ("q_block", 32, 0)])
    monkeypatch.setattr(widening, "COPY_LIMIT", 0)
    forget()
    assert variants() == (0, [("mixed", 0, 0)])
    prefix = False
    assert variants()[1] == [("warp_specialized", 0, 0)]


def another_layer(batch, **more):
    """A call of other tensors of the same layout, but for what is given."""
    own = {"out": torch.empty_like(batch["q"])}
    for name, tensor in batch.items():
        own[name] = tensor.clone() if isinstance(tensor, torch.Tensor) else tensor
    call = checked(own | {k: v for k, v in more.items() if k not in ("left", "right")}, H200)
    call.left, call.right = more.get("left", -1), more.get("right", 0)
    return call


@pytest.mark.parametrize("limit", [1 << 30, 3])
def test_layers_of_a_batch_launch_what_each_would_alone(monkeypatch, limit):
    """What is found once for all of them is another batch's where any number that it follows from is another."""
    monkeypatch.setattr(widening, "COPY_LIMIT", limit * widening.page_bytes(1, 64))
    batch = batch_of(UNEVEN, heads=(4, 1), fresh=True, dtype=torch.bfloat16) | {"softcap": 0.0}
    longest, total = batch["max_seqlen_k"], sum(k for _, k in UNEVEN)
    other_batches = [
        {"total_seqlen_k": total}, {"max_seqlen_q": 40}, {"max_seqlen_k": longest + 1}, {"left": 40}, {"right": -1},
        {"softcap": 3.0}, {"q": shifted(batch["q"])}, {"key_cache": shifted(batch["key_cache"])},
        {"key": shifted(batch["key"])}, {"k_scale": None, "v_scale": None}, {"sinks": torch.ones(4)},
        {"sinks": shifted(torch.ones(4))},
    ]  # fmt: skip
    calls = [another_layer(batch, **more) for more in ({}, {"scale": 0.5}, *other_batches)]
    found, asked = [], []

    def run(plan, call, addresses, grid, items, blocks):
        rest, numbers = launching.arguments_of(plan, call, 0, items, blocks, False)
        at = [addresses[i] for i in (0, 3, 4, 5, 7, 8)]  # a copy's pages and table may lie anywhere
        own = [None if tensor is None else tensor.data_ptr() for tensor in rest[:-2]]
        found.append((plan.constants, plan.options, plan.tma, grid, numbers, at, own, call.above, call.upto))

    monkeypatch.setattr(launching, "widen", lambda call, copy: found.append((copy.wide.room.grid, id(call))))
    monkeypatch.setattr(launching, "_run", run)
    monkeypatch.setattr(launching, "apart", lambda *given: asked.append(given) or apart(*given))

    def launched(call):
        found.clear()
        launch(call, APART)
        return list(found)

    alone = []
    for call in calls:
        launching._shapes.clear()
        alone.append(launched(call))
    launching._shapes.clear()
    asked.clear()
    assert [launched(call) for call in calls * 2] == alone * 2
    assert len(asked) == 1 + len(other_batches)


def test_what_is_kept_of_a_batch_holds_no_memory(monkeypatch):
    monkeypatch.setattr(launching, "widen", lambda call, copy: None)
    monkeypatch.setattr(launching, "_dispatch", lambda given: (None, ()))
    monkeypatch.setattr(launching, "combine", lambda *_: None)
    call = another_layer(batch_of(UNEVEN, heads=(4, 1)))
    tensors = [weakref.ref(tensor) for tensor in (call.q, call.k, call.table, call.lens, call.out)]
    launch(call, APART)
    assert launching._shapes
    del call
    assert [tensor() for tensor in tensors] == [None] * 5


def test_launches_beside_one_another_share_no_scratch(monkeypatch):
    """Their partial results, all of which are there until the last of them is launched, and their counters."""
    found, options = [], []

    def run(plan, call, addresses, grid, items, blocks):
        rest, _ = launching.arguments_of(plan, call, 0, items, blocks, False)
        found.append([tensor.data_ptr() for tensor in rest[-2:]])
        options.append(plan.options.get("launch_pdl", False))

    monkeypatch.setattr(launching, "widen", lambda call, copy: None)
    monkeypatch.setattr(launching, "_run", run)
    launch(checked(batch_of(UNEVEN, heads=(4, 1)), H200), with_segments(APART, 3))
    assert options == [False, True, True]
    assert all(len(set(kind)) == 3 for kind in zip(*found, strict=True))


def test_prompts_taken_apart_are_combined_behind_the_launches_beside_them(monkeypatch):
    """A second launch right behind them would have to begin before the decodes may."""
    order = []
    monkeypatch.setattr(launching, "widen", lambda call, copy: None)
    monkeypatch.setattr(launching, "settle_cache_keys", lambda: None)
    monkeypatch.setattr(
        launching, "_dispatch", lambda given: order.append((given[0].variant, given[1])) or (None, ())
    )
    monkeypatch.setattr(
        launching, "combine", lambda plan, call, *_: order.append((f"{plan.variant} parts", call))
    )
    launch(checked(batch_of(UNEVEN, heads=(4, 1), size=128), H200), with_segments(APART, 3))
    assert [name for name, _ in order] == [
        "warp_specialized",
        "split_kv",
        "split_kv",
        "warp_specialized parts",
    ]
    assert order[0][1] is order[-1][1]
    assert not order[0][1].second


def test_many_parts_alone_are_combined_by_a_second_launch_between_decodes_and_prompts():
    """Most of its programs would have no work: most sequences are decodes."""
    between, decodes = apart(checked(batch_of(UNEVEN, heads=(4, 1), size=128), H200), APART)[1:]
    for (call, given), from_ in ((between, 9), (decodes, 5)):
        plan = make_plan(call, with_segments(given, 64))
        assert plan.second_from == from_
        assert not combines(make_plan(call, with_segments(given, 4)), call)
        assert combines(plan, call)
