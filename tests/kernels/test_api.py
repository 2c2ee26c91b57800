"""The keyword signature of vLLM 0.33.0's Triton backend, custom op and heuristics."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from heurgen_kernels.api import paged_attention, unified_attention
from heurgen_kernels.tools.reference import reference_attention

from tests.kernels.batches import config, error_of, make_batch


def arguments(batch, **changes):
    """As `vllm/v1/attention/backends/triton_attn.py` passes them."""
    given = {
        "q": batch["q"], "k": batch["key_cache"], "v": batch["value_cache"],
        "out": torch.full_like(batch["q"], float("nan")), "cu_seqlens_q": batch["cu_seqlens_q"],
        "max_seqlen_q": batch["max_seqlen_q"], "seqused_k": batch["seq_lens"],
        "max_seqlen_k": batch["max_seqlen_k"],
        "softmax_scale": batch["scale"], "causal": True, "alibi_slopes": None, "use_alibi_sqrt": False,
        "window_size": (-1, -1), "block_table": batch["block_table"], "softcap": 0, "q_descale": None,
        "k_descale": None, "v_descale": None, "seq_threshold_3D": 16, "num_par_softmax_segments": 16,
        "softmax_segm_output": None, "softmax_segm_max": None, "softmax_segm_expsum": None, "sinks": None,
        "output_scale": None, "mm_prefix_range": None, "rswa_prefix_lens": None, "rswa_window": None,
        "kv_quant_mode": 0, "k_scale_cache": None, "v_scale_cache": None, "chunk_lookback": -1,
        "use_td": False,
        "mm_prefix_clamp_sliding_window": False,
    }  # fmt: skip
    return given | changes


@pytest.mark.parametrize(
    ("changes", "meaning"),
    [
        ({}, {}),
        ({"window_size": (5, 0)}, {"window": (5, -1)}),
        ({"causal": False}, {"causal": False}),
        ({"causal": False, "window_size": (5, 5)}, {"causal": False, "window": (5, 5)}),
        ({"softcap": 4.0}, {"softcap": 4.0}),
    ],
)
def test_it_is_vllms_call(device, changes, meaning):
    batch = make_batch([(1, 21), (5, 18)], heads=(2, 1), device=device)
    given = arguments(batch, **changes)
    assert unified_attention(**given) is None
    shown = {k: v for k, v in batch.items() if not k.startswith("max_")}
    exact = reference_attention(**shown, **meaning, dtype=torch.float64)
    assert float((given["out"].double() - exact).norm() / exact.norm()) < 2e-3


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("per-sequence causal flags", {"causal": torch.tensor([True])}),
        ("qq_bias", {"qq_bias": torch.zeros(1)}),
        ("mm_prefix_range", {"mm_prefix_range": torch.zeros(1)}),
        ("mm_prefix_range", {"mm_prefix_clamp_sliding_window": True}),
        ("rswa_window", {"rswa_window": 4, "rswa_prefix_lens": torch.zeros(1)}),
        ("use_alibi_sqrt", {"use_alibi_sqrt": True}),
        ("kv_quant_mode", {"kv_quant_mode": 3}),
        ("k_scale_cache", {"k_scale_cache": torch.zeros(1)}),
        ("chunk_lookback", {"chunk_lookback": 1, "window_size": (7, 0)}),
    ],
)
def test_unknown_features_are_refused_by_name(device, name, changes):
    batch = make_batch([(1, 21)], heads=(2, 1), device=device)
    with pytest.raises(NotImplementedError, match=name):
        unified_attention(**arguments(batch, **changes))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        *(({name: None}, f"{name} is None; expected a tensor") for name in ("q", "k", "v", "out")),
        ({"window_size": None}, r"window_size is None; expected a pair, \(left, right\)"),
        ({"window_size": (3,)}, r"window_size is \(3,\); expected a pair, \(left, right\)"),
    ],
)
def test_what_is_no_tensor_and_no_window(device, wrong, said):
    """Without `out` the result was computed, and lost."""
    batch = make_batch([(1, 21)], heads=(2, 1), device=device)
    with pytest.raises(ValueError, match=f"^{said}"):
        unified_attention(**arguments(batch, **wrong))


def test_heuristics_are_asked_with_features(device):
    asked = []

    def select(**features):
        asked.append(features)
        return config("q_block")

    batch = make_batch([(1, 21), (5, 18)], heads=(2, 1), device=device)
    for _ in range(2):
        paged_attention(**batch, heuristics=SimpleNamespace(select=select))
    expected = {
        "num_seqs": 2, "total_query_tokens": 6, "max_seqlen_q": 5, "max_seqlen_k": 21, "num_query_heads": 2,
        "num_kv_heads": 1, "head_size": 32, "page_size": 16, "dtype": "float16", "fresh": False,
    }  # fmt: skip
    assert expected.items() <= asked[0].items()
    assert asked[0]["vendor"] in ("nvidia", "amd")


def test_a_generated_module_is_bound_by_position(device):
    def select_nvidia(max_seqlen_k, dtype, avg_seqlen_q):
        assert (max_seqlen_k, dtype, avg_seqlen_q) == (21, "float16", 3.0)
        return config("split_kv")

    batch = make_batch([(1, 21), (5, 18)], heads=(2, 1), device=device)
    chosen = SimpleNamespace(SELECTORS={"nvidia": select_nvidia})
    expected = paged_attention(**batch, config=config("split_kv"))
    assert torch.equal(paged_attention(**batch, heuristics=chosen), expected)


def test_features_that_no_launch_knows_are_named(device):
    batch = make_batch([(1, 21)], heads=(2, 1), device=device)
    chosen = SimpleNamespace(SELECTORS={"nvidia": lambda decode_share: None})
    with pytest.raises(
        ValueError, match="the heuristics ask for 'decode_share'; a launch knows num_seqs, total"
    ):
        paged_attention(**batch, heuristics=chosen)


def test_the_custom_op_has_a_fake_kernel(device):
    from heurgen_kernels import ops

    batch = make_batch([(1, 21), (5, 18)], heads=(2, 1), device=device)
    call = ops.positional(batch)
    assert torch.allclose(torch.ops.heurgen.paged_attention(*call), paged_attention(**batch))
    torch.library.opcheck(
        torch.ops.heurgen.paged_attention, call, test_utils=("test_schema", "test_faketensor")
    )


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"has_prefix": False}, (18, 39)),  # the new tokens are all keys
        ({"has_prefix": np.bool_(False)}, (18, 39)),
        ({"has_prefix": True}, (64, 90)),
        ({}, (64, 90)),
    ],
)
def test_what_is_said_of_keys_may_be_a_bound(device, said, known):
    batch, asked = make_batch([(18, 18), (4, 4), (17, 17)], fresh=True, device=device), []
    batch["block_table"] = batch["block_table"].repeat(1, 4)
    said = {"max_seqlen_k": 64, "total_seqlen_k": 90} | said
    batch |= {name: said.pop(name) for name in ("max_seqlen_k", "total_seqlen_k")}

    def answer(**features):
        asked.append((features["max_seqlen_k"], features["total_seqlen_k"]))
        return config("split_kv", 16, 16, 2)

    assert error_of(batch, None, heuristics=SimpleNamespace(select=answer), **said) < 2e-3
    assert asked == [known]


def test_the_first_call_of_the_readme_computes_attention():
    """As it stands on a GPU; in the interpreter, where products of bfloat16 are wrong, in float16."""
    readme = (Path(__file__).parents[2] / "kernels" / "README.md").read_text(encoding="utf-8")
    text = readme.split("```python\n")[1].split("```")[0]
    if not torch.cuda.is_available():
        text = text.replace('"cuda"', '"cpu"').replace("bfloat16", "float16")
    told: dict = {}
    exec(compile(text, "kernels/README.md", "exec"), told)
    lengths = torch.tensor(told["lengths"], device=told["q"].device)
    starts = torch.arange(len(lengths) + 1, device=told["q"].device)
    key_cache, value_cache = told["cache"]
    wanted = reference_attention(
        told["q"],
        key_cache,
        value_cache,
        told["block_table"],
        starts,
        lengths,
        scale=told["head_size"] ** -0.5,
    )
    assert float((told["out"] - wanted).norm() / wanted.norm()) < 1e-2
