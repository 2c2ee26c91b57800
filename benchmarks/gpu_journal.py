"""A plugin of pytest for gpu_check.py: notes each test that passed, and leaves out those that an interrupted run noted.

GPU_JOURNAL: the file, a line a test, after a first line that says what they are a proof of. Tests are left out by the
lines that it had at the start (GPU_PASSED, how many), so that all of pytest-xdist's workers leave out the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    lines = Path(os.environ["GPU_JOURNAL"]).read_text(encoding="utf-8").split("\n")
    passed = set(lines[1 : 1 + int(os.environ["GPU_PASSED"])])
    left_out = [item for item in items if item.nodeid in passed]
    items[:] = [item for item in items if item.nodeid not in passed]
    config.hook.pytest_deselected(items=left_out)


class Journal:
    """Of the controller: workers send it their reports."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            with Path(os.environ["GPU_JOURNAL"]).open("a", encoding="utf-8") as journal:
                journal.write(report.nodeid + "\n")


def pytest_configure(config: Any) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Journal())
