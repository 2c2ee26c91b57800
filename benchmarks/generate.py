"""Transformers with our attention beside its own, on one GPU: `generate_batch` and `generate`.

    PYTHONPATH=kernels python benchmarks/generate.py -o benchmarks/h200/generate.json [--layers 32]

A Llama-3-8B-shaped model with random weights in bfloat16, or some of its layers. `generate_batch`: new tokens a second
of requests that come at once, with Transformers' own defaults: graphs, and two streams of batches, for what has "flash"
in its name, as ours. Three rounds, after one in which kernels are compiled and graphs recorded, all of ours by a
warm-up; every round is in the file, since batches of another size are recorded when they first come. `generate`:
seconds to the first token and a step, implementations in turn, medians of five turns after a first one, and before
`generate_batch`, behind which times of the host scatter. FILE.json has each row as soon as it is known.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from heurgen_kernels.servers.transformers import continuous, register

Row = dict[str, Any]
OURS = "heurgen"
REQUESTS = {
    "64 of 100 to 2000": [100 + 1900 * i // 63 for i in range(64)],
    "8 of 8000": [8000] * 8,
}  # lengths of prompts
PROMPTS = ((1, 500), (1, 8000), (1, 30000), (8, 2000), (32, 1000))  # sequences, and tokens of each
NEW, ROUNDS, TURNS = 65, 3, 5


def llama(layers: int) -> Any:
    config = hf.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=65536, rope_theta=500000.0,
    )  # fmt: skip
    with torch.device("cuda"):
        return hf.LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).eval()


def greedy(new: int) -> Any:
    return hf.GenerationConfig(max_new_tokens=new, do_sample=False, eos_token_id=-1, pad_token_id=0)


def seconds(run: Callable[..., Any], *given: Any) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    run(*given)
    torch.cuda.synchronize()
    return time.perf_counter() - began


def batched(model: Any) -> Iterator[Row]:
    for what, lengths in REQUESTS.items():
        requests = [torch.randint(3, 100_000, (n,)).tolist() for n in lengths]
        for name in ("paged|sdpa", OURS):
            if name == OURS:
                continuous(model, warm_up=True)
            else:
                model.set_attn_implementation(name)
            with model.continuous_batching_context_manager(generation_config=greedy(NEW)) as manager:
                took = [seconds(answered, manager, requests) for _ in range(1 + ROUNDS)]
            rates = [round(len(requests) * NEW / one, 1) for one in took]
            yield {
                "generate_batch": what,
                "attention": name,
                "tokens_per_s": rates[1:],
                "first round": rates[0],
            }


def answered(manager: Any, requests: list[list[int]]) -> None:
    asked = set(manager.add_requests(requests))
    while asked:
        found = manager.get_result(timeout=60)
        if found is None:
            raise RuntimeError(f"{len(asked)} of {len(requests)} requests have no answer")
        if found.is_finished():
            asked.discard(found.request_id)


def generated(model: Any) -> Iterator[Row]:
    for batch, length in PROMPTS:
        ids = torch.randint(3, 100_000, (batch, length), device="cuda")
        took: dict[str, list[tuple[float, float]]] = {"sdpa": [], OURS: []}
        for _ in range(1 + TURNS):
            for name, pairs in took.items():
                model.set_attn_implementation(name)
                first, whole = (seconds(model.generate, ids, greedy(new)) for new in (1, NEW))
                pairs.append((first, (whole - first) / (NEW - 1)))
        for name, pairs in took.items():
            first, step = (statistics.median(values) for values in zip(*pairs[1:], strict=True))
            yield {"generate": f"{batch} x {length}", "attention": name, "first_s": first, "step_s": step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=32)
    asked = parser.parse_args()
    register()
    torch.manual_seed(0)
    model = llama(asked.layers)
    rows: list[Row] = []
    found = {
        "device": torch.cuda.get_device_name(),
        "transformers": hf.__version__,
        "layers": asked.layers,
        "rows": rows,
    }
    for kind in (generated, batched):
        for row in kind(model):
            print(row, flush=True)
            rows.append(row)
            asked.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
