"""Which config a launch takes: shipped selectors within what their logs can speak for, the default elsewhere."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.caches import Cache
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import default_config
from heurgen_kernels.heuristics import paged_attention, paged_attention_amd, paged_attention_fp8
from heurgen_kernels.host import select

from tests.kernels.batches import checked, make_batch

LAUNCH = {
    "num_seqs": 4, "total_query_tokens": 4, "max_seqlen_q": 1, "max_seqlen_k": 40, "total_seqlen_k": 160,
    "window": select.NO_WINDOW, "softcap": False,
    "num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, "dtype": "bfloat16", "fresh": False,
    "sinks": False, "avg_seqlen_q": 1.0, "multiprocessors": 304,
}  # fmt: skip
PROMPT = {"total_query_tokens": 4096, "max_seqlen_q": 1024, "max_seqlen_k": 1024, "avg_seqlen_q": 1024.0}


def chosen(vendor, **changes):
    launch = LAUNCH | changes
    assert tuple(launch) == select.FEATURES
    fp8 = launch["dtype"].startswith("float8")
    return select.bind_shipped(vendor, fp8)(tuple(launch.values()))


def default(vendor, **changes):
    return default_config(vendor=vendor, **(LAUNCH | changes))


def given(module, vendor, **changes):
    """What the vendor's selector itself says."""
    features = inspect.signature(module.SELECTORS[vendor]).parameters
    return module.SELECTORS[vendor](*((LAUNCH | changes)[name] for name in features))


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_shipped_selectors_fit_the_launch(vendor):
    module = select.shipped(vendor)
    assert set(inspect.signature(module.SELECTORS[vendor]).parameters) <= set(select.FEATURES)
    required = {"variant", "BLOCK_M", "TILE_SIZE", "num_warps", "num_stages"}
    assert required < set(module.Config._fields) <= set(Config._fields)


def test_amd_comes_from_published_winners_and_says_so():
    assert select.shipped("amd") is paged_attention_amd
    assert list(paged_attention_amd.SELECTORS) == ["amd"]
    provenance = paged_attention_amd.PROVENANCE
    assert provenance["note"] == "winners of a sibling kernel, slowdown unmeasured"
    assert provenance["selectors"]["select_amd"]["slowdown_known"] is False
    assert "Note: winners of a sibling kernel, slowdown unmeasured." in paged_attention_amd.__doc__


@pytest.mark.parametrize(
    "changes", [{}, PROMPT, {"max_seqlen_k": 60, "max_seqlen_q": 60}, PROMPT | {"page_size": 64}]
)
def test_amd_takes_the_winners(changes):
    config = chosen("amd", **changes)
    assert config == given(paged_attention_amd, "amd", **changes)
    assert config.variant == "q_block"


def test_amd_splits_keys_as_the_default_does():
    config = chosen("amd", max_seqlen_k=65536)
    assert config == default("amd", max_seqlen_k=65536)
    assert (config.variant, config.num_segments) == ("split_kv", 32)


@pytest.mark.parametrize("changes", [{}, PROMPT])
def test_heads_wider_than_any_of_the_log_take_the_default(changes):
    assert chosen("amd", head_size=256, **changes) == default("amd", head_size=256, **changes)


@pytest.mark.parametrize("head_size", [64, 96, 192, 256])
@pytest.mark.parametrize("changes", [{}, PROMPT])
def test_the_log_of_hopper_knows_all_head_sizes(changes, head_size):
    layout = {"head_size": head_size, **changes}
    assert chosen("nvidia", **layout) == given(paged_attention, "nvidia", **layout)


@pytest.mark.parametrize("changes", [{}, PROMPT, {"max_seqlen_k": 65536}])
def test_nvidia_takes_what_was_measured(changes):
    assert chosen("nvidia", **changes) == given(paged_attention, "nvidia", **changes)


@pytest.mark.parametrize("changes", [{}, PROMPT, {"head_size": 256}, {"sinks": True}])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8_caches_have_a_selector_of_their_own(dtype, changes):
    layout = {"dtype": dtype, **changes}
    assert chosen("nvidia", **layout) == given(paged_attention_fp8, "nvidia", **layout)
    assert chosen("amd", **layout) == chosen("amd", **changes)


def test_the_selector_of_fp8_caches_is_loaded_when_one_is_there(monkeypatch):
    loaded, real = [], select.generated
    monkeypatch.setattr(select, "generated", lambda name: loaded.append(name) or real(name))
    monkeypatch.setattr(select, "_choosers", Cache())
    plain, fp8 = make_batch([(1, 21)]), make_batch([(1, 21)], cache=torch.float8_e4m3fn)
    for batch in (plain, plain, fp8, plain, fp8):
        select.choose(checked(batch), None, "nvidia")
    assert loaded == ["paged_attention", "paged_attention_fp8"]


def test_fp8_caches_wider_than_any_of_their_log_take_the_default():
    layout = {"head_size": paged_attention_fp8.DOMAIN["head_size"]["high"] + 64, "dtype": "float8_e4m3fn"}
    assert chosen("nvidia", **layout) == default("nvidia", **layout)


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_without_a_shipped_module_the_default_answers(vendor, monkeypatch):
    monkeypatch.setitem(select.SHIPPED, vendor, "absent")
    assert chosen(vendor, **PROMPT) == default(vendor, **PROMPT)


def test_the_last_question_is_asked_once_and_any_other_anew():
    asked = []

    def answer(**features):
        asked.append(features)
        return Config("q_block", num_stages=len(asked))

    heuristics = SimpleNamespace(select=answer)
    batch = make_batch([(1, 21), (5, 18)])
    questions = [{}, {}, {"max_seqlen_k": 22}, {"max_seqlen_k": 22}, {}, {"max_seqlen_q": 6}]
    configs = [select.choose(checked(batch | changes), heuristics) for changes in questions]
    assert [config.num_stages for config in configs] == [1, 1, 2, 2, 3, 4]
    first = dict(asked[0])
    assert first.pop("vendor") == select.VENDOR
    assert first == {
        "num_seqs": 2, "total_query_tokens": 6, "max_seqlen_q": 5, "max_seqlen_k": 21, "total_seqlen_k": 36,
        "avg_seqlen_q": 3.0, "num_query_heads": 4, "num_kv_heads": 2, "head_size": 32, "page_size": 16,
        "dtype": "float16", "fresh": False, "multiprocessors": first["multiprocessors"],
        "window": select.NO_WINDOW, "softcap": False, "sinks": False,
    }  # fmt: skip


@pytest.mark.parametrize(("left", "window"), [(-1, select.NO_WINDOW), (0, 1), (9, 10)])
def test_a_window_counts_the_keys_that_a_token_sees(left, window):
    asked = []
    call = checked(make_batch([(5, 21)]))
    call.left = left
    select.choose(
        call, SimpleNamespace(select=lambda **features: asked.append(features["window"]) or Config())
    )
    assert asked == [window]


def test_what_the_static_grid_asks_on_the_device():
    """The caller's function or number, else the generated one of the vendor, else the guess: AMD has none."""
    own = SimpleNamespace(arg_names=list(select.CHOICE))
    for given in (own, 7):
        assert select.choose_segments(SimpleNamespace(choose_segments=given), "nvidia") is given
    assert select.choose_segments(None, "nvidia") is select.SEGMENTS["nvidia"]
    assert select.choose_segments(None, "amd") is select.default_segments
    for wrong in (SimpleNamespace(arg_names=["num_seqs"]), "7", len):
        with pytest.raises(ValueError, match=r"a @triton\.jit function of"):
            select.choose_segments(SimpleNamespace(choose_segments=wrong), "nvidia")


def test_heuristics_are_forgotten_before_they_are_too_many(monkeypatch):
    """A caller who makes new ones for every call gets their answers, never those of one with the same id."""
    monkeypatch.setattr(select, "_choosers", Cache(3))
    given = checked(make_batch([(1, 21)]))
    for count in range(20):
        made = SimpleNamespace(select=lambda count=count, **_: Config(programs_per_sm=count))
        assert select.choose(given, made).programs_per_sm == count
        del made
        assert len(select._choosers) <= 3


def test_two_kinds_of_gpu_are_answered_for_by_their_own_selectors():
    call = checked(make_batch([(1, 40)] * 4))
    small, large = Config("q_block", 16, 32), Config("q_block", 16, 64)
    module = SimpleNamespace(
        SELECTORS={"nvidia": lambda num_seqs: small},
        _BY_DEVICE={("nvidia", "NVIDIA H200"): lambda num_seqs: large},
    )
    for model, expected in (("NVIDIA H200", large), ("NVIDIA A100", small), ("NVIDIA H200", large)):
        call.layout = replace(call.layout, device=replace(call.layout.device, model=model))
        assert select.choose(call, module) == expected
