"""Nothing that is made from winners alone ever prints a slowdown; agreement with the winner is said instead."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from heurgen.cli import main
from heurgen.ir.nodes import leaves
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.ship.training import train
from heurgen.spec.kernel_spec import parse_spec

SPEC = """\
[kernel]
name = "k"
[features]
m = { type = "int" }
n = { type = "int" }
[parameters]
BM = { type = "int" }
[log]
winners_only = true
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Winners without times; two tunings of one situation with different winners, a scenario each."""
    folder = tmp_path_factory.mktemp("winners")
    rows = [
        f"{i},nvidia,H200,{2**i},{n},{16 if 2**i * n < 900 else 64}," for i in range(8) for n in (1, 8, 64)
    ]
    rows = [f"{i},{row.split(',', 1)[1]}" for i, row in enumerate(rows)] + ["99,nvidia,H200,1,1,32,"]
    (folder / "log.csv").write_text("scenario,vendor,device,m,n,BM,time_ms\n" + "\n".join(rows) + "\n")
    (folder / "spec.toml").write_text(SPEC)
    run(folder, "train", "log.csv", "--spec", "spec.toml", "-o", "model.json")
    return folder


def run(folder: Path, *words: str) -> str:
    """Output of a command; words that name files are taken from the folder."""
    files = {"log.csv", "spec.toml", "model.json", "report.html", "module.py", "old.json"}
    done = CliRunner().invoke(main, [str(folder / w) if w in files else w for w in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_time_that_is_not_known_is_none(folder: Path) -> None:
    found = json.loads(run(folder, "validate", "log.csv", "--spec", "spec.toml", "--json"))
    assert {s["best_ms"] for s in found["scenarios"]} == {None}
    spec = parse_spec(SPEC)
    log = read_logs(folder / "log.csv", spec)
    assert log.to_frame()["time_ms"].isna().all()
    assert cost_tables(log, spec)[0].to_frame()["time_ms"].isna().all()


def test_of_several_winners_of_a_situation_the_fastest_counts(tmp_path: Path) -> None:
    """Any of them counted in training: of a log of all configs one config was "the winner on 100 %"."""
    rows = [
        f"nvidia,H200,{2**i},{n},{c},{1 + (c == 16) * (i > 3) + (c == 64) * (i < 4)}"
        for i in range(8)
        for n in (1, 8, 64)
        for c in (16, 64)
    ]
    (tmp_path / "all.csv").write_text("vendor,device,m,n,BM,time_ms\n" + "\n".join(rows) + "\n")
    spec = parse_spec(SPEC)
    log = read_logs(tmp_path / "all.csv", spec)
    (tree,) = train(log, spec).selectors
    assert {leaf.config for leaf in leaves(tree.tree)} == {0, 1}
    assert tree.choice["held_out"]["agreement"] > 0.9
    (note,) = log.notes
    assert note.startswith("24 of 24 scenarios have several configs, though winners_only says")
    assert "row is the winner: the fastest counts (" in note


def test_without_times_none_of_several_winners_is_the_fastest(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("vendor,device,m,n,BM\nnvidia,H200,1,1,16\nnvidia,H200,1,1,32\n")
    log = read_logs(tmp_path / "log.csv", parse_spec(SPEC))
    (table,) = cost_tables(log, log.spec)
    assert table.times[0, 0] == table.times[0, 1]
    assert "row is the winner: without times each counts as one (" in log.notes[0]


def test_a_failure_beside_winners_stays_a_failure(tmp_path: Path) -> None:
    rows = ["nvidia,H200,1,1,16,ok,1", "nvidia,H200,1,1,32,ok,2", "nvidia,H200,1,1,64,error,"]
    (tmp_path / "log.csv").write_text("vendor,device,m,n,BM,status,time_ms\n" + "\n".join(rows) + "\n")
    spec = parse_spec(SPEC)
    (table,) = cost_tables(read_logs(tmp_path / "log.csv", spec), spec)
    assert str(table.times.tolist()) == "[[1.0, nan, inf]]"


# Not the column "within 1.1×", nor the sentence that says what a slowdown is.
SLOWDOWN = re.compile(r"(?<!within )[0-9]\.[0-9]+ ?(?:x|×)(?! is the best)|geomean +[0-9]|p95 +[0-9]")


def test_costs_stay_unknown_though_a_situation_has_two_configs(folder: Path) -> None:
    spec = parse_spec(SPEC)
    log = read_logs(folder / "log.csv", spec)
    assert log.n_failures == 0
    assert not cost_tables(log, spec)[0].costs_known
    merged = (folder / "log.csv").read_text().replace("99,", "0,")
    (folder / "merged.csv").write_text(merged)
    assert not cost_tables(read_logs(folder / "merged.csv", spec), spec)[0].costs_known


@pytest.mark.parametrize(
    "command",
    [
        "train log.csv --spec spec.toml -o old.json",
        "evaluate log.csv --spec spec.toml --folds 2",
        "audit model.json log.csv --spec spec.toml --html report.html",
        "show model.json",
        "diff model.json model.json log.csv --spec spec.toml",
        "explain model.json --vendor nvidia m=8 n=8",
        "validate log.csv --spec spec.toml",
        "advise model.json log.csv --spec spec.toml -n 3",
        "emit model.json -o module.py",
    ],
)
def test_no_command_prints_a_slowdown(folder: Path, command: str) -> None:
    assert not SLOWDOWN.search(run(folder, *command.split()))
    for file in ("report.html", "module.py"):
        if (folder / file).exists():
            visible = re.sub(r"<(script|style)\b.*?</\1>", "", (folder / file).read_text(), flags=re.DOTALL)
            assert not SLOWDOWN.search(visible), SLOWDOWN.search(visible)


def test_agreement_is_said(folder: Path) -> None:
    text = run(folder, "evaluate", "log.csv", "--spec", "spec.toml", "--folds", "2")
    assert "winners only, slowdown unknown" in text
    assert "unknown  " not in text.replace("slowdown unknown", "")
    assert re.search(r"^oracle +100\.0 % +25", text, re.MULTILINE)
    data = json.loads(run(folder, "evaluate", "log.csv", "--spec", "spec.toml", "--folds", "2", "--json"))
    assert data["rows"][0]["agreement"] == 1.0
    assert all(row["geomean_slowdown"] is None and 0 <= row["agreement"] <= 1 for row in data["rows"])
    audited = run(folder, "audit", "model.json", "log.csv", "--spec", "spec.toml")
    assert re.search(r"agrees with the winner +scenarios\nall +[0-9.]+ % +25", audited)


def test_what_training_records_is_agreement(folder: Path) -> None:
    choice = json.loads((folder / "model.json").read_text())["selectors"][0]["choice"]
    assert "slowdown" not in json.dumps(choice)
    assert 0 <= choice["held_out"]["agreement"] <= 1
    audited = json.loads(run(folder, "audit", "model.json", "log.csv", "--spec", "spec.toml", "--json"))
    assert "slowdown" not in json.dumps(audited["training"])
