from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from heurgen.cli import main

SPEC = """
[kernel]
name = "k"
[features]
n = { type = "int" }
[parameters]
BM = { type = "int" }
"""
HEADER = "scenario,vendor,device,n,BM,status,time_ms,reason\n"
ROW = "s{n},nvidia,H200,{n},{bm},{status},{time},\n"


def written(path: Path, times: dict[tuple[int, int], float | None], mode: str = "") -> str:
    rows = [
        ROW.format(n=n, bm=bm, status="ok" if t else "error", time=t if t else "")
        for (n, bm), t in times.items()
    ]
    path.write_text(HEADER + "".join(rows))
    if mode:
        path.with_suffix(".card.toml").write_text(f'[method]\nmode = "{mode}"\n')
    return str(path)


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "k.toml"
    path.write_text(SPEC)
    return str(path)


def test_where_the_winner_changes(tmp_path: Path, spec: str) -> None:
    old = {
        (1, 16): 1.0,
        (1, 32): 2.0,
        (2, 16): 1.0,
        (2, 32): 1.1,
        (3, 16): 1.0,
        (3, 32): 3.0,
        (4, 16): 1.0,
        (9, 16): 1.0,
    }
    new = {
        (1, 16): 3.0,
        (1, 32): 2.0,
        (2, 16): 1.001,
        (2, 32): 1.0,
        (3, 16): 1.0,
        (3, 32): 3.0,
        (4, 16): None,
        (4, 32): 1.0,
    }
    files = [written(tmp_path / "eager.csv", old, "eager"), written(tmp_path / "graph.csv", new, "graph")]
    result = CliRunner().invoke(main, ["diff", *files, "--spec", spec])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "timed eager -> graph",
        "4 scenarios in both logs: the winner changes in 2, and within the noise in 1; "
        "with the old winners 1.1451x of the best on average, but for 1 in which they have no time",
        "  has no time  H200: n=4: BM 16 -> 32",
        "  1.500x  H200: n=1: BM 16 -> 32",
    ]
    found = json.loads(CliRunner().invoke(main, ["diff", *files, "--spec", spec, "--json"]).stdout)
    assert (found["scenarios"], found["ties"], found["timings"]) == (4, 1, ["eager", "graph"])
    assert [c["loss"] for c in found["changes"]] == [None, 1.5]


def test_logs_that_share_nothing(tmp_path: Path, spec: str) -> None:
    files = [written(tmp_path / f"{n}.csv", {(n, 16): 1.0}) for n in (1, 2)]
    result = CliRunner().invoke(main, ["diff", *files, "--spec", spec])
    assert (result.exit_code, "share no scenario" in result.stderr) == (2, True)
    result = CliRunner().invoke(main, ["diff", *files])
    assert (result.exit_code, "two logs are compared with --spec alone" in result.stderr) == (2, True)


def test_a_log_is_one_in_every_format_that_is_read(tmp_path: Path, spec: str) -> None:
    """They were taken for models: "logs and --spec go together"."""
    csv = written(tmp_path / "a.csv", {(1, 16): 1.0, (1, 32): 2.0})
    frame = pandas.read_csv(csv)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.tsv.gz", sep="\t", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.tsv.gz", "a.parquet"):
        result = CliRunner().invoke(main, ["diff", csv, str(tmp_path / name), "--spec", spec])
        assert (result.exit_code, "1 scenario in both logs" in result.stdout) == (0, True), result.output


def test_winners_alone_tell_no_loss(tmp_path: Path) -> None:
    spec = tmp_path / "k.toml"
    spec.write_text(SPEC + "[log]\nwinners_only = true\n")
    old = written(tmp_path / "old.csv", {(1, 16): 1.0, (2, 16): 1.0})
    new = written(tmp_path / "new.csv", {(1, 16): 1.0, (2, 32): 3.0})
    result = CliRunner().invoke(main, ["diff", old, new, "--spec", str(spec)])
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "2 scenarios in both logs: the winner changes in 1; the new log holds winners only: what the old ones lose "
        "there is unknown\n"
        "  H200: n=2: BM 16 -> 32\n"
    )
