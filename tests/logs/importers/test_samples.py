"""Files that Triton, Inductor and `heurgen record` wrote themselves on an H200 (data/samples, with a card)."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

from click.testing import CliRunner

from heurgen.cli import main
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import H, columns
from tests.support.documents import ROOT

SAMPLES = ROOT / "data/samples"
SHAPES = {("64", "512", "256"), ("512", "512", "512"), ("2048", "1024", "512")}  # M, K, N


def imported(tmp_path: Path, place: str, *more: str) -> tuple[list[dict[str, str]], str]:
    """The rows of `import auto`, and what it said."""
    log = tmp_path / "log.csv"
    words = ["import", "auto", str(SAMPLES / place), "--device", "NVIDIA H200", "-o", str(log), *more]
    done = CliRunner().invoke(main, [*words, "--write-spec", str(tmp_path / "spec.toml")])
    assert done.exit_code == 0, done.output
    with log.open(newline="") as file:
        return list(csv.DictReader(file)), done.output


def test_triton_s_caches_give_every_config_of_every_shape(tmp_path: Path) -> None:
    rows, _ = imported(tmp_path, "triton", "--keys", "M,N,K")
    found = defaultdict(set)
    for row in rows:
        assert 0.005 < float(row["time_ms"]) < 0.05
        found[row["M"], row["K"], row["N"]].add((row["BLOCK_M"], row["BLOCK_N"], row["num_warps"]))
    configs = {("16", "32", "4"), ("64", "64", "4"), ("128", "64", "8"), ("64", "128", "4")}
    assert found == dict.fromkeys(SHAPES, configs)


def test_a_folder_of_inductor_s_is_read_beside_the_lock_that_it_left_there(tmp_path: Path) -> None:
    rows, said = imported(tmp_path, "inductor/mm")
    assert (SAMPLES / "inductor/mm/mm.lock").stat().st_size == 0
    assert (len(rows), {(r["M"], r["K"], r["N"]) for r in rows}) == (59, SHAPES)
    assert "3 records of calls without timings left out" in said
    assert [row["BLOCK_M"] for row in rows if row["type"] == "cublas"] == ["", "", ""]


def test_what_max_autotune_printed_are_the_best_of_what_it_logged() -> None:
    names = ("M", "K", "N", "BLOCK_M", "BLOCK_K", "BLOCK_N", "num_stages", "num_warps", "time_ms")
    printed = columns(import_logs("inductor", [str(SAMPLES / "inductor/autotune.txt")], H), *names)
    logged = columns(import_logs("inductor", [str(SAMPLES / "inductor/mm/mm.json")], H), *names)
    for shape in SHAPES:
        best = sorted((round(float(row[-1]), 4), row[3:-1]) for row in logged if row[:3] == shape)[:10]
        assert sorted(t for t, _ in best) == sorted(float(row[-1]) for row in printed if row[:3] == shape)
    assert {row[:-1] for row in printed} <= {row[:-1] for row in logged}


def test_what_record_wrote_is_a_log_by_its_own_draft() -> None:
    words = [
        "validate",
        str(SAMPLES / "record/recorded.csv.gz"),
        "--spec",
        str(SAMPLES / "record/recorded.toml"),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "kernel: 294 measurements, 0 of them failed" in done.output
    with gzip.open(SAMPLES / "record/recorded.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    configs = defaultdict(list)
    for row in rows:
        names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
        configs[row["M"], row["N"], row["K"]].append(tuple(row[n] for n in names))
    assert {(len(tried), len(set(tried))) for tried in configs.values()} == {
        (49, 48)
    }  # all, then the one choice


def test_a_folder_of_locks_alone_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "mm.lock").write_text("")
    done = CliRunner().invoke(main, ["import", "auto", str(tmp_path), "-o", str(tmp_path / "log.csv")])
    assert done.exit_code == 2
    assert "holds no *" in done.output
