"""Same logs, same bytes on every processor: numpy's logarithms and exponentials are others with AVX-512."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

import heurgen

ROOT = Path(__file__).parents[2]
# What numpy takes of this processor and could do without.
DISPATCHED = [name for name in __cpu_dispatch__ if __cpu_features__[name]]


@pytest.mark.skipif(not DISPATCHED, reason="numpy takes nothing of this processor that could be turned off")
def test_the_same_model_without_what_a_processor_has(tmp_path: Path) -> None:
    """Of a log of few scenarios: points between them lie where their sizes' logarithms meet."""
    log, spec = (ROOT / "data" / name for name in ("h200_unified_attention.csv", "unified_attention.toml"))
    model = tmp_path / "model.json"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "NPY_DISABLE_CPU_FEATURES": " ".join(DISPATCHED),
    }
    words = ["train", str(log), "--spec", str(spec), "-o", str(model)]
    subprocess.run([sys.executable, "-m", "heurgen", *words], env=environment, check=True)
    kernel = heurgen.read_spec(spec)
    assert model.read_text() == heurgen.to_json(heurgen.train(heurgen.read_logs([log], kernel), kernel))
