# ruff: noqa: E501  (messages stand whole)
"""Helion's AOT measurements and autotune logs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

HELION = "kernel_name,shape_hash,config_hash,config,shape_features,timing_ms\n"
CONFIG = '"Config(num_warps=4)"'


def helion_log(config: str = CONFIG, status: str = "ok", perf: str = "1.0", run: str = "r") -> str:
    head = "run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n"
    return head + f"{run},1.0,c,0,{status},{perf},1.0,{config}\n"


WRONG: Wrong = {
    "helion": [
        ("measurements_cuda_NVIDIA_H200_13.0.csv", H, "kernel_name,config\n", "FILE:1: the column 'generation' is missing"),
        ("m.csv", H, HELION + "k,a,b,{},1.0\n", "FILE:2: found 5 cells, expected 6"),
        ("m.csv", H, HELION + 'k,a,b,"[]","{""a"": 1}",1.0\n', "FILE: column 'line 2: config': found a list, expected an object"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}",{,1.0\n', "FILE:2: is no JSON: Expecting property name enclosed in double quotes, "
         "at character 2"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",fast\n', "FILE:2: column 'timing_ms': found 'fast', expected a number"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",-1\n', "FILE: column 'line 2: timing_ms': found '-1.0', expected a "
         "finite time above 0, or Infinity"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": "" x""}",1\n', "FILE: column 'line 2: n': found ' x', expected text of 1 "
         "to 4096 printable characters, without spaces around it"),
        ("m.csv", Options(), HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",1\n', "FILE does not say the device (say which: --device NAME)"),
        ("m.csv", H, HELION, "the files hold no measurement that helion wrote"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",1\nj,a,b,"{""w"": 4}","{""n"": 1}",1\n', "the files are of 2 kernels "
         "(--kernel j or k)"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}",{},1\n', "the files name no feature (add one: --const NAME=VALUE)"),
        ("m.csv", H, HELION.replace("shape_hash", "config"), "FILE:1: two columns are named 'config'"),
        ("log.csv", H, helion_log('"Config(x)"'), "FILE:2: column 'config': found 'Config(x)', expected Config(name=value, ...)"),
        ("log.csv", H, helion_log('"Config(x=open(1))"'), "FILE:2: column 'config': found 'Config(x=open(1))', expected "
         "Config(name=value, ...)"),
        ("log.csv", H, helion_log('"Config("'), "FILE:2: column 'config': found 'Config(', expected Config(name=value, ...)"),
        ("log.csv", H, helion_log('"Config()"'), "FILE:2: column 'config': the config is empty"),
        ("log.csv", H, helion_log('"Config(a={1, 2})"'), "FILE: column 'line 2: a': found '{1, 2}', expected a number or text"),
        ("log.csv", H, helion_log('"Config(a=[[{1}]])"'), "FILE:2: column 'a': found '[[{1}]]', expected plain values"),
        ("log.csv", H, helion_log('"{""a"": [" "x""]}"'), "FILE:2: is no CSV: ',' expected after '\"'"),
        ("log.csv", H, helion_log(status="error", perf=""), "every measurement of helion failed: 'error'"),
        ("log.csv", H, helion_log(status="started"), "the files hold no measurement that helion wrote"),
        ("log.csv", H, helion_log(perf="soon"), "FILE:2: column 'perf_ms': found 'soon', expected a number"),
        ("log.csv", H, helion_log(perf="0"), "FILE: column 'line 2: perf_ms': found '0.0', expected a finite time above 0, or Infinity"),
        ("log.csv", H, helion_log() + helion_log(run="s").split("\n")[1], "FILE: holds 2 runs, and nothing says the shapes of 2 runs "
         "(give log.meta.jsonl too)"),
        ("log.csv", Options(), helion_log(), "FILE does not say the device (say which: --device NAME)"),
        ("log.csv", H, helion_log(), "the files name no feature (add one: --const NAME=VALUE)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=15, deadline=None)
@given(tables)
def test_helion(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    text = "kernel_name,shape_hash,config_hash,config,shape_features,timing_ms\n"
    for (m, n, block, warps), time in table.items():
        config = json.dumps({"block_sizes": [block, 64], "num_warps": warps, "loop_orders": [[0, 1]]})
        shape = json.dumps({"arg0_ndim": 2, "arg0_dim0": m, "arg0_dim1": n, "arg0_dtype": "torch.bfloat16"})
        cells = [f'"{c}"' for c in (config.replace('"', '""'), shape.replace('"', '""'))]
        text += f"k,a,b,{cells[0]},{cells[1]},{'inf' if time is None else repr(time)}\n"
    file = write(tmp_path_factory.mktemp("helion"), "measurements_cuda_NVIDIA_H200_13.0.csv", text)
    imported = import_logs("auto", [file], Options(rename={"block_sizes_0": "BLOCK"}))
    assert read_back(imported, "arg0_dim0", "arg0_dim1") == table
    assert imported.rows[0][1] == "NVIDIA H200"


@settings(max_examples=15, deadline=None)
@given(tables, st.booleans())
def test_helion_log(tmp_path_factory: pytest.TempPathFactory, table: Table, beside: bool) -> None:
    """As Helion 1.5 writes it: str(Config) in a cell, and a run's shapes in the other file."""
    folder = tmp_path_factory.mktemp("helion")
    text = "run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n"
    for (m, n, block, warps), time in table.items():
        config = (
            f"Config(block_sizes=[{block}], loop_orders=[[0, 1]], num_warps={warps}, range_flattens=[None])"
        )
        rows = ["started,,", "error,," if time is None else f"ok,{time!r},1.50"]
        text += "".join(f'run{m}x{n},1.00,c,0,{row},"{config}"\n' for row in rows)
    metas = []
    for m, n in scenarios(table):
        meta = {
            "run_id": f"run{m}x{n}",
            "kernel_name": "softmax",
            "kernel_source": "def f(): ...",
            "settings": None,
        }
        meta |= {"input_shapes": str([(m, n), (n,)]), "dtypes": str(["torch.bfloat16", "torch.float32"])}
        metas.append(json.dumps(meta | {"hardware": "NVIDIA H200", "ir_graph": None, "configs": {}}))
    file = write(folder, "log.csv", text)
    meta_file = write(folder, "log.meta.jsonl" if beside else "other.meta.jsonl", "\n".join(metas) + "\n")
    imported = import_logs(
        "auto", [file] if beside else [meta_file, file], Options(rename={"block_sizes_0": "BLOCK"})
    )
    assert read_back(imported, "arg0_dim0", "arg0_dim1") == table
    assert columns(imported, "device", "arg1_dtype")[0] == ("NVIDIA H200", "torch.float32")
    assert parse_spec(imported.spec_text()).name == "softmax"


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("cuda_NVIDIA_GeForce_RTX_4090_12.8", "NVIDIA GeForce RTX 4090"),
        ("cuda_NVIDIA_H200", "NVIDIA H200"),
        ("rocm_gfx942:sramecc+:xnack-_6.4.43484-123eb5128", "gfx942:sramecc+:xnack-"),
        ("xpu_Intel(R)_Data_Center_GPU_Max_1550_1.6.32567+18", "Intel(R) Data Center GPU Max 1550"),
        ("cuda_NVIDIA_B200_13.0__policy_0a1b2c", "NVIDIA B200"),
    ],
)
def test_the_name_of_measurements_tells_the_device(tmp_path: Path, name: str, device: str) -> None:
    text = HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",1\n'
    file = write(tmp_path, f"measurements_{name}.csv", text)
    assert columns(import_logs("auto", [file], Options()), "device") == [(device,)]


def test_autotune_logs_of_helion_0_3_and_older(tmp_path: Path) -> None:
    text = "timestamp_s,config_index,generation,status,perf_ms,compile_time_s,config\n"
    text += '0.5,1,0,ok,1.5,1.0,"Config(num_warps=4)"\n0.6,2,0,error,,1.0,"Config(num_warps=8)"\n'
    imported = import_logs(
        "auto", [write(tmp_path, "log.csv", text)], Options(device="H200", const={"n": "8"})
    )
    assert columns(imported, "num_warps", "status", "time_ms") == [("4", "ok", "1.5"), ("8", "error", "")]


def test_a_config_whose_code_another_has_takes_its_time(tmp_path: Path) -> None:
    """Helion 1.5 logs it as deduplicated, of one that failed before as well: it was left out, or stayed a failure."""
    text = "run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n"
    ends = ((1, "ok,0.5"), (2, "deduplicated,0.5"), (4, "timeout,"), (4, "deduplicated,0.75"), (8, "error,"))
    ends += ((16, "deduplicated,"), (16, "started,"))
    text += "".join(f'r,0.10,c,0,{end},,"Config(num_warps={warps})"\n' for warps, end in ends)
    options = Options(device="H200", const={"n": "8"})
    imported = import_logs("auto", [write(tmp_path, "log.csv", text)], options)
    assert columns(imported, "num_warps", "status", "time_ms") == [
        *(("1", "ok", "0.5"), ("2", "ok", "0.5"), ("4", "ok", "0.75"), ("8", "error", ""))
    ]


def test_runs_of_several_shapes_are_left_out(tmp_path: Path) -> None:
    """Helion 1.5 tunes for several at once, and logs one time of a config: for one such run the log was refused."""
    text = "run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n"
    text += "".join(
        f'{run},0.10,c,0,ok,{t},,"Config(num_warps=4)"\n' for run, t in (("one", 0.5), ("two", 1.5))
    )
    shapes = {"one": "[(8, 4)]", "two": "[[(8, 4)], [(16, 4)]]"}
    dtypes = {"one": "['torch.float16']", "two": "[['torch.float16'], ['torch.float16']]"}
    metas = [
        {"run_id": r, "kernel_name": "k", "input_shapes": s, "dtypes": dtypes[r], "hardware": "NVIDIA H200"}
        for r, s in shapes.items()
    ]
    write(tmp_path, "log.meta.jsonl", "\n".join(map(json.dumps, metas)) + "\n")
    imported = import_logs("auto", [write(tmp_path, "log.csv", text)], Options())
    assert columns(imported, "arg0_dim0", "time_ms") == [("8", "0.5")]
    assert "1 row left out: their runs give several shapes one time" in imported.notes
    file = write(
        tmp_path, "log.csv", "\n".join(line for line in text.split("\n") if not line.startswith("one"))
    )
    with pytest.raises(
        LogError, match=r"log.csv: nothing to read: their runs give several shapes one time \(tune"
    ):
        import_logs("auto", [file], Options())


def measured(*rows: tuple[dict[str, Any], dict[str, Any], float]) -> str:
    text = io.StringIO()
    for config, features, time in rows:
        csv.writer(text).writerow(["k", "a", "b", json.dumps(config), json.dumps(features), time])
    return HELION + text.getvalue()


def test_entries_of_a_config_that_are_empty_texts(tmp_path: Path) -> None:
    """The default eviction policy of Helion's loads is an empty text."""
    rows = [
        ({"load_eviction_policies": p, "num_warps": 4}, {"arg0_dim0": 8}, 1.0)
        for p in (["", "last"], ["first", ""])
    ]
    file = write(tmp_path, "measurements_cuda_NVIDIA_H200_13.0.csv", measured(*rows))
    names = [f"load_eviction_policies_{i}" for i in range(2)]
    assert columns(import_logs("auto", [file], Options()), *names) == [("", "last"), ("first", "")]


def test_arguments_that_only_some_calls_have_are_none(tmp_path: Path) -> None:
    """An optional tensor, one of another rank, a scalar that is None."""
    calls = (
        {"arg0_dim0": 8, "arg1_dtype": "torch.int8", "arg2_scalar": 0.5},
        {"arg0_dim0": 4, "arg0_dim1": 2, "arg2_scalar": None},
    )
    rows = [({"num_warps": 4}, features, 1.0) for features in calls]
    file = write(tmp_path, "measurements_cuda_NVIDIA_H200_13.0.csv", measured(*rows))
    found = columns(
        import_logs("auto", [file], Options()), "arg0_dim0", "arg0_dim1", "arg1_dtype", "arg2_scalar"
    )
    assert found == [("4", "2", "none", "none"), ("8", "none", "torch.int8", "0.5")]


def test_the_status_of_measurements(tmp_path: Path) -> None:
    """What was filtered never ran: no failure. What is like another config has its time."""
    head = "kernel_name,shape_hash,config_hash,config,shape_features,timing_ms,status\n"
    ends = ("0.5,ok", "inf,filtered", ",error", "0.25,deduplicated", "inf,timeout", "inf,")
    rows = [f'k,s,c{i},"{{""num_warps"": {i}}}","{{""arg0_dim0"": 8}}",{end}\n' for i, end in enumerate(ends)]
    file = write(tmp_path, "measurements_cuda_NVIDIA_H200_13.0.csv", head + "".join(rows))
    assert columns(import_logs("auto", [file], Options()), "num_warps", "status", "time_ms") == [
        *(
            ("0", "ok", "0.5"),
            ("2", "error", ""),
            ("3", "ok", "0.25"),
            ("4", "timeout", ""),
            ("5", "invalid", ""),
        ),
    ]
