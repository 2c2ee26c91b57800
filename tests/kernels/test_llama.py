"""examples/llama.py beside a plain Llama in float32, written with torch alone and without a cache."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import llama
import llama_weights
from heurgen_kernels import ops

TINY = llama.Architecture(2, 128, 4, 2, 64, 192, 256)
SMALLER = llama.Architecture(2, 64, 2, 1, 64, 64, 256)  # for the interpreter
PROMPT, COUNT = 13, 5  # a token lies behind the end of a page


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """The interpreter runs the programs of a static grid one after another: as many as keys of 32 tokens need."""
    monkeypatch.setattr(ops, "GRAPH", ops.GRAPH._replace(num_segments=2))


def reference(a, weights, tokens):
    """Logits [batch, length, vocabulary] of one pass over all tokens [batch, length], in float32."""
    length = tokens.shape[1]
    pairs = torch.arange(a.head_size // 2)
    angles = torch.arange(length)[:, None] * a.theta ** (-2 * pairs / a.head_size)
    turns = torch.polar(torch.ones_like(angles), angles)
    seen = torch.ones(length, length).tril().bool()

    def norm(x, weight):
        return x / (x.pow(2).mean(-1, keepdim=True) + a.eps).sqrt() * weight.float()

    def heads(x, count):
        return x.view(*x.shape[:2], count, a.head_size)

    def turned(x):
        first, second = x.split(a.head_size // 2, -1)
        y = torch.complex(first, second) * turns[:, None]
        return torch.cat([y.real, y.imag], -1)

    h = weights.embedding.float()[tokens]
    sizes = [a.heads * a.head_size, a.kv_heads * a.head_size, a.kv_heads * a.head_size]
    for layer in weights.layers:
        q, k, v = (norm(h, layer.attention_norm) @ layer.qkv.float().T).split(sizes, -1)
        q, k, v = turned(heads(q, a.heads)), turned(heads(k, a.kv_heads)), heads(v, a.kv_heads)
        k, v = (x.repeat_interleave(a.heads // a.kv_heads, 2) for x in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / a.head_size**0.5
        weight = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        h = h + torch.einsum("bhqk,bkhd->bqhd", weight, v).flatten(2) @ layer.out.float().T
        gate, up = (norm(h, layer.mlp_norm) @ layer.gate_up.float().T).chunk(2, -1)
        h = h + (gate * gate.sigmoid() * up) @ layer.down.float().T
    return norm(h, weights.norm) @ weights.head.float().T


def generated(model, batch=2, count=COUNT, step=None):
    """(prompts and `count` tokens that followed, the logits that each of these was chosen from)."""
    prompts = torch.randint(256, (batch, PROMPT), generator=torch.Generator().manual_seed(5))
    state = llama.State(model, batch, PROMPT + count)
    logits = [model.prompt(prompts, state)]
    logits += [(step or model.decode)(state).clone() for _ in range(count - 1)]
    assert torch.equal(state.history[:, :PROMPT], prompts)
    assert torch.equal(state.positions + 1, state.lens)
    return state.history[:, : PROMPT + count], torch.stack(logits, 1)


def compare(tokens, logits, expected, limit):
    """Logits within `limit`, and tokens those of the reference wherever it prefers them by more than that."""
    expected = expected[:, PROMPT - 1 : -1]
    assert (logits.float() - expected).abs().max() < limit
    top = expected.topk(2).values
    clear = top[..., 0] - top[..., 1] > 2 * limit
    assert clear.float().mean() > 0.6
    assert torch.equal(tokens[:, PROMPT:][clear], expected.argmax(-1)[clear])


def model_of(backend, dtype, a=TINY):
    return llama.Llama(a, llama.random_weights(a, "cpu", dtype, 1), backend)


@pytest.mark.parametrize(
    ("backend", "dtype", "a", "limit"),
    [("sdpa", torch.float32, TINY, 1e-4), ("heurgen", torch.float16, SMALLER, 0.05)],
    ids=["sdpa", "heurgen"],
)
def test_prompt_and_decode_agree_with_one_pass(device, backend, dtype, a, limit):
    model = model_of(backend, dtype, a)
    tokens, logits = generated(model)
    assert logits.std() > 0.5
    compare(tokens, logits, reference(a, model.weights, tokens), limit)


@pytest.mark.parametrize(("backend", "layers"), [("sdpa", 2), ("heurgen", 1)])
def test_a_step_is_traced_without_a_break(device, backend, layers):
    """In parts, as the example compiles it, and as one graph of all layers."""
    model = model_of(backend, torch.float16, dataclasses.replace(SMALLER, layers=layers))
    tokens, _ = generated(model, 1, 2)
    whole = torch.compile(model.decode, fullgraph=True, dynamic=False, backend="aot_eager")
    assert torch.equal(generated(model, 1, 2, whole)[0], tokens)
    model.compile(backend="aot_eager")
    assert torch.equal(generated(model, 1, 2)[0], tokens)


def test_kept_logits_are_those_of_a_pass(device):
    model = model_of("sdpa", torch.float32)
    tokens, _ = generated(model)
    kept = torch.tensor([4, 17, 18, 35])
    state = llama.State(model, 2, PROMPT + COUNT)
    expected = reference(TINY, model.weights, tokens).flatten(0, 1)[kept]
    assert torch.allclose(model.prompt(tokens, state, kept), expected, atol=1e-4)


@pytest.mark.parametrize(("heads", "heads_kv", "size"), [(4, 2, 64), (3, 3, 40), (5, 1, 16)])
def test_the_kernel_turns_and_stores(device, heads, heads_kv, size):
    a = dataclasses.replace(TINY, heads=heads, kv_heads=heads_kv, head_size=size)
    generator = torch.Generator().manual_seed(2)
    qkv = torch.randn(7, (heads + 2 * heads_kv) * size, generator=generator).half().to(device)
    angles = torch.randn(7, size // 2, generator=generator).to(device)
    slots = torch.tensor([17, 3, 0, 31, 8, 47, 20], device=device)
    caches = [torch.full((3, 16, heads_kv, size), 9.0, dtype=torch.float16, device=device) for _ in "kv"]
    q = torch.ops.heurgen_llama.turn_and_store(qkv, angles.cos(), angles.sin(), slots, *caches)
    place = llama.Place(angles.cos(), angles.sin(), slots, None, slots, slots, slots, 1, 0, False)
    expected = llama.turned(a, qkv, place)
    assert torch.allclose(q, expected[0], atol=2e-3)
    for cache, right in zip(caches, expected[1:], strict=True):
        flat = cache.flatten(0, 1)
        assert torch.allclose(flat[slots], right, atol=2e-3)
        flat[slots] = 9.0
        assert (flat == 9.0).all()


def test_the_best_of_a_row_is_its_first_greatest():
    logits = torch.randn(5, 768, generator=torch.Generator().manual_seed(0))
    assert torch.equal(llama.best(logits), logits.argmax(-1))
    assert torch.equal(llama.best(logits[:, :7]), logits[:, :7].argmax(-1))


@pytest.mark.parametrize("tied", [False, True])
def test_a_checkpoint_gives_the_logits_of_transformers(tmp_path, tied):
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("Transformers is not installed")
    from transformers import LlamaConfig, LlamaForCausalLM

    rope = {"rope_type": "llama3", "rope_theta": 3000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip
    torch.manual_seed(0)
    theirs = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=64, vocab_size=256, initializer_range=0.2, tie_word_embeddings=tied, rms_norm_eps=1e-4,
            rope_parameters=rope if tied else {"rope_type": "default", "rope_theta": 7000.0},
        )
    ).eval()  # fmt: skip
    theirs.save_pretrained(tmp_path, max_shard_size="300KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    a, weights = llama_weights.load(tmp_path, "cpu", torch.float32)
    model = llama.Llama(a, weights, "sdpa")
    tokens, logits = generated(model)
    with torch.no_grad():
        expected = theirs(tokens).logits[:, PROMPT - 1 : -1]
    assert torch.allclose(logits, expected, atol=1e-3)
    assert torch.equal(tokens[:, PROMPT:], expected.argmax(-1))


@pytest.mark.parametrize(
    ("name", "value"),
    [("model_type", "qwen2"), ("hidden_act", "gelu"), ("mlp_bias", True), ("rope_scaling", {"type": "yarn"})],
)
def test_what_is_not_computed_is_refused(name, value):
    config = {"model_type": "llama", name: value}
    with pytest.raises(ValueError, match="this file computes"):
        llama_weights.architecture(config)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what it says without a GPU")
def test_without_a_gpu_the_example_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["llama.py", "--layers", "1"])
    with pytest.raises(SystemExit):
        llama.main()
    assert "there is no GPU that torch can use" in capsys.readouterr().err
