# ruff: noqa: E501  (messages stand whole)
"""Triton's autotuning caches: what is written is read back, and wrong files have one message each."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from heurgen.base.errors import LogError
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import (
    KEYS,
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


def triton(key: Any = (8, 16, "torch.float16"), config: Any = None, timing: Any = (1.0, 0.9, 1.1)) -> str:
    config = {"kwargs": {"BLOCK": 16}, "num_warps": 4} if config is None else config
    return json.dumps({"key": key, "configs_timings": [[config, timing]]})


WRONG: Wrong = {
    "triton": [
        ("k.autotune.json", KEYS, "", "FILE: the file is empty"),
        ("k.autotune.json", KEYS, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("k.autotune.json", KEYS, "[]", "FILE: found a list, expected an object"),
        ("k.autotune.json", KEYS, '{"key": []}', "FILE: the key 'configs_timings' is missing (expected Triton's *.autotune.json)"),
        ("k.autotune.json", KEYS, '{"key": 1, "configs_timings": []}', "FILE: column 'key': found a number, expected a list"),
        ("k.autotune.json", KEYS, '{"key": [8, 16], "configs_timings": []}', "FILE: column 'configs_timings': no config was timed"),
        ("k.autotune.json", KEYS, '{"key": [8, 16], "configs_timings": 3}', "FILE: column 'configs_timings': found a number, expected a list"),
        ("k.autotune.json", KEYS, '{"key": [8, 16], "configs_timings": [[1]]}', "FILE: column 'configs_timings[0]': found 1 value, "
         "expected a config and its timings"),
        ("k.autotune.json", KEYS, triton(key=[8, 16, {"x": 1}]), "FILE:1: column 'key[2]': found \"{'x': 1}\", expected a number or text"),
        ("k.autotune.json", replace(KEYS, kernel="other"), triton(), "no file is of the kernel 'other' (found: k)"),
        ("k.autotune.json", KEYS, triton(key=[8]), "FILE: column 'key': its key (8) is not M, N, then dtypes: it is too short "
         "(--keys names the decorator's key in its order)"),
        ("k.autotune.json", KEYS, triton(key=[8, 16, 3.5]), "FILE: column 'key': its key (8, 16, 3.5) is not M, N, then dtypes: "
         "'3.5' is no dtype (--keys names the decorator's key in its order)"),
        ("k.autotune.json", KEYS, triton(config={}), "FILE: column 'configs_timings[0]': the config is empty"),
        ("k.autotune.json", KEYS, triton(config={"kwargs": {"BLOCK": {"x": 1}}}), "FILE:1: column 'configs_timings[0].kwargs.BLOCK': "
         "found \"{'x': 1}\", expected a number or text"),
        ("k.autotune.json", KEYS, triton(timing=[-1.0]), "FILE:1: column 'configs_timings[0]': found '-1.0', expected a finite "
         "time above 0, or Infinity"),
        ("k.autotune.json", KEYS, triton(timing=[]), "FILE: column 'configs_timings[0]': found no time"),
        ("k.autotune.json", KEYS, triton(timing=[float("inf")]), "every measurement of triton failed: 'invalid'"),
        ("k.autotune.json", H, triton(), "a Triton cache does not name its key, which holds '8', '16', 'torch.float16' "
         "(--keys M,N,K in the decorator's order, or --key-from file.py:function)"),
        ("k.autotune.json", Options(keys=("M", "N")), triton(), "FILE does not say the device (say which: --device NAME)"),
        ("k.autotune.json", Options(device="H200", keys=("M",), key_from="a.py:f"), triton(), "--keys and --key-from say the same "
         "(give one of them)"),
        ("k.autotune.json", Options(device="H200", key_from="nowhere"), triton(), "found --key-from 'nowhere', expected "
         "FILE.py:FUNCTION"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_triton(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    folder = tmp_path_factory.mktemp("triton")
    for (m, n), cells in scenarios(table).items():
        timings = []
        for (_, _, block, warps), time in cells.items():
            config = {"kwargs": {"BLOCK": block}, "num_warps": warps, "num_ctas": 1, "num_stages": 3}
            config |= {"maxnreg": None, "pre_hook": None, "ir_override": None}
            value = float("inf") if time is None else time
            timings.append([config, [value, value, value]])
        (folder / f"{m}_{n}").mkdir()
        key = [m, n, "torch.float16", "torch.float16"]
        write(folder, f"{m}_{n}/k.autotune.json", json.dumps({"key": key, "configs_timings": timings}))
    imported = import_logs("auto", [str(folder)], Options(device="NVIDIA H200", keys=("M", "N")))
    assert read_back(imported, "M", "N") == table


@pytest.mark.parametrize("time", [float("nan"), float("inf"), None])
def test_a_config_without_a_time_failed(tmp_path: Path, time: float | None) -> None:
    """A benchmarker of the user's may give NaN, and one config of hundreds must not hold up the others."""
    timings = [[{"kwargs": {"B": b}, "num_warps": 4}, [t, t, t]] for b, t in ((1, 0.5), (2, time))]
    file = write(tmp_path, "k.autotune.json", json.dumps({"key": [8], "configs_timings": timings}))
    imported = import_logs("auto", [file], replace(KEYS, keys=("n",)))
    assert columns(imported, "B", "status", "time_ms") == [("1", "ok", "0.5"), ("2", "invalid", "")]
    assert imported.notes[-1] == "2 rows, 1 of them failed"


def test_newer_files_of_a_triton_cache_win(tmp_path: Path) -> None:
    for i, time in enumerate((3.0, 1.0, 2.0)):
        (tmp_path / str(i)).mkdir()
        timing = [{"kwargs": {"BLOCK": 16}, "num_warps": 4}, [time, time, time]]
        file = write(tmp_path, f"{i}/k.autotune.json", json.dumps({"key": [8], "configs_timings": [timing]}))
        os.utime(file, (0, (100, 300, 200)[i]))
    imported = import_logs("triton", [str(tmp_path)], Options(device="NVIDIA H200", keys=("n",)))
    assert columns(imported, "time_ms") == [("1.0",)]
    assert "2 measurements of older files gave way to newer ones" in imported.notes


def test_files_without_timings_and_of_other_kernels_hold_nothing_up(tmp_path: Path) -> None:
    """Triton leaves configs with hooks out of the file, at times all of them; a cache holds many kernels."""
    for name, text in (
        ("k", triton()),
        ("k", '{"key": [16, 16], "configs_timings": []}'),
        ("other", '{"key": [8], "configs_timings": [["BLOCK: 16", [1.0]]]}'),
    ):
        (tmp_path / text[-12:]).mkdir()
        write(tmp_path, f"{text[-12:]}/{name}.autotune.json", text)
    imported = import_logs("auto", [str(tmp_path)], replace(KEYS, kernel="k"))
    assert columns(imported, "M", "N", "BLOCK") == [("8", "16", "16")]
    assert "1 file without a timed config left out" in imported.notes


def test_noise_is_taken_from_the_quantiles(tmp_path: Path) -> None:
    timing = [{"kwargs": {"BLOCK": 16}, "num_warps": 4}, [1.0, 0.9, 1.1]]
    file = write(tmp_path, "k.autotune.json", json.dumps({"key": [8], "configs_timings": [timing]}))
    imported = import_logs("triton", [file], Options(device="NVIDIA H200", keys=("n",)))
    assert parse_spec(imported.spec_text()).log.noise == pytest.approx(0.2 / 1.6832, rel=1e-4)


def tunings(
    folder: Path, *keys: list[Any], configs: Any = ({"kwargs": {"BLOCK": 16}, "num_warps": 4},)
) -> list[str]:
    timings = [[config, [1.0 + i] * 3] for i, config in enumerate(configs)]
    for i, key in enumerate(keys):
        (folder / str(i)).mkdir()
        write(folder, f"{i}/k.autotune.json", json.dumps({"key": key, "configs_timings": timings}))
    return [str(folder)]


def test_a_value_of_the_key_that_is_null_and_the_dtype_of_a_tensor_that_is_not_given_are_none(
    tmp_path: Path,
) -> None:
    keys = ([8, None, "torch.float16"], [8, 4, "torch.float16", "torch.float16"])
    imported = import_logs("triton", tunings(tmp_path, *keys), KEYS)
    assert columns(imported, "M", "N", "dtype_1") == [("8", "4", "torch.float16"), ("8", "none", "none")]


def test_a_name_too_many_takes_a_dtype_for_its_value(tmp_path: Path) -> None:
    """So does a name that a launch was not given: Triton leaves it out of the key."""
    short, whole = [8, 16, "torch.float16", "torch.int8"], [8, 16, 64, "torch.float16", "torch.int8"]
    named = replace(KEYS, keys=("M", "N", "K"))
    folders = [tmp_path / n for n in ("short", "mixed", "whole")]
    for folder in folders:
        folder.mkdir()
    imported = import_logs("triton", tunings(folders[0], short), named)
    assert "K is a dtype in every key (torch.float16): is it one name too many?" in imported.notes
    with pytest.raises(
        LogError, match=r"\(8, 16, torch.float16, torch.int8\) has the dtype torch.float16 for K"
    ):
        import_logs("triton", tunings(folders[1], short, whole), named)
    assert not any("dtype" in n for n in import_logs("triton", tunings(folders[2], whole), named).notes)


def test_fields_of_other_versions_tell_configs_apart_and_say_nothing_where_all_leave_them_off(
    tmp_path: Path,
) -> None:
    config = {
        "kwargs": {"BLOCK": 16},
        "num_warps": 4,
        "num_stages": 3,
        "num_consumer_groups": 0,
        "pingpong": False,
    }
    configs = (config, config | {"num_consumer_groups": 2})
    imported = import_logs("triton", tunings(tmp_path, [8, 16], configs=configs), KEYS)
    assert columns(imported, "num_consumer_groups", "time_ms") == [("0", "1.0"), ("2", "2.0")]
    assert "pingpong" not in imported.columns


def test_what_a_config_sets_itself_counts_before_its_kwargs(tmp_path: Path) -> None:
    """As `Config.all_kwargs` of Triton merges them; what the config leaves at null stays the kwargs'."""
    kwargs = {"BLOCK": 16, "num_warps": 8, "maxnreg": 64}
    configs = [{"kwargs": kwargs, "num_warps": warps, "maxnreg": None} for warps in (1, 2)]
    imported = import_logs("triton", tunings(tmp_path, [8, 16], configs=configs), KEYS)
    assert columns(imported, "num_warps", "maxnreg", "time_ms") == [("1", "64", "1.0"), ("2", "64", "2.0")]


def test_meta_parameters_that_are_lists_or_empty_texts(tmp_path: Path) -> None:
    kwargs = ({"TILE": [16, 32], "MODIFIER": ""}, {"TILE": [32, 32], "MODIFIER": ".cg"})
    configs = [{"kwargs": k, "num_warps": 4} for k in kwargs]
    imported = import_logs("triton", tunings(tmp_path, [8, 16], configs=configs), KEYS)
    assert columns(imported, "TILE", "MODIFIER") == [("[16,32]", ""), ("[32,32]", ".cg")]


def test_a_value_of_the_key_that_is_a_tuple_is_a_category(tmp_path: Path) -> None:
    keys = ([[8, 16], "", "torch.float16"], [[8, 32], "x", "torch.float16"])
    imported = import_logs("triton", tunings(tmp_path, *keys), KEYS)
    assert columns(imported, "M", "N") == [("[8,16]", "none"), ("[8,32]", "x")]
