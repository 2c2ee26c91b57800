# ruff: noqa: E501  (messages stand whole)
"""What hipblaslt-bench prints: every solution once, and wrong files have one message each."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, write

HEADER = "transA,transB,batch_count,m,n,k,a_type,bias_type,rotating_buffer,flush,hipblaslt-Gflops,hipblaslt-GB/s,us"
DEVICE = """hipBLASLt version: 100200
Query device success: there are 2 devices. (Target device ID is 1)
Device ID 0 : AMD Instinct MI250X gfx90a:sramecc+:xnack-
Device ID 1 : AMD Instinct MI300X gfx942:sramecc+:xnack-
with 206.1 GB memory, max. SCLK 2100 MHz, max. MCLK 1300 MHz, compute capability 9.4

Is supported 2 / Total solutions: 2
"""


def row(m: int, us: str) -> str:
    return f"    N,T,1,{m},64,32,f16_r,non-supported type,512,1, 415.278, 10.5, {us}\n"


def solution(number: int, m: int, us: str, index: int | None = 7) -> str:
    said = (
        "" if index is None else f"    --Solution index: {index}\n    --Solution name:  Cijk_MT64x64x32,x\n"
    )
    return f"[{number}]:{HEADER}\n{row(m, us)}{said}"


def winner(m: int, us: str, index: int) -> str:
    return f"Winner: \n{HEADER}\n{row(m, us)}    --Solution index: {index}\n"


def test_every_solution_is_taken_once(tmp_path: Path) -> None:
    text = DEVICE + solution(0, 16, "12.5") + solution(1, 16, "9.5", 8) + winner(16, "9.5", 8)
    text += solution(0, 32, "20", 8) + solution(1, 32, "nan") + winner(32, "20", 8)
    imported = import_logs("auto", [write(tmp_path, "bench.txt", text)], Options())
    assert columns(imported, "device", "m", "solution_index", "status", "time_ms") == [
        ("AMD Instinct MI300X", "16", "7", "ok", "0.0125"),
        ("AMD Instinct MI300X", "16", "8", "ok", "0.0095"),
        ("AMD Instinct MI300X", "32", "7", "invalid", ""),
        ("AMD Instinct MI300X", "32", "8", "ok", "0.02"),
    ]
    assert imported.columns[:10] == ("vendor", "device", *HEADER.split(",")[:8])
    assert imported.columns[10:] == ("solution_index", "status", "time_ms")
    assert [f.name for f in parse_spec(imported.spec_text()).features] == ["m"]
    assert imported.notes[-1] == "4 rows, 1 of them failed"


def test_an_index_in_a_column_of_its_own(tmp_path: Path) -> None:
    """Later versions print it there, and the header once: no solution index followed the measurement."""
    header = f"{HEADER},solution_index,kernel_name,solution_name\n"
    first, second = (f"{row(16, us).rstrip()},{i},kernel,name\n" for us, i in (("12.5", 7), ("9.5", 8)))
    text = f"{DEVICE}{header}[0]:\n{first}[1]:\n{second}Winner:\n{header}{second}"
    imported = import_logs("auto", [write(tmp_path, "bench.txt", text)], Options())
    assert imported.notes[0] == "hipblaslt files"
    assert columns(imported, "m", "solution_index", "time_ms") == [
        ("16", "7", "0.0125"),
        ("16", "8", "0.0095"),
    ]


def test_one_solution_and_columns_of_later_versions(tmp_path: Path) -> None:
    new = (
        (DEVICE + solution(0, 16, "12.5"))
        .replace("bias_type", "bias_type,aux_type")
        .replace("non-supported type", "f32_r,f32_r")
    )
    files = [
        write(tmp_path, "a.txt", DEVICE + solution(0, 8, "5").replace("[0]:", "[0]")),
        write(tmp_path, "b.txt", new),
    ]
    imported = import_logs("hipblaslt", files, Options(kernel="gemm"))
    assert columns(imported, "m", "aux_type", "time_ms") == [
        ("8", "none", "0.005"),
        ("16", "f32_r", "0.0125"),
    ]
    assert imported.draft.name == "gemm"


def test_clocks_and_granularity_of_a_solution_are_no_part_of_the_problem(tmp_path: Path) -> None:
    """HIPBLASLT_BENCH_PERF and _FREQ write them before the throughput: every solution became a problem of its own."""
    for names in (
        "total_gran,num_cu's,tile_0_granularity,mem_read_bytes,lowest_avg_freq,avg_MCLK",
        "avg_freq0,median_freq7",
    ):
        text = ""
        for clock, us in ((1096, "12.5"), (1067, "9.5")):
            values = ", ".join(str(clock + i) for i in range(names.count(",") + 1))
            one = solution(0, 16, us, clock)
            text += one.replace("flush,", f"flush,{names},").replace("512,1, ", f"512,1, {values}, ")
        imported = import_logs("auto", [write(tmp_path, "bench.txt", DEVICE + text)], Options())
        assert imported.columns[9:] == ("bias_type", "solution_index", "status", "time_ms")
        assert columns(imported, "solution_index", "time_ms") == [("1067", "0.0095"), ("1096", "0.0125")]


def test_a_solution_whose_result_is_wrong_is_a_failure(tmp_path: Path) -> None:
    text = solution(0, 16, "9.5, 0.1, failed, failed", 7) + solution(1, 16, "12.5, 0.1, 1e-05, 0.001", 8)
    text = DEVICE + text.replace(",us", ",us,norm_error,atol,rtol")
    imported = import_logs("auto", [write(tmp_path, "bench.txt", text)], Options())
    assert columns(imported, "solution_index", "status", "time_ms") == [
        ("7", "incorrect", ""),
        ("8", "ok", "0.0125"),
    ]


WRONG: Wrong = {
    "hipblaslt": [
        ("b.txt", H, "", "FILE: the file is empty"),
        ("b.txt", H, "text\n", "the files hold no measurement that hipblaslt wrote"),
        ("b.txt", H, solution(0, 16, "5", None), "FILE:2: no solution index follows this measurement (run hipblaslt-bench with "
         "--print_kernel_info)"),
        ("b.txt", H, solution(0, 16, "5", None) + solution(1, 16, "5"), "FILE:2: no solution index follows this measurement (run "
         "hipblaslt-bench with --print_kernel_info)"),
        ("b.txt", H, solution(0, 16, "5", None) + winner(16, "5", 7), "FILE:2: no solution index follows this measurement (run "
         "hipblaslt-bench with --print_kernel_info)"),
        ("b.txt", H, solution(0, 16, "5").replace(",us", ",ms"), "FILE:1: the header lacks the column 'us'"),
        ("b.txt", H, solution(0, 16, "5").replace("flush", "m"), "FILE:1: two columns are named 'm'"),
        ("b.txt", H, solution(0, 16, "5, 6"), "FILE:2: found 14 cells, expected 13"),
        ("b.txt", H, solution(0, 16, "fast"), "FILE:2: column 'us': found 'fast', expected a number"),
        ("b.txt", H, solution(0, 16, "0"), "FILE: column 'line 2: us': found '0.0', expected a finite time above 0, or Infinity"),
        ("b.txt", Options(), solution(0, 16, "5"), "FILE does not say the device (say which: --device NAME)"),
        ("b.txt", H, solution(0, 16, "nan"), "every measurement of hipblaslt failed: 'invalid'"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)
