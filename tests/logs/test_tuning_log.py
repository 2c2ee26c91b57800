"""Tuning logs: what a spec lets into a log, the first offending line otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heurgen.base.errors import LogError, UsageError
from heurgen.logs.outcomes import BLANK_TIME
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import Column, KernelSpec, LogColumns
from tests.logs.rows import GOOD, SPEC, read, refused, row, without, write

# --- values -----------------------------------------------------------------------------------------------


def test_a_log_is_typed_and_coded(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        row(vendor="amd", device="MI300X", x="0.50", wpe="2", mode=""),
        row(x="5e-1", BM="8"),
        row(n="2", scenario="s2", BM="8", mode="", status="oom", time_ms="?"),
        row(n="2", scenario="s2", BM="16", time_ms="1E1"),
    )
    assert (log.vendors, log.devices) == (("amd", "nvidia"), ("H200", "MI300X"))
    assert [c.values for c in log.features] == [(1, 2), (0.5,), ("f16",)]
    assert [c.values for c in log.parameters] == [(8, 16), (None, 2), (None, "a")]
    assert [c.codes.tolist() for c in log.parameters] == [[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 1]]
    assert log.status.values == ("ok", "oom")
    assert np.array_equal(log.time, [0.1, 0.1, np.nan, 10.0], equal_nan=True)
    assert (log.n_measurements, log.n_failures, log.n_scenarios, log.n_configs) == (4, 1, 3, 4)
    assert log.scenario.tolist() == [0, 1, 2, 2]
    assert log.scenario_id == ("s1", "s1", "s2")
    assert log.scenario_row.tolist() == [0, 1, 2]
    assert log.config.tolist() == [3, 1, 0, 2]
    assert log.config_row.tolist() == [2, 1, 3, 0]
    assert log.dropped.tolist() == [False, False, False]
    assert log.notes == ()


def test_without_a_status_column_a_blank_time_is_a_failure(tmp_path: Path) -> None:
    log = read(tmp_path, without("status"), without("status") | {"BM": "32", "time_ms": ""})
    assert log.status.values == (BLANK_TIME, "ok")
    assert np.array_equal(log.time, [0.1, np.nan], equal_nan=True)


def test_a_failure_counts_whatever_its_time_says(tmp_path: Path) -> None:
    times = ["", "nan", "inf", "-1", "0", "text", "3"]
    log = read(tmp_path, row(), *(row(BM="32", status="error", time_ms=t) for t in times))
    assert log.n_failures == 7


def test_without_a_scenario_column_the_features_are_the_scenario(tmp_path: Path) -> None:
    plain = without("scenario")
    log = read(
        tmp_path,
        plain,
        plain | {"BM": "8"},
        plain | {"n": "2"},
        plain | {"device": "B200"},
        plain | {"x": ".50"},
    )
    assert log.scenario.tolist() == [1, 1, 2, 0, 1]
    assert log.scenario_id == ("", "", "")


def test_scenarios_with_ids_may_share_all_features(tmp_path: Path) -> None:
    log = read(tmp_path, row(), row(scenario="s2"), row(device="B200"))
    assert log.n_scenarios == 3


def test_several_files_are_one_log(tmp_path: Path) -> None:
    one = write(tmp_path, row(), row(BM="32"), name="1.csv")
    two = write(tmp_path, without("scenario"), without("scenario") | {"n": "7"}, name="2.csv")
    three = write(tmp_path, row(BM="64"), name="3.csv")
    log = read_logs([one, two, three], SPEC)
    assert log.files == ((str(one), 2), (str(two), 2), (str(three), 1))
    assert log.scenario.tolist() == [2, 2, 0, 1, 2]
    assert log.scenario_id == ("", "", "s1")


def test_renamed_bookkeeping_columns(tmp_path: Path) -> None:
    names = LogColumns(vendor="v", device="d", time="ms", status="state", scenario="id")
    spec = KernelSpec("k", SPEC.features, SPEC.parameters, log=names)
    renamed = {"vendor": "v", "device": "d", "time_ms": "ms", "status": "state", "scenario": "id"}
    log = read(tmp_path, {renamed.get(k, k): v for k, v in GOOD.items()}, spec=spec)
    assert log.notes == ()
    assert log.content_hash == read(tmp_path, row()).content_hash


# --- errors -----------------------------------------------------------------------------------------------

TIME = "expected a finite time above 0"


def named(text: str) -> str:
    """What the hint adds for a word that could stand for a failure."""
    words = ("", "nan", "NaN", "inf", "-inf", "abc", "-1", "0", "0.0")
    return f'; or name it in [log]: failures = ["{text}"]' if text in words else ""


BAD_CELLS = {
    "vendor in capitals": (
        row(vendor="NVIDIA"),
        "column 'vendor': found 'NVIDIA', expected a vendor in lower-case letters, digits and underscores, "
        "such as nvidia (write 'nvidia')",
    ),
    "vendor that is code": (
        row(vendor="a; import os"),
        "column 'vendor': found 'a; import os', expected a vendor in lower-case letters, digits and "
        "underscores, such as nvidia",
    ),
    "vendor keyword": (
        row(vendor="is"),
        "column 'vendor': found 'is', expected a vendor that is no Python keyword",
    ),
    "vendor blank": (row(vendor=""), "column 'vendor': the cell is blank (fill it in, or leave the row out)"),
    "device blank": (row(device=""), "column 'device': the cell is blank (fill it in, or leave the row out)"),
    "device with an escape": (
        row(device="H\x1b[31m"),
        "column 'device': found 'H\\x1b[31m', expected a device name without control characters",
    ),
    "device right to left": (
        row(device="H\u202e"),
        "column 'device': found 'H\\u202e', expected a device name without control characters",
    ),
    "device with spaces": (
        row(device=" H"),
        "column 'device': found ' H', expected a device name without spaces around it",
    ),
    "scenario blank": (
        row(scenario=""),
        "column 'scenario': the cell is blank (fill it in, or leave the row out)",
    ),
    "feature blank": (row(n=""), "column 'n': the cell is blank (fill it in, or leave the row out)"),
    "feature is no int": (row(n="1.5"), "column 'n': found '1.5', expected a whole number such as 16"),
    "feature too small": (row(n="0"), "column 'n': found '0', expected at least 1 (min in the spec)"),
    "feature not exact": (
        row(n="9007199254740993"),
        "column 'n': found '9007199254740993', expected a whole number within +-2**53 "
        "(larger ones are not exact in training)",
    ),
    "feature nan": (row(x="nan"), "column 'x': found 'nan', expected a finite number such as 0.5 or 1e-3"),
    "unknown category": (
        row(dtype="fp16"),
        "column 'dtype': found 'fp16', expected one of 'f16', 'bf16' (values in the spec; did you mean 'f16'?)",
    ),
    "parameter blank": (
        row(BM=""),
        "column 'BM': the cell is blank (if the spec says optional = true, a blank cell is None)",
    ),
    "parameter of a failure": (
        row(BM="x", status="error"),
        "column 'BM': found 'x', expected a whole number such as 16",
    ),
    "parameter of another vendor": (
        row(wpe="2"),
        "column 'wpe': found '2', expected a blank cell for nvidia "
        "(the spec has this parameter for amd alone)",
    ),
    "feature of a thousand characters": (
        row(mode="x" * 1001),
        f"column 'mode': found '{'x' * 17}...' of 1001 characters, expected at most 1000",
    ),
    "features that vary": (
        row(n="2"),
        "column 'n': found '2', but scenario 's1' has '1' on line 2 of FILE (the features of a scenario must "
        "not vary; give this row another scenario id)",
    ),
} | {
    f"time {text!r}": (
        row(time_ms=text),
        f"column 'time_ms': found '{text}', {TIME} (a failure has another status than ok{named(text)})",
    )
    for text in ("", "nan", "NaN", "inf", "-inf", "0", "0.0", "-1", "abc", "1e999", "1e-400", "1_0", "0x1p3")
}


@pytest.mark.parametrize("case", BAD_CELLS, ids=list(BAD_CELLS))
def test_bad_cells(tmp_path: Path, case: str) -> None:
    bad, expected = BAD_CELLS[case]
    assert refused(tmp_path, row(), bad, row(BM="32")) == f"FILE:3: {expected}"


def test_times_without_a_status_column(tmp_path: Path) -> None:
    plain = without("status")
    message = refused(tmp_path, plain, plain | {"time_ms": "nan"})
    assert (
        message == f"FILE:3: column 'time_ms': found 'nan', {TIME} (a failure has a blank time{named('nan')})"
    )
    message = refused(tmp_path, plain, plain | {"time_ms": "1 "})
    assert message == f"FILE:3: column 'time_ms': found '1 ', {TIME} (remove the spaces around the value)"


def test_the_first_offending_line_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path, row(), row(time_ms="x"), row(n="y")).startswith("FILE:3: column 'time_ms'")
    assert refused(tmp_path, row(time_ms="x", n="y"), row(n="z")).startswith("FILE:2: column 'n': found 'y'")
    many = [row(BM=str(i)) for i in range(40_000)]
    assert refused(tmp_path, *many, row(n="y")).startswith("FILE:40002: column 'n': found 'y'")


def test_the_line_is_the_physical_one(tmp_path: Path) -> None:
    message = refused(tmp_path, row(mode="a\nb"), row(mode="a\r\n\nb"), row(n="y"))
    assert message.startswith("FILE:7: column 'n'")


def test_the_file_is_named_where_there_are_several(tmp_path: Path) -> None:
    one, two = write(tmp_path, row(), name="1.csv"), write(tmp_path, row(n="2"), name="2.csv")
    with pytest.raises(LogError) as error:
        read_logs([one, two], SPEC)
    assert str(error.value).startswith(
        f"{two}:2: column 'n': found '2', but scenario 's1' has '1' on line 2 of {one}"
    )


ADD = ' (add it with the value that these rows were measured with, or say column = "..." in the spec)'
MISSING = {
    "vendor": " (add it, or name the log's column with vendor = ... in [log] of the spec, "
    'or say it: vendor = { const = "..." })',
    "device": " (add it, or name the log's column with device = ... in [log] of the spec, "
    'or say it: device = { const = "..." })',
    "time_ms": " (add it, or name the log's column with time = ... in [log] of the spec)",
    "dtype": ADD,
    "BM": ADD,
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_columns(tmp_path: Path, name: str) -> None:
    message = refused(tmp_path, without(name))
    assert message == f"FILE:1: column '{name}': the header lacks this column{MISSING[name]}"


def test_a_missing_column_with_a_close_name(tmp_path: Path) -> None:
    message = refused(tmp_path, without("dtype") | {" dtype": "f16"})
    assert message == "FILE:1: column 'dtype': the header lacks this column (did you mean ' dtype'?)"


def test_other_separators(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    (tmp_path / "commas").mkdir()
    for separator in ";\t":
        path.write_text(separator.join(GOOD) + "\n" + separator.join(GOOD.values()))
        assert read_logs([path], SPEC).content_hash == read(tmp_path / "commas", row()).content_hash
    path.write_text("|".join(GOOD) + "\n" + "|".join(GOOD.values()))
    with pytest.raises(LogError) as error:
        read_logs([path], SPEC)
    assert str(error.value) == (
        f"{path}:1: column 'vendor': the header lacks this column (columns are separated by , ; or tab)"
    )


def test_parameters_of_some_vendors(tmp_path: Path) -> None:
    spec = KernelSpec("k", SPEC.features, (Column("BM", "int"), Column("wpe", "int", vendors=("amd",))))
    assert read(tmp_path, row(), spec=spec).parameters[1].values == (None,)
    assert read(tmp_path, without("wpe"), spec=spec).parameters[1].values == (None,)
    assert read(tmp_path, row(), row(vendor="amd", wpe="2"), spec=spec).parameters[1].values == (None, 2)
    blank = refused(tmp_path, row(vendor="amd"), spec=spec)
    assert blank.startswith("FILE:2: column 'wpe': the cell is blank")
    missing = refused(tmp_path, without("wpe") | {"vendor": "amd"}, spec=spec)
    assert missing == f"FILE:1: column 'wpe': the header lacks this column{ADD}"
    only_amd = KernelSpec("k", SPEC.features, (Column("wpe", "int", vendors=("amd",)),))
    assert refused(tmp_path, row(vendor="amd", wpe="2"), row(), spec=only_amd) == (
        "FILE:3: column 'vendor': found 'nvidia', for which the spec has no parameter "
        "(see vendors in the spec)"
    )


def test_a_log_in_which_nothing_succeeded(tmp_path: Path) -> None:
    assert refused(tmp_path, row(status="oom")) == "FILE: no config succeeded in any scenario"
    assert refused(tmp_path, row(), row(status="oom")) == (
        "FILE: no config succeeded in any scenario "
        "(a config that is measured several times must succeed in more than half of them)"
    )


def test_a_file_may_lack_a_parameter_that_its_vendor_does_not_have(tmp_path: Path) -> None:
    amd = write(tmp_path, row(vendor="amd", device="MI300X", wpe="2"), name="amd.csv")
    nvidia = write(tmp_path, without("wpe"), name="nvidia.csv")
    assert read_logs([amd, nvidia], SPEC).parameters[1].codes.tolist() == [1, 0]


def test_a_path_is_no_spec(tmp_path: Path) -> None:
    """It was an AttributeError: 'str' object has no attribute 'features'."""
    path = write(tmp_path, GOOD)
    with pytest.raises(UsageError) as caught:
        read_logs(path, "kernel.toml")  # type: ignore[arg-type]
    assert str(caught.value) == "the spec is a str, expected what read_spec gives (read_spec takes a file)"
