"""A worker process that loses its parent, and what it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heurgen.tune.child import MAX_WORDS, Child
from heurgen.tune.timing import Failure
from heurgen.tune.workloads import make_scenarios
from tests.tune.fakes import tunable

TARGET, KIND = "tests.tune.fakes:tunable", "tests.tune.fakes:FakeSession"


HANG = """
import time
from tests.tune.fakes import tunable
from heurgen.tune.workloads import make_scenarios
c.send("open", make_scenarios(tunable.workload, tunable.features)[0])
c.receive(60)
c.send("sample", [{"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": 7}])
time.sleep(0.5)
"""


@pytest.mark.parametrize("busy", ["", HANG])
def test_a_child_does_not_outlive_a_killed_parent(busy: str) -> None:
    """Idle, it sees the pipe close; in a launch that hangs it sees nothing. It was started by a thread that ends."""
    code = (
        "import sys, threading, time\nfrom heurgen.tune.child import Child\n"
        f"def start():\n  global c\n  c = Child({TARGET!r}, {KIND!r})\n"
        "t = threading.Thread(target=start); t.start(); t.join()\nassert not hasattr(c.receive(60), 'reason')\n"
        f"{busy}\nprint(c._process.pid, flush=True)\ntime.sleep(60)"
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
    give_up = time.monotonic() + 60
    while _alive(child) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not _alive(child)


def test_what_a_kernel_prints_does_not_pile_up() -> None:
    child = Child(TARGET, "tests.tune.fakes:ChattySession")
    config = {"BLOCK_M": 16, "BLOCK_N": 16, "num_warps": 4}
    try:
        child.receive(60)
        child.send("open", make_scenarios(tunable.workload, tunable.features)[0])
        child.receive(60)
        for _ in range(5):
            child.send("sample", [config])
            assert isinstance(child.receive(60), float)
        assert os.fstat(child._stderr.fileno()).st_size <= MAX_WORDS
        child.send("sample", [{**config, "num_warps": 3}])
        assert child.receive(60) == Failure("crash", "the process ended with signal SIGABRT: the end")
    finally:
        child.finish()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
