"""`python -m tests.fuzz SECONDS`: new damage for every reader in turn until the time is up.

A finding is printed with the data that gave it, shrunk by Hypothesis, and ends the run with status 1.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, damaged
from tests.fuzz.test_readers import attempt


def main(seconds: float) -> None:
    end, counts = time.monotonic() + seconds, dict.fromkeys(TARGETS, 0)
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            for name in TARGETS:
                _round(name, Path(folder), counts)
                if time.monotonic() > end:
                    break
    for name, count in counts.items():
        print(f"{name}: {count} files, nothing but the project's own error")


def _round(name: str, folder: Path, counts: dict[str, int]) -> None:
    phases = (Phase.generate, Phase.shrink)

    @settings(
        max_examples=300, derandomize=False, database=None, deadline=None, phases=phases,
        suppress_health_check=list(HealthCheck), print_blob=True,
    )  # fmt: skip
    @given(st.data())
    def run(data: st.DataObject) -> None:
        counts[name] += 1
        attempt(name, data.draw(damaged(TARGETS[name].seeds)), folder)

    run()


main(float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0)
