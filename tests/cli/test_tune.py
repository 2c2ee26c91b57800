"""`heurgen tune` and `heurgen merge`: what becomes of options, what is printed, exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen.tune.merge import Merged
from heurgen.tune.run import SweepSummary, TuneOptions
from heurgen.tune.verify import Verification
from tests.support.commands import run

DONE = SweepSummary(
    Path("log.csv"), (Path("log.card.toml"),), ("NVIDIA H200",), 1, "finished", 3, 4, 12, 2, 10, True, {}, "", 61.4
)  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[TuneOptions]:
    """The options of the sweeps that were asked for; each gives `DONE`."""
    found: list[TuneOptions] = []
    monkeypatch.setattr("heurgen.tune.run.run_tune", lambda options, _: found.append(options) or DONE)
    return found


def test_a_folder_that_is_not_there_is_told_before_the_sweep_begins(
    asked: list[TuneOptions], tmp_path: Path
) -> None:
    """It was when the target was imported and the GPUs were taken, and nothing said what to do."""
    result = run("tune", "a.b:c", "-o", tmp_path / "no" / "x.csv")
    assert result.exit_code == 2
    assert "no/x.csv: cannot write: No such file or directory (create the folder first)" in result.stderr
    assert not asked


def test_options_reach_the_sweep(asked: list[TuneOptions]) -> None:
    words = (
        "--workload",
        "w.toml",
        "--space",
        "s.toml",
        "--budget",
        9,
        "--resume",
        "--interpret",
        "--shard",
        "2/3",
    )
    more = ("--engine", "ray", "--timing", "graph", "--target-slowdown", 1.01)
    assert run("tune", "a.b:c", "-o", "x.csv", *words, *more).exit_code == 0
    assert run("tune", "paged_attention", "-o", "x.csv").exit_code == 0
    assert asked[0] == TuneOptions(
        target="a.b:c", output=Path("x.csv"), workload=Path("w.toml"), space=Path("s.toml"), budget=9.0, resume=True,
        interpret=True, engine="ray", shard=(2, 3), timing="graph", target_slowdown=1.01,
    )  # fmt: skip
    assert asked[1] == TuneOptions(target="paged_attention", output=Path("x.csv"))


def test_a_sweep_is_told_in_two_lines(asked: list[TuneOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("tune", "paged_attention", "-o", "x.csv")
    assert result.stdout.splitlines() == [
        "finished: 10 measurements of 3 scenarios x 4 configs on NVIDIA H200 in 61 s, 2 of 12 cells still missing",
        "log.csv, card: log.card.toml",
    ]
    one = replace(DONE, rows=1, scenarios=1, configs=1, cells=1, missing=0)
    monkeypatch.setattr("heurgen.tune.run.run_tune", lambda options, _: one)
    assert run("tune", "paged_attention", "-o", "x.csv").stdout.startswith(
        "finished: 1 measurement of 1 scenario x 1 config on NVIDIA H200 in 61 s, 0 of 1 cell still missing\n"
    )


def test_a_sweep_is_told_as_data(asked: list[TuneOptions]) -> None:
    data = json.loads(run("tune", "paged_attention", "-o", "x.csv", "--json").stdout)
    assert (data["log"], data["cards"], data["missing"]) == ("log.csv", ["log.card.toml"], 2)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"gpus": 2}, 0, " on 2 x NVIDIA H200 in "),
        ({"state": "interrupted"}, 130, "interrupted: 10"),
        ({"dropped_line": True}, 0, "note: the last line of the log was torn"),
        ({"failures": {"oom": 3}, "reason": "oom"}, 0, "note: 3 measurements failed: oom"),
        ({"succeeded": False, "reason": "o\x1bm"}, 1, "no config succeeded; the commonest reason: o\\x1bm"),
        ({"notes": ("throttled",)}, 0, "note: throttled"),
    ],
)
def test_what_a_sweep_met(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], status: int, said: str
) -> None:
    monkeypatch.setattr("heurgen.tune.run.run_tune", lambda *_: replace(DONE, **changes))
    result = run("tune", "paged_attention", "-o", "x.csv")
    assert result.exit_code == status
    assert said in result.output


def test_where_no_device_took_part_no_log_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, or the end of the budget, before one did; a log that is new is not kept then."""
    nobody = replace(
        DONE, state="interrupted", devices=(), cards=(), gpus=0, configs=0, rows=0, cells=0, missing=0
    )
    monkeypatch.setattr("heurgen.tune.run.run_tune", lambda *_: nobody)
    assert run("tune", "paged_attention", "-o", "x.csv").stdout == (
        "interrupted: 0 measurements of 3 scenarios x 0 configs on no GPU in 61 s, 0 of 0 cells still missing\n"
    )


@pytest.mark.parametrize("verify", [(), ("--verify", "log.csv", "--model", "m.json")])
def test_what_a_tunable_prints_is_no_part_of_the_json(
    monkeypatch: pytest.MonkeyPatch, verify: tuple[str, ...]
) -> None:
    def chatty(done: Any) -> Any:
        print("fits?")
        return done

    found = Verification((), 1.0, 1.0, 1.0, 1.0, ())
    monkeypatch.setattr("heurgen.tune.run.run_tune", lambda *_: chatty(DONE))
    monkeypatch.setattr("heurgen.tune.verify.run_verify", lambda *_: chatty(found))
    result = run("tune", "paged_attention", "-o", "x.csv", "--json", *verify)
    assert json.loads(result.stdout)
    assert result.stderr == "fits?\n"


def test_what_a_tunable_s_compiler_prints_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "built.py").write_text("import os\nos.write(1, b'ninja')\ntunable = 1\n")
    words = ["tune", "built:tunable", "-o", "x.csv", "--json"]
    code = f"from heurgen.cli import main; main({words})"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ninjaerror: 'built:tunable' is no tunable")


@pytest.mark.parametrize("shard", ["3", "a/b", "1/", "1/2/3", "-1/2", "1/1234567"])
def test_a_shard_is_k_of_n(asked: list[TuneOptions], shard: str) -> None:
    result = run("tune", "paged_attention", "-o", "x.csv", "--shard", shard)
    assert (result.exit_code, asked) == (2, [])
    assert result.stderr.startswith(f"error: found --shard '{shard}', expected K/N, such as 3/8")


def test_verify_holds_the_loss_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Verification((), 1.05, 1.01, 1.09, 1.2, ())
    monkeypatch.setattr("heurgen.tune.verify.run_verify", lambda *_: found)
    words = ("tune", "paged_attention", "-o", "x.csv", "--verify", "log.csv", "--model", "m.json")
    result = run(*words)
    assert result.exit_code == 1
    assert "note: the selector lost 1.0500x, allowed 1.02" in result.stderr
    assert run(*words, "--max-loss", 1.05).exit_code == 0
    for limit in ("nan", "inf"):
        result = run(*words, "--max-loss", limit, "--json")
        assert result.exit_code == 2
        assert f"error: found --max-loss {limit}, expected a number" in result.stderr
    data = json.loads(run(*words, "--json").stdout)
    assert (data["lost"], data["allowed"]) == (1.05, 1.02)
    for words in (("--verify", "log.csv"), ("--model", "m.json")):
        result = run("tune", "paged_attention", "-o", "x.csv", *words)
        assert (result.exit_code, "--verify and --model go together" in result.stderr) == (2, True)


def test_merge_says_what_it_wrote_and_what_stood_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Merged(Path("all.csv"), (Path("all.card.toml"),), 30, 3, 1, ())
    monkeypatch.setattr(
        "heurgen.tune.merge.merge", lambda logs, output: replace(done, rows=len(logs), log=output)
    )
    result = run("merge", "a.csv", "b.csv", "-o", "out.csv")
    assert result.stdout == "wrote out.csv: 2 measurements of 3 scenarios\n"
    assert result.stderr == "note: 1 line stood in more than one log\n"
    assert json.loads(run("merge", "a.csv", "-o", "out.csv", "--json").stdout) == {
        "log": "out.csv", "cards": ["all.card.toml"], "rows": 1, "scenarios": 3, "copies": 1, "missing": [],
    }  # fmt: skip


@pytest.mark.parametrize("output", ["a.csv", "a.card.toml"])
def test_merge_writes_over_no_shard_and_no_card_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "a.card.toml"):
        Path(name).write_text("mine")
    result = run("merge", "a.csv", "-o", output)
    assert (result.exit_code, "is an input" in result.stderr) == (2, True)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.csv": "mine", "a.card.toml": "mine"}
