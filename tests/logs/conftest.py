"""The log that all forms of its table are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.tuning_log import TuningLog, read_logs
from tests.logs.tables import csv_text, spec


@pytest.fixture
def plain(tmp_path: Path) -> TuningLog:
    path = tmp_path / "plain.csv"
    path.write_text(csv_text())
    return read_logs([path], spec())
