"""A Ray cluster for the tests of both engines, and journals that no disk makes wait."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NODE = {"object_store_memory": 80_000_000, "num_cpus": 1, "num_gpus": 1}


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test takes the machine's power away; thousands of rows on a disk that others share take minutes."""
    monkeypatch.setattr("os.fsync", lambda file: None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a pretended GPU each; tests may add more. No Ray: skipped, or failed as the environment says."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        if os.environ.get("HEURGEN_REQUIRE_RAY"):
            pytest.fail("Ray is not installed; HEURGEN_REQUIRE_RAY is set", pytrace=False)
        pytest.skip("the Ray engine needs Ray: `make test-cluster` installs it")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "kernels")]))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        made.add_node(**NODE)
        yield made
        made.shutdown()


def rows(path: Path) -> list[tuple[str, ...]]:
    """The lines of a log, sorted."""
    with path.open(newline="") as file:
        return sorted(map(tuple, csv.reader(file)))
