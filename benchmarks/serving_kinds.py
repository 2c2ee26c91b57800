"""Models of many kinds in a real vLLM, ours beside its Triton backend: whether their greedy tokens are the same.

    python benchmarks/serving_kinds.py -o FOLDER [--at-once 18] [MODEL...]

Small models with random weights (2 to 10 layers), each in a process of its own that has an engine of either backend:
27 requests of 1 to 3,900 tokens, chunked, some sharing a prefix or repeating themselves, 24 tokens out. Processes take
GPUs and processors in turn. Writes MODEL.json: tokens that are equal; where others part, the distance of the two
candidates in log-probability; of models that make vectors the cosines; what vLLM's monitor saw compile. Models outside
WARM skip our warm-up, so that kernels compile while the monitor watches. Needs what `serving.py` needs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from operator import mul
from pathlib import Path
from typing import Any

from serving_engine import ENVIRONMENT, Compiles, attention_of

WARM = ("gemma3", "gemma3_default", "gptoss", "llama_ngram", "llama_default")
COMMON = {
    "num_hidden_layers": 2, "vocab_size": 2048, "max_position_embeddings": 8192, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0, "hidden_size": 1024, "intermediate_size": 2048,
}  # fmt: skip
# Embeddings that are the output layer, too: these models of vLLM's take no others.
TIED = ("gemma", "mpt", "bloom", "cohere", "gpt2", "falcon", "opt")
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
DECODES, MIXED = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}, {"mode": 0, "cudagraph_mode": "FULL"}
POOLING = {
    "runner": "pooling",
    "convert": "embed",
    "max_num_batched_tokens": 4096,
    "enforce_eager": True,
    "skip_tokenizer_init": False,
}
COMPILED = {"mode": 3, "cudagraph_mode": "FULL_AND_PIECEWISE"}


# Transformers' config, vLLM's class, what the config is given, what the engine is given.
Kind = tuple[str, str, dict[str, Any], dict[str, Any]]


def heads(count: int, kv: int, size: int) -> dict[str, int]:
    return {"num_attention_heads": count, "num_key_value_heads": kv, "head_dim": size}


def llama(
    count: int = 8, kv: int = 2, size: int = 128, **engine: Any
) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    return "LlamaConfig", "LlamaForCausalLM", {**heads(count, kv, size), "hidden_size": count * size}, engine


def kind(config: str, architecture: str, engine: dict[str, Any] | None = None, **more: Any) -> Kind:
    return config, architecture, more, engine or {}


GEMMA3 = heads(4, 1, 256) | {"num_hidden_layers": 6, "sliding_window": 512}
KINDS: dict[str, Kind] = {
    "llama": llama(),
    "llama_default": llama(7, 1, compilation=COMPILED),
    "llama_full": llama(compilation=MIXED),
    "llama_eager": llama(9, 3, enforce_eager=True),
    "llama_fp8": llama(kv_cache_dtype="fp8"),
    "llama_ngram": llama(speculative_config=NGRAM),
    "llama_prefix": llama(enable_prefix_caching=True),
    "llama_offload": llama(enable_prefix_caching=True, kv_offloading_size=1.0),
    "llama_hnd": llama(layout="HND"),
    "llama_sleep": llama(enable_sleep_mode=True),
    "llama_draft": llama(speculative_config={"method": "draft_model", "num_speculative_tokens": 3}),
    "llama_eagle": llama(speculative_config={"method": "eagle", "num_speculative_tokens": 3}),
    "llama_b64": llama(16, 1, 64, block_size=64),
    "llama_b128": llama(6, 2, 112, block_size=128),
    "llama_fp16": llama(12, 1, 192, dtype="float16", block_size=32),
    "llama_small": llama(4, 4, 32),
    "llama_odd": llama(5, 5, 72),
    "gemma2": kind("Gemma2Config", "Gemma2ForCausalLM", **heads(8, 4, 256), sliding_window=512),
    "gemma3": kind("Gemma3TextConfig", "Gemma3ForCausalLM", **GEMMA3),
    "gemma3_default": kind("Gemma3TextConfig", "Gemma3ForCausalLM", {"compilation": COMPILED}, **GEMMA3),
    "gemma3_ngram": kind("Gemma3TextConfig", "Gemma3ForCausalLM", {"speculative_config": NGRAM}, **GEMMA3),
    "gemma3n": kind(
        "Gemma3nTextConfig", "Gemma3nForCausalLM", **heads(4, 2, 256), num_hidden_layers=10, sliding_window=256,
        num_kv_shared_layers=5, vocab_size_per_layer_input=2048, activation_sparsity_pattern=[0.0] * 10,
    ),
    "gemma3_vectors": kind(
        "Gemma3TextConfig", "Gemma3TextModel", POOLING, **GEMMA3, use_bidirectional_attention=True
    ),
    "bert": kind("BertConfig", "BertModel", POOLING, num_attention_heads=16),
    "gptoss": kind(
        "GptOssConfig", "GptOssForCausalLM", **heads(16, 2, 64), sliding_window=128, num_local_experts=4,
        num_experts_per_tok=2, intermediate_size=1024,
    ),
    "gptoss_all": kind(
        "GptOssConfig", "GptOssForCausalLM", **heads(16, 2, 64), sliding_window=128, num_local_experts=2,
        num_experts_per_tok=2, intermediate_size=1024,
    ),
    "llama4": kind(
        "Llama4TextConfig", "Llama4ForCausalLM", **heads(8, 2, 128), num_hidden_layers=4, intermediate_size=1024,
        intermediate_size_mlp=2048, num_local_experts=2, num_experts_per_tok=1, attention_chunk_size=256,
    ),
    "mistral": kind("MistralConfig", "MistralForCausalLM", **heads(8, 2, 128), sliding_window=300),
    "mixtral": kind(
        "MixtralConfig", "MixtralForCausalLM", **heads(8, 2, 128), num_local_experts=4, sliding_window=None
    ),
    "qwen2": kind(
        "Qwen2Config", "Qwen2ForCausalLM", hidden_size=14 * 128, num_attention_heads=14, num_key_value_heads=2
    ),
    "qwen3": kind("Qwen3Config", "Qwen3ForCausalLM", **heads(16, 1, 128)),
    "phi": kind("PhiConfig", "PhiForCausalLM", hidden_size=640, num_attention_heads=8, num_key_value_heads=8),
    "phi3": kind(
        "Phi3Config", "Phi3ForCausalLM", hidden_size=768, num_attention_heads=8, num_key_value_heads=8,
        sliding_window=263,
    ),
    "opt": kind("OPTConfig", "OPTForCausalLM", ffn_dim=2048, num_attention_heads=8, word_embed_proj_dim=1024),
    "bloom": kind("BloomConfig", "BloomForCausalLM", n_head=16, n_layer=2),
    "mpt": kind(
        "MptConfig", "MPTForCausalLM", d_model=1024, n_heads=8, n_layers=2, expansion_ratio=2, max_seq_len=8192,
        attn_config={"alibi": True, "alibi_bias_max": 8, "attn_type": "multihead_attention"}, no_bias=True,
    ),
    "falcon": kind(
        "FalconConfig", "FalconForCausalLM", hidden_size=71 * 64, num_attention_heads=71, multi_query=True,
        parallel_attn=True, new_decoder_architecture=False, alibi=False, bias=False,
    ),
    "falcon_h1": kind(
        "FalconH1Config", "FalconH1ForCausalLM", **heads(8, 2, 128), mamba_d_ssm=1024, mamba_n_heads=16,
        mamba_d_head=64, mamba_n_groups=1, mamba_d_state=64,
    ),
    "gpt2": kind("GPT2Config", "GPT2LMHeadModel", n_embd=1024, n_layer=2, n_head=16, n_positions=8192),
    "neox": kind("GPTNeoXConfig", "GPTNeoXForCausalLM", num_attention_heads=16),
    "cohere2": kind(
        "Cohere2Config", "Cohere2ForCausalLM", **heads(8, 2, 128), num_hidden_layers=4, sliding_window=256
    ),
    "olmo3": kind("Olmo3Config", "Olmo3ForCausalLM", **heads(8, 8, 128), num_hidden_layers=4, sliding_window=256),
    "exaone4": kind(
        "Exaone4Config", "Exaone4ForCausalLM", **heads(8, 2, 128), num_hidden_layers=4, sliding_window=256,
        sliding_window_pattern=4,
    ),
    "nemotron": kind("NemotronConfig", "NemotronForCausalLM", **heads(8, 1, 192), hidden_size=1536),
    "stablelm": kind(
        "StableLmConfig", "StableLmForCausalLM", hidden_size=1280, num_attention_heads=8, num_key_value_heads=8
    ),
    "seed_oss": kind("SeedOssConfig", "SeedOssForCausalLM", **heads(10, 2, 128)),
}  # fmt: skip


def folder_of(name: str) -> str:
    """A folder with the model's config.json, all that an engine reads."""
    import transformers

    config, architecture, given, _ = KINDS[name]
    made = getattr(transformers, config)(**{**COMMON, "tie_word_embeddings": name.startswith(TIED), **given})
    folder = tempfile.mkdtemp()
    told = made.to_dict() | {"architectures": [architecture], "torch_dtype": "bfloat16"}
    Path(folder, "config.json").write_text(json.dumps(told), encoding="utf-8")
    if KINDS[name][3].get("runner") == "pooling":
        _write_tokenizer(Path(folder))
    return folder


def _write_tokenizer(folder: Path) -> None:
    """One of numbers: an engine that makes vectors takes none without a tokenizer."""
    from tokenizers import Tokenizer, models

    words = {str(number): number for number in range(COMMON["vocab_size"])}
    Tokenizer(models.WordLevel(words, unk_token="0")).save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "0", "pad_token": "0"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")


def engine_of(name: str, folder: str, backend: str) -> Any:
    from vllm import LLM

    given = dict(KINDS[name][3])
    compilation = given.pop("compilation", DECODES)
    if backend != "CUSTOM":  # one engine of a process can sleep
        given.pop("enable_sleep_mode", None)
    if layout := given.pop("layout", None):
        os.environ["VLLM_KV_CACHE_LAYOUT"] = layout
    drafts = given.get("speculative_config", {})
    if drafts.get("method") in ("draft_model", "eagle"):  # the model drafts for itself
        given["speculative_config"] = {**drafts, "model": folder}
    if not given.get("enforce_eager"):
        given["compilation_config"] = {**compilation, "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 24, 32]}
    usual = {
        "load_format": "dummy", "skip_tokenizer_init": True, "dtype": "bfloat16", "seed": 0, "max_model_len": 4096,
        "max_num_seqs": 32, "max_num_batched_tokens": 1024, "gpu_memory_utilization": 0.08,
        "kv_cache_memory_bytes": 2 << 30, "enable_prefix_caching": False, "generation_config": "vllm",
        "disable_log_stats": True,
    }  # fmt: skip
    return LLM(model=folder, attention_config={"backend": backend}, **{**usual, **given})


def weights(model: Any) -> int:
    """Seeded random ones, the same in both engines: vLLM's dummy weights make attention vanish."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    gemma = "gemma" in type(model).__name__.lower()  # its norms multiply by 1 + weight
    tied = bool(getattr(getattr(model, "config", None), "tie_word_embeddings", False))
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if not weight.is_floating_point():
                continue
            if "norm" in name or name.endswith("ln_f.weight"):
                weight.fill_(0.0 if gemma else 1.0)
            elif weight.dim() >= 2:
                alone = ("embed" in name or "wte" in name) and not tied
                weight.normal_(0.0, 1.0 if alone else weight.shape[-1] ** -0.5, generator=generator)
            else:
                weight.normal_(0.0, 0.02, generator=generator)
    return len(list(model.parameters()))


def requests() -> list[list[list[int]]]:
    """Prompts, by what is asked at once."""
    rng = random.Random(1)

    def drawn(count: int) -> list[int]:
        return [rng.randrange(3, 2000) for _ in range(count)]

    shared = drawn(900)
    prompts = [drawn(n) for n in (1, 2, 7, 16, 17, 33, 100, 129, 250, 500, 777, 1024, 1500, 2500, 3900)]
    prompts += [shared[:n] + drawn(more) for n, more in ((880, 5), (880, 33), (400, 400))]
    prompts += [(shared[:20] * 40)[:n] for n in (300, 601)]
    return [prompts, prompts[3:6], [prompts[12]], prompts[15:18]]


def answers(engine: Any) -> list[tuple[list[int], list[dict[int, float]]]]:
    """Tokens of every request, and at each the log-probabilities of the likeliest."""
    from vllm import SamplingParams

    asked = SamplingParams(
        temperature=0.0, max_tokens=24, min_tokens=24, ignore_eos=True, detokenize=False, logprobs=20
    )
    found = []
    for prompts in requests():
        if engine.llm_engine.model_config.enable_sleep_mode:
            engine.sleep(level=1)
            engine.wake_up()
        for answer in engine.generate([{"prompt_token_ids": p} for p in prompts], asked, use_tqdm=False):
            (completion,) = answer.outputs
            steps = [{int(t): float(p.logprob) for t, p in step.items()} for step in completion.logprobs]
            found.append((list(completion.token_ids), steps))
    return found


def vectors(engine: Any) -> list[list[float]]:
    """An embedding of every request."""
    asked = [{"prompt_token_ids": prompt} for prompts in requests() for prompt in prompts]
    return [answer.outputs.embedding for answer in engine.embed(asked, use_tqdm=False)]


def compared_vectors(ours: Any, stock: Any) -> dict[str, Any]:
    """As `compared`, of embeddings, which are of length 1: parted where a cosine is below 0.999."""
    cosines = [sum(map(mul, mine, other)) for mine, other in zip(ours, stock, strict=True)]
    parted = [(number, 0, round(cosine, 4)) for number, cosine in enumerate(cosines) if not cosine >= 0.999]
    return {"answers": len(ours), "equal": len(ours) - len(parted), "parted": parted}


def compared(ours: Any, stock: Any) -> dict[str, Any]:
    """How many answers are equal; of the others (which, at which token, the distance of the candidates)."""
    parted = []
    for number, ((mine, steps), (other, _)) in enumerate(zip(ours, stock, strict=True)):
        at = next((i for i, pair in enumerate(zip(mine, other, strict=True)) if pair[0] != pair[1]), None)
        if at is not None:
            here, there = steps[at].get(mine[at]), steps[at].get(other[at])
            near = None if here is None or there is None else round(here - there, 4)
            parted.append((number, at, near))
    return {"answers": len(ours), "equal": len(ours) - len(parted), "parted": parted}


def repeated(said: Any) -> list[int]:
    """Requests that were asked before and got another first token then."""
    flat = [tuple(prompt) for prompts in requests() for prompt in prompts]
    first = {prompt: said[flat.index(prompt)][0][0] for prompt in flat}
    return [number for number, prompt in enumerate(flat) if said[number][0][0] != first[prompt]]


def one(name: str, output: Path) -> None:
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    folder = folder_of(name)
    os.environ["VLLM_CACHE_ROOT"] = f"{folder}/vllm"
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda inspect: inspect()
    if name not in WARM:
        import heurgen_kernels.servers.vllm.warm as warm

        warm.after = lambda _: None
    found: dict[str, Any] = {"name": name}
    said, pooling = {}, KINDS[name][3].get("runner") == "pooling"
    for backend in ("CUSTOM", "TRITON_ATTN"):
        began = time.perf_counter()
        engine = engine_of(name, folder, backend)
        found[f"{backend}_up_s"] = round(time.perf_counter() - began, 1)
        compiles = Compiles()
        engine.apply_model(weights)
        found[f"{backend}_layers"] = engine.apply_model(attention_of)[0]
        said[backend] = (vectors if pooling else answers)(engine)
        found[f"{backend}_compiles"] = {kernel: n for kernel, n in compiles.take().items() if n}
        # before the next is made: vLLM 0.33's takes the process groups with it when it goes
        engine.llm_engine.engine_core.shutdown()
        del engine
        gc.collect()
    found |= (compared_vectors if pooling else compared)(said["CUSTOM"], said["TRITON_ATTN"])
    if not pooling:
        found["again"] = {backend: repeated(answered) for backend, answered in said.items()}
    output.write_text(json.dumps(found) + "\n", encoding="utf-8")
    os._exit(0)


def apart(numbered: tuple[int, str], output: Path, gpus: list[str], at_once: int) -> str:
    """One model in a process of its own, on a GPU and some processors; returns a line about it."""
    number, name = numbered
    processors = sorted(os.sched_getaffinity(0))
    width = min(12, len(processors))
    first = number * len(processors) // at_once % (len(processors) - width + 1)
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)],
        "TRITON_CACHE_DIR": tempfile.mkdtemp(),
    }
    with (output / f"{name}.log").open("w") as log:
        subprocess.run(
            [sys.executable, __file__, "--one", "-o", str(output), name], env=environment, stdout=log, stderr=log,
            preexec_fn=lambda: os.sched_setaffinity(0, processors[first : first + width]), check=False,
        )  # fmt: skip
    done = output / f"{name}.json"
    return done.read_text(encoding="utf-8").strip() if done.exists() else f"{name}: failed, see {name}.log"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=18)
    parser.add_argument("models", nargs="*", default=list(KINDS), metavar="MODEL")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.models[0], given.output / f"{given.models[0]}.json")
        return
    import torch

    given.output.mkdir(parents=True, exist_ok=True)
    every = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", every).split(",")
    with ThreadPoolExecutor(given.at_once) as pool:
        for line in pool.map(
            lambda numbered: apart(numbered, given.output, gpus, given.at_once), enumerate(given.models)
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
