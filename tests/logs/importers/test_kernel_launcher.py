# ruff: noqa: E501  (messages stand whole)
"""Kernel Launcher's wisdom files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from heurgen.base.errors import UsageError
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import (
    Case,
    H,
    Table,
    Wrong,
    cases,
    check_refusal,
    columns,
    read_back,
    tables,
    write,
)


def wisdom(
    line: str = '{"config": [1], "problem_size": [8], "time": 1.0, "environment": {"device_name": "A100"}}',
) -> str:
    return '{"tunable_parameters": ["t"], "key": "add"}\n' + line + "\n"


WRONG: Wrong = {
    "kernel-launcher": [
        ("a.wisdom", H, "# a comment\n", "FILE: holds comments alone"),
        ("a.wisdom", H, "[]\n", "FILE: column 'the first line': found a list, expected an object"),
        ("a.wisdom", H, '{"key": "k"}\n', "FILE: column 'tunable_parameters': found null, expected a list"),
        ("a.wisdom", H, '{"tunable_parameters": []}\n', "FILE:1: tunable_parameters is empty or names one twice"),
        ("a.wisdom", H, '{"tunable_parameters": ["t"], "objective": "x"}\n', "FILE:1: the objective is 'x', expected 'time'"),
        ("a.wisdom", H, wisdom("{"), "FILE:2: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("a.wisdom", H, wisdom('{"config": [1, 2], "problem_size": [8], "time": 1}'), "FILE:2: config has 2 values, expected 1"),
        ("a.wisdom", Options(device="H200", features=("a", "b")), wisdom(), "FILE:2: problem_size has 1 number, and --feature "
         "names 2 (--feature once for each number, in order)"),
        ("a.wisdom", H, wisdom('{"config": [1], "problem_size": [8], "time": "x"}'), "FILE: column 'line 2: time': found 'x', "
         "expected a finite time above 0, or Infinity"),
        ("a.wisdom", H, wisdom('{"config": [1], "problem_size": [8]}'), "FILE:2: the key 'time' is missing"),
        ("a.wisdom", Options(), wisdom('{"config": [1], "problem_size": [8], "time": 1}'), "FILE does not say the device "
         "(say which: --device NAME)"),
        ("a.wisdom", H, wisdom("# none"), "the files hold no measurement that kernel-launcher wrote"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=15, deadline=None)
@given(tables)
def test_kernel_launcher(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    text = '{"tunable_parameters": ["BLOCK", "num_warps"], "version": "1.0", "objective": "time", "key": "add"}\n'
    for (m, n, block, warps), time in table.items():
        line = {
            "config": [block, warps],
            "problem_size": [m, n],
            "time": float("inf") if time is None else time,
        }
        text += json.dumps(line | {"environment": {"device_name": "NVIDIA A100"}}) + "\n# a comment\n"
    file = write(tmp_path_factory.mktemp("launcher"), "add.wisdom", text)
    assert read_back(import_logs("auto", [file], Options(features=("M", "N"))), "M", "N") == table


def test_one_kernel_of_a_folder(tmp_path: Path) -> None:
    for key in ("add", "mul"):
        write(
            tmp_path,
            f"{key}.wisdom",
            wisdom().replace('"add"', f'"{key}"').replace("[8]", f"[{len(key) + ord(key[0])}]"),
        )
    with pytest.raises(UsageError, match=r"the files are of 2 kernels \(say which: --kernel add or mul\)"):
        import_logs("kernel-launcher", [str(tmp_path)], Options())
    imported = import_logs("kernel-launcher", [str(tmp_path)], Options(kernel="mul"))
    assert columns(imported, "problem_size_0") == [("112",)]
