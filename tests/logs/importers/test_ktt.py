# ruff: noqa: E501  (messages stand whole)
"""KTT's results: what is written is read back, and wrong files have one message each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, write

BLOCK = [{"Name": "BLOCK", "Value": 16, "ValueType": "UnsignedInt"}]


def result(
    duration: Any = 500.0, status: str = "Ok", configuration: Any = BLOCK, kernel: str = "gemm"
) -> dict[str, Any]:
    return {"KernelName": kernel, "Status": status, "TotalDuration": duration, "Configuration": configuration}


def tuned(*results: Any, unit: Any = "Microseconds", **more: Any) -> str:
    meta = {"ComputeApi": "CUDA", "Device": "NVIDIA H200", "TimeUnit": unit}
    return json.dumps({"Metadata": meta, "Results": list(results)} | more)


WRONG: Wrong = {
    "ktt": [
        ("t.json", H, "", "FILE: the file is empty"),
        ("t.json", H, "[]", "FILE: found a list, expected an object"),
        ("t.json", H, "{}", "FILE: column 'Results': found null, expected a list"),
        ("t.json", H, tuned(), "FILE:1: found no result"),
        ("t.json", H, tuned(3), "FILE: column 'Results[0]': found a number, expected an object"),
        ("t.json", H, tuned(result(), Metadata=1), "FILE:1: column 'Metadata': found a number, expected an object"),
        ("t.json", H, tuned(result(), unit="Days"), "FILE:1: found the unit 'Days', expected one of Nanoseconds, Microseconds, "
         "Milliseconds, Seconds"),
        ("t.json", H, tuned(result("fast")), "FILE: column 'Results[0].TotalDuration': found 'fast', expected a finite time "
         "above 0, or Infinity"),
        ("t.json", H, tuned(result(configuration=[])), "FILE: column 'Results[0].Configuration': the config is empty"),
        ("t.json", H, tuned(result(configuration=BLOCK * 2)), "FILE: column 'Results[0].Configuration[1]': found the name 'BLOCK', "
         "expected one that is new"),
        ("t.json", H, tuned(result(status="CompilationFailed")), "every measurement of ktt failed: 'CompilationFailed'"),
        ("t.json", H, tuned(result(), result(kernel="b")), "the files are of 2 kernels (say which: --kernel b or gemm)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@pytest.mark.parametrize(
    ("unit", "time"), [("Microseconds", "0.5"), ("Milliseconds", "500.0"), ("Nanoseconds", "0.0005")]
)
def test_measurements(tmp_path: Path, unit: str, time: str) -> None:
    wide = [{"Name": "BLOCK", "Value": 64, "ValueType": "UnsignedInt"}]
    text = tuned(result(), result(0.0, "ValidationFailed", wide), unit=unit, UserData={"M": "1024"})
    imported = import_logs("auto", [write(tmp_path, "gemm.json", text)], Options())
    assert columns(imported, "M", "BLOCK", "status", "time_ms") == [
        ("1024", "16", "ok", time),
        ("1024", "64", "ValidationFailed", ""),
    ]


def test_a_problem_that_only_the_file_s_name_tells(tmp_path: Path) -> None:
    for name in ("gemm_small", "gemm_large"):
        write(tmp_path, f"{name}.json", tuned(result()))
    assert columns(import_logs("auto", [str(tmp_path)], Options()), "problem") == [
        ("gemm_large",),
        ("gemm_small",),
    ]
    said = import_logs("ktt", [str(tmp_path / "gemm_small.json")], Options(const={"M": "8"}))
    assert "problem" not in said.columns
