# ruff: noqa: E501  (messages stand whole)
"""MIOpen's find-db."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

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
    scenarios,
    tables,
    write,
)

FIND = "1-2-3-1x1-4-5-6-7-0x0-1x1-1x1-0-NCHW-FP16-F"


WRONG: Wrong = {
    "miopen": [
        ("gfx942130.HIP.fdb.txt", H, "nonsense\n", "FILE:1: found no '=' between a problem and its solvers"),
        ("gfx942130.HIP.fdb.txt", H, "1-2=A:1,0,x\n", "FILE:1: the problem is '1-2', expected 15 fields between '-' (17 for 3D) "
         "(in_c-in_h-in_w-FHxFW-out_c-out_h-out_w-batch-PHxPW-SHxSW-DHxDW-bias-layout-dtype-direction)"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=\n", "FILE:1: the problem has no solver"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A\n", "FILE:1: found 'A', expected solver:ms,workspace,algorithm"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A:fast,0,x\n", "FILE:1: column 'A': found 'fast', expected a number"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A:0,0,x\n", "FILE: column 'line 1: A': found '0.0', expected a finite time above 0, or "
         "Infinity"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A:1,0,x;A:2,0,x\n", "FILE:1: the solver 'A' is there twice"),
        ("gfx942130.HIP.fdb.txt", H, FIND.replace("1x1-4", "1x1x1-4") + "=A:1,0,x\n", "FILE:1: found '1x1x1', expected 2 sizes"),
        ("gfx942130.HIP.fdb.txt", H, FIND.replace("1-2-", "9" * 20 + "-2-", 1) + "=A:1,0,x\n", "FILE:1: found a size of more than 15 "
         "digits"),
        ("find.txt", Options(), FIND + "=A:1,0,x\n", "FILE does not say the device (say which: --device NAME)"),
        ("gfx942130.HIP.fdb.txt", H, "\n \n", "FILE: the file is empty"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A b:1,0,x\n", "FILE:1: found 'A b:1,0,x', expected solver:ms,workspace,algorithm"),
        *(("gfx906_60.cd.updb.txt", H, f"{FIND}={entry}\n", f"FILE:1: found '{entry}', expected solver:ms,workspace,algorithm "
           "(a perf-db holds no times: import the find-db, *.fdb.txt or *.ufdb.txt)")
          for entry in ("ConvAsm1x1U:2,8,4,16,1,4,1,4", "ConvBinWinogradRxSf3x2:60", "ConvHip:Device<256, 128, 64>", "A:1,0")),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=15, deadline=None)
@given(tables)
def test_miopen(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    text = ""
    for (m, n), cells in scenarios(table).items():
        solvers = [f"S{b}x{w}:{t!r},0,miopenConvolutionFwdAlgoGEMM" for (_, _, b, w), t in cells.items() if t]
        if solvers:
            text += f"{m}-13-13-1x1-{n}-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-F_g2={';'.join(solvers)}\n"
    file = write(tmp_path_factory.mktemp("miopen"), "gfx942130.HIP.fdb.txt", text)
    imported = import_logs("auto", [file], Options())
    rows = columns(imported, "in_c", "out_c", "solver", "time_ms", "device", "groups", "batch")
    wanted = {(str(m), str(n), f"S{b}x{w}"): t for (m, n, b, w), t in table.items() if t}
    assert {r[:3]: float(r[3]) for r in rows} == wanted
    assert {r[4:] for r in rows} == {("gfx942, 304 CUs", "2", "16")}


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gfx90a68.HIP.fdb.txt", "gfx90a, 104 CUs"),
        ("gfx906_60.HIP.fdb.txt", "gfx906, 60 CUs"),
        ("gfx1030_36.OpenCL.fdb.txt", "gfx1030, 36 CUs"),
        ("gfx110030.HIP.fdb.txt", "gfx1100, 48 CUs"),
        ("gfx950100.HIP.3_5_0_fb3cf5c-dirty.ufdb.txt", "gfx950, 256 CUs"),
    ],
)
def test_the_name_tells_the_device(tmp_path: Path, name: str, device: str) -> None:
    write(tmp_path, name, FIND + "=A:1,0,x\n")
    for kind in ("miopen", "auto"):
        assert columns(import_logs(kind, [str(tmp_path)], Options()), "device") == [(device,)]


@pytest.mark.parametrize(
    ("rest", "groups", "dtype"),
    [("", "1", "FP16"), ("_g2", "2", "FP16"), ("_coFP32", "1", "FP16_coFP32"), ("_g4_ciFP8_cwBF8", "4", "FP16_ciFP8_cwBF8")],
)  # fmt: skip
def test_what_may_follow_a_problem(tmp_path: Path, rest: str, groups: str, dtype: str) -> None:
    file = write(tmp_path, "gfx942130.HIP.fdb.txt", FIND + rest + "=A:1,0,x\n")
    assert columns(import_logs("auto", [file], Options()), "groups", "dtype") == [(groups, dtype)]


@pytest.mark.parametrize("layout", ["NHWC-NHWC-NHWC", "NCHWc-NCHWc-NCHWc", "NCHWc-CHWNc-NCHWc"])
def test_layouts_of_three_tensors(tmp_path: Path, layout: str) -> None:
    file = write(tmp_path, "gfx1030_36.HIP.ufdb.txt", FIND.replace("NCHW", layout) + "=A:1,0,x\n")
    assert columns(import_logs("auto", [file], Options()), "layout", "dtype") == [(layout, "FP16")]
