"""Frames in, frames out: what is read from a log's frame is the log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import heurgen
from heurgen.base.errors import HeurgenError
from heurgen.logs.cells import read_cells
from heurgen.logs.frame import make
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.trees.compare import evaluate
from tests.logs.tables import frame, spec
from tests.support import logs


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[heurgen.TuningLog, heurgen.KernelSpec]:
    log, spec = logs.write(tmp_path_factory.mktemp("frames"), logs.rows(8))
    kernel = heurgen.read_spec(spec)
    return heurgen.read_logs(log, kernel), kernel


def test_a_logs_frame_reads_as_the_log(read: tuple[heurgen.TuningLog, heurgen.KernelSpec]) -> None:
    log, spec = read
    frame = log.to_frame()
    assert list(frame.columns[:5]) == ["vendor", "device", "scenario", "m", "k"]
    assert len(frame) == log.n_measurements
    assert int(frame["time_ms"].isna().sum()) == log.n_failures
    for same in (frame, frame.drop(columns="scenario")):
        again = heurgen.read_logs(same, spec)
        assert again.content_hash == log.content_hash
        assert again.scenario_id == log.scenario_id


def test_a_frame_without_a_spec_is_guessed(read: tuple[heurgen.TuningLog, heurgen.KernelSpec]) -> None:
    log = heurgen.read_logs(read[0].to_frame())
    assert [f.name for f in log.spec.features] == ["m", "k", "density", "dtype"]
    assert [p.name for p in log.spec.parameters] == ["BLOCK_M", "num_warps", "waves_per_eu"]
    assert log.notes[0].startswith(
        "no spec given, guessed: features: m, k, density, dtype; parameters: BLOCK_M"
    )
    assert heurgen.cost_tables(log, log.spec)[1].n_scenarios == 8


def test_results_are_frames(read: tuple[heurgen.TuningLog, heurgen.KernelSpec]) -> None:
    log, spec = read
    tables = heurgen.cost_tables(log, spec)
    cells = tables[1].to_frame()
    assert set(cells.columns) >= {
        "vendor",
        "scenario",
        "device",
        "m",
        "work",
        "BLOCK_M",
        "time_ms",
        "slowdown",
    }
    assert cells.groupby(["m", "k", "density"])["slowdown"].min().eq(1.0).all()
    module = heurgen.train(log, spec, options=heurgen.FitOptions(strategy="joint", max_depth=2))
    score = heurgen.score(module, tables)
    frame = score.to_frame()
    assert len(frame) == score.overall.n_scenarios
    assert math.exp(
        sum(map(math.log, frame["slowdown"].dropna())) / frame["slowdown"].count()
    ) == pytest.approx(score.overall.geomean_slowdown)
    assert set(frame.columns) >= {"chosen_BLOCK_M", "best_BLOCK_M", "status", "agrees"}
    report = evaluate(tables[1], folds=2)
    assert set(report.to_frame()["split"]) <= {"held_out", "beyond"}
    assert len(report.to_frame()) == len(report.rows) + len(report.extrapolation)
    advised = heurgen.advise(module, tables[1], spec, 3)
    assert advised.to_frame()["rank"].is_monotonic_increasing
    assert isinstance(advised.to_frame(), pd.DataFrame)


def test_whole_parameters_that_some_configs_leave_out_stay_whole(
    read: tuple[heurgen.TuningLog, heurgen.KernelSpec],
) -> None:
    """They were floats in results, as `waves_per_eu = 2.0`, and ints in the log's frame."""
    log, spec = read
    module = heurgen.train(log, spec, options=heurgen.FitOptions(strategy="joint", max_depth=2))
    score = heurgen.score(module, heurgen.cost_tables(log, spec)).to_frame()
    assert score["best_waves_per_eu"].isna().any()
    assert [str(f.dtype) for f in (log.to_frame()["waves_per_eu"], score["best_waves_per_eu"])] == [
        "Int64"
    ] * 2
    made = make({"ints": [4, None], "bools": [True, None], "floats": [1.5, None], "whole": [4, 8]})
    assert [str(dtype) for dtype in made.dtypes] == ["Int64", "boolean", "float64", "int64"]


def test_pandas_is_imported_by_frames_alone(tmp_path: Path) -> None:
    import subprocess
    import sys

    log, spec = logs.write(tmp_path, logs.rows(4))
    code = (
        "import sys, heurgen\n"
        f"log = heurgen.read_logs({str(log)!r}, heurgen.read_spec({str(spec)!r}))\n"
        "assert 'pandas' not in sys.modules\nlog.to_frame()\nassert 'pandas' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_frames_of_any_types_are_one_log(plain: TuningLog) -> None:
    assert read_logs(frame(), spec()).content_hash == plain.content_hash
    assert read_logs([frame()[:2], frame()[2:]], spec()).content_hash == plain.content_hash
    wider = frame().astype({"dtype": "category", "n": "Int64", "vendor": "string"})
    assert read_logs(wider, spec()).content_hash == plain.content_hash


def test_a_frame_of_a_class_made_from_pandas_is_one(plain: TuningLog) -> None:
    class Sweep(pd.DataFrame):
        pass

    assert read_logs(Sweep(frame()), spec()).content_hash == plain.content_hash


def test_ints_that_pandas_made_floats_stay_ints() -> None:
    table = frame()
    table.loc[1, "n"] = None
    with pytest.raises(HeurgenError, match=r"^frame:1: column 'n': the cell is blank \(fill it in"):
        read_logs(table, spec())
    assert read_cells([table]).texts["n"] == ["8", "64", ""]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "frame 2: the frame has no columns"),
        ({"a": []}, "frame 2: the frame has no rows"),
        ({3: [1]}, "frame 2: column 0 is named '3', expected text"),
        ({"a": [1], " ": [1]}, "frame 2: column 1 is named ' ', expected text"),
        ({"a": [1, [2]]}, "frame 2:1: column 'a': found '[2]', expected a number or text"),
        (
            {"a": [{"b": 2}]},
            "frame 2:0: column 'a': found \"{'b': 2}\", expected a number or text "
            "(pandas.json_normalize makes columns of them)",
        ),
    ],
)
def test_frames_that_are_no_tables(columns: dict[Any, Any], message: str) -> None:
    with pytest.raises(HeurgenError) as error:
        read_cells([frame(), pd.DataFrame(columns)])
    assert str(error.value) == message


def test_two_columns_of_one_name() -> None:
    with pytest.raises(HeurgenError) as error:
        read_cells([pd.DataFrame([[1, 2]], columns=["a", "a"])])
    assert str(error.value) == "frame: column 'a': two columns of the frame have this name"


def test_an_index_that_is_a_column_too() -> None:
    """`set_index(drop=False)`: pandas' own ValueError came through."""
    with pytest.raises(HeurgenError) as error:
        read_cells([pd.DataFrame({"a": [1]}).set_index("a", drop=False)])
    hint = "so has its index: reset_index(drop=True) leaves that out"
    assert str(error.value) == f"frame: column 'a': two columns of the frame have this name ({hint})"


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]", "category", "Sparse[float32]"])
def test_short_floats_are_the_texts_that_a_csv_of_them_holds(dtype: str) -> None:
    """A kernel's float32 0.1 shipped as 0.10000000149011612, where the CSV of the same frame says 0.1."""
    values = [0.1, 64.0, 1e-7, float("nan"), 3e38]
    cells = read_cells([pd.DataFrame({"a": pd.Series(values, dtype="float32").astype(dtype)})])
    assert [cells.texts["a"][code] for code in cells.codes["a"]] == ["0.1", "64", "1e-07", "", "3e+38"]


def test_what_a_groupby_leaves_is_data() -> None:
    grouped = pd.DataFrame({"k": ["a", "b"], "v": [1.5, 2.0], "flag": [True, False]}).set_index("k")
    cells = read_cells([grouped])
    assert cells.texts == {"k": ["a", "b"], "v": ["1.5", "2"], "flag": ["true", "false"]}
