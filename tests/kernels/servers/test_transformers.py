"""Tokens of a tiny model are those of Transformers' own `eager` attention in `generate`."""

from __future__ import annotations

import importlib.util

import pytest
import torch

if importlib.util.find_spec("transformers") is None:
    pytest.skip("Transformers is not installed", allow_module_level=True)

import transformers as hf  # models when they are asked for: they take seconds
from heurgen_kernels.servers import transformers as ours

from tests.kernels.servers.tiny_models import SMALL, gemma, generated, gpt_oss, prompts


def test_generate_gives_the_tokens_of_eager(model, device, launches):
    ids = torch.stack(prompts(device, 9, 9))
    assert generated(model, "heurgen", ids) == generated(model, "eager", ids)
    # each layer: the prompt; the step for the further token is sdpa's
    assert [call[1]["max_seqlen_q"] for call in launches] == [9, 9]


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3", "Mistral", "Gemma", "Gemma2", "Phi3"])
def test_models_that_are_served_most_launch_the_kernels(family, device, launches):
    """A keyword, a mask or a class that the plugin does not know would leave all of their attention to `sdpa`."""
    ours.register()
    model = getattr(hf, f"{family}ForCausalLM")(getattr(hf, f"{family}Config")(**SMALL))
    ids = torch.stack(prompts(device, 9, 9))
    generated(model.to(device, torch.float16).eval(), "heurgen", ids, attention_mask=torch.ones_like(ids))
    capped = family == "Gemma2"
    assert [call[1]["max_seqlen_q"] for call in launches] == ([9, 9, 1, 1] if capped else [9, 9])


@pytest.mark.parametrize("family", ["Mistral", "Gemma2"])
def test_decodes_behind_a_window_have_no_mask(family, device, launches, monkeypatch):
    """Their cache keeps the window's keys alone, and `sdpa_mask` made a mask that hides none of them, as it does where
    `generate` keeps a tokenizer's mask without padding (before 5.18). With a mask they would be slow in `sdpa`, and
    with a soft cap the model's `eager`.
    """
    masks, real = [], ours.sdpa()

    def spy(module, query, key, value, mask, **more):
        masks.append(mask)
        return real(module, query, key, value, mask, **more)

    monkeypatch.setattr(ours, "sdpa", lambda: spy)
    ours.register()
    torch.manual_seed(0)
    model = getattr(hf, f"{family}ForCausalLM")(getattr(hf, f"{family}Config")(**SMALL))
    model = model.to(device, torch.float16).eval()
    (ids,) = (given[None] for given in prompts(device, 15))
    assert generated(model, "heurgen", ids, max_new_tokens=5) == generated(
        model, "eager", ids, max_new_tokens=5
    )
    capped = family == "Gemma2"
    assert [call[1]["max_seqlen_q"] for call in launches] == [15] * 2 + [1] * 8 * capped
    assert max(call[1]["max_seqlen_k"] for call in launches) == (19 if capped else 15)
    assert masks == [None] * 8 * (not capped)


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
