# ruff: noqa: E501  (messages stand whole)
"""What hipblaslt-bench writes into a tuning file: winners."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import Case, Wrong, cases, check_refusal, columns, write

HEADER = "transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,solution_index"
MI300X = Options(device="AMD Instinct MI300X")


def tuning(m: int = 16, index: object = 7, *, names: str = "", values: str = "") -> str:
    return f"{HEADER}{names}\n    N,T,1,{m},64,32,f16_r,f16_r,f16_r,f32_r,{index}{values}\n"


def test_winners_of_a_tuning_file(tmp_path: Path) -> None:
    """It was of no known kind."""
    named = tuning(64, 9, names=",kernel_name,solution_fingerprint", values=",Cijk_MT64x64x32,ab12")
    text = "Git Version: 1a2b\n" + tuning() + tuning(32, 8) + named
    imported = import_logs("auto", [write(tmp_path, "tuning.txt", text)], MI300X)
    assert imported.notes[0] == "hipblaslt-tuned files"
    assert imported.columns == ("vendor", "device", *HEADER.split(","), "status", "time_ms")
    assert columns(imported, "vendor", "m", "k", "solution_index", "time_ms") == [
        ("amd", "16", "32", "7", ""),
        ("amd", "32", "32", "8", ""),
        ("amd", "64", "32", "9", ""),
    ]
    spec = parse_spec(imported.spec_text())
    assert spec.log.winners_only
    assert [f.name for f in spec.features] == ["m"]


def test_later_versions_write_the_time_and_the_device(tmp_path: Path) -> None:
    """Throughput and time became features of a winner; auto took the file for what hipblaslt-bench prints."""
    header = HEADER.replace(
        "solution_index", "rotating_buffer,hipblaslt-Gflops,us,solution_index,gcnArchName,CUs"
    )
    rows = (
        f"N,T,1,{m},64,32,f16_r,f16_r,f16_r,f32_r,512,99.5,{m}.5,7,gfx942:sramecc+:xnack-,304"
        for m in (8, 16)
    )
    text = "Git Version: 1a2b\n" + "".join(f"    {header}\n    {row}\n" for row in rows)
    imported = import_logs("auto", [write(tmp_path, "tuning.txt", text)], Options())
    assert imported.columns == ("vendor", "device", *HEADER.split(","), "status", "time_ms")
    assert columns(imported, "device", "m", "solution_index", "time_ms") == [
        ("gfx942, 304 CUs", "8", "7", "0.0085"),
        ("gfx942, 304 CUs", "16", "7", "0.0165"),
    ]


def test_a_problem_that_was_tuned_again_is_another_scenario(tmp_path: Path) -> None:
    text = "Git Version: 1\n" + tuning() + "Git Version: 1\n" + tuning(index=8)
    imported = import_logs("hipblaslt-tuned", [write(tmp_path, "tuning.txt", text)], MI300X)
    assert columns(imported, "scenario", "m", "solution_index") == [("0", "16", "7"), ("1", "16", "8")]


WRONG: Wrong = {
    "hipblaslt-tuned": [
        ("t.txt", MI300X, "text\n", "FILE:1: found 'text', expected the header of a tuning: transA,transB,..."),
        ("t.txt", MI300X, "Git Version: 1\n", "the files hold no measurement that hipblaslt-tuned wrote"),
        ("t.txt", MI300X, tuning() + HEADER + "\n", "FILE:3: no values follow this header (the file was cut off here)"),
        ("t.txt", MI300X, HEADER + "\n" + tuning(), "FILE:1: no values follow this header (the file was cut off here)"),
        ("t.txt", MI300X, tuning(values=",x"), "FILE:2: found 12 cells, expected 11"),
        ("t.txt", MI300X, tuning(index=-1), "FILE:2: column 'solution_index': found '-1', expected an index"),
        ("t.txt", MI300X, tuning(names=",gcnArchName,CUs", values=",gfx942,many"), "FILE:2: column 'CUs': found 'many', expected a number "
         "of compute units"),
        ("t.txt", MI300X, tuning().replace("f32_r,7", ",7"), "FILE: column 'line 2: compute_type': found '', expected text of 1 to 4096 "
         "printable characters, without spaces around it"),
        ("t.txt", MI300X, tuning(names=",m", values=",1"), "FILE:1: two columns are named 'm'"),
        ("t.txt", MI300X, "Git Version: 1\n" + tuning() + "Git Version: 2\n" + tuning(), "FILE: the tunings are of 2 builds of hipBLASLt "
         "('1', '2'), whose solutions have other indices (import those of one build at a time)"),
        ("t.txt", Options(), tuning(), "FILE does not say the device (say which: --device NAME)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)
