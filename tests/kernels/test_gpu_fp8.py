"""fp8 pages under every config of their selector, and under the warp-specialised kernel, which reads a 16-bit copy.
Skipped, with its reason, elsewhere.
"""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels import caches
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.host import widen
from heurgen_kernels.host.segments import with_segments

from tests.kernels.batches import LIMITS, error_of, halves, make_batch
from tests.kernels.gpu_cases import CHOSEN_FP8, E4M3, SEQUENCES, WIDENED, WIDENED_FEATURES, some

pytestmark = pytest.mark.gpu
LENGTHS = [(1, 1513), (700, 900), (64, 64), (0, 0), (33, 1000), (1, 1), (2, 3000), (300, 1600), (128, 256)]
SPECIALISED = Config("warp_specialized", 128, 128, 4, 2)
APART = Config("mixed", 128, 128, 4, 2, 1, 4)


def poisoned(case, fresh, device, lengths=LENGTHS):
    """A batch and its scales, which are no powers of two; NaN where no token is."""
    heads, size, page, cache, dtype, *_ = case
    batch = make_batch(lengths, heads, size, page, dtype, fresh, device, cache)
    for name in ("key_cache", "value_cache"):
        batch[name].view(torch.uint8)[batch[name].float() == 448.0] = 0x7F
        assert batch[name].float().isnan().any()
    return batch, {name: torch.tensor([n], device=device) for name, n in (("k_scale", 0.7), ("v_scale", 1.9))}


def config_of(case):
    *_, rows, tile, parts = case
    return Config("warp_specialized", rows, tile, 4, 3 if rows == 192 or tile == 64 else 2, parts)


def features_of(case):
    """Two of the features, so that all meet among the cases; with the second one, sinks."""
    number, names = WIDENED.index(case), list(WIDENED_FEATURES)
    first, second = (WIDENED_FEATURES[names[(number + step) % len(names)]] for step in (0, 2))
    return first, second | {"sinks": torch.linspace(-2, 3, case[0][0])}


@pytest.mark.parametrize("config", CHOSEN_FP8, ids=lambda c: "-".join(map(str, c)))
def test_every_config_that_the_selector_returns(gpu, config):
    """Keys cut and not cut."""
    for number, name in enumerate(("chunk", "long decode", "two", "ones")):
        case = (32, 8), 128, (16, 128)[number % 2], E4M3, torch.bfloat16
        batch, scales = poisoned(case, name == "two", gpu, SEQUENCES[name])
        for segments in {"chunk": (1, 3), "long decode": (3,)}.get(name, (1,)):
            error = error_of(batch, with_segments(config, segments), **scales)
            assert error < LIMITS[torch.bfloat16], (name, segments)


def test_scales_of_16_bit_numbers(gpu):
    for fresh in (True, False):
        batch = make_batch(LENGTHS, (8, 2), 128, 16, torch.bfloat16, fresh, gpu)
        for name in ("q_scale", "k_scale", "v_scale"):
            scale = {name: torch.tensor([1.75], device=gpu)}
            assert error_of(batch, SPECIALISED, **scale) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("case", some(WIDENED, 2), ids=str)
def test_against_the_reference(gpu, case):
    for features in features_of(case):
        for fresh in (False, True):
            batch, given = poisoned(case, fresh, gpu)
            given |= {k: v.to(gpu) if k == "sinks" else v for k, v in features.items()}
            assert error_of(batch, config_of(case), **given) < LIMITS[case[4]]
            assert error_of(halves(batch), config_of(case), **given) < LIMITS[case[4]]


@pytest.mark.parametrize("case", some(WIDENED, 2), ids=str)
def test_prompts_apart_from_decodes(gpu, case):
    lengths = [*LENGTHS, (1, 2000), (5, 700), (3, 40)]
    config = Config("mixed", 128, 64, 4, 3, 1, 4) if case[1] > 96 else Config("mixed", 128, 128, 4, 2, 1, 6)
    for number, features in enumerate(features_of(case)):
        batch, given = poisoned(case, number == 1, gpu, lengths)
        given |= {k: v.to(gpu) if k == "sinks" else v for k, v in features.items()}
        for setting in (config, with_segments(config, 3)):
            assert error_of(halves(batch), setting, **given) < LIMITS[case[4]]


@pytest.mark.parametrize("case", WIDENED[:2], ids=str)
def test_prompts_read_no_pages(gpu, case):
    batch, scales = poisoned(case, True, gpu, [(700, 700), (64, 64), (0, 0), (129, 129)])
    for name in ("key_cache", "value_cache"):
        batch[name].view(torch.uint8).fill_(0x7F)
    assert error_of(batch, config_of(case), has_prefix=False, **scales) < LIMITS[case[4]]


@pytest.mark.parametrize("config", [SPECIALISED, APART], ids=lambda c: c.variant)
def test_repeated_recorded_and_on_two_streams(gpu, monkeypatch, config):
    """The same bits each time; graphs own their copies; nothing is left of launches that were forgotten."""
    batch, scales = poisoned(WIDENED[0], False, gpu)
    other, _ = poisoned(WIDENED[0], False, gpu, [(200, 4000), (50, 60)])
    expected, different = (
        paged_attention(**given, **scales, config=config).clone() for given in (batch, other)
    )
    assert not expected.isnan().any()
    streams, results = [torch.cuda.Stream() for _ in range(2)], ([], [])
    torch.cuda.synchronize()
    for _ in range(5):
        for stream, given, kept in zip(streams, (batch, other), results, strict=True):
            with torch.cuda.stream(stream):
                kept.append(paged_attention(**given, **scales, config=config))
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected) for out in results[0])
    assert all(torch.equal(out, different) for out in results[1])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = paged_attention(**batch, **scales, config=config)
    caches.forget()
    torch.cuda.empty_cache()
    out.zero_()
    paged_attention(**other, **scales, config=config)
    graph.replay()
    assert torch.equal(out, expected)
    # too large a copy: q_block and mixed answer
    monkeypatch.setattr(widen, "COPY_LIMIT", 1 << 20)
    assert error_of(batch, config, **scales) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("case", some(WIDENED, 4), ids=str)
def test_prompts_that_the_copy_has_no_room_for(gpu, monkeypatch, case):
    """Some of them, or all but the first; others are copied. Recorded, too, and beside few new tokens."""
    size = widen.page_bytes(case[0][1], case[1])
    for fresh, pages in ((False, 16), (True, 32)):
        monkeypatch.setattr(widen, "COPY_LIMIT", pages * size)
        batch, scales = poisoned(case, fresh, gpu, [*LENGTHS, (5, 700), (700, 3000), (3, 40)])
        for config in (config_of(case), APART):
            error = error_of(halves(batch), config, **scales)
            assert error < LIMITS[case[4]], (fresh, config)


def test_many_sequences(gpu):
    """More than a program looks at at once, among them some without tokens; few keys are told of many."""
    lengths = [(n % 3, 1 + 37 * n % 500 + n % 3) for n in range(700)] + [(600, 3000)]
    heads = ((8, 2), 128, 16, E4M3, torch.bfloat16)
    batch, scales = poisoned(heads, False, gpu, lengths)
    told = batch | {"total_seqlen_k": sum(k for _, k in lengths)}
    for config in (Config("warp_specialized", 128, 64, 4, 3), APART):
        assert error_of(told, config, **scales) < LIMITS[torch.bfloat16]
        assert error_of(batch, config, **scales) < LIMITS[torch.bfloat16]
