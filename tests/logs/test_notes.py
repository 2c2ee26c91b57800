"""What reading a log leaves to say."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from heurgen.logs.tuning_log import read_logs
from tests.logs.rows import SPEC, read, row, without, write


def test_ignored_columns_are_noted_once(tmp_path: Path) -> None:
    log = read(tmp_path, row(gpu_count="8", zone="a"), row(BM="32", gpu_count="8", zone="a"))
    assert log.notes == ("columns that the spec does not name are ignored: 'gpu_count', 'zone'",)


def test_why_a_config_failed_is_the_tuner_s_own_column(tmp_path: Path) -> None:
    log = read(tmp_path, row(reason=""), row(BM="32", status="error", time_ms="", reason="out of memory"))
    assert log.notes == ()


def test_ignored_columns_that_vary_are_named(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        row(fixed="8", per_scenario="1", **{"split\x1b": "a"}),
        row(fixed="8", per_scenario="1", **{"split\x1b": "b"}),
        row(scenario="s2", fixed="8", per_scenario="2", **{"split\x1b": "a"}),
    )
    assert log.notes == (
        "columns that the spec does not name are ignored: 'fixed', 'per_scenario', 'split\\x1b'",
        "ignored columns that vary inside a scenario: 'split\\x1b' "
        "(if the time depends on one, name it in the spec)",
    )


def test_todays_default_varies_as_it_must(tmp_path: Path) -> None:
    """`audit` reads the marks; a note said to name the column in the spec, which makes an answer a feature."""
    log = read(tmp_path, row(default="true"), row(default=""), row(scenario="s2", default="yes"))
    assert log.notes == ("columns that the spec does not name are ignored: 'default'",)
    log = read(tmp_path, row(default="1.5"), row(default="2"))  # no marks
    assert log.notes[1].startswith("ignored columns that vary inside a scenario: 'default' (")


def test_results_and_labels_vary_as_they_must(tmp_path: Path) -> None:
    columns = {"run_id": "1", "env.timestamp": "1", "result.p99": "1", "tflops": "1", "error": "1"}
    log = read(tmp_path, row(**columns), row(BM="32", **dict.fromkeys(columns, "2")))
    assert len(log.notes) == 1
    assert log.notes[0].startswith("columns that the spec does not name are ignored: 'env.timestamp'")


def test_a_column_that_only_one_file_has_does_not_vary(tmp_path: Path) -> None:
    one = write(tmp_path, row(zone="a"), name="1.csv")
    two = write(tmp_path, row(BM="32"), name="2.csv")
    assert len(read_logs([one, two], SPEC).notes) == 1


def test_other_notes(tmp_path: Path) -> None:
    log = read(
        tmp_path, row(), row(BM="32", status="OK"), row(BM="64", status=" ok"), row(BM="16", status="Passed")
    )
    assert log.notes == ("the status 'Passed' counts as a failure, unless [log] says success = ['Passed']",)
    assert read(tmp_path, without("mode")).notes == ("no file has a column 'mode': blank in every row",)
    one, two = write(tmp_path, row(), name="1.csv"), write(tmp_path, row(), name="2.csv")
    assert read_logs([one, two], SPEC).notes == (f"{two} has the same content as {one}: read once",)


def test_repeats_that_are_no_noise_are_counted_and_named(tmp_path: Path) -> None:
    times = {"16": ("1.0", "2.0"), "32": ("1.0", "2.1"), "64": ("1.0", "7.0")}
    first, second = ([row(BM=block, time_ms=pair[i]) for block, pair in times.items()] for i in range(2))
    failed = row(BM="64", status="oom", time_ms="")
    where = "measurements took over 2 times as long when repeated (the first: "
    log = read(tmp_path, *first, failed, *second)
    assert log.notes == (f"2 {where}lines 3 and 7 of {tmp_path / 'log.csv'}); the median counts",)
    paths = [write(tmp_path, *rows, name=f"{i}.csv") for i, rows in enumerate((first, second))]
    assert read_logs(paths, SPEC).notes == (
        f"2 {where}line 3 of {paths[0]}, 3 of {paths[1]}); the median counts",
    )


def test_blank_statuses_beside_times_are_told(tmp_path: Path) -> None:
    """They count as failures, as those without a time do, of which nothing is to be said."""
    failed = row(BM="64", status="", time_ms="")
    where = f"line 3 of {tmp_path / 'log.csv'}"
    assert read(tmp_path, row(), row(BM="32", status=""), failed).notes == (
        f"a blank status counts as a failure, in 1 row with a time (the first: {where}), unless [log] says "
        "success = ['ok', '']",
    )
    assert read(tmp_path, row(), failed).notes == ()


def test_a_device_of_two_vendors_is_told(tmp_path: Path) -> None:
    """One row of a wrong vendor gave that vendor a selector of its own for the device."""
    rows = [row(), row(vendor="amd", BM="32"), row(BM="64")]
    where = f"line 3 of {tmp_path / 'log.csv'}"
    assert read(tmp_path, *rows).notes == (
        f"the device 'H200' is of amd in 1 row (the first: {where}) and of nvidia in 2: is one of them wrong?",
    )
    other = [{**r, "device": "GPU 9", "scenario": "s9"} for r in rows]
    assert read(tmp_path, *rows, *other).notes[0].endswith("wrong? The same holds for 1 more device")


def test_scenarios_without_success_are_dropped_and_told(tmp_path: Path) -> None:
    bad = {"status": "oom", "time_ms": ""}
    log = read(tmp_path, row(), row(scenario="s2", **bad), row(scenario="s3", **bad), row(scenario="s4"))
    assert log.dropped.tolist() == [False, True, True, False]
    assert log.notes == (
        f"2 of 4 scenarios dropped: no config succeeded (the first is on line 3 of {tmp_path / 'log.csv'})",
    )


def test_a_device_on_which_every_config_failed_is_named(tmp_path: Path) -> None:
    bad = {"status": "oom", "time_ms": ""}
    log = read(tmp_path, row(), row(scenario="s2", **bad), row(scenario="s3", device="GPU 9", **bad))
    assert log.notes[1:] == (
        "every config failed in every scenario on 'GPU 9': a model knows nothing of what works there",
    )


@pytest.mark.parametrize("column", ["kernel", "phase"])
def test_kernels_that_are_mixed_are_told(tmp_path: Path, column: str) -> None:
    ways = product(("forward", "backward"), ("16", "32"))
    rows = [row(**{column: way, "BM": block}) for way, block in ways]
    assert read(tmp_path, *rows).notes[1:] == (
        f"the ignored column '{column}' holds 2 kernels, and times of one config in one scenario are of several: "
        "give each kernel a log of its own, or name the column in the spec",
    )
    named = [row(**{column: f"gemm_{block}", "BM": block}) for block in ("16", "32")]  # after its config
    assert len(read(tmp_path, *named).notes) == 1
