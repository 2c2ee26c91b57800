"""fp8 pages that are multiplied in float16, beside the float64 reference, off the beaten path."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.plan import make_plan

from tests.kernels.batches import LIMITS, checked, config, error_of, halves, make_batch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
HALF, BF16 = LIMITS[torch.float16], LIMITS[torch.bfloat16]
LENGTHS = [(1, 37), (5, 30), (2, 70)]


def scales(device, k=0.5, v=2.0):
    return {"k_scale": torch.tensor([k], device=device), "v_scale": torch.tensor([v], device=device)}


HOPPER = Device("nvidia", (9, 0), 132)
SPLIT = Config("split_kv", 16, 32, 2, 3, 2)


def features(batch, setting=SPLIT, device=HOPPER):
    """(products in float16, pages read as words) of a launch's plan."""
    found = make_plan(checked(batch, device), setting).constants[2]
    return found.HALF, found.WORDS


@pytest.mark.parametrize("cache", [E4M3, E5M2])
@pytest.mark.parametrize(
    ("heads", "size", "page"),
    [((4, 2), 64, 32), ((5, 1), 80, 16), ((2, 1), 40, 12), ((16, 1), 16, 16), ((2, 1), 256, 64)],
)
def test_layouts(device, cache, heads, size, page):
    batch = make_batch(LENGTHS, heads=heads, size=size, page=page, cache=cache, device=device)
    assert features(batch) == (True, size >= 32)
    for setting in (config("split_kv", tile=32), config("q_block", 64, 32)):
        assert error_of(batch, setting, **scales(device)) < HALF


@pytest.mark.parametrize("variant", ["q_block", "split_kv", "static_grid", "mixed"])
@pytest.mark.parametrize("block_m", [16, 32, 64])
def test_features(device, variant, block_m):
    fresh = variant != "q_block"
    # the interpreter multiplies no bfloat16: of bfloat16 queries it knows what is made float16
    dtype = torch.float16 if fresh and device == "cpu" else torch.bfloat16
    batch = make_batch(LENGTHS, cache=E4M3, fresh=fresh, dtype=dtype, device=device)
    more = {"window": (12, -1), "softcap": 3.0, "alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.0], device=device),
            "sinks": torch.tensor([0.5, 1.0, -1.0, 3.0], device=device)}  # fmt: skip
    assert error_of(batch, config(variant, block_m), **more, **scales(device)) < BF16


@pytest.mark.parametrize("largest", [1e-36, 1e-30, 1.0, 1e9, 1e30])
def test_bfloat16_queries_of_any_size(device, largest):
    """Far outside of float16: brought into its range by a power of two, which the scale of the scores takes back."""
    batch = make_batch(LENGTHS, cache=E4M3, dtype=torch.bfloat16, device=device)
    batch["q"] *= largest
    for setting in (config("split_kv"), config("q_block", 64)):
        assert error_of(batch | {"scale": 0.2 / largest}, setting, **scales(device)) < BF16


def test_a_query_that_is_not_finite_spoils_its_own_rows_alone(device):
    batch = make_batch([(1, 37), (3, 30)], heads=(2, 1), cache=E4M3, dtype=torch.bfloat16, device=device)
    good = [0, 1, 3]
    right = paged_attention(**batch, **scales(device), config=config("q_block"))
    for value in (float("inf"), float("nan")):
        batch["q"][2] = value
        found = paged_attention(**batch, **scales(device), config=config("q_block"))
        assert torch.allclose(found[good].float(), right[good].float(), rtol=2e-2, atol=1e-3)
        assert found[2].isnan().all()


@pytest.mark.parametrize("cache", [E4M3, E5M2])
@pytest.mark.parametrize("variant", ["q_block", "split_kv"])
def test_pages_behind_a_sequence_hold_anything(device, cache, variant):
    """NaN in the slots that no token owns is never multiplied; among the keys it is seen."""
    batch = make_batch(LENGTHS, cache=cache, device=device)
    for name in ("key_cache", "value_cache"):
        pages = batch[name].float()
        pages[pages == 448.0] = float("nan")
        batch[name] = pages.to(cache)
    assert error_of(batch, config(variant, tile=64), **scales(device)) < HALF
    batch["value_cache"][batch["block_table"][0, 0].long(), 3, 0, 5] = float("nan")
    found = paged_attention(**batch, **scales(device), config=config(variant, tile=64))
    if device == "cuda" or cache == E5M2:  # the interpreter makes 480 of E4M3's NaN
        assert found[0, :2, 5].isnan().all()
        assert found.isnan().sum() == 2


def test_every_number_of_fp8_is_itself(device):
    """One key a sequence: the output is its value, all 256 of them but NaN and infinities."""
    limit = 0.0 if device == "cuda" else 1e-9  # the interpreter rounds E5M2's smallest
    for cache in (E4M3, E5M2):
        numbers = torch.arange(256, dtype=torch.uint8).view(cache)
        finite = numbers.float().isfinite()
        batch = make_batch([(1, 1)], heads=(1, 1), size=256, cache=cache, dtype=torch.float32, device=device)
        batch["q"] = batch["q"].half()
        page = batch["block_table"][0, 0].long()
        batch["key_cache"][page, 0, 0] = 0.0
        batch["value_cache"][page, 0, 0] = torch.where(finite, numbers.float(), 0.0).to(cache).to(device)
        assert error_of(batch, config("split_kv", segments=1)) <= limit
        assert error_of(batch, config("q_block", tile=32)) <= limit


def test_halves_of_one_tensor(device):
    for size, words in ((32, True), (40, False)):  # V begins after 40 bytes
        batch = halves(make_batch(LENGTHS, size=size, cache=E4M3, device=device))
        assert features(batch) == (True, words)
        assert error_of(batch, config("split_kv", tile=32), **scales(device)) < HALF


def test_odd_strides_are_read_byte_by_byte(device):
    batch = make_batch(LENGTHS, heads=(2, 1), size=32, cache=E4M3, device=device)
    for name in ("key_cache", "value_cache"):
        wide = torch.zeros(*batch[name].shape[:3], 33, device=device).to(E4M3)
        wide[..., :32] = batch[name]
        batch[name] = wide[..., :32]
    assert features(batch) == (True, False)
    assert error_of(batch, config("split_kv", tile=32), **scales(device)) < HALF


def test_who_multiplies_in_float16():
    batch = make_batch(LENGTHS, cache=E4M3, dtype=torch.bfloat16)
    assert features(batch) == (True, True)
    assert features(batch, device=Device("nvidia", (8, 9), 142)) == (True, True)
    # the compiler refuses a product of 8 columns, the interpreter does not
    assert features(make_batch(LENGTHS, size=16, cache=E4M3)) == (True, False)
    assert features(batch, device=Device("amd", None, 304)) == (False, False)
    older = make_batch(LENGTHS, cache=E5M2, dtype=torch.bfloat16)
    assert features(older, device=Device("nvidia", (8, 0), 108)) == (False, False)
    assert features(make_batch(LENGTHS, cache=E4M3, dtype=torch.float32)) == (False, False)
    assert features(make_batch(LENGTHS, dtype=torch.bfloat16)) == (False, False)
    fnuz = make_batch(LENGTHS, cache=torch.float8_e4m3fnuz, dtype=torch.bfloat16)
    assert features(fnuz, device=Device("amd", None, 304)) == (False, False)
    drafts = make_batch(LENGTHS, cache=E4M3, fresh=True)
    drafts |= {name: drafts[name].to(E4M3) for name in ("q", "key", "value")}
    drafts |= {"out": torch.zeros(drafts["q"].shape, dtype=torch.bfloat16), "slot_mapping": torch.arange(8)}
    assert features(drafts, Config("static_grid", 16, 32, 2, 3, 2)) == (
        True,
        False,
    )  # tiles of pages and new tokens
