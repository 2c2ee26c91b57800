# ruff: noqa: E501  (messages stand whole)
"""Inductor's max-autotune logs: matrix products, FlexAttention, convolutions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from heurgen.base.errors import LogError
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import (
    Case,
    H,
    Table,
    Wrong,
    cases,
    check_refusal,
    columns,
    read_back,
    scenarios,
    tables,
    write,
)


def mm(key: str = "(8, 16, 32)", choices: Any = ({"type": "triton", "time": 1.0, "BLOCK_M": 16},)) -> str:
    return json.dumps([{"invoke": key}, {key: choices}])


WRONG: Wrong = {
    "inductor": [
        ("mm.json", H, "[", "FILE:1: is no JSON: Expecting value, at character 2"),
        ("mm.json", H, "[1]", "FILE: column '[0]': found a number, expected an object"),
        ("mm.json", H, mm("(s0, 16, 32)"), "FILE:1: column '[1]': found the key '(s0, 16, 32)', expected a tuple of sizes "
         "(a symbolic size? compile with dynamic=False)"),
        ("mm.json", H, mm("(8, 16)"), "FILE:1: column '[1]': found the key '(8, 16)', expected (M, K, N)"),
        ("mm.json", H, mm("(8, 16, -1)"), "FILE:1: column '[1]': found the key '(8, 16, -1)', expected (M, K, N)"),
        ("mm.json", H, mm("__import__('os')"), "FILE:1: column '[1]': found the key \"__import__('os')\", expected a tuple of sizes"),
        ("mm.json", H, mm(choices={}), "FILE:1: column '[1].(8, 16, 32)': found an object, expected a list"),
        ("mm.json", H, mm(choices=[1]), "FILE:1: column '[1].(8, 16, 32)[0]': found a number, expected an object"),
        ("mm.json", H, mm(choices=[{"type": "triton"}]), "FILE:1: column '[1].(8, 16, 32)[0]': the key 'time' is missing"),
        ("mm.json", H, mm(choices=[{"time": 1.0}]), "FILE:1: column '[1].(8, 16, 32)[0]': the choice names no parameter"),
        ("mm.json", H, mm(choices=[None]), "the files hold no measurement that inductor wrote"),
        ("mm.json", Options(), mm(), "FILE does not say the device (say which: --device NAME)"),
        ("log.txt", H, "AUTOTUNE mm(64x32, 32x16)\n  mm 0.2 ms 100.0%\n  triton_mm_3 0.4 ms 50.0%\n", "FILE:3: the choice 'triton_mm_3' names "
         "no parameter (older versions of torch print names alone; log with TORCHINDUCTOR_MM_LOGGING_FILE)"),
        ("log.txt", H, "AUTOTUNE mm(64x32, 32x16)\n  mm 0.2.1 ms 100.0%\n", "FILE:2: column 'mm': found '0.2.1', expected a number"),
        ("log.txt", H, "AUTOTUNE mm(64x32, 32x16)\n  mm 0.0 ms 100.0%\n", "FILE: column 'line 2': found '0.0', expected a "
         "finite time above 0, or Infinity"),
        ("log.txt", H, "AUTOTUNE mm(64xx32, 32x16)\n  mm 0.2 ms\n", "FILE:1: found the shapes '64xx32, 32x16', expected sizes such as 64x4096"),
        ("log.txt", H, "AUTOTUNE mm(64x32, 32x16)\nstrides: [32, 1], [16]\n  mm 0.2 ms\n", "FILE:2: found the strides '[32, 1], [16]', expected "
         "one of each size above"),
        ("log.txt", H, "nothing here\n", "FILE: found no block that max-autotune prints (AUTOTUNE mm(...), then its choices)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_inductor(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    log: list[Any] = []
    for (m, n), cells in scenarios(table).items():
        choices: list[Any] = [None]
        for (_, _, block, warps), time in cells.items():
            value = float("inf") if time is None else time
            choices.append({"type": "triton", "time": value, "BLOCK": block, "num_warps": warps})
        log += [{"invoke": str((m, 64, n))}, {str((m, 64, n)): choices, "kernel_type": "mm"}]
    file = write(tmp_path_factory.mktemp("inductor"), "mm.json", json.dumps(log))
    assert read_back(import_logs("auto", [file], H), "M", "N") == table


def test_choices_of_one_tuning_that_the_log_does_not_tell_apart_are_no_repeats(tmp_path: Path) -> None:
    """addmm and bias_addmm are both "cublas", a plain and a persistent template both "triton"."""
    tile = {"type": "triton", "BLOCK_M": 64}
    inf = float("inf")
    choices = [{"type": "cublas", "time": 3.0}, {"type": "cublas", "time": 2.0}]
    choices += [tile | {"time": t} for t in (inf, 5.0, 4.0)]
    again = [{"type": "cublas", "time": 2.5}]
    log = [{"(8, 16, 32)": choices, "kernel_type": "addmm"}, {"(8, 16, 32)": again, "kernel_type": "addmm"}]
    found = import_logs("auto", [write(tmp_path, "mm.json", json.dumps(log))], H)
    assert columns(found, "type", "time_ms") == [("cublas", "2.0"), ("cublas", "2.5"), ("triton", "4.0")]
    said = "3 choices of templates that the log does not tell apart: of each config in a tuning the fastest counts"
    assert said in found.notes


FLEX = {"('forward', 1, 32, 8, 512, 512, 128, 128)": [{"type": "triton", "time": 1.0, "BLOCK_M": 64}]}
NEW = {"query_shape": "[1, 32, 512, 128]", "key_shape": "[1, 8, 512, 128]", "value_shape": "[1, 8, 512, 128]"}
CONV = {"input_shape": "[1, 3, 8, 8]", "weight_shape": "[16, 3, 3, 3]", "kernel_type": "conv2d"}


def test_flex_and_conv(tmp_path: Path) -> None:
    choices = {"kernel_type": "forward", "choices": [{"type": "triton", "time": 1.0, "BLOCK_M": 64, "B": 1}]}
    old = import_logs("auto", [write(tmp_path, "old.json", json.dumps([FLEX]))], H)
    new = import_logs("auto", [write(tmp_path, "new.json", json.dumps([NEW | choices]))], H)
    assert old.rows == new.rows
    conv = CONV | {"choices": [{"time": 0.5, "backend": "triton", "BLOCK_M": 32}]}
    found = import_logs("auto", [write(tmp_path, "conv.json", json.dumps([conv]))], H)
    assert columns(found, "in_c", "out_c", "fil_h", "BLOCK_M") == [("3", "16", "3", "32")]


def test_shapes_of_other_ranks(tmp_path: Path) -> None:
    """As torch 2.13 writes them: FlexDecoding's tensors have five dimensions, convolutions three to five."""
    place = {"kernel_type": "decode", "B": 2, "Hq": 32, "Hkv": 8, "seq_len_q": 1, "seq_len_kv": 512}
    decode = {
        "query_shape": "[2, 32, 1, 1, 128]",
        "key_shape": "[2, 8, 512, 128]",
        "value_shape": "[2, 8, 512, 64]",
    }
    choice = place | {"type": "triton", "time": 1.0, "BLOCK_N": 64, "qk_head_dim": 128, "v_head_dim": 64}
    log = [decode | {"kernel_type": "decode", "choices": [choice, choice | {"type": "extern", "time": 2.0}]}]
    found = import_logs("auto", [write(tmp_path, "decode.json", json.dumps(log))], H)
    names = ("B", "Hq", "Hkv", "seq_len_q", "seq_len_kv", "qk_head_dim", "v_head_dim")
    assert columns(found, *names)[0] == ("2", "32", "8", "1", "512", "128", "64")
    assert parse_spec(found.spec_text()).name == "flex_attention_decode"
    for dims, axes in ((1, "w"), (2, "hw"), (3, "dhw")):
        conv = {"input_shape": str([1, 3, *range(8, 8 + dims)]), "weight_shape": str([16, 3, *[5] * dims])}
        info = {"time": 0.5, "backend": "Triton", "tile_shape": [64, 32, 128], "num_warps": 4}
        log = [conv | {"kernel_type": "convolution", "choices": [info, {"time": 1.0, "backend": "extern"}]}]
        found = import_logs("auto", [write(tmp_path, f"conv{dims}.json", json.dumps(log))], H)
        sizes = tuple(str(n) for n in range(8, 8 + dims))
        assert columns(found, *(f"in_{a}" for a in axes), "tile_shape") == [
            (*sizes, "[64,32,128]"),
            (*sizes, ""),
        ]
    conv = {"input_shape": "[1, 3]", "weight_shape": "[16, 3]", "kernel_type": "c", "choices": []}
    with pytest.raises(LogError, match=r"found the shape '\[1, 3\]', expected 3 or 4 or 5 sizes"):
        import_logs("inductor", [write(tmp_path, "bad.json", json.dumps([conv]))], H)


def test_logged_tunings_of_symbolic_sizes_are_left_out(tmp_path: Path) -> None:
    choices = [{"type": "cublas", "time": 0.5}]
    log = [{"(s0, 16, 32)": choices}, {"(8, 16, 32)": choices}, {"(s7 + 1, 16, 32)": choices}]
    imported = import_logs("auto", [write(tmp_path, "mm.json", json.dumps(log))], H)
    assert columns(imported, "M", "K", "N") == [("8", "16", "32")]
    assert "2 tunings of symbolic sizes left out" in imported.notes


def test_a_size_that_the_program_computes_is_symbolic(tmp_path: Path) -> None:
    choices = [{"type": "cublas", "time": 0.5}]
    log = [{"(u0, 16, 32)": choices}, {"(8, 16, 32)": choices}, {"(2*u12, 16, 32)": choices}]
    imported = import_logs("auto", [write(tmp_path, "mm.json", json.dumps(log))], H)
    assert columns(imported, "M", "K", "N") == [("8", "16", "32")]
    assert "2 tunings of symbolic sizes left out" in imported.notes
    shapes = [{"input_shape": f"[{n}, 3, 8, 8]", "weight_shape": "[16, 3, 3, 3]"} for n in ("u3", "2")]
    log = [s | {"choices": [{"time": 1.0, "backend": "extern"}]} for s in shapes]
    assert columns(import_logs("auto", [write(tmp_path, "conv.json", json.dumps(log))], H), "batch") == [
        ("2",)
    ]


def test_logged_shapes_that_are_symbolic_are_left_out(tmp_path: Path) -> None:
    shapes = [
        {"input_shape": f"[{n}, 3, 8, 8]", "weight_shape": "[16, 3, 3, 3]"} for n in ("s77", "2", "8*s0")
    ]
    log = [
        s | {"kernel_type": "convolution", "choices": [{"time": 1.0, "backend": "extern"}]} for s in shapes
    ]
    imported = import_logs("auto", [write(tmp_path, "conv.json", json.dumps(log))], H)
    assert columns(imported, "batch") == [("2",)]
    assert "2 tunings of symbolic sizes left out" in imported.notes
    with pytest.raises(LogError, match=r"symbolic size\? compile with dynamic=False"):
        import_logs("auto", [write(tmp_path, "conv.json", json.dumps(log[:1]))], H)


def test_scaled_products_are_left_out_for_want_of_their_sizes(tmp_path: Path) -> None:
    """Their key has the sizes of the scales: every product with a scale a matrix would be one scenario."""
    choices = [{"type": "cublas", "time": 0.5}]
    scaled = [{"(1, 1, 1)": choices, "kernel_type": "scaled_mm"}] * 2
    log = [*scaled, {"(8, 16, 32)": choices, "kernel_type": "mm"}]
    imported = import_logs("auto", [write(tmp_path, "mm.json", json.dumps(log))], H)
    assert columns(imported, "M", "K", "N") == [("8", "16", "32")]
    said = "2 tunings of scaled products: the log has the sizes of their scales alone"
    assert f"left out, {said}" in imported.notes
    with pytest.raises(LogError, match=said):
        import_logs("auto", [write(tmp_path, "mm.json", json.dumps(scaled))], H)


def test_products_of_versions_that_log_no_operation_are_said_to_be_taken_for_mm(tmp_path: Path) -> None:
    log = [{"invoke": "(8, 16, 32)"}, {"(8, 16, 32)": [{"type": "cublas", "time": 0.5}]}]
    imported = import_logs("auto", [write(tmp_path, "mm.json", json.dumps(log))], H)
    assert any(note.startswith("1 tuning of products without an operation") for note in imported.notes)
    for named in (log[1] | {"kernel_type": "mm"}, FLEX):
        imported = import_logs("auto", [write(tmp_path, "mm.json", json.dumps([named]))], H)
        assert not any("without an operation" in note for note in imported.notes)


def test_of_a_batched_product_inductor_logs_the_batch_and_no_k(tmp_path: Path) -> None:
    log = [{"(8, 64, 256)": [{"type": "cublas", "time": 0.5}], "kernel_type": "bmm"}]
    imported = import_logs("auto", [write(tmp_path, "mm.json", json.dumps(log))], H)
    assert columns(imported, "B", "M", "N") == [("8", "64", "256")]
    assert "K" not in imported.columns
