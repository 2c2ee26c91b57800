"""The tables that users have: separators, gzip, JSON lines, Parquet, frames, the standard input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.logs.tuning_log import TuningLog, read_logs
from tests.logs.tables import ROWS, SPEC, csv_text, frame, jsonl_text, refused, spec


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


def test_a_bad_cell_has_its_line_in_every_form(tmp_path: Path) -> None:
    bad = "column 'n': found 'x', expected a whole number such as 16"
    rows = [ROWS[0], [*ROWS[1][:2], "x", *ROWS[1][3:]]]
    assert refused(tmp_path, csv_text(";", rows=rows)) == f"FILE:3: {bad}"
    text = jsonl_text().split("\n")
    assert (
        refused(tmp_path, "\n".join([text[0], "", text[1].replace('"n": 8', '"n": "x"')])) == f"FILE:3: {bad}"
    )


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
