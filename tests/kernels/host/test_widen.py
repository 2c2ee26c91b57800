"""The 16-bit copy of fp8 pages: what is in it, how large it is, and who makes it. Interpreted, on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import triton.language as tl
from heurgen_kernels.config import Config
from heurgen_kernels.device import widen as kernels
from heurgen_kernels.host import launch as launching
from heurgen_kernels.host import widen as widening
from heurgen_kernels.host.apart import apart
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.launch import launch
from heurgen_kernels.host.plan import make_plan
from heurgen_kernels.host.widen import PAGE, pages_for, widen, widened
from heurgen_kernels.tools.reference import reference_attention

from tests.kernels.batches import LIMITS, checked, config, error_of, halves, make_batch, shifted
from tests.kernels.host.fp8_pages import E4M3, H200, LENGTHS, batch_of

pytestmark = pytest.mark.usefixtures("small_copies")


def error(batch, left=-1, total=None):
    """Of q_block over the copy, which holds NaN before it is filled, against the reference over the fp8 pages."""
    batch = batch | ({"total_seqlen_k": total} if total else {})
    call = checked(batch | {"out": torch.full_like(batch["q"], float("nan"))}, H200)
    call.left, call.prefix = left, True
    copy = widened(call)
    copy.place()
    for tensor in (copy.k, copy.v):
        tensor.fill_(float("nan"))
    copy.table.fill_(-1)
    widen(call, copy)
    got = launch(copy, Config("q_block", 16, 32, 4, 2)).double()
    given = {k: v for k, v in batch.items() if not k.startswith(("max_", "total_"))}
    given |= {k: 1.0 if batch[k] is None else float(batch[k]) for k in ("k_scale", "v_scale")}
    expected = reference_attention(**given, window=(left, -1), dtype=torch.float64)
    return float((got - expected).norm() / expected.norm())


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("left", [-1, 0, 40, 140])
def test_keys_that_are_seen(fresh, left):
    scales = {"k_scale": None, "v_scale": None} if fresh else {}  # numbers times these are no float16's
    assert error(batch_of(fresh=fresh) | scales, left) < LIMITS[torch.float16]


@pytest.mark.parametrize(("page", "size", "cache", "dtype"), [
    (16, 80, E4M3, torch.float16), (256, 128, torch.float8_e5m2, torch.float16), (48, 64, E4M3, torch.float16),
])  # fmt: skip
def test_layouts(page, size, cache, dtype):
    batch = batch_of([(1, 40), (3, 131)], page=page, size=size, cache=cache, dtype=dtype)
    assert error(batch) < LIMITS[dtype]
    assert error(halves(batch)) < LIMITS[dtype]


@pytest.mark.parametrize("name", ["key", "value"])
def test_new_tokens_that_no_descriptor_can_read_are_not_read_beside_a_copy(name):
    batch = batch_of(fresh=True, dtype=torch.bfloat16)
    whole, off = checked(batch, H200), checked(batch | {name: shifted(batch[name])}, H200)
    assert widened(whole) is not None
    assert widened(off) is None
    assert apart(off, Config("mixed", 128, 128, 4, 2, 1, 4)) is None


def test_more_sequences_and_pages_than_are_looked_at_at_once(monkeypatch):
    monkeypatch.setattr(kernels, "WIDTH", tl.constexpr(2))
    assert error(batch_of([(1, 129), (0, 1), (1, 1), (2, 600), (1, 7)])) < LIMITS[torch.float16]


@pytest.mark.parametrize("fresh", [False, True])
def test_what_is_copied(fresh):
    """Each value of a page as it is, beside new tokens times its scale; nothing else is written but the page of NaN."""
    batch = batch_of([(3, 203 if fresh else 200)], heads=(2, 1), fresh=fresh, dtype=torch.bfloat16)
    call = checked(batch, H200)
    copy = widened(call)
    copy.place()
    copy.k.fill_(7.0)
    widen(call, copy)
    pages = batch["block_table"][0, : -(-200 // 16)].long()
    rows = batch["key_cache"][pages].flatten(0, 1)[:200].to(torch.bfloat16) * (0.5 if fresh else 1.0)
    assert (copy.k_scale is None) is fresh
    own = copy.table[0].long()
    assert own.tolist() == [0, 1]
    assert torch.equal(copy.k[own].flatten(0, 1)[:200], rows)
    assert (copy.k[own].flatten(0, 1)[200:] == 7.0).all()
    assert copy.k[-1].isnan().all()


def test_sequences_without_room_give_nan(monkeypatch):
    """Where keys of all sequences at their longest are too many, total_seqlen_k is believed: too small it shows."""
    lengths = [(2, 400), *[(1, 300)] * 4]
    batch = batch_of(lengths, heads=(1, 1), fresh=False)
    monkeypatch.setattr(widening, "COPY_ALWAYS", 0)
    call = checked(batch | {"total_seqlen_k": 400}, H200)
    copy = widened(call)
    assert copy.layout.pages == pages_for(call)[0] + 1 < sum(-(-k // PAGE) for _, k in lengths)
    widen(call, copy)
    launch(copy, Config("q_block", 16, 32, 4, 2))
    assert not call.out[:2].isnan().any()
    assert call.out[-1].isnan().all()


def test_room():
    batch = batch_of([(1, 1000)] * 40)
    size = 2 * 2 * 64 * PAGE  # of a page of K and V
    told = checked(batch | {"total_seqlen_k": 9000}, H200)
    untold = checked(batch, H200)
    assert told.told
    assert not untold.told
    assert pages_for(told) == pages_for(untold)
    assert pages_for(told)[0] >= 320
    told.max_k = untold.max_k = 80_000
    assert widening.COPY_ALWAYS < 40 * 625 * size < widening.COPY_LIMIT
    assert pages_for(told) == (9000 // PAGE + 40, False)
    assert pages_for(untold)[0] >= 40 * 625
    told.left = untold.left = 200
    assert pages_for(untold) == (40 * 3, False)
    told.left = untold.left = -1
    told.max_k = untold.max_k = 4_000_000
    told.total_k = 60_000_000
    assert pages_for(told) == pages_for(untold) == (0, False)
    assert widened(told) is None
    cached = told.layout.pages * 16 // PAGE
    told.layout = replace(told.layout, tokens=400)
    assert pages_for(told, 4) == (cached + 40, True)  # no more keys than the cache has, sequences' ends apart
    told.layout = replace(told.layout, pages=1 << 30)
    assert pages_for(told, 4) == (widening.COPY_LIMIT // size - 1, True)
    told.prefix = False
    assert pages_for(told) == (1, False)


def test_numbers_that_float16_holds_without_their_scales_alone():
    """448 times 300 is beyond it; the mean of values that are mostly 0 is not, nor are scores of small queries."""
    batch = batch_of([(5, 280), (1, 21)])
    keys, values = (torch.zeros_like(batch["key_cache"], dtype=torch.float32) for _ in range(2))
    keys[:, ::7, :, 0], values[:, 3, :, ::3] = 448.0, -448.0
    batch |= {"q": batch["q"] * 1e-4, "key_cache": keys.to(E4M3), "value_cache": values.to(E4M3)}
    batch |= {"k_scale": torch.tensor([300.0]), "v_scale": torch.tensor([300.0])}
    assert error(batch) < LIMITS[torch.float16]
    beside = batch_of([(5, 280)], fresh=True)
    assert widened(checked(beside, H200)) is None
    assert widened(checked(beside | {"k_scale": None, "v_scale": None}, H200)) is not None
    assert widened(checked(batch_of([(5, 280)], fresh=True, dtype=torch.bfloat16), H200)) is not None
    alone = checked(beside, H200)
    alone.prefix = False
    assert widened(alone) is not None


@pytest.mark.parametrize("name", ["q_scale", "k_scale", "v_scale"])
def test_scales_of_16_bit_numbers_are_applied_too(name):
    """By all variants alike: q_block answers where warp_specialized lacks them, of Q, and beside new tokens."""
    batch, scale = make_batch(LENGTHS, fresh=True), {name: torch.tensor([1.75])}
    for variant in ("naive", "q_block", "split_kv", "static_grid", "mixed"):
        assert error_of(batch, config(variant), **scale) < LIMITS[torch.float16]
    wide = make_batch(LENGTHS, (2, 1), 64)
    specialised = Config("warp_specialized", 128, 64, 4, 3)
    beside = make_batch(LENGTHS, (2, 1), 64, fresh=True)
    one, alone = {name: torch.ones(1)}, "q_block" if name == "q_scale" else "warp_specialized"
    for given, variant in (
        (wide, "warp_specialized"),
        (wide | one, alone),
        (beside, "warp_specialized"),
        (beside | one, "q_block"),
    ):
        assert make_plan(checked(given, H200), specialised).variant == variant


def test_who_copies(monkeypatch):
    """What reaches the kernel: fp8 pages under warp_specialized on Hopper, unless it lacks a feature of the call."""
    made = []
    monkeypatch.setattr(launching, "widen", lambda call, copy: made.append(copy))
    monkeypatch.setattr(launching, "_run", lambda *_: None)
    specialised = Config("warp_specialized", 128, 64, 4, 3)
    batch = batch_of()

    def copies(config=specialised, device=H200, **more):
        made.clear()
        given = batch | more
        call = checked({k: v for k, v in given.items() if v is not None}, device)
        launch(call, config)
        return len(made)

    assert copies() == 1
    assert make_plan(made[0], specialised).variant == "warp_specialized"
    assert copies(Config("q_block", 64, 64, 4, 2)) == 0
    assert copies(device=Device("nvidia", (8, 9), 142)) == 0
    assert copies(alibi=None, alibi_slopes=torch.ones(2)) == 0
    assert copies(out=torch.empty_like(batch["q"], dtype=E4M3), output_scale=torch.ones(1)) == 0
    narrow = batch_of(size=32)
    assert copies(**narrow) == 0
    plain = make_batch(LENGTHS, (2, 1), 64)
    assert copies(**plain, k_scale=None, v_scale=None) == 0


@pytest.mark.parametrize("variant", ["warp_specialized", "mixed"])
def test_pages_that_were_freed_are_refused_before_they_are_copied(variant):
    """As a whole, and those of prompts alone."""
    call = checked(batch_of(), H200)
    call.k.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^key_cache is a Tensor without memory"):
        launch(call, Config(variant, 128, 128, 4, 2))
