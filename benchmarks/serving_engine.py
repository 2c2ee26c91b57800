"""One vLLM engine for `serving.py`: answers measurements, a JSON line each, until its stdin ends.

    python serving_engine.py '{"backend": "heurgen", "mode": "full_decode", ...}'

A measurement is a list of requests [prompt tokens, output tokens], all added at once. The model has the shape of
Llama-3.1-8B and seeded random weights; nothing is loaded from anywhere.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo",
    "TOKENIZERS_PARALLELISM": "false", "VLLM_WORKER_MULTIPROC_METHOD": "spawn", "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
}  # fmt: skip
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "bos_token_id": 128000,
    "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096, "head_dim": 128, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}  # fmt: skip
# full_decode: no torch.compile, full graphs of decodes, the rest eager; default: what a user gets (Inductor)
MODES = {
    "full_decode": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"},
    "default": {"mode": 3, "cudagraph_mode": "FULL_AND_PIECEWISE"},
}
KERNELS = ("naive_kernel", "q_block_kernel", "split_kv_kernel", "static_grid_kernel", "mixed_kernel",
           "warp_specialized_kernel", "combine_kernel", "static_combine_kernel", "metadata_kernel",
           "write_pages_kernel")  # fmt: skip


def build(given: dict[str, Any]) -> Any:
    from vllm import LLM
    from vllm.model_executor.models import registry

    # vLLM asks a process of its own what the model is, which imports everything again: up to 20 s of a cold start
    registry._run_in_subprocess = lambda inspect: inspect()
    folder = os.path.join(tempfile.gettempdir(), f"heurgen_serving_{given['layers']}")
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        json.dump({**MODEL, "num_hidden_layers": given["layers"]}, file)
    os.replace(file.name, os.path.join(folder, "config.json"))  # engines start side by side
    attention: dict[str, Any] = {
        "backend": {"triton": "TRITON_ATTN", "flash": "FLASH_ATTN", "heurgen": "CUSTOM"}[given["backend"]]
    }
    if given["backend"] == "flash":
        attention["flash_attn_version"] = 3
    return LLM(
        model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", seed=0, block_size=16,
        max_model_len=given["max_model_len"], max_num_seqs=given["max_num_seqs"],
        max_num_batched_tokens=given["max_batched"], gpu_memory_utilization=0.2,
        kv_cache_memory_bytes=int(given["cache_gib"] * 2**30), enable_prefix_caching=False,
        kv_cache_dtype=given["cache_dtype"],
        tensor_parallel_size=given["gpus"], generation_config="vllm", attention_config=attention,
        disable_log_stats=True, disable_custom_all_reduce=given["gpus"] > 1,
        compilation_config={**MODES[given["mode"]], "cudagraph_capture_sizes": given["graphs"]},
    )  # fmt: skip


def weights(model: Any) -> int:
    """vLLM's dummy weights make attention vanish; a seeded random net with unit norms does not."""
    import torch

    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    generator = torch.Generator(device=next(model.parameters()).device).manual_seed(rank)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "norm" in name:
                weight.fill_(1.0)
            elif weight.dim() == 2:
                spread = 1.0 if "embed_tokens" in name else weight.shape[1] ** -0.5
                weight.normal_(0.0, spread, generator=generator)
    return len(list(model.parameters()))


def attention_of(model: Any) -> list[str]:
    """The classes that serve the layers, and for ours why a layer is left to vLLM's."""
    layers = [module.impl for module in model.modules() if hasattr(module, "impl")]
    return sorted({f"{type(impl).__name__} {getattr(impl, 'stock', '')}" for impl in layers})


class HostTime:
    """Seconds that the host has spent in a backend's code: metadata of batches, writes to pages, launches of layers."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._inside = False

    def watch(self, model: Any) -> int:
        """Puts a clock around each; for an engine in this process."""
        layer = next(module for module in model.modules() if hasattr(module, "impl"))
        impl, builder = type(layer.impl), layer.attn_backend.get_builder_cls()
        for owner, name in ((impl, "forward"), (impl, "do_kv_cache_update"), (builder, "build")):
            setattr(owner, name, self._clocked(getattr(owner, name)))
        return 0

    def _clocked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def clocked(*given: Any, **named: Any) -> Any:
            if self._inside:  # ours writes to pages inside `forward`
                return call(*given, **named)
            began, self._inside = time.perf_counter(), True
            try:
                return call(*given, **named)
            finally:
                self._inside = False
                self.spent += time.perf_counter() - began

        return clocked


def add_requests(
    engine: Any, prompts: list[list[int]], outputs: list[int], seed: int, logprobs: int | None
) -> None:
    """Under ids that no call before had. outputs: tokens of each."""
    from vllm import SamplingParams

    begun = time.perf_counter()
    for number, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        params = SamplingParams(
            temperature=0.0,
            max_tokens=output,
            min_tokens=output,
            ignore_eos=True,
            detokenize=False,
            logprobs=logprobs,
        )
        engine.add_request(f"{seed}-{number}-{begun}", {"prompt_token_ids": prompt}, params)


def serve(
    llm: Any,
    requests: list[tuple[int, int]],
    seed: int,
    logprobs: int | None,
    marks: Sequence[int],
    host: HostTime,
) -> dict[str, Any]:
    """Times in seconds from adding the requests, all at once, to each one's first and last token.

    marks: numbers of output tokens of the only request; `marks` of the answer says when it had so many.
    """
    import torch

    rng, engine = random.Random(seed), llm.llm_engine
    prompts = [[rng.randrange(1000, 120000) for _ in range(n)] for n, _ in requests]
    torch.cuda.synchronize()
    started = time.perf_counter()
    add_requests(engine, prompts, [n for _, n in requests], seed, logprobs)
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    ends: list[float] = []
    spent: list[float] = []
    reached: dict[int, float] = {}
    answers: dict[str, Any] = {}
    while engine.has_unfinished_requests():
        before = host.spent
        outputs = engine.step()
        now = time.perf_counter() - started
        ends.append(now)
        spent.append(host.spent - before)
        for output in outputs:
            if output.outputs[0].token_ids:
                first.setdefault(output.request_id, now)
                last[output.request_id] = now
            for mark in marks:
                if len(output.outputs[0].token_ids) >= mark:
                    reached.setdefault(mark, now)
            if logprobs is not None:
                answers[output.request_id] = output
    everyone = max(first.values())
    after = [b - a for a, b in pairwise(ends) if a > everyone]
    found: dict[str, Any] = {
        "seconds": max(last.values()), "first_token_s": sum(first.values()) / len(first),
        "output_tokens": sum(n for _, n in requests), "step_s": _middle(after), "marks": reached,
        "prompt_host_s": _middle([s for end, s in zip(ends, spent, strict=True) if end <= everyone]),
        "decode_host_s": _middle([s for end, s in zip(ends, spent, strict=True) if end > everyone]),
    }  # fmt: skip
    if logprobs is not None:
        ordered = sorted(answers.values(), key=lambda output: len(output.prompt_token_ids))
        found["answers"] = [_answer(output.outputs[0]) for output in ordered]
    return found


def _middle(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _answer(completion: Any) -> dict[str, Any]:
    """Tokens, and the log-probabilities of the likeliest at each step."""
    steps = [{str(t): round(float(p.logprob), 4) for t, p in step.items()} for step in completion.logprobs]
    return {"tokens": list(completion.token_ids), "logprobs": steps}


class Compiles:
    """What vLLM's monitor of compilation sees, by kernel."""

    def __init__(self) -> None:
        from vllm.utils import jit_monitor

        self.seen: Counter[str] = Counter()
        self.active = jit_monitor.is_active()
        real = jit_monitor._handle_jit_event

        def handle(**event: Any) -> None:
            self.seen[event["fn_name"]] += 1
            real(**event)

        jit_monitor._handle_jit_event = handle

    def take(self) -> dict[str, int]:
        """Of our kernels since the last call; others' are summed up."""
        found = {name.rsplit(".", 1)[-1]: count for name, count in self.seen.items()}
        self.seen.clear()
        ours = {name: count for name, count in found.items() if name in KERNELS}
        return {**ours, "others": sum(found.values()) - sum(ours.values())}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    given = json.loads(sys.argv[1])
    os.environ["VLLM_CACHE_ROOT"] = os.path.join(tempfile.gettempdir(), f"vllm_{given['backend']}")
    import torch

    started = time.perf_counter()
    llm = build(given)
    up = time.perf_counter() - started
    compiles, host = Compiles(), HostTime()
    llm.apply_model(weights)
    if given["gpus"] == 1:
        llm.apply_model(host.watch)
    facts = {
        "up_s": round(up, 1), "attention": llm.apply_model(attention_of)[0], "device": torch.cuda.get_device_name(),
        "torch": torch.__version__, "monitored": compiles.active,
    }  # fmt: skip
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        before = torch.cuda.memory_allocated()
        found = serve(llm, asked["requests"], asked["seed"], asked["logprobs"], asked["marks"], host)
        found |= {"compiles": compiles.take(), "grown_bytes": torch.cuda.memory_allocated() - before}
        if given["gpus"] > 1:  # the model runs in workers; a zero of this process says nothing of them
            found |= dict.fromkeys(("prompt_host_s", "decode_host_s", "compiles", "grown_bytes"))
        print(json.dumps(found), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
