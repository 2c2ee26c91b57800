"""examples/llama.py on a GPU, compiled and recorded: whose kernels a decode step launches, and its logits."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(
    0, str(Path(__file__).parents[2] / "examples")
)  # each has a llama.py: the example's comes first
import kernel_names
import llama

pytestmark = pytest.mark.gpu
A = llama.Architecture(layers=2)


@cache
def weights():
    return llama.random_weights(A, "cuda", torch.bfloat16)


@pytest.mark.parametrize("batch", [1, 8])
def test_every_kernel_of_a_decode_step_is_tritons(gpu, batch):
    model = llama.Llama(A, weights()).compile()
    state = llama.State(model, batch, 600)
    replay, _ = llama.record(lambda: model.decode(state))
    names = kernel_names.launched(replay)
    ours = kernel_names.our_kernels()
    assert kernel_names.foreign(names, ours) == []
    # of each layer four products, attention, and what turns Q and K; the head's product
    assert sum(name in ours for name in names) >= 6 * A.layers + 1, names


def test_the_profile_sees_the_kernels_of_libraries(gpu):
    model = llama.Llama(A, weights(), "sdpa").compile()
    state = llama.State(model, 2, 64)
    replay, _ = llama.record(lambda: model.decode(state))
    assert kernel_names.foreign(kernel_names.launched(replay), kernel_names.our_kernels())


def test_replays_follow_the_tokens_of_cublas_and_sdpa(gpu):
    """Lengths and tokens change on the device alone; both are given the same tokens, and logits are compared."""
    prompts = torch.randint(
        A.vocabulary, (3, 77), generator=torch.Generator("cuda").manual_seed(0), device="cuda"
    )
    states, replays, logits, firsts = {}, {}, {}, {}
    for backend in ("heurgen", "sdpa"):
        model = llama.Llama(A, weights(), backend).compile()
        states[backend] = llama.State(model, 3, 77 + 40)
        replays[backend], logits[backend] = llama.record(lambda m=model, s=states[backend]: m.decode(s))
        firsts[backend] = model.prompt(prompts, states[backend])
    for step in range(40):
        found = logits if step else firsts
        ours, theirs = (found[backend].float() for backend in ("heurgen", "sdpa"))
        assert float((ours - theirs).norm() / theirs.norm()) < 2e-2, step
        states["heurgen"].tokens.copy_(states["sdpa"].tokens)
        if step < 39:
            for replay in replays.values():
                replay()
    assert (states["heurgen"].lens == 77 + 40).all()
