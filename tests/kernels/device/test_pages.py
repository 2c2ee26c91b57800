"""New K and V written to pages by a launch of their own."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.ahead.layouts import Layout
from heurgen_kernels.ahead.warm import stored
from heurgen_kernels.host.pages import write_pages

PAGES, PAGE = 9, 16


def fused(tokens, heads, size, dtype, device):
    """(K, V, their pages): views of one projection, and of one tensor of pages as vLLM lays it out."""
    made = torch.randn((tokens, 6 * heads, size), device=device).to(dtype)
    pages = torch.full((PAGES, PAGE, heads, 2 * size), 3.0, device=device, dtype=dtype)
    return made[:, 4 * heads : 5 * heads], made[:, 5 * heads :], pages[..., :size], pages[..., size:]


def expected(key, value, k_pages, v_pages, slots):
    """(K's pages, V's pages), written with indices."""
    found = []
    kept = slots >= 0
    for new, pages in ((key, k_pages), (value, v_pages)):
        flat = pages.reshape(-1, *pages.shape[2:]).clone()
        flat[slots[kept]] = new[: len(slots)][kept]
        found.append(flat.view(pages.shape))
    return found


@pytest.mark.parametrize(("heads", "size"), [(8, 128), (3, 72), (1, 16)])
@pytest.mark.parametrize(("tokens", "written"), [(70, 70), (37, 33), (1, 1)])
def test_new_tokens_are_written_where_their_slots_say(device, heads, size, tokens, written):
    """Twice, past Triton's dispatch on a GPU; padding has no slots, or negative ones, and what has none is left."""
    for seed in range(2):
        torch.manual_seed(seed)
        given = fused(tokens, heads, size, (torch.float16, torch.bfloat16)[heads > 1], device)
        slots = torch.randperm(PAGES * PAGE, device=device)[:written]
        slots[1::5] = -1
        want = expected(*given, slots)
        write_pages(*given, slots)
        assert torch.equal(given[2], want[0])
        assert torch.equal(given[3], want[1])


def test_no_token_at_all(device):
    *given, k_pages, v_pages = fused(4, 2, 64, torch.bfloat16, device)
    write_pages(*given, k_pages, v_pages, torch.empty(0, dtype=torch.int64, device=device))
    assert bool((k_pages == 3.0).all())


def test_k_and_v_that_lie_differently_at_addresses_that_are_not_aligned(device):
    for start in (0, 1):
        _, value, k_pages, v_pages = fused(20, 2, 64, torch.float16, device)
        key = torch.randn(20 * 2 * 64 + 1, device=device).half()[start:][: 20 * 2 * 64].view(20, 2, 64)
        slots = torch.randperm(PAGES * PAGE, device=device)[:20]
        want = expected(key, value, k_pages, v_pages, slots)
        write_pages(key, value, k_pages, v_pages, slots)
        assert torch.equal(k_pages, want[0])
        assert torch.equal(v_pages, want[1])


def test_fp8_pages_hold_what_is_left_of_the_scale(device):
    """Powers of two as scales and numbers that fp8 has: the interpreter rounds others in its own way."""
    key, value, *_ = fused(20, 2, 64, torch.float16, device)
    key, value = (new.mul(8).round().clamp(-15, 15) / 8 for new in (key, value))
    pages = torch.zeros((PAGES, PAGE, 2, 128), device=device).to(torch.float8_e4m3fn)
    slots = torch.randperm(PAGES * PAGE, device=device)[:20]
    scales = [torch.tensor(scale, device=device) for scale in (0.5, 4.0)]
    write_pages(key, value, pages[..., :64], pages[..., 64:], slots, *scales)
    found = pages.view(-1, 2, 128)[slots].float()
    assert torch.equal(found[..., :64] * scales[0], key.float())
    assert torch.equal(found[..., 64:] * scales[1], value.float())


@pytest.mark.parametrize("cache_dtype", [None, torch.float8_e4m3fn])
def test_a_warm_up_writes_as_a_layout_does(device, cache_dtype):
    """With its strides, of K and of V each, and scales where the pages are fp8."""
    layout = Layout(4, 2, 64, 16, cache_dtype=cache_dtype, new_strides=((512, 64), (640, 64)), stored=True)
    key, value, k_pages, _, _, *scales = given = stored(layout, torch.device(device))
    assert (key.stride(), value.stride()) == ((512, 64, 1), (640, 64, 1))
    assert k_pages.dtype == (cache_dtype or torch.bfloat16)
    assert [scale is None for scale in scales] == [cache_dtype is None] * 2
    write_pages(*given)
