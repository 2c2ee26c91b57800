"""Continuous batching of a tiny model gives the tokens of Transformers' own `eager` attention."""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

if importlib.util.find_spec("transformers") is None:
    pytest.skip("Transformers is not installed", allow_module_level=True)

import transformers as hf  # models when they are asked for: they take seconds
from heurgen_kernels.servers import transformers as ours
from heurgen_kernels.servers.transformers.pool import Pool

from tests.kernels.servers.tiny_models import GREEDY, gemma, llama, prompts
from tests.kernels.tools.compiling import places

EXAMPLE = Path(__file__).parents[3] / "examples" / "serve_transformers.py"
RELEASE = [int(part) for part in hf.__version__.split(".")[:2]]


def answers_of(model, requests, pages):
    """Tokens of each request in continuous batching."""
    found = model.generate_batch(requests, GREEDY, continuous_batching_config=pages)
    return [found[name].generated_tokens for name in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("max_batch_tokens", [64, 16])
def test_continuous_batching_gives_the_tokens_of_eager(model, device, launches, max_batch_tokens, caplog):
    """With 16 tokens a batch prompts are cut into chunks, and chunks share a batch with decodes.

    An interpreter has nothing to warm up: it failed to, with an error for every kind of layer.
    """
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
    interpreted = torch.device(device).type == "cpu"
    assert answers_of(ours.continuous(model, warm_up=interpreted), requests, pages) == expected
    assert not [said for said in caplog.records if said.name == "transformers.heurgen"]
    pool = {call[0][1].untyped_storage().data_ptr() for call in launches}
    assert (
        len(pool) <= 2
    )  # pages are read where they are: K of all layers lies in one tensor, before 5.18 in one each
    tables = [call[0][3].data_ptr() for call in launches if call[1].get("has_prefix") is not False]
    assert tables[::2] == tables[1::2]  # one of both layers
    fresh = [call[1].get("has_prefix") is False for call in launches]
    assert any(fresh) or RELEASE < [5, 9]  # which read new tokens back
    assert not all(fresh)


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


@pytest.mark.slow
def test_no_batch_compiles_behind_the_first():
    """Where continuous() is asked for a warm-up. Tokens of a batch of one had strides of their own, and so kernels."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(places())
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.servers.transformers_warm"],
        capture_output=True, text=True, cwd=EXAMPLE.parents[1], env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    cold = outcome.pop("cold")
    assert (cold["asked"], len(cold["late"]) > 3) == (0, True)
    assert {name: found["late"] for name, found in outcome.items() if found["late"]} == {}
    assert min(found["asked"] for found in outcome.values()) > 9
    assert min(found["launched"] for found in outcome.values()) > 30


def test_compiled_layers_of_a_batch_are_one(monkeypatch):
    """Which layers have attended is another set in each: beyond eight of them Dynamo gave up."""

    class Layer(torch.nn.Module):
        def __init__(self, layer_idx):
            super().__init__()
            self.layer_idx = layer_idx

        def forward(self, states):
            return ours.attention(self, states * 2, states, states, None, scaling=1.0, cache="pages")[0] + 1

    monkeypatch.setattr(ours, "_gathered_elsewhere", lambda _, query, *more: (query, None))
    monkeypatch.setattr(ours.batching, "layers", set())
    states = torch.randn(1, 2, 5, 16)  # float32 is Transformers'
    torch.compiler.reset()
    compiled = torch.compile(lambda layer, states: layer(states), backend="eager")
    with torch.no_grad(), torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for layer_idx in range(10):
            assert torch.equal(compiled(Layer(layer_idx), states), states * 2 + 1)
    assert ours.batching.layers == set(range(10))


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


def test_a_block_table_is_of_a_batch(monkeypatch):
    """Layers made it anew, which took six launches each."""
    made, real = [], ours.block_table
    monkeypatch.setattr(ours, "block_table", lambda *given: made.append(given) or real(*given))
    pages = SimpleNamespace(layer_to_allocator={})
    pools = [
        Pool(None, None, torch.arange(first, first + 4), torch.arange(4), torch.tensor([0, 4]), 1, 4)
        for first in (0, 8)
    ]

    class Model(torch.nn.Module):
        def forward(self, cache):
            return [ours.table_of(pool, 4).tolist() for pool in (*pools, *pools)]

    model = ours.continuous(Model())
    for count in (
        2,
        4,
    ):  # groups of layers; none is kept for the next batch, whose places may lie where these did
        assert model(cache=pages) == [[[0]], [[2]]] * 2
        assert len(made) == count
    assert model.forward(pages) == [[[0]], [[2]]] * 2
    assert len(made) == 8
