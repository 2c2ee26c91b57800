# ruff: noqa: E501  (messages stand whole)
"""CLBlast's and CLTune's results: what is written is read back, and wrong files have one message each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, write


def result(time: Any = 0.5, **parameters: Any) -> dict[str, Any]:
    return {"kernel": "Xgemm", "time": time, "parameters": parameters or {"MWG": 32}}


def tuned(*results: Any, **more: Any) -> str:
    head = {"kernel_family": "xgemm", "precision": "32", "arg_m": "64", "arg_n": "8", "device": "NVIDIA H200"}
    return json.dumps(head | {"results": list(results) or [result()]} | more)


WRONG: Wrong = {
    "clblast": [
        ("t.json", H, "", "FILE: the file is empty"),
        ("t.json", H, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("t.json", H, "[]", "FILE: found a list, expected an object"),
        ("t.json", H, "{}", "FILE: the key 'kernel_family' is missing"),
        ("t.json", H, '{"sections": [{}]}', "FILE: column 'sections[0]': the key 'kernel_family' is missing"),
        ("t.json", H, '{"sections": 1}', "FILE: column 'sections': found a number, expected a list"),
        ("t.json", H, tuned(results=None), "FILE:1: column 'results': found null, expected a list"),
        ("t.json", H, tuned(3), "FILE: column 'results[0]': found a number, expected an object"),
        ("t.json", H, tuned({"time": 1.0}), "FILE: column 'results[0].parameters': found null, expected an object"),
        ("t.json", H, tuned({"parameters": {}}), "FILE: column 'results[0].parameters': the config is empty"),
        ("t.json", H, '{"sections": [], "kernel_family": 1, "results": []}', "FILE:1: found no section"),
        ("t.json", H, tuned({"parameters": {"MWG": 32}}), "FILE: column 'results[0]': the key 'time' is missing"),
        ("t.json", H, tuned(result(False)), "FILE: column 'results[0].time': found 'False', expected a finite time "
         "above 0, or Infinity"),
        ("t.json", H, tuned(result("fast")), "FILE: column 'results[0].time': found 'fast', expected a finite time "
         "above 0, or Infinity"),
        ("t.json", H, tuned(["32,8", 1.0], parameter_names=["MWG"]), "FILE: column 'results[0]': found \"['32,8', 1.0]\", expected "
         "1 value between commas, and their time"),
        ("t.json", H, tuned(["32", 1.0, 2], parameter_names=["MWG"]), "FILE: column 'results[0]': found \"['32', 1.0, 2]\", expected "
         "1 value between commas, and their time"),
        ("t.json", H, tuned(parameter_names=[1]), "FILE:1: column 'parameter_names': found a number, expected a string"),
        ("t.json", H, tuned(result(None)), "every measurement of clblast failed: 'invalid'"),
        ("t.json", Options(kernel="xgemv"), tuned(), "no file is of the kernel 'xgemv' (found: xgemm)"),
        ("t.json", Options(), tuned(device=""), "FILE does not say the device (say which: --device NAME)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


def test_measurements(tmp_path: Path) -> None:
    write(tmp_path, "xgemm_64.json", tuned(result(0.5, MWG=32), result(None, MWG=64), result(0, MWG=128)))
    write(tmp_path, "xgemm_128.json", tuned(result(0.25, MWG=64), arg_m="128", best_time="0.25"))
    imported = import_logs("auto", [str(tmp_path)], Options())
    assert columns(imported, "precision", "m", "n", "MWG", "status", "time_ms") == [
        ("32", "64", "8", "32", "ok", "0.5"),
        ("32", "64", "8", "64", "invalid", ""),
        ("32", "64", "8", "128", "invalid", ""),
        ("32", "128", "8", "64", "ok", "0.25"),
    ]
    assert 'name = "xgemm"' in imported.spec_text()


def test_a_database(tmp_path: Path) -> None:
    sections = [json.loads(tuned(kernel_family=name, arg_m=m)) for name, m in (("a", "1"), ("b", "2"))]
    file = write(tmp_path, "database.json", json.dumps({"sections": sections}))
    assert columns(import_logs("auto", [file], Options(kernel="b")), "m", "MWG") == [("2", "32")]


def test_a_database_as_clblast_keeps_it(tmp_path: Path) -> None:
    """Its scripts write the values of a result as a text, and their names once a section."""
    devices = (("Mali-T628", "ARM"), ("Tesla K40m", "NVIDIA"), ("Apple M1", "Apple"))
    sections = [
        json.loads(tuned(["32,1", 0.5], ["64,4", 0.0], parameter_names=["MWG", "VWM"]))
        | {"clblast_device_name": device, "clblast_device_vendor": vendor}
        for device, vendor in devices
    ]
    file = write(tmp_path, "database.json", json.dumps({"sections": sections}))
    imported = import_logs("auto", [file], Options())
    assert columns(imported, "vendor", "device", "MWG", "VWM", "status", "time_ms") == [
        ("apple", "Apple M1", "32", "1", "ok", "0.5"),
        ("apple", "Apple M1", "64", "4", "invalid", ""),
        ("arm", "Mali-T628", "32", "1", "ok", "0.5"),
        ("arm", "Mali-T628", "64", "4", "invalid", ""),
        ("nvidia", "Tesla K40m", "32", "1", "ok", "0.5"),
        ("nvidia", "Tesla K40m", "64", "4", "invalid", ""),
    ]
