"""Transformers on a GPU: recorded graphs and two streams of batches, which no CPU has, and lengths beyond a page."""

from __future__ import annotations

import importlib.util

import pytest
import torch
import triton

if importlib.util.find_spec("transformers") is None:
    pytest.skip("Transformers is not installed", allow_module_level=True)

import transformers as hf  # models when they are asked for: they take seconds
from heurgen_kernels.servers.transformers import continuous, register

pytestmark = pytest.mark.gpu

SHAPE = {
    "hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 4000, "max_position_embeddings": 16384,
    "initializer_range": 0.1, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GREEDY = hf.GenerationConfig(max_new_tokens=24, do_sample=False, eos_token_id=-1, pad_token_id=0)
# Of logits whose standard deviation is 1: bf16 noise of three layers is a tenth of it, a wrong key 1 and more.
NEAR = 0.35


def llama(device):
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SHAPE)).to(device, torch.bfloat16).eval()


def mistral(device):
    config = hf.MistralConfig(**SHAPE, sliding_window=100)
    return hf.MistralForCausalLM(config).to(device, torch.bfloat16).eval()


def gemma(device):
    config = hf.Gemma2Config(
        **SHAPE, sliding_window=100, query_pre_attn_scalar=64, final_logit_softcapping=None
    )
    return hf.Gemma2ForCausalLM(config).to(device, torch.bfloat16).eval()


def gpt_oss(device):
    """Every token to all experts: a near-tie among them would be noise that no attention makes.

    In float16, for its experts alone make bf16 noise of half a standard deviation: as much with `eager` as with ours.
    Its own product of groups cannot be recorded in float16, products of batches can.
    """
    config = hf.GptOssConfig(
        **SHAPE,
        num_local_experts=2,
        num_experts_per_tok=2,
        sliding_window=128,
        experts_implementation="batched_mm",
    )
    return hf.GptOssForCausalLM(config).to(device, torch.float16).eval()


MODELS = [llama, mistral, gemma, gpt_oss]


def prompts(device, *lengths):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, 4000, (n,), generator=generator).to(device) for n in lengths]


@torch.no_grad()
def regret(model, prompt, tokens):
    """By how much each token's logit lies below the highest one, in standard deviations, as `eager` computes them."""
    model.set_attn_implementation("eager")
    ids = torch.tensor([*prompt.tolist(), *tokens], device=prompt.device)[None]
    logits = model(ids[:, :-1]).logits[0, len(prompt) - 1 :].float()
    taken = logits.gather(1, ids[0, len(prompt) :, None])[:, 0]
    return ((logits.max(dim=1).values - taken) / logits.std(dim=1)).max().item()


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize(("batch", "length"), [(1, 17), (1, 3000), (5, 333)])
def test_generate(gpu, made, batch, length):
    torch.manual_seed(0)
    register()
    model = made(gpu)
    ids = torch.stack(prompts(gpu, *[length] * batch))
    model.set_attn_implementation("heurgen")
    found = model.generate(ids, GREEDY)[:, length:].tolist()
    assert max(regret(model, *one) for one in zip(ids, found, strict=True)) < NEAR


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("graphs", [None, False], ids=["as by default", "without graphs"])
def test_generate_batch(gpu, made, graphs):
    """Requests come and go: batches of prompts, chunks of them beside decodes, and decodes alone."""
    torch.manual_seed(0)
    model = made(gpu)
    requests = prompts(gpu, 5, 2000, 64, 1, 700, *range(15, 40), 1100)
    pages = hf.ContinuousBatchingConfig(
        16 if made is llama else 32, num_blocks=2048, max_batch_tokens=512, use_cuda_graph=graphs
    )
    found = continuous(model).generate_batch(
        [ids.tolist() for ids in requests], GREEDY, continuous_batching_config=pages
    )
    answers = {tuple(answer.prompt_ids): answer.generated_tokens for answer in found.values()}
    assert len(answers) == len(requests)
    for ids in requests:
        tokens = answers[tuple(ids.tolist())]
        assert len(tokens) == 24
        assert regret(model, ids, tokens) < NEAR


def test_no_batch_compiles_behind_the_first(gpu, monkeypatch):
    """Recorded graphs ask for kernels, too: the first batch is not one of them."""
    heard = []
    model = continuous(llama(gpu), warm_up=True)
    pages = hf.ContinuousBatchingConfig(32, num_blocks=2048, max_batch_tokens=512)
    for lengths in ((5,), (2000, 64, 1, 700), range(15, 60)):
        requests = [ids.tolist() for ids in prompts(gpu, *lengths)]
        found = model.generate_batch(requests, GREEDY, continuous_batching_config=pages)
        assert len(found) == len(requests)
        monkeypatch.setattr(
            triton.knobs.runtime, "jit_post_compile_hook", lambda **told: heard.append(told["fn"].name)
        )
    assert heard == []
