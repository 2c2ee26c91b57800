"""vLLM's own reader, cut from its wheel, finds the files by name and gives the model's answer for every M."""

from __future__ import annotations

import ast
import csv
import functools
import hashlib
import importlib.util
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from heurgen import ir
from heurgen.base.errors import EmitError, HeurgenError, UsageError
from heurgen.render import registry
from heurgen.render.config_files import MANIFEST
from heurgen.render.target import Request
from heurgen.render.vllm_moe import file_names
from tests.support.hostile import PAYLOADS

LEAF = ir.Leaf
SOURCE = "vllm/model_executor/layers/fused_moe/fused_moe.py"
NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
CONFIGS = ((16, 64, 64, 1, 4, 5), (32, 64, 64, 8, 4, 4), (64, 128, 64, 16, 8, 3), (128, 128, 64, 32, 8, 3))


def module(tree: ir.Node | None = None, devices: tuple[str, ...] = ("NVIDIA H200",)) -> ir.HeuristicModule:
    features = (
        *(ir.Feature(n, "int", low=1, high=4096) for n in ("M", "E", "N", "topk")),
        ir.Feature("dtype", "category", values=("bf16", "fp8_w8a8")),
    )
    high = ir.Split("M", 512, LEAF(2), ir.Split("per_expert", 40.5, LEAF(1), LEAF(3)))
    inner = ir.Membership("dtype", ("bf16",), ("fp8_w8a8",), True, LEAF(1), high)
    tree = tree or ir.Split("M", 17, LEAF(0), ir.Split("N", 1000, inner, high))
    selector = ir.Selector("nvidia", NAMES, CONFIGS, tree, devices=devices)
    parameters = tuple(ir.Parameter(n, "int") for n in NAMES)
    derived = (ir.Derived("per_expert", "M * topk / E"),)
    return ir.HeuristicModule(
        "fused_moe", features, parameters, (selector,), derived, {"log_hash": "cd" * 32}
    )


AT = {"E": "128", "N": "768", "topk": "8", "dtype": "fp8_w8a8"}


# --- vLLM's reader ----------------------------------------------------------------------------------------


@functools.cache
def vllm_source() -> tuple[str | None, str]:
    """The text of fused_moe.py, or why there is none: of an installed vLLM, or from its wheel on the package index."""
    found = importlib.util.find_spec("vllm")
    if found is not None and found.submodule_search_locations:
        return (Path(found.submodule_search_locations[0]).parent / SOURCE).read_text(), ""
    pytest.importorskip("torch", reason="the wheel's reader needs torch: pip install 'heurgen[kernels]'")
    from tests.kernels.servers import vllm_wheels

    place = vllm_wheels.fetch(vllm_wheels.VERSIONS[-1])
    return (None, place) if isinstance(place, str) else ((place / SOURCE).read_text(encoding="utf-8"), "")


def reader(folder: Path, device: str) -> dict[str, Any]:
    """`get_config_file_name`, `get_moe_configs` and `try_get_optimal_moe_config`, with their imports stood in for."""
    text, reason = vllm_source()
    if text is None:
        pytest.skip(reason)
    wanted = ("get_config_file_name", "get_moe_configs", "try_get_optimal_moe_config")
    functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    assert len(functions) == 3
    for function in functions:
        function.decorator_list = []
        # The override that a test of vLLM's may set.
        function.body = [s for s in function.body if not isinstance(s, ast.ImportFrom)]
    quiet = SimpleNamespace(info_once=lambda *a, **k: None, warning_once=lambda *a, **k: None)
    space: dict[str, Any] = {
        "functools": functools,
        "os": os,
        "json": json,
        "Any": Any,
        "logger": quiet,
        "__file__": __file__,
        "envs": SimpleNamespace(VLLM_BATCH_INVARIANT=False, VLLM_TUNED_CONFIG_FOLDER=str(folder)),
        "get_device_name_as_file_name": lambda: device.replace(" ", "_"),
        "get_config": lambda: None,
        "get_default_config": lambda *a: None,
    }
    code = ast.Module([ast.ImportFrom("__future__", [ast.alias("annotations")], 0), *functions], [])
    exec(compile(ast.fix_missing_locations(code), "<vllm>", "exec"), space)
    space["get_moe_configs"] = functools.cache(space["get_moe_configs"])  # as vLLM decorates it
    return space


def written(folder: Path, source: ir.HeuristicModule, request: Request) -> dict[str, str]:
    files = dict(registry.emit(source, "vllm-moe", request).files)
    for name, text in files.items():
        (folder / name).write_text(text)
    return files


@pytest.mark.parametrize(
    ("device", "dtype", "blocks"),
    [("NVIDIA H200", "fp8_w8a8", None), ("NVIDIA H200 141GB", "bf16", [128, 128])],
)
def test_vllm_reads_the_model_s_answers(
    tmp_path: Path, device: str, dtype: str, blocks: list[int] | None
) -> None:
    source = module(devices=(device,))
    at = {**AT, "dtype": dtype} | ({"block_shape": "[128,128]"} if blocks else {})
    written(tmp_path, source, Request(at=(at, {**at, "N": "4096"})))
    space, rng = reader(tmp_path, device), random.Random(0)
    for n in (768, 4096):
        shapes = ((128, 2 * n, 2048), (128, 2048, n), 8)
        name = None if dtype == "bf16" else dtype
        edges = [16, 17, 18, 511, 512, 513, 647, 648, 649, 2**53 + 1, 2**62]
        tokens = [*range(1, 700), *edges, *(int(2 ** rng.uniform(0, 16)) for _ in range(4300))]
        for m in tokens:
            row = {"M": m, "E": 128, "N": n, "topk": 8, "dtype": dtype}
            found = space["try_get_optimal_moe_config"](*shapes, name, m, blocks)
            assert found == ir.select(source, "nvidia", row), m


# --- the files --------------------------------------------------------------------------------------------


def test_entries_are_the_ends_of_steps() -> None:
    split = ir.Split("M", 17, LEAF(0), ir.Split("M", 18, LEAF(1), LEAF(2)))
    files = registry.emit(module(split), "vllm-moe", Request(at=({"E": "8", "N": "64"},))).files
    body = json.loads(files["E=8,N=64,device_name=NVIDIA_H200.json"])
    assert {m: c["BLOCK_SIZE_M"] for m, c in body.items()} == {"1": 16, "17": 16, "18": 32, "19": 64}


def test_one_file_per_situation_and_device_and_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heurgen.render.axis.LAST_TRIED", 700)  # behind the last step
    source = module(devices=("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    files = registry.emit(source, "vllm-moe", Request(at=(AT, {**AT, "dtype": "bf16"}))).files
    names = [
        f"E=128,N=768,device_name={d}{t}.json"
        for t in (",dtype=fp8_w8a8", "")
        for d in ("NVIDIA_H100_80GB_HBM3", "NVIDIA_H200")
    ]
    assert list(files) == [*names, MANIFEST]
    manifest = json.loads(files[MANIFEST])
    assert manifest["provenance"] == {"log_hash": "cd" * 32}
    assert manifest["exact_up_to"] == 65536
    assert manifest["files"][names[0]] == {
        "sha256": hashlib.sha256(files[names[0]].encode()).hexdigest(),
        "device": "NVIDIA H100 80GB HBM3",
        "for": {"E": 128, "N": 768, "topk": 8, "dtype": "fp8_w8a8"},
    }
    plain = json.loads(files[MANIFEST])
    digest = plain.pop("checksum")
    assert digest == hashlib.sha256((json.dumps(plain, indent=4) + "\n").encode()).hexdigest()


def test_a_category_that_training_never_saw_is_told() -> None:
    """A log of `fp8` and a file for `fp8_w8a8`: its entries are those of no dtype, and nothing said so."""
    at = ({**AT, "dtype": "fp8"}, {**AT, "dtype": "fp8", "E": "64"}, AT)
    assert registry.emit(module(), "vllm-moe", Request(at=at)).notes == (
        "dtype 'fp8' is none that training saw ('bf16', 'fp8_w8a8'), and gets what ships for unknown ones: "
        "if it is another spelling of one, add it to aliases in the spec and train again",
    )
    # No answer depends on it.
    assert registry.emit(module(ir.Split("M", 17, LEAF(0), LEAF(1))), "vllm-moe", Request(at=at)).notes == ()


def test_names_of_the_model_s_own() -> None:
    features = (
        ir.Feature("tokens", "int"),
        ir.Feature("E", "int", low=8, high=8),
        ir.Feature("width", "int", low=64, high=64),
    )
    names = ("BM", *NAMES[1:])
    selector = ir.Selector("nvidia", names, CONFIGS, ir.Split("tokens", 32, LEAF(0), LEAF(1)))
    source = ir.HeuristicModule("k", features, tuple(ir.Parameter(n, "int") for n in names), (selector,))
    request = Request(names={"M": "tokens", "N": "width", "BLOCK_SIZE_M": "BM"}, device="NVIDIA B200")
    files = registry.emit(source, "vllm-moe", request).files
    assert json.loads(files["E=8,N=64,device_name=NVIDIA_B200.json"])["33"]["BLOCK_SIZE_M"] == 32


def test_file_names() -> None:
    sizes = {"E": 8, "N": 14336}
    name = "E=8,N=14336,device_name=AMD_Instinct_MI300X_x.json"
    assert file_names(sizes, "AMD Instinct MI300X/x") == (name, name)
    name = "E=8,N=14336,device_name=X.json"
    assert file_names({**sizes, "dtype": "bfloat16", "block_shape": "none"}, "X") == (name, name)


def test_sglang_has_other_names_where_weights_have_blocks_or_a_card_is_of_a_family() -> None:
    """SGLang writes the list as Python does, and each card's own name."""
    blocks = {"E": 8, "N": 64, "dtype": "fp8_w8a8", "block_shape": "[128,64]", "per_channel_quant": False}
    assert file_names(blocks, "NVIDIA H200 NVL") == (
        "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,64].json",
        "E=8,N=64,device_name=NVIDIA_H200_NVL,dtype=fp8_w8a8,block_shape=[128, 64].json",
    )
    channels = {"E": 8, "N": 64, "dtype": "fp8_w8a8", "per_channel_quant": True}
    assert file_names(channels, "NVIDIA H20") == (
        None,
        "E=8,N=64,device_name=NVIDIA_H20,dtype=fp8_w8a8,per_channel_quant=True.json",
    )
    files = registry.emit(module(), "vllm-moe", Request(at=({**AT, "block_shape": "[128,64]"},))).files
    vllm, sglang = (files[n] for n in files if n != MANIFEST)
    assert vllm == sglang
    assert len(json.loads(files[MANIFEST])["files"]) == 2


@pytest.mark.parametrize("quantised", [{}, {"block_shape": "[128,64]"}, {"per_channel_quant": "true"}])
def test_every_card_of_a_family_has_a_file_of_sglang_s_with_its_own_answer(quantised: dict[str, str]) -> None:
    """vLLM's one file of H200s was the only one, by the name that SGLang gives to the first of them."""
    source = module(devices=("NVIDIA H200", "NVIDIA H200 NVL"))
    own = replace(source.selectors[0], device="NVIDIA H200 NVL", tree=LEAF(3))
    both = replace(source, selectors=(*source.selectors, own))
    files = registry.emit(both, "vllm-moe", Request(at=({**AT, **quantised},))).files
    (nvl,) = (json.loads(text) for name, text in files.items() if "NVIDIA_H200_NVL," in name)
    assert list(nvl) == ["1"]
    shared = [json.loads(text) for name, text in files.items() if "NVIDIA_H200," in name]
    assert shared
    assert all(len(file) > 1 for file in shared)


def test_two_situations_of_one_file_with_other_answers_are_no_file() -> None:
    """The second one replaced the first."""
    few = {**AT, "topk": "1"}
    with pytest.raises(
        UsageError, match="two of --at are for one file, E=128,N=768,device_name=NVIDIA_H200,dtype"
    ):
        registry.emit(module(), "vllm-moe", Request(at=(AT, few)))
    assert len(registry.emit(module(LEAF(1)), "vllm-moe", Request(at=(AT, few))).files) == 2


@pytest.mark.parametrize("payload", PAYLOADS[::3])
def test_a_hostile_name_is_no_file_name(payload: str) -> None:
    for fields, device in (
        ({"E": 1, "N": 1}, payload),
        ({"E": 1, "N": 1, "dtype": payload}, "X"),
        ({"E": payload, "N": 1}, "X"),
    ):
        try:
            (_, found) = file_names(fields, device)
        except HeurgenError as error:
            shown = str(error)
            assert shown.isprintable()
        else:
            assert found.isascii()
            assert found.isprintable()
            assert not set(found) & set("/\\\"'`$;&|<>{}* ")
            assert not found.startswith(".")


@pytest.mark.parametrize(
    ("request_", "kind", "message"),
    [
        (
            Request(),
            UsageError,
            "the model's answer depends on E, which a file must fix (say its value: --at E=VALUE)",
        ),
        (
            Request(at=({**AT, "E": "x"},)),
            UsageError,
            "--at E=x: 'x' is no int",
        ),
        (
            Request(at=({**AT, "n": "1"},)),
            UsageError,
            "--at names 'n' (known names: E, N, block_shape, dtype, per_channel_quant, topk)",
        ),
        (
            Request(at=({**AT, "E": "-1"},)),
            UsageError,
            "a file of vLLM's is for one E, found '-1' (say it: --at E=NUMBER)",
        ),
        (
            Request(at=({**AT, "block_shape": "[128]"},)),
            UsageError,
            "block_shape is '[128]', expected [N,K] with two positive ints",
        ),
        (
            Request(at=({**AT, "dtype": "../x"},)),
            EmitError,
            "'../x' cannot be a part of a file's name",
        ),
        (
            Request(at=(AT,), names={"M": "tokens"}),
            UsageError,
            "the model has no number 'tokens', over which the file's table runs (say which of its numbers it is, "
            "--map M=NAME; it has: M, E, N, topk)",
        ),
        (
            Request(at=(AT,), names={"m": "M"}),
            UsageError,
            "--map names 'm' (known fields: BLOCK_SIZE_K, BLOCK_SIZE_M, BLOCK_SIZE_N, E, GROUP_SIZE_M, M, N, SPLIT_K, "
            "block_shape, dtype, grf_mode, kpack, matrix_instr_nonkdim, num_ctas, num_stages, num_warps, "
            "per_channel_quant, waves_per_eu)",
        ),
        (
            Request(at=(AT,), names={"SPLIT_K": "BLOCK_SIZE_K"}),
            EmitError,
            "vLLM's fused MoE needs BLOCK_SIZE_K, which the model does not choose (--map BLOCK_SIZE_M=NAME says what a "
            "parameter is called in the model)",
        ),
        (
            Request(at=(AT,), device="\u202e"),
            EmitError,
            "'\\u202e' cannot be a part of a file's name",
        ),
    ],
)
def test_what_has_no_file(request_: Request, kind: type[HeurgenError], message: str) -> None:
    with pytest.raises(kind) as caught:
        registry.emit(module(), "vllm-moe", request_)
    assert str(caught.value) == message


@pytest.mark.parametrize(("type_", "value"), [("float", 1.5), ("bool", True), ("category", "1")])
def test_values_that_vllm_does_not_read(type_: ir.ColumnType, value: ir.Value) -> None:
    selector = ir.Selector("nvidia", NAMES[:4], ((16, 16, 16, value),), LEAF(0), devices=("X",))
    kinds = [ir.Parameter(n, "int") for n in NAMES[:3]] + [ir.Parameter(NAMES[3], type_)]
    source = ir.HeuristicModule("k", (ir.Feature("M", "int"),), tuple(kinds), (selector,))
    with pytest.raises(EmitError) as caught:
        registry.emit(source, "vllm-moe", Request(at=({"E": "1", "N": "1"},)))
    assert (
        caught.value.message
        == f"GROUP_SIZE_M takes the value {value!r}, expected ints: vLLM reads nothing else"
    )
    with pytest.raises(
        UsageError, match=r"a file of vLLM's is for one E, and none is said \(say it: --at E=NUMBER\)"
    ):
        registry.emit(source, "vllm-moe", Request(at=({"N": "1"},)))
    with pytest.raises(UsageError, match="does not say on which device it was trained"):
        registry.emit(module(devices=()), "vllm-moe", Request(at=(AT,)))
    selector = ir.Selector("nvidia", ("BLOCK_M",), ((16,),), LEAF(0))
    source = ir.HeuristicModule(
        "k", (ir.Feature("M", "int"),), (ir.Parameter("BLOCK_M", "int"),), (selector,)
    )
    with pytest.raises(EmitError, match="vLLM's fused MoE knows no parameter 'BLOCK_M'"):
        registry.emit(source, "vllm-moe", Request(at=({"E": "1", "N": "1"},), device="X"))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """By heurgen's own importer: the entries are the model's answers at their M."""
    from heurgen.cli import main

    source = module()
    name = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
    written(tmp_path, source, Request(at=(AT,)))
    words = ["import", "vllm", str(tmp_path / name), "-o", str(tmp_path / "log.csv")]
    assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {int(r["M"]) for r in rows} == {int(m) for m in json.loads((tmp_path / name).read_text())}
    for row in rows:
        assert (row["E"], row["N"], row["dtype"], row["device"]) == ("128", "768", "fp8_w8a8", "NVIDIA H200")
        given = {"M": int(row["M"]), "E": 128, "N": 768, "topk": 8, "dtype": "fp8_w8a8"}
        assert {n: int(row[n]) for n in NAMES} == ir.select(source, "nvidia", given)


def test_the_file_of_a_device_has_the_answer_of_its_own_selector() -> None:
    source = module(devices=("NVIDIA H200", "NVIDIA B200"))
    own = replace(source.selectors[0], device="NVIDIA B200", tree=LEAF(3))
    files = registry.emit(
        replace(source, selectors=(*source.selectors, own)), "vllm-moe", Request(at=(AT,))
    ).files
    named = {name: json.loads(text) for name, text in files.items() if name != MANIFEST}
    assert list(named["E=128,N=768,device_name=NVIDIA_B200,dtype=fp8_w8a8.json"]) == ["1"]
    assert len(named["E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"]) > 1
