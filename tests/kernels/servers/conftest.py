"""A small Llama for Transformers, and the launches of our kernels."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="module")
def model(device):
    import transformers as hf
    from heurgen_kernels.servers import transformers as ours

    ours.register()
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=99, max_position_embeddings=256, initializer_range=0.3,
    )  # fmt: skip
    return hf.LlamaForCausalLM(config).to(device, torch.float16).eval()


@pytest.fixture
def launches(monkeypatch):
    """Keywords of the launches of our kernels in Transformers' attention."""
    from heurgen_kernels.servers import transformers as ours
    from heurgen_kernels.servers.transformers import whole

    calls, real = [], ours.paged_attention

    def spy(*args, **kwargs):
        calls.append((args, kwargs))
        return real(*args, **kwargs)

    for module in (ours, whole):
        monkeypatch.setattr(module, "paged_attention", spy)
    return calls
