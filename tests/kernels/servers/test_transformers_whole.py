"""What `generate` launches, beside attention by hand: prompts, chunks behind cached tokens, decodes where they lie."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.caches import forget
from heurgen_kernels.servers.transformers import whole

KINDS = [(9, 9), (1, 1), (1, 21), (5, 21), (16, 32)]
FEATURES = {"scale": 0.3, "softcap": 4.0, "sinks": None}


def by_hand(query, key, value, causal, left, scale, softcap, sinks):
    query, key, value = (states.double() for states in (query, key, value))
    group, (new, total) = query.shape[1] // key.shape[1], (query.shape[2], key.shape[2])
    key, value = (states.repeat_interleave(group, 1) for states in (key, value))
    scores = query @ key.transpose(2, 3) * scale
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    behind = torch.arange(total - new, total)[:, None] - torch.arange(total)[None, :]
    hidden = torch.zeros(new, total, dtype=torch.bool)
    if causal:
        hidden |= behind < 0
    if left is not None and left >= 0:
        hidden |= behind > left
    scores = scores.masked_fill(hidden.to(scores.device), -torch.inf)
    if sinks is not None:
        column = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, column], 3)
    weights = torch.softmax(scores, 3)[..., :total]
    return (weights @ value).transpose(1, 2)


@pytest.mark.parametrize("more", [{}, {"softcap": 0.0}, {"sinks": 4}], ids=["capped", "plain", "sinks"])
@pytest.mark.parametrize("left", [None, 6])
@pytest.mark.parametrize(("new", "total"), KINDS)
def test_beside_attention_by_hand(device, new, total, left, more):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).to(device, torch.float16)

    features = FEATURES | more
    if features["sinks"]:
        features["sinks"] = draw(4)
    query, key, value = draw(3, 4, new, 16), draw(3, 2, total, 16), draw(3, 2, total, 16)
    found = whole.attend(query, key, value, True, left, features)
    right = by_hand(query, key, value, True, left, **features)
    assert found.shape == (3, new, 4, 16)
    assert (found.double() - right).abs().max() < 3e-3


def test_prompts_that_are_not_causal(device):
    query, key, value = (torch.randn(2, 2, 11, 16).to(device, torch.float16) for _ in range(3))
    features = FEATURES | {"softcap": 0.0}
    found = whole.attend(query, key, value, False, None, features)
    assert (found.double() - by_hand(query, key, value, False, None, **features)).abs().max() < 3e-3


def test_caches_that_are_no_rows_of_tokens_are_copied(device):
    """Such as a static cache's first tokens, whose strides are those of all that it has room for."""
    query = torch.randn(2, 4, 1, 16).to(device, torch.float16)
    key, value = (torch.randn(2, 2, 40, 16).to(device, torch.float16)[:, :, :23] for _ in range(2))
    found = whole.attend(query, key, value, True, None, FEATURES)
    assert (found.double() - by_hand(query, key, value, True, None, **FEATURES)).abs().max() < 3e-3


def test_layers_of_a_step_are_told_by_the_same_tensors():
    forget()
    place = torch.device("cpu")
    first = whole.lengths_of(place, 6, 1, 20, 1)
    assert whole.lengths_of(place, 6, 1, 20, 1) is first
    assert first.block_table.tolist() == [list(range(20 * i, 20 * i + 20)) for i in range(6)]
    assert (first.cu_seqlens_q.tolist(), first.seq_lens.tolist()) == (list(range(7)), [20] * 6)
    for total in range(21, 40):
        whole.lengths_of(place, 6, 1, total, 1)
    assert len(whole._lengths) <= 4
