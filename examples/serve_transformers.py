"""Serve a small Llama with random weights through heurgen's kernels: `generate`, then continuous batching.

pip install heurgen[kernels] transformers; on a machine without a GPU: TRITON_INTERPRET=1 python serve_transformers.py
"""

import torch
from heurgen_kernels.servers.transformers import continuous, register
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

register()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=199, initializer_range=0.3, attn_implementation="heurgen",
)  # fmt: skip
model = LlamaForCausalLM(config).to(device, torch.float16).eval()
greedy = GenerationConfig(max_new_tokens=2, do_sample=False, eos_token_id=-1, pad_token_id=0)

prompt = torch.randint(3, 199, (1, 20), device=device)
print("generate:", model.generate(prompt, greedy)[0, 20:].tolist())

requests = [torch.randint(3, 199, (length,)).tolist() for length in (5, 20)]
pages = ContinuousBatchingConfig(
    16, num_blocks=32, max_batch_tokens=16, use_cuda_graph=False
)  # tokens of a page
answers = continuous(model).generate_batch(requests, greedy, continuous_batching_config=pages)
for name in sorted(answers):
    print(name + ":", answers[name].generated_tokens)
