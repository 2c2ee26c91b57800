"""Cross-compilation without a GPU: a handful of configs per target fits shared memory and registers.

In a process of its own, since the interpreter and the compiler exclude each other within one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
from heurgen_kernels.defaults import Config
from heurgen_kernels.fits import Shape, compile_config
config, target, shape = json.loads(sys.argv[1])
found = compile_config(Config(**config), target, Shape(**shape))
print(json.dumps([found.shared, found.registers, found.spills, found.reason(target)]))
"""


def compiled(target, config, **shape):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": "kernels"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([config, target, shape])],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-2000:]
    return json.loads(found.stdout.splitlines()[-1])


def setting(variant, block_m, tile, warps, stages, segments=1, **more):
    return {
        "variant": variant, "BLOCK_M": block_m, "TILE_SIZE": tile, "num_warps": warps, "num_stages": stages,
        "num_segments": segments, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("target", "config", "shape"),
    [
        ("sm_90", setting("q_block", 64, 64, 4, 3), {"fresh": True}),
        ("sm_90", setting("split_kv", 16, 64, 2, 5, 16), {"decode": True}),
        ("sm_80", setting("q_block", 64, 32, 4, 2), {}),
        ("gfx942", setting("q_block", 64, 32, 4, 1, waves_per_eu=2), {}),
        ("gfx942", setting("split_kv", 16, 32, 4, 1, 16), {"decode": True}),
        ("sm_90", setting("static_grid", 16, 32, 2, 2, 64), {"decode": True}),
        ("gfx942", setting("static_grid", 16, 32, 2, 2, 64), {"decode": True}),
        ("gfx90a", setting("q_block", 16, 32, 4, 1), {}),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("variant") if value else "",
)
def test_fits_without_spills(target, config, shape):
    shared, registers, spills, reason = compiled(target, config, **shape)
    assert reason is None
    assert shared > 0
    assert registers > 0
    assert spills == 0


def test_what_does_not_fit_says_why():
    _, _, _, reason = compiled("sm_90", setting("q_block", 128, 128, 8, 5), page_size=128, head_size=256)
    assert reason is not None
    assert "bytes of shared memory, sm_90 has 232448" in reason
