"""`heurgen record`: files, notes and the program's own exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.importers.common import Imported
from heurgen.tune.recording.run import Recorded
from tests.support.commands import run
from tests.tune.recording.test_run import line, recorded


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
