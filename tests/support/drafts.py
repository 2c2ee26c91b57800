"""Drafts of specs, as `heurgen init` writes them, and logs to draft them from."""

from __future__ import annotations

import itertools
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heurgen.logs.cells import read_cells
from heurgen.logs.draft import Said, draft
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.draft_toml import to_toml
from heurgen.spec.kernel_spec import read_spec

Rows = list[dict[str, Any]]


def draft_spec(paths: Path | Sequence[Path], said: Said | None = None) -> str:
    """The text of a spec (TOML) for the log at `paths`. Raises as `read_cells` and `draft`."""
    files = [paths] if isinstance(paths, Path) else paths
    return to_toml(draft(read_cells(files), str(files[0]), said or Said()))


def write(path: Path, rows: Rows) -> Path:
    lines = [",".join(rows[0])] + [",".join(str(v) for v in row.values()) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def drafted(path: Path) -> dict[str, Any]:
    """The draft as data; the log reads by it as it is."""
    text = draft_spec(path)
    spec = path.with_suffix(".toml")
    spec.write_text(text, encoding="utf-8")
    read_logs([path], read_spec(spec))
    return tomllib.loads(text)


def matmul(**extra: Any) -> Rows:
    """A full sweep without scenario ids: every shape with every config."""
    rng = random.Random(0)
    shapes = [{"M": m, "N": n, "K": k} for m, n, k in itertools.product((16, 512), (128, 256), (64, 4096))]
    configs = [{"BLOCK_M": b, "num_warps": w} for b in (16, 64) for w in (4, 8)]
    return [
        {"vendor": "amd", "device": "AMD X", **s, **c, **extra, "latency_ms": rng.random() + 0.1}
        for s in shapes
        for c in configs
    ]
