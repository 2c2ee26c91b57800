"""A compile that a warm-up missed is a failure: see warm_child.py. And compilation in processes, for a GPU alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from heurgen_kernels import Layout, Linear, warm_up, warm_up_matmul
from heurgen_kernels.ahead import compiling, linear, warm
from heurgen_kernels.ahead.answers import Path as Way
from heurgen_kernels.ahead.answers import Range
from heurgen_kernels.ahead.layouts import example
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.gemm.plan import adapted, step_bytes
from heurgen_kernels.gemm.select import choose
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.segments import SEGMENTS

from tests.kernels.tools.compiling import places

CHILD = Path(__file__).with_name("warm_child.py")
ROOT = Path(__file__).parents[3]
HOPPER = Device("nvidia", (9, 0), 132)


@pytest.mark.slow
def test_warm_ups_in_a_process_with_triton_s_compiler(tmp_path):
    """No launch compiles after a warm-up, which launches nothing, whatever is bound; processes compile into the cache
    that launches read, and memory does not grow over ten thousand batches. One test, since the process takes 15 s.
    """
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(places())
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.ahead.warm_child"],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    disk, again, (first, second) = (outcome.pop(name) for name in ("disk", "again", "peaks"))
    assert outcome.pop("heard") == [
        "naive_kernel", "q_block_kernel", "split_kv_kernel", "static_grid_kernel", "vector_matmul"
    ]  # fmt: skip
    shared, compiled = outcome.pop("own chooser")
    assert (shared, compiled > 0) == (0, True)
    assert len(outcome) > 3
    assert [layout for layout, found in outcome.items() if found["during"] or found["kept"]] == []
    assert [layout for layout, found in outcome.items() if not found["launched"]] == []
    assert again == [0, 0]
    assert {layout: found["late"] for layout, found in outcome.items() if found["late"]} == {}
    assert min(found["asked"] for found in outcome.values()) > 3
    # the first layer of each type asks for what copies x
    copied = {str(Linear(6144, 4096)), str(Linear(1000, 3000, bias=True, dtype=torch.float16))}
    for kernel, layouts in (
        ("widen_kernel", {"fp8, copied", "fp8, a window"}), ("write_pages_kernel", {"fused", "fp8, copied"}),
        ("pad_kernel", copied),
    ):  # fmt: skip
        assert {layout for layout, found in outcome.items() if kernel in found["kernels"]} == layouts
    assert disk == [0, 3]
    assert second < 1.02 * first


LIMITS = {"max_num_seqs": 4, "max_num_batched_tokens": 64, "max_seqlen": 128}


@pytest.mark.parametrize(
    ("heads", "limits", "said"),
    [
        ((32, 8), {"max_num_seqs": 0}, "max_num_seqs is 0; expected a whole number of 1 and more"),
        (
            (32, 8),
            {"max_num_batched_tokens": "8"},
            "max_num_batched_tokens is '8'; expected a whole number of 1 and more",
        ),
        ((32, 8), {"max_seqlen": 1.5}, "max_seqlen is 1.5; expected a whole number of 1 and more"),
        ((7, 2), {}, "7 query heads do not divide into 2 KV heads"),
        ((8, 0), {}, "8 query heads do not divide into 0 KV heads"),
    ],
)
def test_what_no_launch_can_have(heads, limits, said):
    with pytest.raises(ValueError, match=said):
        warm_up([Layout(*heads, 128, 16)], **LIMITS | limits)


@pytest.mark.parametrize(
    ("layout", "given", "said"),
    [
        ({"num_kv_heads": 8.0}, {}, "num_kv_heads is 8.0; expected a whole number"),
        ({"head_size": 0}, {}, "head_size is 0; expected 1 or more"),
        ({"page_size": -16}, {}, "page_size is -16; expected 1 or more"),
        ({"dtype": "bfloat16"}, {}, "dtype is 'bfloat16'; expected one of torch.float16, torch.bfloat16, "),
        ({"dtype": None}, {}, "dtype is None; expected one of torch.float16, torch.bfloat16, "),
        ({"cache_dtype": torch.int8}, {}, "cache_dtype is torch.int8; expected one of torch.float16, "),
        ({"sinks": True}, {}, "sinks is True; expected one of torch.float16, "),
        (
            {"q_strides": (4096,)},
            {},
            "q_strides is (4096,); expected whole numbers of elements, (tokens, heads)",
        ),
        (
            {"out_strides": (-4096, 128)},
            {},
            "out_strides is (-4096, 128); expected whole numbers of elements",
        ),
        (
            {"page_strides": (8, 1.5, 1)},
            {},
            "page_strides is (8, 1.5, 1); expected whole numbers of elements, (pages",
        ),
        (
            {"new_strides": (4096, 128)},
            {},
            "new_strides is 4096; expected whole numbers of elements, (tokens, heads)",
        ),
        ({"new_strides": (None,)}, {}, "new_strides is (None,); expected a pair of new K and one of new V"),
        ({"fresh": False}, {}, "fresh is False; expected a tuple of True and False, such as (False,)"),
        ({"fresh": (None,)}, {}, "fresh is (None,); expected a tuple of True and False, such as (False,)"),
        ({"fresh_from": 0}, {}, "fresh_from is 0; expected a whole number of 1 and more"),
        ({"window": 128}, {}, "window is 128; expected True or False"),
        ({"softcap": 30.0}, {}, "softcap is 30.0; expected True or False"),
        ({"causal": None}, {}, "causal is None; expected True or False"),
        ({}, {"graphs": ("static_grid",)}, "config is 'static_grid'; expected an object with parameters"),
        ({}, {"graphs": Config()}, "config is 'q_block'; expected an object with parameters"),
        (
            {},
            {"max_graph_seqlen_q": 0},
            "max_graph_seqlen_q is 0; expected a whole number of 1 and more, or None",
        ),
        ({}, {"max_graph_seqlen_q": 1.5}, "max_graph_seqlen_q is 1.5; expected a whole number of 1 and more"),
    ],
)
def test_what_is_no_layout_and_no_config(layout, given, said):
    """These ended in errors of Python's and torch's own."""
    made = {"num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, **layout}
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        warm_up([Layout(**made)], **LIMITS, **given, device="cpu")
    assert Layout(32, 8, 128, 16, sinks=torch.float64).sinks == torch.float64  # launches take them


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"n": 64.0}, "n is 64.0; expected a whole number"),
        ({"k": -1}, "k is -1; expected a whole number"),
        ({"dtype": "bfloat16"}, "dtype is 'bfloat16'; expected one of torch.float16, torch.bfloat16"),
        ({"bias": 64}, "bias is 64; expected True or False"),
        ({"gated": "silu"}, "gated is 'silu'; expected True or False"),
        ({"scaled": ["row"]}, "scaled is ['row']; expected '' or one of one, row, block"),
    ],
)
def test_what_is_no_linear_layer(layer, said):
    """These ended in errors of torch's own."""
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Linear(**{"n": 64, "k": 64, **layer})


@pytest.mark.parametrize(
    "given", [Layout(4, 2, 64, 16), [(4, 2, 64, 16)], [{"head_size": 64}], None, "model"]
)
def test_what_is_no_list_of_layouts_or_layers(given):
    """These ended in Python's own errors."""
    with pytest.raises(
        ValueError, match=rf"^layouts is {re.escape(f'{given!r:.80}')}; expected a list of Layout$"
    ):
        warm_up(given, **LIMITS, device="cpu")
    with pytest.raises(
        ValueError, match=rf"^layers is {re.escape(f'{given!r:.80}')}; expected a list of Linear$"
    ):
        warm_up_matmul(given, [1], device="cpu")


def test_strides_that_numpy_counted():
    strides = (numpy.int64(4096), numpy.int64(128))
    made = example(Layout(32, 8, 128, 16, q_strides=strides), torch.device("cpu"), False)
    assert made["q"].stride() == (4096, 128, 1)


def test_graphs_that_are_a_number():
    with pytest.raises(ValueError, match=r"^graphs is 5; expected a list of configs"):
        warm_up([Layout(4, 2, 64, 16)], **LIMITS, graphs=5, device="cpu")


def test_graphs_are_configs_of_any_kind(monkeypatch):
    """As those of a launch are."""
    asked = []
    monkeypatch.setattr(
        warm, "compile_ahead", lambda calls, _: asked.append([c.keywords["config"] for c in calls])
    )
    given = {"variant": "static_grid", "num_segments": 4}
    for graphs in ((given,), (Config(**given),)):
        warm_up([Layout(4, 2, 64, 16)], **LIMITS, graphs=graphs, device="cpu")
    assert asked[0] == asked[1]
    assert Config(**given) in asked[0]


def test_rows_that_numpy_counted(monkeypatch):
    """They were Triton's error, that it compiles for no number of this type; a tensor's were taken for pointers."""
    asked = []
    monkeypatch.setattr(linear, "launches", lambda layer, rows, *_: asked.append(rows) or ())
    monkeypatch.setattr(linear, "compile_ahead", lambda *_: 0)
    for rows in (range(3), numpy.arange(3), torch.arange(3), [2, 1, True, 2]):
        warm_up_matmul([Linear(64, 64)], rows, device="cpu")
    assert asked == [[1, 2]] * 4
    assert {type(m) for rows in asked for m in rows} == {int}
    for rows in ([1.5], "12", 4, None):
        with pytest.raises(ValueError, match=re.escape(f"rows is {rows!r}; expected whole numbers")):
            warm_up_matmul([Linear(64, 64)], rows, device="cpu")


@pytest.mark.skipif("TRITON_INTERPRET" not in os.environ, reason="of the interpreter")
def test_an_interpreter_compiles_nothing():
    for call in (
        lambda: warm_up([Layout(4, 2, 64, 16)], **LIMITS, device="cpu"),
        lambda: warm_up_matmul([Linear(64, 64)], [1], device="cpu"),
    ):
        with pytest.raises(RuntimeError, match="Triton's interpreter is on"):
            call()


@pytest.mark.parametrize("processes", [0, -1, 1.5, "2"])
def test_processes_are_counted(processes, monkeypatch):
    monkeypatch.setattr(compiling, "KERNELS", ())
    with pytest.raises(
        ValueError, match=f"^processes is {processes!r}; expected a whole number of 1 and more"
    ):
        compiling.compile_ahead([], processes)
    assert compiling.compile_ahead([], numpy.int64(1)) == 0


def test_what_no_layer_can_have():
    with pytest.raises(ValueError, match="scaled is 'rows'; expected '' or one of one, row, block"):
        Linear(64, 64, scaled="rows")
    for layer, said in (
        (Linear(65, 64, gated=True), "w has 65 rows; expected an even number"),
        (Linear(64, 64, dtype=torch.float32), "x is torch.float32; expected float16 or bfloat16"),
    ):
        with pytest.raises(ValueError, match=said):
            warm_up_matmul([layer], [1], device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what it says without a GPU")
def test_without_a_gpu_it_says_so():
    for call in (
        lambda: warm_up([Layout(32, 8, 128, 16)], **LIMITS),
        lambda: warm_up([Layout(32, 8, 128, 16)], **LIMITS, device="cuda"),
        lambda: warm_up_matmul([Linear(64, 64)], [1]),
    ):
        with pytest.raises(RuntimeError, match="there is no GPU that torch can use"):
            call()


def test_a_gpu_without_a_number_is_the_current_one(monkeypatch):
    """What a device is is kept by what it is called: "cuda" would stay the one that was current first."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    found = [str(warm.place_of(device)) for device in (None, "cuda", "cuda:0", torch.device("cuda"), "cpu")]
    assert found == ["cuda:1", "cuda:1", "cuda:0", "cuda:1", "cpu"]


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (Config("static_grid", 16, 16, 1, 3, 48), {48}),
        (Config("static_grid", 16, 16, 1, 3, programs_per_sm=2), set(SEGMENTS)),
        (Config("split_kv", 16, 16, 4, 3, 48), {48}),
        (Config("split_kv", 16, 16, 4, 3, programs_per_sm=2), {1, 256}),
    ],
)
def test_a_static_grid_is_compiled_for_each_number_of_parts(answer, parts):
    features = {
        "num_query_heads": 8, "num_kv_heads": 2, "head_size": 64, "num_seqs": (1, 4), "total_query_tokens": (1, 64)
    }  # fmt: skip
    assert {config.num_segments for config in warm.divided(answer, features, HOPPER)} == parts


@pytest.mark.parametrize(
    ("heads", "most", "both"), [(8, 32, False), (8, 33, True), (32, 8, False), (32, 9, True)]
)
def test_a_static_grid_is_compiled_for_many_sequences_where_there_may_be_some(heads, most, both, monkeypatch):
    """132 processors: batches of more than 32 sequences, or of more than 264 blocks."""
    monkeypatch.setattr(warm, "device_of", lambda place: HOPPER)
    limits = warm.Limits(most, 64, 1000)
    place, graphs = torch.device("cpu"), warm.Graphs.told([GRAPH], 1)
    for written in (False, True):
        calls = warm.calls_of(Layout(32, heads, 64, 16, written=written), place, limits, None, graphs)
        grids = [call for call in calls if call["config"] == GRAPH]
        assert {len(call["seq_lens"]) for call in grids} == ({1, 33} if both else {1})


def test_where_there_is_little_shared_memory_what_is_launched_is_compiled():
    """Each M's config has the stages that have room, and is one of those that are compiled."""
    device = Device("nvidia", (8, 9), 142, "", 101376)
    layer = Linear(2 * 14336, 4096, gated=True)
    compiled = {config for _, config, _, _ in linear.launches(layer, range(1, 65), None, device)}
    for m in range(1, 65):
        call = linear.product(layer, m, device)
        assert adapted(choose(call, None, "nvidia"), call) in compiled
    steps = [(config.num_stages - 1) * step_bytes(config, call) for config in compiled]
    assert 65536 < max(steps) <= device.room


def test_fewer_parts_are_compiled_where_launches_may_have_no_room_for_more():
    features = {
        "num_query_heads": 32, "num_kv_heads": 32, "head_size": 128,
    }  # fmt: skip
    config = Config("static_grid", 16, 16, 1, 3, 64)
    found = warm.with_room(config, 128, 16, features, HOPPER)
    assert [one.num_segments for one in found] == [64, 24, 32, 48]
    assert warm.with_room(config, 128, 1, features, HOPPER) == [config]
    one_launch = config._replace(variant="split_kv")
    assert warm.with_room(one_launch, 128, 16, features, HOPPER) == [one_launch]
    combined = [one.num_segments for one in warm.with_room(one_launch, 8192, 16, features, HOPPER)]
    assert combined == [64, 1]


def test_parts_that_a_selector_computes_may_be_one():
    """What combines parts is a launch of its own."""
    features = {
        "num_query_heads": 8, "num_kv_heads": 2, "head_size": 64, "num_seqs": (1, 4), "total_query_tokens": (1, 64)
    }  # fmt: skip
    answer = Config("split_kv", 16, 16, 4, 3)._replace(num_segments=Range(Way(), 2, 100))
    assert {config.num_segments for config in warm.divided(answer, features, HOPPER)} == {1, 256}


@pytest.mark.parametrize(
    ("config", "keys", "whole"),
    [
        (Config("split_kv", 16, 32, 4, 3, 4, programs_per_sm=2), 40, True),
        (Config("split_kv", 16, 32, 4, 3, 4, programs_per_sm=2), 1024, False),
        (Config("split_kv", 16, 32, 4, 3, 4), 40, False),
        (Config("mixed", 128, 32, 4, 3, 4, programs_per_sm=2), 40, False),
    ],
)
def test_few_keys_are_left_whole_but_where_decodes_are_taken_apart(config, keys, whole):
    assert warm.never_cut(config, config, keys) is whole
