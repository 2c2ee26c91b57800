"""Masks under our names: of models that compute attention on their own, and where queries are fewer than keys."""

from __future__ import annotations

import copy
import importlib.util
import re

import pytest
import torch

if importlib.util.find_spec("transformers") is None:
    pytest.skip("Transformers is not installed", allow_module_level=True)

import transformers as hf  # models when they are asked for: they take seconds
from heurgen_kernels.servers import transformers as ours
from heurgen_kernels.servers.transformers import masks
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.masking_utils import sliding_window_causal_mask_function

IDS = torch.randint(3, 99, (2, 12), generator=torch.Generator().manual_seed(3))


def of_release(name):
    """A class of Transformers, where this release has it."""
    if not hasattr(hf, name):
        pytest.skip(f"Transformers {hf.__version__} has no {name}")
    return getattr(hf, name)


def both(model, config, device, dtype=torch.float32):
    """The same model with `eager` and with ours, its weights large enough for attention to matter."""
    ours.register()
    torch.manual_seed(0)
    eager, found = (
        model._from_config(copy.deepcopy(config), attn_implementation=name).to(device, dtype).eval()
        for name in ("eager", "heurgen")
    )
    for weights in eager.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.2)
    found.load_state_dict(eager.state_dict())
    return eager, found


def assert_close(found, expected):
    found, expected = found.float(), expected.float()
    assert torch.linalg.norm(found - expected) < 0.02 * torch.linalg.norm(expected)


@torch.no_grad()
def test_a_model_that_computes_attention_on_its_own_gets_masks_to_add(device):
    """Bloom added a mask of bool, or none: every token saw the ones after it."""
    config = hf.BloomConfig(vocab_size=99, hidden_size=64, n_layer=2, n_head=4, pad_token_id=0)
    eager, found = both(hf.BloomForCausalLM, config, device)
    ids = IDS.to(device)
    padding = torch.ones_like(ids)
    padding[1, :5] = 0
    for mask in (None, padding):
        seen = slice(None) if mask is None else mask.bool()
        given = {"input_ids": ids, "attention_mask": mask}
        assert_close(found(**given).logits[seen], eager(**given).logits[seen])


@torch.no_grad()
def test_a_layer_that_does_not_say_that_it_is_not_causal(device):
    """Splinter's encoder has no mask without padding, and each token saw those before it alone."""
    config = hf.SplinterConfig(
        vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    eager, found = both(hf.SplinterModel, config, device)
    ids = IDS.to(device)
    assert_close(found(ids).last_hidden_state, eager(ids).last_hidden_state)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Llama", True),
        ("GptOss", True),
        ("Gemma2", True),
        ("Bloom", False),
        ("Git", False),
        ("DeepseekV4", False),
    ],
)
def test_which_models_hand_their_attention_over(name, expected):
    """GIT's text and DeepSeek V4's compressor have masks of their own to add or to join, though a layer hands over;
    Pegasus-X's layers do not say that they are not causal.
    """
    model = of_release(f"{name}Model")  # its classes are imported, as those of a model that runs are
    assert masks.hands_over(model.config_class()) is expected


def test_models_of_another_config_and_configs_of_no_model():
    parts = hf.T5GemmaModel.config_class()
    assert masks.hands_over(parts.decoder) is True
    assert masks.hands_over(hf.PreTrainedConfig()) is False
    assert masks.hands_over(of_release("InternLM3Config")()) is True  # Llama's


def gemma4():
    return hf.Gemma4TextConfig(
        vocab_size=99, vocab_size_per_layer_input=99, hidden_size=64, hidden_size_per_layer_input=16,
        intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        global_head_dim=16, num_kv_shared_layers=2, sliding_window=32, max_position_embeddings=64,
        layer_types=["sliding_attention", "full_attention"] * 2, pad_token_id=0,
    )  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["kernels", "sdpa"])
def test_layers_that_compute_the_last_tokens_alone(device, dtype):
    """Gemma 4 drops queries of layers that share K and V: what is left was taken for a prompt's first tokens."""
    eager, found = both(hf.Gemma4ForCausalLM, gemma4(), device, dtype)
    ids = IDS.to(device)
    for cache in (lambda model: None, lambda model: hf.StaticCache(model.config, max_cache_len=24)):
        logits = []
        for model in (eager, found):
            past = model(ids, past_key_values=cache(model), logits_to_keep=4, use_cache=True)
            more = model(ids[:, :5], past_key_values=past.past_key_values, logits_to_keep=3)
            logits.append(torch.cat([past.logits, more.logits], 1))
        assert_close(logits[1], logits[0])


SPARSE = {
    "vocab_size": 99, "hidden_size": 64, "intermediate_size": 64, "moe_intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "index_n_heads": 2,
    "index_head_dim": 16,
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("name", ["DeepseekV32", "HYV4"])
def test_keys_that_an_indexer_chose(device, name):
    """They put them into the mask under `eager` and `sdpa`, and hand their indices to others. HY V4 has sinks, too."""
    config = of_release(f"{name}Config")(
        **SPARSE, index_topk=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16,
        num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
    )  # fmt: skip
    eager, found = both(getattr(hf, f"{name}Model"), config, device)
    ids = IDS.to(device)
    assert_close(found(ids).last_hidden_state, eager(ids).last_hidden_state)


@torch.no_grad()
def test_blocks_that_an_indexer_chose_are_refused(device):
    """MiniMax M3 hands those over; every key was seen."""
    config = of_release("MiniMaxM3VLTextConfig")(
        **SPARSE, num_key_value_heads=2, head_dim=16, rotary_dim=8, index_block_size=2, index_topk_blocks=1,
        num_local_experts=4, num_experts_per_tok=2, layer_types=["minimax_m3_sparse", "full_attention"],
    )  # fmt: skip
    _, found = both(hf.MiniMaxM3VLTextModel, config, device)
    expected = (
        "MiniMaxM3VLAttention hands over block_indices, which heurgen does not know: take "
        'attn_implementation="sdpa"'
    )
    with pytest.raises(NotImplementedError, match=f"^{re.escape(expected)}$"):
        found(IDS.to(device))


def test_chosen_keys_leave_a_mask_its_type():
    mask = torch.ones(1, 1, 2, 3, dtype=torch.bool).tril(1)
    chosen = torch.tensor([[[0, 2], [1, 2]]], dtype=torch.int32)
    assert masks.chosen_mask(mask, chosen, 3)[0, 0].int().tolist() == [[1, 0, 0], [0, 1, 1]]
    hidden = torch.finfo(torch.float16).min
    added = torch.zeros(1, 1, 2, 3, dtype=torch.float16).masked_fill(~mask, hidden)
    assert masks.chosen_mask(added, chosen, 3)[0, 0].tolist() == [[0, hidden, hidden], [hidden, 0, 0]]


def test_no_mask_says_that_the_last_token_sees_every_key():
    given = {"batch_size": 1, "config": hf.LlamaModel.config_class()}
    assert masks.mask(q_length=5, kv_length=5, **given) is None
    assert masks.mask(q_length=1, kv_length=5, q_offset=4, **given) is None
    static = masks.mask(q_length=2, kv_length=4, **given)
    assert static[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]
    added = masks.mask(q_length=2, kv_length=2, batch_size=1, config=hf.BloomModel.config_class())
    assert (added[0, 0] == 0).int().tolist() == [[1, 0], [1, 1]]


def test_no_mask_where_keys_are_a_window():
    """As a sliding cache keeps them: all that the new token sees. A chunk's keys are not all of its own."""
    window = hf.MistralModel.config_class(sliding_window=4)
    chunk = hf.Llama4TextModel.config_class(attention_chunk_size=4)
    given = {"batch_size": 1, "q_length": 1, "kv_length": 4, "q_offset": 9, "local_size": 4}
    assert masks.mask(config=window, kv_offset=6, **given) is None
    padding = torch.ones(1, 10, dtype=torch.bool)
    assert masks.mask(config=window, kv_offset=6, attention_mask=padding, **given) is None
    padding[0, 6] = False
    for more in (
        {"config": chunk, "kv_offset": 6}, {"config": window, "kv_offset": 5},
        {"config": window, "kv_offset": 6, "attention_mask": padding},
        {"config": window, "kv_offset": 6, "allow_is_causal_skip": False},
        {"config": window, "kv_offset": torch.tensor(6)}, {"config": window, "kv_offset": 5, "kv_length": 5},
    ):  # fmt: skip
        assert masks.mask(**{**given, **more}) is not None


def test_masks_that_are_causal_and_nothing_else_are_known():
    """Of as many queries and keys as they were made for, and as they were made."""
    window = hf.MistralModel.config_class(sliding_window=4)
    given = {"batch_size": 2, "q_length": 3, "kv_length": 8, "q_offset": 5, "kv_offset": 0, "config": window}
    query, key = torch.empty(2, 4, 3, 16), torch.empty(2, 2, 8, 16)
    sliding = sliding_window_causal_mask_function(4)

    def left(change=lambda mask: mask, **more):
        return masks.left_of(change(masks.mask(**{**given, **more})), query, key)

    assert left() == -1
    assert left(local_size=4, mask_function=sliding) == 3
    assert left(local_size=5) is None  # whose it is nobody says
    assert left(allow_is_causal_skip=False) is None
    assert left(attention_mask=torch.ones(2, 8, dtype=torch.bool)) == -1
    assert left(attention_mask=torch.ones(2, 9, dtype=torch.int64)) == -1
    assert left(attention_mask=torch.ones(2, 7, dtype=torch.bool)) is None  # of a static cache
    assert left(attention_mask=torch.tensor([[1] * 8, [0] + [1] * 7])) is None
    assert left(q_offset=4) is None
    assert left(lambda mask: mask[:, :, :, :8]) is None
    assert left(lambda mask: mask | mask) is None
    assert left(q_length=4, q_offset=4) is None  # for other queries
    assert left(config=hf.Llama4TextModel.config_class(attention_chunk_size=4), local_size=4) is None
    assert left(config=hf.GemmaModel.config_class(use_bidirectional_attention=True)) is None


def test_a_causal_mask_is_made_where_layers_say_that_they_are_not_causal():
    """PaliGemma's prompts see what follows: without token types they do not, and the mask alone says so."""
    config = hf.GemmaModel.config_class(use_bidirectional_attention=True)
    found = masks.mask(q_length=2, kv_length=2, batch_size=1, config=config)
    assert found[0, 0].int().tolist() == [[1, 0], [1, 1]]


def test_a_batch_of_requests_has_no_mask():
    """Its cache says what each token sees; a mask of every pair of tokens was made for each batch, and not read."""
    given = {"batch_size": 1, "config": hf.LlamaModel.config_class(), "allow_is_causal_skip": False}
    assert masks.mask(q_length=5, kv_length=5, **given) is not None
    masks.batching.layers = set()
    try:
        assert masks.mask(q_length=5, kv_length=5, **given) is None
    finally:
        masks.batching.layers = None


def test_steps_over_a_static_cache_compile_to_one_graph(device):
    """As `generate` compiles them: a ContextVar broke the graph twice a layer, classes of models once a mask."""
    ours.register()
    size = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 99}
    config = hf.LlamaConfig(**size, num_hidden_layers=2)
    made = hf.LlamaForCausalLM._from_config(config, attn_implementation="heurgen", dtype=torch.float16)
    model, cache = made.to(device).eval(), hf.StaticCache(config, max_cache_len=16)
    ids = IDS[:1].to(device)
    with torch.no_grad():
        model(input_ids=ids, past_key_values=cache)
        step = torch.compile(model.forward, backend="eager", fullgraph=True)
        step(input_ids=ids[:, :1], past_key_values=cache)


@pytest.mark.parametrize("softcap", [None, 5.0], ids=["sdpa", "eager"])
def test_a_first_call_compiles_to_one_graph(device, softcap, monkeypatch, caplog, recwarn):
    """What is found out once, and said once, is so while a graph is made, and not traced: models' sources are read."""
    ours.register()
    monkeypatch.setattr(masks, "_hand_over", {})
    monkeypatch.setattr(ours, "_told", set())
    monkeypatch.setattr("torch._dynamo.utils.warn_once_cache", set(), raising=False)
    size = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 99}
    config = hf.Gemma2Config(**size, num_hidden_layers=2, head_dim=16, attn_logit_softcapping=softcap)
    eager, model = both(hf.Gemma2ForCausalLM, config, device, torch.float16)
    ids, padding = IDS.to(device), torch.ones_like(IDS).to(device)
    padding[0, :3] = 0
    torch.compiler.reset()
    compiled = torch.compile(model.forward, backend="eager", fullgraph=True)
    with torch.no_grad(), caplog.at_level("INFO", "transformers.heurgen"):
        found = compiled(ids, attention_mask=padding, use_cache=False).logits[:, 3:]
        assert_close(found, eager(ids, attention_mask=padding, use_cache=False).logits[:, 3:])
    assert len(caplog.records) == 1
    assert not [warning for warning in recwarn if "lru_cache" in str(warning.message)]


def test_causal_masks_end_with_the_last_key():
    query, key = torch.empty(1, 4, 2, 16), torch.empty(1, 2, 4, 16)
    assert masks.causal_mask(query, key)[0, 0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_packed_sequences_see_their_own_keys():
    starts = torch.tensor([0, 2, 3]), torch.tensor([0, 3, 4])
    query, key = torch.empty(1, 4, 3, 16), torch.empty(1, 2, 4, 16)
    all_keys, causal = [[1, 1, 1, 0]] * 2 + [[0, 0, 0, 1]], [[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]]
    assert masks.packed_mask(query, key, *starts, False)[0, 0].int().tolist() == all_keys
    assert masks.packed_mask(query, key, *starts, True)[0, 0].int().tolist() == causal


class Nothing(TorchDispatchMode):
    """Inside, nothing is read from the device, as while a graph is being recorded."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("left", [-1, 0, 1])
def test_a_server_s_padding_behind_packed_sequences_sees_nothing(left):
    """With sequences of no tokens, too. On GPUs Transformers records batches of `generate_batch` in graphs."""
    starts = torch.tensor([0, 2, 3, 3, 3]), torch.tensor([0, 3, 4, 4, 4])
    query, key = torch.empty(1, 4, 5, 16), torch.empty(1, 2, 7, 16)
    with Nothing():
        made = masks.packed_mask(query, key, *starts, True, left)
    expected = torch.zeros(5, 7, dtype=torch.bool)
    expected[:3, :4] = masks.packed_mask(query[:, :, :3], key[:, :, :4], *starts, True, left)
    assert torch.equal(made[0, 0], expected)
