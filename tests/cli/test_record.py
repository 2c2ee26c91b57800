"""`heurgen record`: files, notes and the program's own exit status."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from heurgen.logs.importers.common import Imported
from heurgen.tune.recording.run import Recorded
from tests.support.commands import run
from tests.tune.recording.test_run import line, record, recorded


@pytest.fixture
def found(tmp_path: Path) -> Recorded:
    return recorded(
        tmp_path / "new" / "log.csv", line(features={"n": 1}), line(kernel="a b", features={"n": 1}), ""
    )


@pytest.mark.parametrize(("status", "exit_code"), [(0, 0), (3, 3), (-9, 137)])
def test_every_kernel_gets_its_files_and_the_status_is_passed_on(
    tmp_path: Path, found: Recorded, monkeypatch: pytest.MonkeyPatch, status: int, exit_code: int
) -> None:
    asked = []

    def instead(command: tuple[str, ...], output: Path, *, to_stderr: bool) -> Recorded:
        assert not to_stderr
        asked.append((command, output))
        return Recorded(status, found.logs, found.files, found.notes)

    monkeypatch.setattr("heurgen.tune.recording.run.record", instead)
    result = run("record", "-o", "log.csv", "--", "python", "bench.py", "--fast")
    assert asked == [(("python", "bench.py", "--fast"), Path("log.csv"))]
    assert result.exit_code == exit_code
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        f"wrote {tmp_path / 'new' / name}" for name in ("log.a_b.csv", "log.k.csv")
    ]
    assert ("note: the program ended with status" in result.stderr) == bool(status)
    for kernel, files in found.files.items():
        texts = found.logs[kernel].csv_text(), found.logs[kernel].spec_text()
        assert tuple(file.read_text() for file in files) == texts


def test_a_log_that_its_own_spec_rejects_is_not_written(
    tmp_path: Path, found: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heurgen.tune.recording.run.record", lambda *_, **__: found)
    monkeypatch.setattr(Imported, "csv_text", lambda self: "vendor\nx\n")
    assert run("record", "-o", "log.csv", "--", "true").exit_code == 2
    assert not (tmp_path / "new").exists()


def test_a_spec_that_is_there_is_kept(found: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heurgen.tune.recording.run.record", lambda *_, **__: found)
    log, spec = found.files["k"]
    spec.parent.mkdir()
    spec.write_text("confirmed")
    log.write_text("old")
    result = run("record", "-o", "log.csv", "--", "true")
    assert result.exit_code == 0
    assert f"note: {spec} was there and is kept: no draft is written\n" in result.stderr
    assert spec.read_text() == "confirmed"
    assert log.read_text() == found.logs["k"].csv_text()
    assert found.files["a b"][1].read_text() == found.logs["a b"].spec_text()
    data = json.loads(run("record", "--json", "-o", "log.csv", "--", "true").stdout)
    assert {"path": str(spec), "written": False} in [f for each in data["logs"] for f in each["files"]]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("bench.py", "bench.py: is an input (bench.py) and would be lost (name another file to write)"),
        ("./x.toml", "x.toml: two outputs are the same file (name another file to write)"),
        ("bench.py/log.csv", "bench.py: cannot write: Not a directory (a part of the path is a file)"),
        ("bench.py/logs", "bench.py/logs: cannot write: Not a directory (a part of the path is a file)"),
        ("", "'' names no file (/dev/stdout is the standard output)"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bench.py").write_text("open('ran', 'w')")
    result = run("record", "-o", output, "--", sys.executable, "bench.py", "-c", "x" * 5000)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"error: {message}")
    assert [p.name for p in tmp_path.iterdir()] == ["bench.py"]
    assert Path("bench.py").read_text() == "open('ran', 'w')"


def test_a_file_of_the_command_in_the_folder_of_logs_is_kept(
    found: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is known as a kernel's when the program has run; logs beside it are no inputs."""
    monkeypatch.setattr("heurgen.tune.recording.run.record", lambda *_, **__: found)
    log = found.files["k"][0]
    log.parent.mkdir()
    log.write_text("shapes")
    assert run("record", "-o", log.parent, "--", "true", log.parent).exit_code == 0
    log.write_text("shapes")
    result = run("record", "-o", log.parent, "--", "true", log)
    assert result.exit_code == 2
    assert f"{log}: is an input ({log}) and would be lost" in result.stderr
    assert log.read_text() == "shapes"


def test_a_program_is_recorded_twice(tmp_path: Path) -> None:
    first = record(tmp_path, sys.executable, "bench.py", output="double.csv.gz")
    assert "wrote double.csv.gz: 8 rows, spec: double.toml" in first.stdout
    spec = tmp_path / "double.toml"
    spec.write_text(spec.read_text() + "# confirmed\n")
    again = record(tmp_path, sys.executable, "bench.py", output="double.csv.gz")
    assert "note: double.toml was there and is kept: no draft is written" in again.stderr
    assert spec.read_text().endswith("# confirmed\n")
    assert run("validate", tmp_path / "double.csv.gz", "--spec", spec).exit_code == 0
