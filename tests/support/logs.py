"""Small tuning logs that tests share."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path

SPEC = """\
[kernel]
name = "matmul"

[features]
m = { type = "int", min = 1, unit = "rows" }
k = { type = "int", min = 1 }
density = { type = "float", min = 0, max = 1 }
dtype = { type = "category", values = ["bfloat16", "float16"] }

[derived]
work = "m * k"

[parameters]
BLOCK_M = { type = "int" }
num_warps = { type = "int" }
waves_per_eu = { type = "int", optional = true, vendors = ["amd"] }
"""
HEADER = "vendor device m k density dtype BLOCK_M num_warps waves_per_eu status time_ms".split()
DEVICES = {"nvidia": "NVIDIA H200", "amd": "AMD Instinct MI300X"}


def rows(n_scenarios: int = 24, vendors: Sequence[str] = ("nvidia", "amd"), seed: int = 0) -> list[list[str]]:
    """A log with a clear structure: big blocks win where m * k is large, float16 likes more warps."""
    rng = random.Random(seed)
    found = []
    for vendor in vendors:
        for s in range(n_scenarios):
            m, k = 2 ** rng.randrange(4, 13), rng.randrange(16, 9000)
            density, dtype = round(rng.random(), 3), rng.choice(["bfloat16", "float16"])
            for block in (16, 64, 128):
                for warps in (4, 8):
                    best = 128 if m * k > 2**22 else 16
                    time = 1.0 + abs(best - block) / 50 + (0.2 if (warps == 8) != (dtype == "float16") else 0)
                    time *= 1 + 0.005 * rng.random()
                    failed = block == 128 and warps == 4 and s % 7 == 0
                    waves = "2" if vendor == "amd" else ""
                    cells = [vendor, DEVICES[vendor], m, k, density, dtype, block, warps, waves]
                    found.append(
                        [*map(str, cells), "error" if failed else "ok", "" if failed else f"{time:.6f}"]
                    )
    return found


def text(cells: Sequence[Sequence[str]], header: Sequence[str] = HEADER) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *cells])
    return out.getvalue()


def write(
    folder: Path, cells: Sequence[Sequence[str]] | None = None, name: str = "log.csv"
) -> tuple[Path, Path]:
    """A log and its spec in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    log, spec = folder / name, folder / "kernel.toml"
    log.write_text(text(rows() if cells is None else cells), encoding="utf-8")
    spec.write_text(SPEC, encoding="utf-8")
    return log, spec
