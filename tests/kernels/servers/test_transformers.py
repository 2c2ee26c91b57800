"""Tokens of a tiny model are those of Transformers' own `eager` attention, in `generate` and in continuous batching."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

if importlib.util.find_spec("transformers") is None:
    pytest.skip("Transformers is not installed", allow_module_level=True)

import transformers as hf  # models when they are asked for: they take seconds
from heurgen_kernels.servers import transformers as ours

EXAMPLE = Path(__file__).parents[3] / "examples" / "serve_transformers.py"
RELEASE = [int(part) for part in hf.__version__.split(".")[:2]]
GREEDY = hf.GenerationConfig(max_new_tokens=2, do_sample=False, eos_token_id=-1, pad_token_id=0)
SMALL = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 99, "max_position_embeddings": 64,
    "initializer_range": 0.3, "sliding_window": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(device):
    ours.register()
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=99, max_position_embeddings=256, initializer_range=0.3,
    )  # fmt: skip
    return hf.LlamaForCausalLM(config).to(device, torch.float16).eval()


@pytest.fixture
def launches(monkeypatch):
    """Keywords of the launches of our kernels."""
    calls, real = [], ours.paged_attention

    def spy(*args, **kwargs):
        calls.append((args, kwargs))
        return real(*args, **kwargs)

    monkeypatch.setattr(ours, "paged_attention", spy)
    return calls


def prompts(device, *lengths):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, 99, (n,), generator=generator).to(device) for n in lengths]


def generated(model, implementation, ids, **more):
    model.set_attn_implementation(implementation)
    return model.generate(ids, GREEDY, **more)[:, ids.shape[1] :].tolist()


def test_generate_gives_the_tokens_of_eager(model, device, launches):
    ids = torch.stack(prompts(device, 9, 9))
    assert generated(model, "heurgen", ids) == generated(model, "eager", ids)
    # each layer: the prompt, then a step for each further token
    assert [call[1]["max_seqlen_q"] for call in launches] == [9, 9, 1, 1]


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3", "Mistral", "Gemma", "Gemma2", "Phi3"])
def test_models_that_are_served_most_launch_the_kernels(family, device, launches):
    """A keyword, a mask or a class that the plugin does not know would leave all of their attention to `sdpa`."""
    ours.register()
    model = getattr(hf, f"{family}ForCausalLM")(getattr(hf, f"{family}Config")(**SMALL))
    ids = torch.stack(prompts(device, 9, 9))
    generated(model.to(device, torch.float16).eval(), "heurgen", ids, attention_mask=torch.ones_like(ids))
    assert [call[1]["max_seqlen_q"] for call in launches] == [9, 9, 1, 1]


@pytest.mark.parametrize("family", ["Mistral", "Gemma2"])
def test_decodes_behind_a_window_launch_the_kernels(family, device, launches):
    """Their cache keeps the window's keys alone, and `sdpa_mask` made a mask that hides none of them, as it does where
    `generate` keeps a tokenizer's mask without padding (before 5.18).
    """
    ours.register()
    torch.manual_seed(0)
    model = getattr(hf, f"{family}ForCausalLM")(getattr(hf, f"{family}Config")(**SMALL))
    model = model.to(device, torch.float16).eval()
    (ids,) = (given[None] for given in prompts(device, 15))
    assert generated(model, "heurgen", ids, max_new_tokens=5) == generated(
        model, "eager", ids, max_new_tokens=5
    )
    assert [call[1]["max_seqlen_q"] for call in launches] == [15] * 2 + [1] * 8
    assert max(call[1]["max_seqlen_k"] for call in launches) == (16 if family == "Mistral" else 19)


@torch.no_grad()
@pytest.mark.parametrize("family", ["Mistral", "Gemma2", "GptOss"])
def test_prompts_longer_than_a_window_and_their_next_tokens_launch_the_kernels(family, device, launches):
    """Such a mask is known to be the window; so is that of several new tokens behind cached ones, causal."""
    ours.register()
    torch.manual_seed(0)
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1} if family == "GptOss" else {}
    config = getattr(hf, f"{family}Config")(**SMALL, **experts)
    model = getattr(hf, f"{family}ForCausalLM")(config).to(device, torch.float16).eval()
    ids = torch.stack(prompts(device, 40, 40))
    found = {}
    for name in ("eager", "heurgen"):
        model.set_attn_implementation(name)
        first = model(ids[:, :25], use_cache=True)
        cache = first.past_key_values
        parts = [
            first.logits,
            *(model(ids[:, a:b], past_key_values=cache).logits for a, b in ((25, 30), (30, 40))),
        ]
        found[name] = torch.cat(parts, 1).float()
    off = torch.linalg.norm(found["heurgen"] - found["eager"]) / torch.linalg.norm(found["eager"])
    assert off < 0.02
    assert [call[1]["max_seqlen_q"] for call in launches] == [25, 25, 5, 5, 10, 10]
    windows = {call[1]["window"] for call in launches}
    assert windows == ({(15, -1)} if family == "Mistral" else {(15, -1), (-1, -1)})


def test_compiled_models_launch_the_kernels(model, device, launches):
    """torch.compile followed a launch into Triton's dispatch."""
    model.set_attn_implementation("heurgen")
    ids, cache = torch.stack(prompts(device, 9, 9)), hf.DynamicCache(config=model.config)
    with torch.no_grad():
        expected = model(input_ids=ids).logits
        found = torch.compile(model.forward, backend="eager")(input_ids=ids, past_key_values=cache).logits
    assert torch.equal(found, expected)
    assert [call[1]["max_seqlen_q"] for call in launches] == [9] * 4


def test_padding_is_left_to_sdpa(model, device, launches):
    long, short = prompts(device, 12, 5)
    ids = torch.stack([long, torch.cat([torch.zeros(7, dtype=torch.long, device=device), short])])
    mask = (ids != 0).long()
    found = generated(model, "heurgen", ids, attention_mask=mask)
    assert found == generated(model, "eager", ids, attention_mask=mask)
    assert launches == []


def gemma(device, **more):
    config = hf.Gemma2Config(**{**SMALL, **more}, query_pre_attn_scalar=16, attn_logit_softcapping=5.0)
    return hf.Gemma2ForCausalLM(config).to(device, torch.float16).eval()


def gpt_oss(device):
    made = hf.GptOssForCausalLM(hf.GptOssConfig(**SMALL, num_local_experts=2, num_experts_per_tok=1))
    return made.to(device, torch.float16).eval()


@pytest.mark.parametrize("made", [gemma, gpt_oss])
def test_soft_caps_and_sinks_where_the_kernels_do_not_serve(made, device, launches):
    """Padding on either side, a prompt longer than the window, a static cache: of layers that sdpa does not have."""
    ours.register()
    torch.manual_seed(0)
    model = made(device)
    ids = torch.stack(prompts(device, 9, 9))
    for padding in (slice(0, 5), slice(5, 9)):
        mask = torch.ones_like(ids)
        mask[1, padding] = 0
        found = generated(model, "heurgen", ids, attention_mask=mask)
        assert found == generated(model, "eager", ids, attention_mask=mask)
    assert launches == []
    static = {"past_key_values": hf.StaticCache(model.config, max_cache_len=16)}
    expected = generated(model, "eager", ids)
    assert generated(model, "heurgen", ids, **static) == expected
    assert launches == []
    (ids,) = (given[None] for given in prompts(device, 40))
    assert generated(model, "heurgen", ids) == generated(model, "eager", ids)


def test_a_soft_cap_as_good_as_none_is_the_models_own(device, launches):
    """The kernels refuse it, since their tanh would be too coarse."""
    ours.register()
    torch.manual_seed(0)
    model = gemma(device)
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = 1e6
    (ids,) = (given[None] for given in prompts(device, 9))
    assert generated(model, "heurgen", ids) == generated(model, "eager", ids)
    assert launches == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="of Triton's interpreter")
def test_bfloat16_is_not_interpreted(model, launches):
    (ids,) = (given[None] for given in prompts("cpu", 9))
    rounded = type(model)(model.config).to(torch.bfloat16).eval()
    assert generated(rounded, "heurgen", ids) == generated(rounded, "eager", ids)
    assert launches == []


def test_a_bias_of_positions_is_left_to_sdpa(device, launches):
    """T5 adds one to its scores, and hands it over as a keyword of its own."""
    ours.register()
    torch.manual_seed(0)
    config = hf.T5Config(
        d_model=64, d_kv=16, d_ff=64, num_layers=2, num_heads=4, vocab_size=99, initializer_factor=2.0,
        decoder_start_token_id=1,
    )  # fmt: skip
    model = hf.T5ForConditionalGeneration(config).to(device, torch.float16).eval()
    ids, before = prompts(device, 9, 5)
    logits = []
    for implementation in ("heurgen", "eager"):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            logits.append(model(input_ids=ids[None], decoder_input_ids=before[None]).logits.float())
    assert torch.linalg.norm(logits[0] - logits[1]) < 0.05 * torch.linalg.norm(logits[1])
    assert launches == []


def test_images_of_a_vision_tower_do_not_see_each_other(device):
    """Under the name for continuous batching, with "flash" in it, they come as one sequence and where each starts."""
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel

    torch.manual_seed(0)
    config = Qwen2VLVisionConfig(
        depth=1, embed_dim=64, hidden_size=64, num_heads=4, mlp_ratio=1, patch_size=4, initializer_range=0.3
    )
    tower = Qwen2VisionTransformerPretrainedModel(config).to(device, torch.float16).eval()
    grid, pixels = torch.tensor([[1, 4, 4], [1, 2, 4]]), torch.randn(24, 96).half()
    with torch.no_grad():
        tower.set_attn_implementation("eager")
        expected = tower(pixels.to(device), grid_thw=grid.to(device)).last_hidden_state.float()
        ours.continuous(tower)
        found = tower(pixels.to(device), grid_thw=grid.to(device)).last_hidden_state.float()
    assert torch.linalg.norm(found - expected) < 0.01 * torch.linalg.norm(expected)


def test_a_value_that_is_trained_alone_gets_its_gradient(device, launches):
    query, key, value = torch.randn(3, 1, 2, 5, 16, device=device).half()
    value.requires_grad_(True)
    out, _ = ours.attention(torch.nn.Module(), query, key, value, None)
    out.float().sum().backward()
    assert value.grad is not None
    assert launches == []


def test_queries_that_sequences_share_are_left_to_sdpa(device, launches):
    query, key, value = (torch.randn(batch, 2, 5, 16, device=device).half() for batch in (1, 3, 3))
    found, _ = ours.attention(torch.nn.Module(), query, key, value, None, is_causal=False)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)
    assert torch.equal(found, expected)
    assert launches == []


@pytest.mark.parametrize(
    ("given", "launched"),
    [({}, 1), ({"use_cache": True}, 1), ({"biased": None, "scaled": False}, 1), ({"scaled": 2}, 0),
     ({"heads": "two"}, 0), ({"biased": torch.ones(5)}, 0)],
)  # fmt: skip
def test_keywords_that_are_not_known_are_left_to_sdpa(device, launches, given, launched, caplog):
    """Of any type: what a release adds is not guessed at."""
    query, key, value = torch.randn(3, 1, 2, 5, 16, device=device).half()
    ours._told.clear()
    with caplog.at_level("INFO", "transformers.heurgen"):
        found, _ = ours.attention(layer_of_llama(), query, key, value, None, **given)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert torch.allclose(found, expected.transpose(1, 2), atol=2e-3)
    assert len(launches) == launched
    said = [f"heurgen leaves attention to Transformers: layers with {name}" for name in given]
    assert [record.getMessage() for record in caplog.records] == ([] if launched else said)


def layer_of_llama():
    from transformers.models.llama.modeling_llama import LlamaAttention

    config = hf.LlamaConfig(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=2, attn_implementation="heurgen"
    )
    return LlamaAttention(config, 0)


def test_what_nobody_has_is_said(device):
    states = torch.randn(1, 2, 5, 16, device=device).half()
    with pytest.raises(NotImplementedError, match="Module asks for attention that sdpa does not have"):
        ours.attention(torch.nn.Module(), states, states, states, None, dropout=0.5, softcap=5.0)


def answers_of(model, requests, pages):
    """Tokens of each request in continuous batching."""
    found = model.generate_batch(requests, GREEDY, continuous_batching_config=pages)
    return [found[name].generated_tokens for name in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("max_batch_tokens", [64, 16])
def test_continuous_batching_gives_the_tokens_of_eager(model, device, launches, max_batch_tokens):
    """With 16 tokens a batch prompts are cut into chunks, and chunks share a batch with decodes."""
    requests = [ids.tolist() for ids in prompts(device, 5, 27)]
    pages = hf.ContinuousBatchingConfig(
        16,
        num_blocks=16,
        max_batch_tokens=max_batch_tokens,
        use_async_batching=False,
        use_cuda_graph=False,
    )

    model.set_attn_implementation("paged|eager")
    expected = answers_of(model, requests, pages)
    assert answers_of(ours.continuous(model), requests, pages) == expected
    pool = {call[0][1].untyped_storage().data_ptr() for call in launches}
    assert (
        len(pool) <= 2
    )  # pages are read where they are: K of all layers lies in one tensor, before 5.18 in one each
    fresh = [call[1].get("has_prefix") is False for call in launches]
    assert any(fresh) or RELEASE < [5, 9]  # which read new tokens back
    assert not all(fresh)


def llama(device, dtype=torch.float16, **more):
    config = hf.LlamaConfig(**{**{name: SMALL[name] for name in SMALL if name != "sliding_window"}, **more})
    return hf.LlamaForCausalLM(config).to(device, dtype).eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        lambda device: llama(device, head_dim=20),
        lambda device: llama(device, torch.float32),
        lambda device: gemma(device, head_dim=12),
    ],
    ids=["heads of 20", "float32", "windows and soft caps"],
)
def test_continuous_batching_of_what_the_kernels_lack(made, device, launches, caplog):
    """It ended without an answer: the error of a batch ends Transformers' thread of requests."""
    torch.manual_seed(0)
    model = made(device)
    requests = [ids.tolist() for ids in prompts(device, 5, 27)]
    pages = hf.ContinuousBatchingConfig(
        16, num_blocks=16, max_batch_tokens=16, use_async_batching=False, use_cuda_graph=False
    )

    model.set_attn_implementation("paged|eager")
    expected = answers_of(model, requests, pages)
    assert [len(tokens) for tokens in expected] == [2, 2]
    ours._told.clear()
    with caplog.at_level("INFO", "transformers.heurgen"):
        assert answers_of(ours.continuous(model), requests, pages) == expected
    assert launches == []
    said = [record for record in caplog.records if "leaves attention to Transformers" in record.getMessage()]
    assert len(said) == 1


def test_a_layer_that_is_not_handed_the_cache_of_a_batch_says_so(device):
    """StableLM drops it on the way: requests, one behind the other, would see each other."""

    class Model(torch.nn.Module):
        def forward(self, cache=None):
            states = torch.randn(1, 2, 5, 16, device=device).half()
            return ours.attention(self, states, states, states, None)[0]

    dropping = ours.continuous(Model())
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="Model is not handed the cache of generate_batch"):
            dropping(cache=SimpleNamespace(layer_to_allocator={}))
        assert dropping().shape == (1, 5, 2, 16)
    states = torch.randn(1, 2, 5, 16, device=device).half()
    with pytest.raises(NotImplementedError, match="Module is not handed the cache"):
        ours.paged(torch.nn.Module(), states, states, states, None, scaling=1.0)


def test_a_batch_leaves_its_cache_the_update_that_it_had(monkeypatch):
    """A kept manager hands its cache to what the model's attention is next, which saw a batch's new tokens alone."""
    monkeypatch.setattr(ours, "layers_update", lambda: True)

    class Pages:
        def __init__(self):
            self.layer_to_allocator = {}

        def update(self, key, value, layer_idx, kwargs):
            return "all tokens"

    class Model(torch.nn.Module):
        config = hf.LlamaConfig()

        def forward(self, cache):
            return cache.update("new", "new", 0, {})

    model, cache = ours.continuous(Model()), Pages()
    with pytest.raises(NotImplementedError, match="compute attention without heurgen"):
        model(cache=cache)
    model.config._attn_implementation = "flash_attention_3"
    assert model(cache=cache) == "all tokens"


@pytest.mark.parametrize("name", ["Bloom", "Falcon", "Mpt"])
def test_continuous_batching_of_models_that_compute_attention_on_their_own(name):
    """Transformers hands them its batch all the same, and each request saw those before it."""
    small = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 99}
    config = getattr(hf, f"{name}Config")(**small)
    model = getattr(hf, f"{name}ForCausalLM")(config)
    before = model.config._attn_implementation
    expected = f"^{name}ForCausalLM computes attention on its own, in which requests of generate_batch would see each"
    with pytest.raises(NotImplementedError, match=expected + " other: take generate$"):
        ours.continuous(model)
    assert model.config._attn_implementation == before


def test_continuous_leaves_towers_that_compute_attention_on_their_own():
    """The text of a batch does not come to them."""

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.text, self.tower = (
                llama("cpu"),
                hf.MptForCausalLM(hf.MptConfig(d_model=64, n_layers=1, n_heads=2)),
            )
            self.config = self.text.config

    model = ours.continuous(Both())
    assert model.text.config._attn_implementation == ours.batched_name()
    assert model.tower.config._attn_implementation == "eager"


def test_a_layer_that_asks_a_batch_for_what_its_cache_cannot_say():
    """Doge's mask was ignored, and DiffLlama's second call of a layer wrote its values over the first one's."""

    class Model(torch.nn.Module):
        def __init__(self, calls, mask=None):
            super().__init__()
            self.layer_idx, self.calls, self.mask = 3, calls, mask

        def forward(self, cache=None):
            for _ in range(self.calls):
                ours._check_batch(self, self.mask)

    cache = SimpleNamespace(layer_to_allocator={})
    for _ in range(2):  # each batch begins anew
        ours.continuous(Model(1))(cache=cache)
    attends = "Model attends twice, with other values, in generate_batch"
    with pytest.raises(NotImplementedError, match=attends):
        ours.continuous(Model(2))(cache=cache)
    with pytest.raises(NotImplementedError, match="Model has a mask of its own in generate_batch"):
        ours.continuous(Model(1, torch.ones(1, 1, 5, 5)))(cache=cache)


@pytest.mark.slow
def test_the_example_runs(capsys):
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 32
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    words = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["generate", "req_0", "req_1"]


def test_a_block_table_says_which_page_each_token_is_on():
    read = torch.tensor([32, 33, 34, 35, 8, 9, 100, 101, 102])  # pages of 4: 8, 2 and 25
    ends = torch.tensor([0, 6, 9], dtype=torch.int32)
    table = ours.block_table(read, ends, 6, 4)
    assert table.tolist() == [[8, 2], [25, 25]]
