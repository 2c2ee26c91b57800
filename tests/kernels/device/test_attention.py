"""Every variant and feature against a float64 reference, on small shapes."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels import api
from heurgen_kernels.tools.reference import reference_attention

from tests.kernels.batches import LIMITS, apart, config, error_of, make_batch

VARIANTS = ("naive", "q_block", "split_kv", "static_grid", "mixed")
# a prompt, a chunk with a cached prefix, decodes, an empty sequence, a length of one
MIXED = [(1, 21), (5, 18), (19, 35), (1, 1), (0, 9), (1, 40)]
DECODE = [(1, 21), (1, 3), (0, 5), (1, 1), (1, 53)]
PROMPT = [(19, 19), (1, 1), (33, 33)]
HALF = LIMITS[torch.float16]
SMALL = {"heads": (2, 1)}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("lengths", [MIXED, DECODE, PROMPT], ids=["mixed", "decode", "prompt"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(device, variant, lengths, fresh):
    batch = make_batch(lengths, fresh=fresh, device=device, **SMALL)
    assert error_of(batch, config(variant)) < HALF


@pytest.mark.parametrize("variant", VARIANTS)
def test_new_v_that_lies_otherwise_than_new_k(device, variant):
    for lengths in (MIXED, PROMPT):
        batch = apart(make_batch(lengths, fresh=True, device=device, heads=(4, 2)))
        has_prefix = None if lengths is MIXED else False
        assert error_of(batch, config(variant), has_prefix=has_prefix) < HALF


FEATURES = {
    "window": {"window": (7, -1)},
    "window of one": {"window": (0, -1)},
    "full": {"causal": False},
    "two-sided window": {"causal": False, "window": (9, 4)},
    "soft cap": {"softcap": 3.0},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.0625])},
    "sinks": {"sinks": torch.tensor([1.5, -0.5])},
    "all": {
        "window": (12, -1),
        "softcap": 3.0,
        "alibi_slopes": torch.tensor([0.5, 0.25]),
        "sinks": torch.tensor([0.5, 1.0]),
    },
}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("variant", ["q_block", "split_kv", "mixed"])
def test_features(device, variant, name):
    batch = make_batch(MIXED, fresh=variant != "q_block", device=device, **SMALL)
    features = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in FEATURES[name].items()}
    assert error_of(batch, config(variant), **features) < HALF


@pytest.mark.parametrize("variant", ["naive", "static_grid"])
def test_all_features_at_once(device, variant):
    batch = make_batch(MIXED[1:4], fresh=True, device=device, **SMALL)
    features = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in FEATURES["all"].items()}
    assert error_of(batch, config(variant), **features) < HALF


@pytest.mark.parametrize(
    ("heads", "size", "page"),
    [
        ((4, 4), 32, 16),
        ((8, 2), 64, 32),
        ((5, 1), 80, 16),
        ((7, 1), 96, 64),
        ((2, 1), 112, 128),
        ((2, 1), 128, 784),
        ((2, 1), 256, 16),
        ((2, 1), 40, 12),
    ],
)
@pytest.mark.parametrize("variant", ["q_block", "split_kv"])
def test_layouts(device, variant, heads, size, page):
    batch = make_batch(
        [(1, 37), (9, 30)], heads=heads, size=size, page=page, fresh=variant == "q_block", device=device
    )
    assert error_of(batch, config(variant, tile=32)) < HALF


@pytest.mark.parametrize("tile", [16, 64])
@pytest.mark.parametrize("page", [16, 24, 32])
def test_tiles_are_independent_of_pages(device, tile, page):
    """Larger and smaller than a page, and pages that are no power of two."""
    batch = make_batch([(1, 70), (17, 66)], page=page, device=device, **SMALL)
    assert error_of(batch, config("q_block", tile=tile)) < HALF


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fresh", [False, True])
def test_fp8_cache_with_scales(device, variant, fresh):
    """The scales belong to the cached part alone: new K and V come unquantised."""
    cache = torch.float8_e4m3fn
    batch = make_batch([(1, 21), (5, 18)], fresh=fresh, cache=cache, device=device, **SMALL)
    scales = {
        name: torch.tensor([value], device=device) for name, value in (("k_scale", 0.5), ("v_scale", 2.0))
    }
    assert error_of(batch, config(variant), **scales) < HALF


@pytest.mark.parametrize("variant", ["naive", "q_block", "split_kv"])
def test_fp8_output(device, variant):
    """fp8 rounds to 3 bits: the error is that of rounding the exact result (the interpreter truncates: 4
    times it).
    """
    batch = make_batch([(1, 21), (5, 18)], device=device, **SMALL)
    scale = torch.tensor([0.02], device=device)
    got = error_of(batch, config(variant), out_dtype=torch.float8_e4m3fn, output_scale=scale)
    given = {k: v for k, v in batch.items() if not k.startswith("max_")}
    exact = reference_attention(**given, output_scale=0.02, dtype=torch.float64)
    rounded = float((exact.clamp(-448, 448).to(torch.float8_e4m3fn).double() - exact).norm() / exact.norm())
    assert got < rounded * (1.1 if device == "cuda" else 4)


def test_outputs_beyond_the_fp8_range_are_clamped(device):
    from heurgen_kernels.api import paged_attention

    batch = make_batch([(3, 9)], device=device, **SMALL)
    out = torch.empty_like(batch["q"], dtype=torch.float8_e4m3fn)
    paged_attention(
        **batch, out=out, output_scale=torch.tensor([1e-5], device=device), config=config("q_block")
    )
    assert out.float().abs().max() == 448.0


@pytest.mark.parametrize("segments", [1, 2, 5, 16])
def test_any_number_of_segments(device, segments):
    """More segments than tiles, and a count that is no power of two."""
    batch = make_batch([(1, 100), (1, 5)], device=device, **SMALL)
    assert error_of(batch, config("split_kv", segments=segments)) < HALF


@pytest.mark.parametrize("variant", ["split_kv", "static_grid", "mixed"])
def test_scratch_beyond_its_limit_means_fewer_segments(device, variant, monkeypatch):
    from heurgen_kernels.host import plan

    monkeypatch.setattr(plan, "SCRATCH_LIMIT", 20_000)
    batch = make_batch([(1, 100), (3, 50)], device=device, **SMALL)
    assert error_of(batch, config(variant, segments=8)) < HALF


def test_without_prefix(device):
    batch = make_batch(PROMPT, fresh=True, device=device, **SMALL)
    assert error_of(batch, config("q_block"), has_prefix=False) < HALF


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_pages(device, variant):
    """A cache of none, and one whose pages are one row repeated."""
    batch = make_batch(PROMPT, fresh=True, device=device, **SMALL)
    one = torch.full((32,), float("nan"), dtype=torch.float16, device=device).expand(3, 16, 1, 32)
    for cache, pages in ((batch["key_cache"][:0], 0), (one, 3)):
        changes = {"key_cache": cache, "value_cache": cache, "block_table": batch["block_table"][:, :pages]}
        for has_prefix in (None, False):
            assert error_of(batch | changes, config(variant), has_prefix=has_prefix) < HALF


def test_a_call_over_no_pages_has_no_prefix(monkeypatch):
    """So that a kernel that reads pages through descriptors alone can run it."""
    seen = []
    monkeypatch.setattr(api, "launch", lambda call, config: seen.append(call.prefix))
    batch = make_batch(PROMPT, fresh=True, **SMALL)
    none = {name: batch[name][:0] for name in ("key_cache", "value_cache")}
    for changes in ({}, none, none | {"slot_mapping": torch.full((53,), -1)}):
        api.paged_attention(**batch | changes)
    assert seen == [True, False, True]


def test_head_major_cache(device):
    """Strides are free: [pages, KV heads, page size, head size] seen through a transpose."""
    batch = make_batch(MIXED, heads=(4, 2), device=device)
    for name in ("key_cache", "value_cache"):
        batch[name] = batch[name].transpose(1, 2).contiguous().transpose(1, 2)
    assert error_of(batch, config("q_block")) < HALF


@pytest.mark.parametrize(
    "strides", [(2**29, 32, 16 * 32, 1), (16 * 32, 32, 2**31, 1)], ids=["pages", "heads"]
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_caches_larger_than_32_bits_reach(device, variant, strides):
    """Memory that is never touched costs nothing: of 2.7 GB and 2.1 GB."""
    batch = make_batch([(1, 21), (5, 18)], (4, 2), cache=torch.float8_e4m3fn, device=device)
    shape = batch["key_cache"].shape
    room = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    assert room > 2**31
    for name in ("key_cache", "value_cache"):
        memory = torch.empty(room, dtype=torch.uint8, device=device).view(torch.float8_e4m3fn)
        batch[name] = memory.as_strided(shape, strides).copy_(batch[name])
    assert error_of(batch, config(variant)) < HALF


def test_interleaved_caches_and_fused_projection(device):
    """K and V of one allocation [pages, 2, ...], and q as a slice of a fused projection."""
    batch = make_batch(MIXED, heads=(4, 2), device=device)
    both = torch.stack([batch["key_cache"], batch["value_cache"]], 1)
    batch["key_cache"], batch["value_cache"] = both[:, 0], both[:, 1]
    batch["q"] = torch.cat([batch["q"], batch["q"][:, :2]], 1)[:, :4]
    assert error_of(batch, config("split_kv")) < HALF


def test_float32(device):
    batch = make_batch(MIXED, dtype=torch.float32, device=device, **SMALL)
    assert error_of(batch, config("q_block")) < (1e-5 if device == "cpu" else LIMITS[torch.float32])


def test_default_config(device):
    for lengths in (MIXED, DECODE):
        assert error_of(make_batch(lengths, device=device, **SMALL), None) < HALF


def test_a_row_that_sees_no_key_is_zero(device):
    """More query tokens than keys: the first rows lie before key 0."""
    from heurgen_kernels.api import paged_attention

    batch = make_batch([(5, 5)], device=device, **SMALL)
    batch["seq_lens"] = torch.tensor([3], dtype=torch.int32, device=device)
    out = paged_attention(**batch, config=config("q_block"))
    assert (out[:2] == 0).all()
    assert (out[2:] != 0).any()


def test_empty_batches(device):
    from heurgen_kernels.api import paged_attention

    batch = make_batch([(0, 4), (0, 0)], device=device, **SMALL)
    assert paged_attention(**batch).shape == (0, 2, 32)
