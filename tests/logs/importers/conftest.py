"""Made-up files of the importers' tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.logs.importers.caches import WriteCache
from tests.logs.importers.heuristics import HEADER, METADATA, ROWS, WriteHeuristic


@pytest.fixture
def write_cache(tmp_path: Path) -> WriteCache:
    def write(data: Any, where: str = "gpu_NVIDIA_H100_80GB_HBM3/a/cache.json") -> Path:
        path = tmp_path / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1), encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_heuristic(tmp_path: Path) -> WriteHeuristic:
    def write(
        rows: Sequence[str] = ROWS, header: str = HEADER, metadata: Any = METADATA, name: str = "mm.txt"
    ) -> Path:
        first = metadata if isinstance(metadata, str) else json.dumps(metadata)
        (tmp_path / name).write_text("\n".join((first, header, *rows)) + "\n", encoding="utf-8")
        return tmp_path / name

    return write
