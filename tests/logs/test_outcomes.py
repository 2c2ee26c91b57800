"""Which measurements count, and in which unit: what [log] says of the time's column."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import LogError
from heurgen.logs.outcomes import BLANK_TIME
from heurgen.logs.tuning_log import TuningLog, read_logs
from tests.logs.tables import ROWS, csv_text, spec


def timed(tmp_path: Path, name: str, *cells: str, log: str = "", status: bool = False) -> TuningLog:
    """A log whose time column is called `name` and holds `cells`, a config each."""
    header = ["vendor", "device", "n", "share", "dtype", "BM", "fast", *(["status"] if status else []), name]
    rows = [
        [*ROWS[0][:5], str(16 * i), "true", *(["ok"] if status else []), c] for i, c in enumerate(cells, 1)
    ]
    path = tmp_path / "timed.csv"
    path.write_text(csv_text(header=header, rows=rows))
    return read_logs([path], spec(f'time = "{name}"\n{log}'))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("time_ms", 1), ("time_us", 1e-3), ("latency (ms)", 1), ("kernel_ns", 1e-6), ("timing_ms", 1), ("mean_time", 1),
     ("latency_s", 1e3), ("kernelTimeUs", 1e-3), ("Duration [ns]", 1e-6), ("us", 1e-3), ("time_µs", 1e-3), ("s", 1)],
)  # fmt: skip
def test_units_by_name(tmp_path: Path, name: str, factor: float) -> None:
    assert timed(tmp_path, name, "2", "3").time.tolist() == [2 * factor, 3 * factor]


def test_units_as_said(tmp_path: Path) -> None:
    assert timed(tmp_path, "mean_time", "2", "3", log='unit = "us"').time.tolist() == [2e-3, 3e-3]


def test_failure_words(tmp_path: Path) -> None:
    log = 'failures = ["OOM", "nan", "inf", "-1", ""]'
    for status in (False, True):
        found = timed(tmp_path, "time_ms", "1", "oom", "NaN", "-1", "", "inf", "2", log=log, status=status)
        assert found.n_failures == 5
        words = [found.status.values[c] for c in found.status.codes]
        assert words == ["ok", "oom", "NaN", "-1", BLANK_TIME, "inf", "ok"]


@pytest.mark.parametrize("word", ["-1", "-1.0"])
def test_a_whole_number_that_is_a_failure_needs_no_point(word: str, tmp_path: Path) -> None:
    """A spec that read a frame, whose cells are "-1", refused the CSV that pandas wrote of it, with "-1.0"."""
    log = f'failures = ["{word}"]'
    frame, file = (timed(tmp_path, "time_ms", "1.5", w, log=log, status=True) for w in ("-1", "-1.0"))
    assert [frame.status.values[c] for c in frame.status.codes] == ["ok", "-1"]
    assert frame.content_hash == file.content_hash


@pytest.mark.parametrize(
    ("success", "told"),
    [('["PASS"]', "PASS"), ('["PASS", "passed"]', "PASS or passed"), ('["PASS", ""]', "PASS or a blank one")],
)
def test_what_is_no_time_is_told_beside_the_words_of_success(success: str, told: str, tmp_path: Path) -> None:
    """It named `ok`, whatever the spec's words were."""
    path = tmp_path / "log.csv"
    path.write_text(csv_text(rows=[[*ROWS[0][:-2], "PASS", "-1"]]))
    with pytest.raises(LogError, match=rf"\(a failure has another status than {told}[;)]"):
        read_logs([path], spec(f"success = {success}"))


def test_throughput_is_turned_round(tmp_path: Path) -> None:
    log = timed(tmp_path, "tflops", "100", "400", log='objective = "max"')
    assert log.time.tolist() == [0.01, 0.0025]


def test_decimal_commas(tmp_path: Path) -> None:
    assert timed(tmp_path, "time_ms", "0,5", "12", "1,250").time.tolist() == [0.5, 12.0, 1.25]
    with pytest.raises(
        LogError, match=r"found '1,250', expected a finite time above 0 \(write a decimal point\)"
    ):
        timed(tmp_path, "time_ms", "1,250", "12")
    for text in ("1,250.5", "1,250,000"):  # Nsight Compute's
        with pytest.raises(LogError, match=rf"found '{text}', .* \(write no commas between thousands\)"):
            timed(tmp_path, "time_ms", text, "12")


def test_times_that_no_clock_gives_are_told_with_their_bounds(tmp_path: Path) -> None:
    for text in ("1e308", "1e-300"):
        with pytest.raises(
            LogError, match=r"expected a finite time above 0, as a time of 1e-100 to 1e\+100 ms "
        ):
            timed(tmp_path, "time_ms", text, "12")


@pytest.mark.parametrize("column", ["time", "time_ns"])
def test_a_cell_that_names_its_unit_is_read_in_it(tmp_path: Path, column: str) -> None:
    found = timed(tmp_path, column, "1.5 us", "2ms")
    assert found.time.tolist() == [1.5 * 1e-3, 2.0]
    assert timed(tmp_path, column, "5e2µs", "0.25 Sec").time.tolist() == [0.5, 250.0]
    for text in ("-1 us", "1.5 m", "1.5 us 2", "us", "0us"):
        with pytest.raises(LogError, match=f"found '{text}', expected a finite time above 0"):
            timed(tmp_path, column, text, "2ms")


def test_a_throughput_has_no_unit_of_time(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"found '1\.5 us', expected a finite throughput above 0"):
        timed(tmp_path, "tflops", "1.5 us", "2", log='objective = "max"')
