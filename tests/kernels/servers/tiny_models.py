"""Models that take milliseconds, with random weights, and what they are asked."""

from __future__ import annotations

import torch
import transformers as hf  # models when they are asked for: they take seconds

GREEDY = hf.GenerationConfig(max_new_tokens=2, do_sample=False, eos_token_id=-1, pad_token_id=0)
SMALL = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 99, "max_position_embeddings": 64,
    "initializer_range": 0.3, "sliding_window": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def prompts(device, *lengths):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, 99, (n,), generator=generator).to(device) for n in lengths]


def generated(model, implementation, ids, **more):
    model.set_attn_implementation(implementation)
    return model.generate(ids, GREEDY, **more)[:, ids.shape[1] :].tolist()


def llama(device, dtype=torch.float16, **more):
    config = hf.LlamaConfig(**{**{name: SMALL[name] for name in SMALL if name != "sliding_window"}, **more})
    return hf.LlamaForCausalLM(config).to(device, dtype).eval()


def gemma(device, **more):
    config = hf.Gemma2Config(**{**SMALL, **more}, query_pre_attn_scalar=16, attn_logit_softcapping=5.0)
    return hf.Gemma2ForCausalLM(config).to(device, torch.float16).eval()


def gpt_oss(device):
    made = hf.GptOssForCausalLM(hf.GptOssConfig(**SMALL, num_local_experts=2, num_experts_per_tok=1))
    return made.to(device, torch.float16).eval()
