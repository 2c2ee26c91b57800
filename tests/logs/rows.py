"""Small logs of rows, read by one spec."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from heurgen.base.errors import LogError
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import Column, KernelSpec

SPEC = KernelSpec(
    name="k",
    features=(
        Column("n", "int", min=1),
        Column("x", "float"),
        Column("dtype", "category", values=("f16", "bf16")),
    ),
    parameters=(
        Column("BM", "int"),
        Column("wpe", "int", optional=True, vendors=("amd",)),
        Column("mode", "category", optional=True),
    ),
)
GOOD = {
    "vendor": "nvidia",
    "device": "H200",
    "scenario": "s1",
    "n": "1",
    "x": "0.5",
    "dtype": "f16",
    "BM": "16",
    "wpe": "",
    "mode": "a",
    "status": "ok",
    "time_ms": "0.1",
}
Row = dict[str, str]


def row(**cells: str) -> Row:
    return GOOD | cells


def without(*names: str) -> Row:
    return {k: v for k, v in GOOD.items() if k not in names}


def write(folder: Path, *rows: Row, name: str = "log.csv") -> Path:
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(folder: Path, *rows: Row, spec: KernelSpec = SPEC) -> TuningLog:
    return read_logs([write(folder, *rows)], spec)


def refused(folder: Path, *rows: Row, spec: KernelSpec = SPEC) -> str:
    """The error, with the file named FILE."""
    path = write(folder, *rows)
    with pytest.raises(LogError) as error:
        read_logs([path], spec)
    return str(error.value).replace(str(path), "FILE")
