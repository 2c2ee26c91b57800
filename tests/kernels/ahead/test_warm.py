"""A compile that a warm-up missed is a failure: see warm_child.py. And compilation in processes, for a GPU alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("warm_child.py")
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_warm_ups_in_a_process_with_triton_s_compiler(tmp_path):
    """No launch compiles after a warm-up, processes compile into the cache that launches read, and memory does not grow
    over ten thousand batches. One test, since the process takes 15 s.
    """
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "kernels")))
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.ahead.warm_child"],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    disk, (first, second) = outcome.pop("disk"), outcome.pop("peaks")
    assert len(outcome) > 3
    assert {layout: found["late"] for layout, found in outcome.items() if found["late"]} == {}
    assert min(found["asked"] for found in outcome.values()) > 3
    for kernel, layouts in (
        ("widen_kernel", {"fp8, copied", "fp8, a window"}), ("write_pages_kernel", {"fused", "fp8, copied"})
    ):  # fmt: skip
        assert {layout for layout, found in outcome.items() if kernel in found.get("kernels", ())} == layouts
    assert disk == [0, 3]
    assert second < 1.02 * first
