# ruff: noqa: E501  (messages stand whole)
"""Kernel Tuner's caches, closed or not, and T4 results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    scenarios,
    tables,
    write,
)


def tuner(**changes: Any) -> str:
    row = {"b": 16, "time": 1.5}
    base = {"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": [64], "tune_params_keys": ["b"]}
    return json.dumps(
        base | {"tune_params": {"b": [16]}, "objective": "time", "cache": {"16": row}} | changes
    )


def t4(**changes: Any) -> str:
    row = {"configuration": {"b": 1}, "times": {"runtimes": [1.0]}, "invalidity": "correct", "correctness": 1}
    return json.dumps({"schema_version": "1.0.0", "results": [row | changes]})


WRONG: Wrong = {
    "kernel-tuner": [
        ("c.json", H, "{}", "FILE: found neither 'cache' nor 'results' (expected Kernel Tuner's cache or T4)"),
        ("c.json", H, tuner(cache={"16": {"b": 16, "GFLOP/s": 3.5}}), "FILE:1: column 'cache[16]': the key 'time' is missing"),
        ("c.json", H, tuner(tune_params_keys=None), "FILE: column 'tune_params_keys': found null, expected a list"),
        ("c.json", H, tuner(tune_params_keys=[["b"]]), "FILE:1: column 'tune_params_keys[0]': found a list, expected a string"),
        ("c.json", H, tuner(cache={"16": {"time": 1.0}}), "FILE:1: column 'cache[16]': the parameter 'b' is missing"),
        ("c.json", H, tuner(cache={"16": {"b": 16, "time": -2}}), "FILE:1: column 'cache[16].time': found '-2', expected a finite "
         "time above 0, or Infinity"),
        ("c.json", H, tuner(cache={"16": {"b": 16, "time": "CompilationFailedConfig"}}), "every measurement of kernel-tuner failed: "
         "'CompilationFailedConfig'"),
        ("c.json", H, tuner(cache=[]), "FILE: column 'cache': found a list, expected an object"),
        ("c.json", Options(features=("a", "b")), tuner(), "FILE:1: column 'problem_size': problem_size has 1 number, and --feature "
         "names 2 (--feature once for each number, in order)"),
        ("c.json", Options(), tuner(device_name="Alien 3000"), "FILE: the vendor of the device 'Alien 3000' is unknown "
         "(say which: --vendor nvidia)"),
        ("c.json", Options(), tuner(device_name=""), "FILE does not say the device (say which: --device NAME)"),
        ("c.json", Options(), t4(), "FILE does not say the device (say which: --device NAME)"),
        ("c.json", Options(kernel="x"), tuner(), "no file is of the kernel 'x' (found: k)"),
        ("c.json", H, t4(measurements=[{"name": "time", "unit": "hours", "value": 1}]), "FILE: column 'results[0].measurements': found "
         "the unit 'hours', expected one of time"),
        ("c.json", Options(device="H200", features=("n",)), t4(), "T4 files hold no problem size to name (use --const NAME=VALUE)"),
        ("c.json", H, t4(configuration={}), "FILE: column 'results[0]': the configuration is empty"),
        ("c.json", H, t4(times={"runtimes": []}), "FILE: column 'results[0].times.runtimes': found no runtime"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=25, deadline=None)
@given(tables, st.booleans())
def test_kernel_tuner(tmp_path_factory: pytest.TempPathFactory, table: Table, closed: bool) -> None:
    folder = tmp_path_factory.mktemp("tuner")
    files = []
    for (m, n), cells in scenarios(table).items():
        head = {"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": [m, n], "tune_params": {}}
        head |= {"tune_params_keys": ["BLOCK", "num_warps"], "objective": "time", "cache": {}}
        rows = {
            f"{b},{w}": {"BLOCK": b, "num_warps": w, "time": "RuntimeFailedConfig" if t is None else t}
            for (_, _, b, w), t in cells.items()
        }
        text = json.dumps(head)[:-2] + ",\n".join(
            f"{json.dumps(k)}: {json.dumps(r)}" for k, r in rows.items()
        )
        files.append(write(folder, f"{m}_{n}.json", text + ("}\n}" if closed else ",\n")))
    imported = import_logs("auto", files, Options(features=("M", "N")))
    assert read_back(imported, "M", "N") == table


@settings(max_examples=15, deadline=None)
@given(tables)
def test_t4(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    folder = tmp_path_factory.mktemp("t4")
    results = []
    cells = next(iter(scenarios(table).values()))
    if not any(cells.values()):
        return
    for i, ((_, _, block, warps), time) in enumerate(cells.items()):
        row: dict[str, Any] = {"configuration": {"BLOCK": block, "num_warps": warps}, "correctness": 1}
        row |= {"invalidity": "correct" if time else "runtime", "times": {"runtimes": [time] if time else []}}
        if i % 2 and time:
            row["measurements"] = [{"name": "time", "value": time * 1e3, "unit": "microseconds"}]
        results.append(row | {"objectives": ["time"]})
    file = write(folder, "t4.json", json.dumps({"schema_version": "1.0.0", "results": results}))
    imported = import_logs("auto", [file], Options(device="NVIDIA A100", const={"n": "64"}))
    found = columns(imported, "n", "BLOCK", "num_warps", "time_ms")
    got = {(int(r[1]), int(r[2])): float(r[3]) if r[3] else None for r in found}
    assert got == {k[2:]: t if t is None else pytest.approx(t, rel=1e-12) for k, t in cells.items()}


@pytest.mark.parametrize(
    ("name", "unit", "time"),
    [
        ("TotalDuration", "Microseconds", "0.5"),
        ("TotalDuration", "Nanoseconds", "0.0005"),
        ("TotalDuration", "Milliseconds", "500.0"),
        ("energy", "J", "2.0"),  # no time: the runtimes are
    ],
)
def test_t4_of_other_tuners_name_their_time_otherwise(
    tmp_path: Path, name: str, unit: str, time: str
) -> None:
    """KTT's own converter writes the unit beside the measurement alone, and its runtimes without any."""
    measured = [
        {"name": name, "value": 500, "unit": unit},
        {"name": "sm_efficiency", "value": 0.9, "unit": ""},
    ]
    text = t4(objectives=[name], measurements=measured, times={"runtimes": [2.0]})
    imported = import_logs("auto", [write(tmp_path, "gemm_A100_T4.json", text)], Options())
    assert columns(imported, "time_ms") == [(time,)]


def test_a_torn_kernel_tuner_cache_loses_its_last_line_alone(tmp_path: Path) -> None:
    head = {"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": 64, "tune_params_keys": ["b"]}
    start = json.dumps(head | {"tune_params": {"b": [1, 2, 3]}, "objective": "time", "cache": {}})[:-2]
    entries = [
        json.dumps(str(b)) + ": " + json.dumps({"b": b, "time": b / 2, "times": [1, 2]}) for b in (1, 2, 3)
    ]
    whole = start + "\n" + ",\n".join(entries)
    for end, n, torn in (
        ("}\n}", 3, 0),
        ("}", 3, 0),
        ("", 3, 0),
        (",", 3, 0),
        (",\n", 3, 0),
        (',\n"4": {"b"', 3, 1),
    ):
        imported = import_logs("auto", [write(tmp_path, "c.json", whole + end)], Options())
        assert len(imported.rows) == n
        assert sum("its last line is torn: left out" in note for note in imported.notes) == torn
    for cut in range(len(start) + 60, len(whole)):
        imported = import_logs("kernel-tuner", [write(tmp_path, "c.json", whole[:cut])], Options())
        assert 1 <= len(imported.rows) <= 3


def test_a_cache_of_compiled_c_names_no_device(tmp_path: Path) -> None:
    """Kernel Tuner 1.5 writes a blank one where g++ or nvcc compiled the code: --device was of no use."""
    file = write(tmp_path, "c.json", tuner(device_name=""))
    assert columns(import_logs("auto", [file], H), "device", "time_ms") == [("NVIDIA H200", "1.5")]


def timed(*times: float, **others: Any) -> str:
    rows = [
        {"configuration": {"b": b}, "times": {"runtimes": [t]}, "invalidity": "correct", "correctness": 1}
        for b, t in enumerate(times, 1)
    ]
    return json.dumps({"schema_version": "1.0.0", "results": rows} | others)


def cached(*times: float, **changes: Any) -> str:
    return tuner(cache={str(b): {"b": b, "time": t} for b, t in enumerate(times, 1)}, **changes)


def test_the_name_of_a_t4_file_tells_device_and_problem(tmp_path: Path) -> None:
    files = [
        write(tmp_path, "gemm_4096_A100_T4.json", timed(1.0, 2.0)),
        write(tmp_path, "gemm_8192_MI250X_T4.json", timed(2e3, 1e3, metadata={"timeunit": "microseconds"})),
    ]
    imported = import_logs("auto", files, Options())
    found = columns(imported, "vendor", "device", "problem", "b", "time_ms")
    assert set(found) == {
        ("nvidia", "A100", "gemm_4096", "1", "1.0"),
        ("nvidia", "A100", "gemm_4096", "2", "2.0"),
        ("amd", "MI250X", "gemm_8192", "1", "2.0"),
        ("amd", "MI250X", "gemm_8192", "2", "1.0"),
    }
    assert any("of the device A100, by its name" in note for note in imported.notes)
    said = import_logs("auto", files[:1], Options(const={"n": "64"}, device="H200"))
    assert set(columns(said, "device", "n", "b")) == {("H200", "64", "1"), ("H200", "64", "2")}
    assert "problem" not in said.columns


def test_t4_beside_caches_takes_their_problem_and_is_no_copy(tmp_path: Path) -> None:
    files = [
        write(tmp_path, "k_A100.json", cached(1.0, 2.0)),
        write(tmp_path, "again.json", cached(1.0, 2.0)),
        write(tmp_path, "k_A100_T4.json", timed(1.0, 2.0)),
        write(tmp_path, "k_W7800_T4.json", timed(3.0, 2.0)),
    ]
    imported = import_logs("auto", files, Options())
    assert set(columns(imported, "device", "problem_size_0", "b", "time_ms")) == {
        ("NVIDIA A100", "64", "1", "1.0"),
        ("NVIDIA A100", "64", "2", "2.0"),
        ("W7800", "64", "1", "3.0"),
        ("W7800", "64", "2", "2.0"),
    }
    assert len(imported.rows) == 4
    for said in (
        "k_A100_T4.json holds the measurements of ",
        "has the content of",
        "taken as that of the cache, 64",
    ):
        assert any(said in note for note in imported.notes), said
    more = [*files, write(tmp_path, "large.json", cached(1.0, problem_size=[128]))]
    with pytest.raises(UsageError, match="says no problem size, and the caches beside it have several"):
        import_logs("auto", more, Options())


def test_files_of_several_kernels(tmp_path: Path) -> None:
    files = [write(tmp_path, f"{k}.json", cached(1.0, 2.0, kernel_name=k)) for k in ("gemm", "conv")]
    with pytest.raises(UsageError, match=r"the files are of 2 kernels \(say which: --kernel conv or gemm\)"):
        import_logs("auto", files, Options())
    assert 'name = "gemm"' in import_logs("auto", files, Options(kernel="gemm")).spec_text()
    other = timed(1.0).replace('"b"', '"c"')
    files = [write(tmp_path, "x_A100_T4.json", timed(1.0)), write(tmp_path, "y_A100_T4.json", other)]
    with pytest.raises(UsageError, match="tune other parameters"):
        import_logs("auto", files, Options())
    # beside a cache, too, whose problem it would get
    files = [write(tmp_path, "gemm.json", cached(1.0, 2.0)), write(tmp_path, "y_A100_T4.json", other)]
    with pytest.raises(UsageError, match=r"gemm.json and .*y_A100_T4.json tune other parameters"):
        import_logs("auto", files, Options())


@pytest.mark.parametrize("objective", ["time", ["time"], "GFLOP/s", ["GFLOP/s", "time"], None])
@pytest.mark.parametrize(
    "failure",
    [
        {"time": "RuntimeFailedConfig"},
        {"__error__": "RuntimeFailedConfig"},  # 1.4 and later
        {"GFLOP/s": "RuntimeFailedConfig"},  # another objective, to 1.3
    ],
)
def test_caches_of_every_version_and_objective(
    tmp_path: Path, objective: Any, failure: dict[str, str]
) -> None:
    cache = {"16": {"b": 16, "time": 1.5, "GFLOP/s": 7.0}, "32": {"b": 32, **failure}}
    file = write(tmp_path, "c.json", tuner(cache=cache, objective=objective))
    imported = import_logs("auto", [file], Options())
    assert columns(imported, "b", "status", "time_ms") == [
        ("16", "ok", "1.5"),
        ("32", "RuntimeFailedConfig", ""),
    ]
    assert any("GFLOP/s" in note for note in imported.notes) == ("GFLOP/s" in (objective or ""))


@pytest.mark.parametrize("time", [1e20, float("nan"), float("inf"), None])  # 1e20: old versions'
def test_what_stands_for_the_time_of_a_failure(tmp_path: Path, time: float | None) -> None:
    cache = {"16": {"b": 16, "time": 1.5}, "32": {"b": 32, "time": time}}
    imported = import_logs("auto", [write(tmp_path, "c.json", tuner(cache=cache))], Options())
    assert columns(imported, "b", "status", "time_ms") == [("16", "ok", "1.5"), ("32", "invalid", "")]
    assert imported.notes[-1] == "2 rows, 1 of them failed"
    if time != 1e20:
        results = timed(1.5, time)  # type: ignore[arg-type]
        imported = import_logs("auto", [write(tmp_path, "k_A100_T4.json", results)], Options())
        assert columns(imported, "b", "status", "time_ms") == [("1", "ok", "1.5"), ("2", "invalid", "")]


def test_a_problem_size_that_a_function_computed_is_the_name_of_the_file(tmp_path: Path) -> None:
    files = [write(tmp_path, f"{n}.json", tuner(problem_size="callable", cache={"16": {"b": 16, "time": t}}))
             for n, t in (("small_A100", 1.5), ("large_A100", 2.5))]  # fmt: skip
    assert columns(import_logs("auto", files, Options()), "problem", "time_ms") == [
        ("large", "2.5"),
        ("small", "1.5"),
    ]


def test_parameters_that_are_lists(tmp_path: Path) -> None:
    file = write(tmp_path, "c.json", tuner(cache={"(16, 2)": {"b": [16, 2], "time": 1.5}}))
    assert columns(import_logs("auto", [file], Options()), "b") == [("[16,2]",)]


@pytest.mark.parametrize(
    ("rate", "times", "note"),
    [
        (
            500.0,
            ["0.0025", "0.002"],
            "configs do different amounts of work: 1 / GFLOP/s, which it was tuned for, is read",
        ),
        (200.0, ["2.0", "4.0"], "tuned for GFLOP/s; its times are read"),
    ],
)
def test_configs_that_do_different_amounts_of_work(
    tmp_path: Path, rate: float, times: list[str], note: str
) -> None:
    """Temporal tiling: a config that does several steps a launch lost by its time, though its throughput won."""
    rows = {"1": {"b": 1, "time": 2.0, "GFLOP/s": 400.0}, "2": {"b": 2, "time": 4.0, "GFLOP/s": rate}}
    file = write(tmp_path, "c.json", tuner(objective="GFLOP/s", cache=rows))
    imported = import_logs("kernel-tuner", [file], H)
    assert [time for _, time in sorted(columns(imported, "b", "time_ms"))] == times
    assert f"{file}: {note}" in imported.notes
    results = [
        {"configuration": {"b": row["b"]}, "times": {"runtimes": [row["time"]]}, "invalidity": "correct", "objectives": ["GFLOP/s"],
         "measurements": [{"name": "GFLOP/s", "value": row["GFLOP/s"], "unit": ""}]} for row in rows.values()
    ]  # fmt: skip
    write(tmp_path, "c_T4.json", json.dumps({"results": results}))
    both = import_logs("kernel-tuner", [file, str(tmp_path / "c_T4.json")], H)
    assert [time for _, time in sorted(columns(both, "b", "time_ms"))] == times
