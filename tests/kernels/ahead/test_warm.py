"""A compile that a warm-up missed is a failure: see warm_child.py. And compilation in processes, for a GPU alone."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("warm_child.py")
ROOT = Path(__file__).parents[3]


def layouts() -> list[str]:
    tree = ast.parse(CHILD.read_text(encoding="utf-8"))
    (found,) = (
        n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LAYOUTS"
    )
    return [key.value for key in found.keys]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> dict:
    """What warm_child.py found, run with Triton's compiler in place of its interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "kernels")))
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.ahead.warm_child"],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("layout", layouts())
def test_no_launch_compiles_after_a_warm_up(layout, outcome):
    assert outcome[layout]["asked"] > 3
    assert outcome[layout]["late"] == []


@pytest.mark.slow
def test_processes_compile_into_the_cache_that_launches_read(outcome):
    assert outcome["disk"] == [0, 2]


@pytest.mark.slow
def test_memory_does_not_grow_over_ten_thousand_batches(outcome):
    first, second = outcome["peaks"]
    assert second < 1.02 * first
