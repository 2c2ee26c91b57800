"""The tables that users have: separators, gzip, JSON lines, Parquet, frames, the standard input, a column a config."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError
from heurgen.logs.cells import read_cells
from heurgen.logs.outcomes import BLANK_TIME
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import KernelSpec, parse_spec

FEATURES = '[kernel]\nname = "k"\n[features]\nn = { type = "int" }\nshare = { type = "float" }\n'
SPEC = (
    FEATURES
    + 'dtype = { type = "category" }\n[parameters]\nBM = { type = "int" }\nfast = { type = "bool" }\n'
)
HEADER = ["vendor", "device", "n", "share", "dtype", "BM", "fast", "status", "time_ms"]
ROWS = [
    ["nvidia", "H200", "8", "0.5", "bf16", "16", "true", "ok", "1.5"],
    ["nvidia", "H200", "8", "0.5", "bf16", "32", "false", "ok", "1"],
    ["nvidia", "H200", "64", "1", "fp, 8", "16", "true", "OOM", ""],
    ["nvidia", "H200", "64", "1", "fp, 8", "32", "false", "ok", "0.25"],
]


def spec(log: str = "") -> KernelSpec:
    return parse_spec(SPEC + (f"[log]\n{log}\n" if log else ""), "spec.toml")


def csv_text(separator: str = ",", header: list[str] = HEADER, rows: list[list[str]] = ROWS) -> str:
    lines = [
        separator.join(f'"{c}"' if separator in c or "," in c else c for c in r) for r in [header, *rows]
    ]
    return "\n".join(lines) + "\n"


def jsonl_text() -> str:
    typed = [
        {
            n: json.loads(c) if n in ("n", "share", "BM", "fast") or (n == "time_ms" and c) else c or None
            for n, c in p
        }
        for p in (zip(HEADER, r, strict=True) for r in ROWS)
    ]
    return "\n".join(map(json.dumps, typed)) + "\n\n"


def frame() -> pd.DataFrame:
    return pd.read_csv(io.StringIO(csv_text()))


@pytest.fixture
def plain(tmp_path: Path) -> TuningLog:
    path = tmp_path / "plain.csv"
    path.write_text(csv_text())
    return read_logs([path], spec())


def test_forms_of_one_table(tmp_path: Path, plain: TuningLog) -> None:
    forms = {
        "semicolons.csv": csv_text(";").encode(),
        "tabs.tsv": csv_text("\t").encode(),
        "log.csv.gz": gzip.compress(csv_text().encode()),
        "log.jsonl": jsonl_text().encode(),
        "log.jsonl.gz": gzip.compress(jsonl_text().encode()),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        assert read_logs([tmp_path / name], spec()).content_hash == plain.content_hash, name
    pytest.importorskip("pyarrow")
    for name in ("log.parquet", "renamed.bin"):
        frame().to_parquet(tmp_path / "log.parquet")
        (tmp_path / "log.parquet").rename(tmp_path / name)
        assert read_logs([tmp_path / name], spec()).content_hash == plain.content_hash


def test_frames(plain: TuningLog) -> None:
    assert read_logs(frame(), spec()).content_hash == plain.content_hash
    assert read_logs([frame()[:2], frame()[2:]], spec()).content_hash == plain.content_hash
    wider = frame().astype({"dtype": "category", "n": "Int64", "vendor": "string"})
    assert read_logs(wider, spec()).content_hash == plain.content_hash


def test_ints_that_pandas_made_floats_stay_ints() -> None:
    table = frame()
    table.loc[1, "n"] = None
    with pytest.raises(HeurgenError, match=r"^frame:1: column 'n': the cell is blank$"):
        read_logs(table, spec())
    assert read_cells([table]).texts["n"] == ["8", "64", ""]


def test_several_files_of_several_forms(tmp_path: Path, plain: TuningLog) -> None:
    (tmp_path / "one.csv").write_text(csv_text(";", rows=ROWS[:2]))
    (tmp_path / "two.jsonl").write_text("\n".join(jsonl_text().split("\n")[2:]))
    log = read_logs([tmp_path / "one.csv", tmp_path / "two.jsonl"], spec())
    assert log.content_hash == plain.content_hash
    assert [n for _, n in log.files] == [2, 2]


def test_standard_input(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    command = [
        sys.executable,
        "-m",
        "heurgen",
        "validate",
        "-",
        "--spec",
        str(tmp_path / "spec.toml"),
        "--json",
    ]
    done = subprocess.run(command, input=csv_text(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measurements"] == 4
    done = subprocess.run(command, input="a,b\n1\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: <stdin>:2: found 1 cell, expected 2 as in the header",
    )


def refused(tmp_path: Path, text: str, name: str = "log.csv", log: str = "") -> str:
    (tmp_path / name).write_text(text)
    with pytest.raises(HeurgenError) as error:
        read_logs([tmp_path / name], spec(log))
    return str(error.value).replace(str(tmp_path / name), "FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"n": 1}\n{"n": }\n', "FILE:2: this is no JSON line: Expecting value"),
        ('{"n": 1}\n[1]\n', "FILE:2: found no object, expected one on every line"),
        ('{"n": [1]}\n', "FILE:1: column 'n': found a list, expected a number, text, true, false or null"),
        ('{"n": 1}\n\n{"n": {"m": 2}}\n', "FILE:3: column 'n': found an object, expected a number, text, true, "
         "false or null"),
        ('{"n": 1, "n": 2}\n', "FILE:1: column 'n': the key is there twice"),
        ("{}\n{}\n", "FILE: the lines name no column"),
        ("[" * 9000, "FILE: the file has a header and no measurements"),
        ('{"a":' + "[" * 99000, "FILE:1: this is no JSON line: "),
        ("{\n", "FILE:1: this is no JSON line: Expecting property name enclosed in double quotes"),
    ],
)  # fmt: skip
def test_bad_json_lines(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text, "log.jsonl").startswith(message)


def test_a_bad_cell_has_its_line_in_every_form(tmp_path: Path) -> None:
    bad = "column 'n': found 'x', expected a whole number such as 16"
    rows = [ROWS[0], [*ROWS[1][:2], "x", *ROWS[1][3:]]]
    assert refused(tmp_path, csv_text(";", rows=rows)) == f"FILE:3: {bad}"
    text = jsonl_text().split("\n")
    assert (
        refused(tmp_path, "\n".join([text[0], "", text[1].replace('"n": 8', '"n": "x"')])) == f"FILE:3: {bad}"
    )


# --- what [log] says --------------------------------------------------------------------------------------


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


def test_throughput_is_turned_round(tmp_path: Path) -> None:
    log = timed(tmp_path, "tflops", "100", "400", log='objective = "max"')
    assert log.time.tolist() == [0.01, 0.0025]


def test_constants(tmp_path: Path, plain: TuningLog) -> None:
    rows = [r[2:] for r in ROWS]
    (tmp_path / "bare.csv").write_text(csv_text(header=HEADER[2:], rows=rows))
    log = read_logs(
        [tmp_path / "bare.csv"], spec('vendor = { const = "nvidia" }\ndevice = { const = "H200" }')
    )
    assert log.content_hash == plain.content_hash


WIDE = """
[log.wide]
"16x" = { BM = 16, fast = true }
"32x" = { BM = 32, fast = false }
"""


def test_wide_tables(tmp_path: Path, plain: TuningLog) -> None:
    header = [*HEADER[:5], "16x", "32x"]
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:5], "1.5", "1"], [*ROWS[2][:5], "OOM", "0.25"]])
    )
    log = read_logs([tmp_path / "wide.csv"], spec('failures = ["OOM"]' + WIDE))
    assert log.content_hash == plain.content_hash
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:5], "1.5", ""], [*ROWS[2][:5], "", "x"]])
    )
    with pytest.raises(HeurgenError) as error:
        read_logs([tmp_path / "wide.csv"], spec(WIDE))
    assert str(error.value) == (
        f"{tmp_path}/wide.csv:3: column '32x': found 'x', expected a finite time above 0 (a failure has a blank time; "
        'or name it in [log]: failures = ["x"])'
    )


def test_blank_cells_of_a_wide_table_were_not_measured(tmp_path: Path) -> None:
    header = [*HEADER[:5], "16x", "32x"]
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:5], "1.5", ""], [*ROWS[2][:5], "2", "3"]])
    )
    assert read_logs([tmp_path / "wide.csv"], spec(WIDE)).n_measurements == 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.floats(0.25, 64, width=16), st.sampled_from(["a", "b;c", "d,e", 'f"']),
                  st.sampled_from([16, 32]), st.booleans(), st.floats(1e-6, 1e6)),
        min_size=1, max_size=12, unique_by=lambda t: t[:5],
    )
)  # fmt: skip
def test_every_form_of_a_table_is_the_same_log(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    table = pd.DataFrame(rows, columns=["n", "share", "dtype", "BM", "fast", "time_ms"])
    table.insert(0, "device", "H200")
    table.insert(0, "vendor", "nvidia")
    wanted = read_logs(table, spec()).content_hash
    for separator in ",;\t":
        table.to_csv(folder / "form.csv", index=False, sep=separator)
        assert read_logs([folder / "form.csv"], spec()).content_hash == wanted
    table.to_json(folder / "form.jsonl", orient="records", lines=True, double_precision=15)
    (folder / "form.jsonl").write_text("\n".join(json.dumps(r) for r in table.to_dict("records")))
    assert read_logs([folder / "form.jsonl"], spec()).content_hash == wanted
