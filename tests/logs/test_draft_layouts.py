"""`heurgen init` on tables that other tools lay out: what is read as it is, and what it tells to write otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heurgen.base.errors import LogError
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.support.drafts import draft_spec


def test_sizes_in_a_text_are_told_to_be_split(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"H200,{m}x64,{b},{m * b}.5" for m in (1, 2) for b in (16, 32)]
    path.write_text("gpu,shape,BLOCK_M,time_ms\n" + "\n".join(rows) + "\n")
    assert (
        "# sizes in a text: no tree goes beyond those it saw. Split it into columns of numbers"
        in draft_spec(path)
    )


def test_what_nvbench_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    head = "Device,Device Name,Elements{io},BlockSize,Samples,CPU Time (sec),GPU Time (sec)"
    rows = [
        f"0,NVIDIA H100,{n},{b},{n + b},{n * b}.5e-6,{n + b}.5e-6" for n in (1024, 65536) for b in (64, 128)
    ]
    path.write_text("\n".join([head, *rows]) + "\n")
    spec = parse_spec(draft_spec(path))
    assert (spec.log.device, spec.log.time) == ("Device Name", "GPU Time (sec)")
    assert [(f.name, f.source) for f in spec.features] == [("Elements_io", "Elements{io}")]
    assert [p.name for p in spec.parameters] == ["BlockSize"]
    assert read_logs([path], spec).n_scenarios == 2


@pytest.mark.parametrize("ran", ["No", ""])
def test_nvbench_writes_two_columns_of_one_name_and_why_it_skipped(tmp_path: Path, ran: str) -> None:
    path = tmp_path / "a.csv"
    head = "Device,Device Name,Elements,BlockSize,Skipped,Samples,CPU Time (sec),Noise,GPU Time (sec),Noise,Samples"
    rows = [
        f"0,NVIDIA H100,{n},{b},{ran},{n + b},{n * b}e-6,0.1,{n + b}e-6,0.{b},{n * b}"
        for n in (1024, 65536)
        for b in (64, 128)
    ]
    path.write_text("\n".join([head, *rows, "0,NVIDIA H100,65536,256,too many resources,,,,,,"]) + "\n")
    spec = parse_spec(draft_spec(path))
    assert (spec.log.time, spec.log.status, spec.log.success) == ("GPU Time (sec)", "Skipped", (ran,))
    assert [f.name for f in spec.features] == ["Elements"]
    assert [p.name for p in spec.parameters] == ["BlockSize"]
    log = read_logs([path], spec)
    assert log.n_scenarios == 2
    assert log.to_frame()["status"].tolist()[-1] == "too many resources"


def test_powers_that_nvbench_writes_beside_their_numbers_are_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    head = "Device Name,Elements{io} (pow2),Elements{io},BlockSize,GPU Time (sec)"
    rows = [f"H100,2^{n},{2**n},{b},{n + b}.5e-6" for n in (10, 16) for b in (64, 128)]
    path.write_text("\n".join([head, *rows]) + "\n")
    text = draft_spec(path)
    assert [(f.name, f.type) for f in parse_spec(text).features] == [("Elements_io", "int")]
    assert "Elements{io} (pow2): left out: Elements{io} is the same as a number" in text
    path.write_text("\n".join([head, *rows[:-1], rows[-1].replace("65536", "1024")]) + "\n")
    assert "is the same as a number" not in draft_spec(path)


def test_powers_alone_are_told_to_be_written_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"H100,2^{n},{b},{n + b}.5" for n in (10, 16) for b in (64, 128)]
    path.write_text("gpu,M,BLOCK_M,time_ms\n" + "\n".join(rows) + "\n")
    assert "# powers in a text: no tree goes beyond those it saw. Write 1024, not 2^10" in draft_spec(path)


def test_the_trials_of_optuna(tmp_path: Path) -> None:
    """`study.trials_dataframe()`: no column was a time, and its numbers and dates would have been parameters.

    What Optuna 5's sampler notes of a trial, its parameters as JSON, was one.
    """
    path = tmp_path / "a.csv"
    head = "number,value,datetime_start,datetime_complete,duration,params_BLOCK,params_algo,user_attrs_M,"
    head += "system_attrs_x,system_attrs_tpe:relative_params:0,state,gpu"
    cells = [(m, b, a) for m in (64, 512) for b in (16, 32) for a in ("a", "b")]
    rows = [
        f"{i},{'' if i == 3 else i + 0.5},2026-11-27 10:00:0{i},2026-11-27 10:00:0{i}.5,0 days 00:00:00.{i},"
        f'{b},{a},{m},{i},"{{""BLOCK"": {b}}}",'
        f"{'FAIL' if i == 3 else 'COMPLETE'},H100"
        for i, (m, b, a) in enumerate(cells)
    ]
    path.write_text("\n".join([head, *rows]) + "\n")
    spec = parse_spec(draft_spec(path))
    assert (spec.log.time, spec.log.status, spec.log.success) == ("value", "state", ("COMPLETE",))
    assert [(f.name, f.source) for f in spec.features] == [("M", "user_attrs_M")]
    assert [(p.name, p.source) for p in spec.parameters] == [
        ("BLOCK", "params_BLOCK"),
        ("algo", "params_algo"),
    ]
    assert read_logs([path], spec).n_scenarios == 2
    path.write_text(path.read_text().replace("params_", ""))
    with pytest.raises(LogError, match="no column looks like the time"):
        draft_spec(path)


def test_more_than_100_sizes_in_a_text_are_told_to_be_split(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"H200,{m}x64,{b},{m * b}.5" for m in range(101) for b in (16, 32)]
    path.write_text("gpu,shape,BLOCK_M,time_ms\n" + "\n".join(rows) + "\n")
    hint = r"\('shape' holds sizes in a text: write each into a column of its own\)"
    with pytest.raises(LogError, match=hint):
        draft_spec(path)


@pytest.mark.parametrize("name", ["gemm/M:{}/N:64/real_time", "M={} N=64"])
def test_sizes_in_a_name_are_told_to_be_split(tmp_path: Path, name: str) -> None:
    rows = [f"H200,{name.format(m)},{b},{m * b}.5" for m in (1, 2) for b in (16, 32)]
    (tmp_path / "a.csv").write_text("gpu,name,BLOCK_M,time_ms\n" + "\n".join(rows) + "\n")
    with pytest.raises(
        LogError, match=r"\('name' holds sizes in a text: write each into a column of its own\)"
    ):
        draft_spec(tmp_path / "a.csv")


def test_files_named_after_their_problem_are_told_to_say_it_in_a_column(tmp_path: Path) -> None:
    paths = [tmp_path / f"M{m}.csv" for m in (1, 2)]
    for m, path in enumerate(paths):
        path.write_text(f"gpu,BLOCK_M,time_ms\nH200,16,{m}.5\nH200,32,{m}.7\n")
    with pytest.raises(LogError, match="; what a file's name says must be a column"):
        draft_spec(paths)


@pytest.mark.parametrize(
    "text", ["| M | BLOCK_M | ms |\n|---|---|---|\n| 1 | 16 | 0.5 |\n", "M BLOCK_M ms\n1 16 0.5\n"]
)
def test_a_table_with_other_separators_is_told_which_there_are(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(LogError, match=r"looks like the time .* \(columns are separated by , ; or tab\)"):
        draft_spec(tmp_path / "a.txt")


def test_dates_and_blanks_are_no_times(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    results = ['{"median": "5.1 us", "p99": "6 us"}', '{"median": "1.2 ms", "p99": "2 ms"}', "null"]
    lines = [
        f'{{"time": "2026-01-0{m}T00:00:0{i}Z", "gpu": "NVIDIA® H100™", "M": {m}, "BLOCK_M": {16 * (i + 1)}, '
        f'"latency": {result}, "error": "{"" if "5" in result or "1" in result else "OutOfResources"}"}}'
        for m in (1, 2)
        for i, result in enumerate(results)
    ]
    path.write_text("\n".join(lines) + "\n")
    text = draft_spec(path)
    assert 'time = "latency.median"  # guess: by its name; cells name their unit. confirm' in text
    log = read_logs([path], parse_spec(text))
    assert np.isnan(log.time).tolist() == 2 * [False, False, True]
    assert log.time[:2].tolist() == pytest.approx([5.1e-3, 1.2])


def test_what_a_kernel_used_is_no_parameter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"H200,{m},{b},{b + 2},{b / 64},{b * 2},{m * b}.5" for m in (1, 2) for b in (16, 32)]
    path.write_text("gpu,M,BLOCK_M,regs,occupancy,energy_mJ,time_ms\n" + "\n".join(rows) + "\n")
    spec = parse_spec(draft_spec(path))
    assert [c.name for c in (*spec.features, *spec.parameters)] == ["M", "BLOCK_M"]


def test_whole_floats_of_a_parameter_are_ints_as_pandas_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [
        f"H200,{m}.0,{b}.0,{w},{s},{m * b}.5"
        for m in (1, 2)
        for b, w, s in ((16, "", "1e3"), (32, "4.0", "2.0"))
    ]
    path.write_text("gpu,M,BLOCK_M,num_warps,BLOCK_X,time_ms\n" + "\n".join(rows) + "\n")
    spec = parse_spec(draft_spec(path))
    types = {c.name: (c.type, c.optional) for c in (*spec.features, *spec.parameters)}
    assert types == {
        "M": ("float", False), "BLOCK_M": ("int", False), "num_warps": ("int", True), "BLOCK_X": ("float", False),
    }  # fmt: skip
    log = read_logs([path], spec)
    assert [c.values for c in log.parameters[:2]] == [(16, 32), (None, 4)]


def test_numbers_beside_a_word_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"H200,{w},{b},{b}.5" for w in (128, 256, 512, 1024, "None") for b in (16, 32)]
    path.write_text("gpu,window,BLOCK_M,time_ms\n" + "\n".join(rows) + "\n")
    told = "# numbers beside 'None': no tree goes beyond those it saw. Write a number in its place"
    assert told in draft_spec(path)
    path.write_text(path.read_text().replace("128", "some").replace("512", "all"))  # rather words
    assert "numbers beside" not in draft_spec(path)


def test_numbers_that_are_one_as_floats_are_told(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for base, told in ((2**62, True), (2**52, False)):
        rows = [f"H200,{base + m},0.{m}0,{b},1.5\n" for m in (1, 2, 3) for b in (16, 32)]
        path.write_text("gpu,M,share,BLOCK_M,time_ms\n" + "".join(rows))
        assert ("# some of these numbers are one as floats" in draft_spec(path)) == told


@pytest.mark.parametrize("texts", ["no yes", "No Yes", "off on", "F T"])
def test_yes_and_no_are_told(tmp_path: Path, texts: str) -> None:
    """A launcher passes True, an unknown category that gets the fallback."""
    first, second = texts.split()  # sorted, whatever the order of rows
    path = tmp_path / "log.csv"
    rows = [f"H200,{m},{c},{b},1.5\n" for m in (1, 8) for c in (second, first) for b in (16, 32)]
    path.write_text("gpu,M,is_causal,BLOCK_M,time_ms\n" + "".join(rows))
    said = f"# {first} and {second} in a text: True is none of them at launch. Write true and false"
    assert said in draft_spec(path)


def test_numbers_with_commas_and_spaces_around_values_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f'H200,"{m}",{b},{b}.5' for m in ("16", "1,024", "1,048,576") for b in (16, 32)]
    path.write_text("gpu,M,BLOCK_M,time_ms\n" + "\n".join(rows) + "\n")
    assert (
        "# numbers with commas in a text: no tree goes beyond those it saw. Write 1024, not 1,024"
        in draft_spec(path)
    )
    path.write_text(path.read_text().replace(",16,", ", 16 , ").replace(".5", ".5 "))
    with pytest.raises(LogError, match=r"looks like the time .* \(remove the spaces around the values\)"):
        draft_spec(path)


def test_runs_in_columns_of_their_own_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"H200,{m},{b},{b}.5,{b}.6,{b}.9" for m in (1, 2) for b in (16, 32)]
    path.write_text("gpu,M,BLOCK_M,run1_ms,run2_ms,p95_ms\n" + "\n".join(rows) + "\n")
    text = draft_spec(path)
    assert 'time = "run1_ms"' in text
    assert "#   run2_ms: guess: a repeat of run1_ms; only a row of its own is read\n" in text
    path.write_text(path.read_text().replace("run1_ms,run2_ms", "p50_ms,p90_ms"))
    assert "a repeat of" not in draft_spec(path)
