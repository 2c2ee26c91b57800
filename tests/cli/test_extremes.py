"""Features at the ends of what float64 holds: every command is right, and silent."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run

N = 10
VALUES = {
    "huge": [repr(1e300 * (1 + i / 10)) for i in range(N)],
    "beyond float32": [repr(3.4028234e38 * (0.9 + i / 50)) for i in range(N)],
    "both ends": [repr((i - N // 2) * 3.4e307) for i in range(N)],
    "subnormal": [repr((i + 1) * 5e-324) for i in range(N)],
    "all sizes": [f"1e{e}" for e in range(-300, 300, 60)],
    "zeros": ["-0.0" if i < N // 2 else "0.5" for i in range(N)],
}


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def written(folder: Path, values: list[str]) -> tuple[str, str, str]:
    """A log in which a large `x` wants a large block, and what names it on a command line."""
    rows = [
        f"nvidia,NVIDIA H200,{x},{2 ** (i % 4)},{block},{1 + abs((64 if 2 * i >= N else 16) - block) / 40}"
        for i, x in enumerate(values)
        for block in (16, 64)
    ]
    (folder / "log.csv").write_text("vendor,device,x,y,BLOCK,time_ms\n" + "\n".join(rows) + "\n")
    (folder / "k.toml").write_text(
        '[kernel]\nname = "k"\n[features]\nx = { type = "float" }\ny = { type = "int" }\n'
        '[parameters]\nBLOCK = { type = "int" }\n'
    )
    return f"{folder}/log.csv", "--spec", f"{folder}/k.toml"


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_command_takes_them(tmp_path: Path, values: list[str]) -> None:
    log = written(tmp_path, values)
    model, module = tmp_path / "m.json", tmp_path / "m.py"
    for words in (
        ("init", log[0], "-o", tmp_path / "draft.toml"),
        ("train", *log, "-o", model, "--shortlist", 2),
        ("evaluate", *log, "--folds", 2, "--html", tmp_path / "e.html"),
        ("emit", model, "-o", module),
        ("explain", model, f"x={values[-1]}", "y=1"),
        ("advise", model, *log, "-n", 4, "-o", tmp_path / "next.toml"),
        ("audit", model, *log, "--html", tmp_path / "a.html"),
    ):
        result = run(*words)
        assert result.exit_code == 0, result.stderr
    figures = json.loads(run("audit", module, *log, "--json").stdout)
    assert (figures["geomean_slowdown"], figures["invalid_share"]) == (1.0, 0.0)
    low, high = min(map(float, values)), max(map(float, values))
    for scenario in tomllib.loads((tmp_path / "next.toml").read_text()).get("scenario", ()):
        assert low <= scenario["x"] <= high


@pytest.mark.parametrize("cell", ["inf", "nan", "1e309"])
def test_what_is_no_finite_number_is_named_with_its_line(tmp_path: Path, cell: str) -> None:
    log = written(tmp_path, ["1", cell, *map(str, range(2, N))])
    result = run("train", *log, "-o", tmp_path / "m.json")
    assert result.exit_code == 2
    assert f"log.csv:4: column 'x': found '{cell}', expected a finite number" in result.stderr
