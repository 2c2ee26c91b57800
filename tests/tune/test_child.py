"""A worker process that loses its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TARGET, KIND = "tests.tune.fakes:tunable", "tests.tune.fakes:FakeSession"


def test_a_child_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import sys, time; from heurgen.tune.child import Child;"
        f"c = Child({TARGET!r}, {KIND!r}); c.receive(60);"
        "print(c._process.pid, flush=True); time.sleep(60)"
    )
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    give_up = time.monotonic() + 10
    while _alive(child) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
