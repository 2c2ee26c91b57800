"""One small log in every form of a table."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

from heurgen.base.errors import HeurgenError
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import KernelSpec, parse_spec

FEATURES = '[kernel]\nname = "k"\n[features]\nn = { type = "int" }\nshare = { type = "float" }\n'


SPEC = (
    FEATURES
    + 'dtype = { type = "category" }\n[parameters]\nBM = { type = "int" }\nfast = { type = "bool" }\n'
)


HEADER = ["vendor", "device", "n", "share", "dtype", "BM", "fast", "status", "time_ms"]


ROWS = [
    ["nvidia", "H200", "8", "0.5", "bf16", "16", "true", "ok", "1.5"],
    ["nvidia", "H200", "8", "0.5", "bf16", "32", "false", "ok", "1"],
    ["nvidia", "H200", "64", "1", "fp, 8", "16", "true", "OOM", ""],
    ["nvidia", "H200", "64", "1", "fp, 8", "32", "false", "ok", "0.25"],
]


def spec(log: str = "") -> KernelSpec:
    return parse_spec(SPEC + (f"[log]\n{log}\n" if log else ""), "spec.toml")


def csv_text(separator: str = ",", header: list[str] = HEADER, rows: list[list[str]] = ROWS) -> str:
    lines = [
        separator.join(f'"{c}"' if separator in c or "," in c else c for c in r) for r in [header, *rows]
    ]
    return "\n".join(lines) + "\n"


def jsonl_text() -> str:
    typed = [
        {
            n: json.loads(c) if n in ("n", "share", "BM", "fast") or (n == "time_ms" and c) else c or None
            for n, c in p
        }
        for p in (zip(HEADER, r, strict=True) for r in ROWS)
    ]
    return "\n".join(map(json.dumps, typed)) + "\n\n"


def frame() -> pd.DataFrame:
    return pd.read_csv(io.StringIO(csv_text()))


def refused(tmp_path: Path, text: str, name: str = "log.csv", log: str = "") -> str:
    (tmp_path / name).write_text(text)
    with pytest.raises(HeurgenError) as error:
        read_logs([tmp_path / name], spec(log))
    return str(error.value).replace(str(tmp_path / name), "FILE")
