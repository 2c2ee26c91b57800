"""`--json` of every command: standard output is one JSON document with the keys that docs/api.md lists, or empty."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.text import slowdown_text
from heurgen.cli import main
from heurgen.cli.imports import import_
from heurgen.tune.run import SweepSummary
from heurgen.tune.verify import Verification
from tests.support.commands import run
from tests.support.documents import ROOT

SPEC = ("--spec", "kernel.toml")
LAUNCH = ("m=1", "k=1", "density=0.5", "dtype=float16")
MOE = "E=8,N=3584,device_name=NVIDIA_H200.json"
PROJECT = (
    '[[heuristic]]\nlogs = ["log.csv"]\nspec = "kernel.toml"\nmodel = "model.json"\nmodule = "module.py"\n'
)
COMMANDS = [
    ("init", "log.csv", "-o", "new.toml"),
    ("import", "auto", MOE, "-o", "moe.csv", "--write-spec", "moe.toml"),
    ("validate", "log.csv", *SPEC),
    ("train", "log.csv", *SPEC, "-o", "new.json"),
    ("evaluate", "log.csv", *SPEC, "--folds", "2"),
    ("advise", "model.json", "log.csv", *SPEC, "-n", "2", "-o", "next.toml"),
    ("audit", "model.json", "log.csv", *SPEC),
    ("show", "model.json"),
    ("explain", "model.json", *LAUNCH),
    ("diff", "model.json", "model.json"),
    ("emit", "model.json", "-o", "new.py"),
    ("build",),
    ("check",),
]


def documented() -> dict[str, list[str]]:
    """Command -> its keys without those that only an option adds, by the table of docs/api.md."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.M)
    return {
        name: re.findall("`([a-z_0-9]+)`", re.split("; (?:with|of)|, each", keys)[0]) for name, keys in rows
    }


@pytest.fixture
def here(folder: Path) -> Path:
    config = {"BLOCK_SIZE_M": 16, "num_warps": 4}
    (folder / MOE).write_text(json.dumps({"1": config, "64": config | {"BLOCK_SIZE_M": 64}}))
    (folder / "heurgen.toml").write_text(PROJECT)
    assert run("build").exit_code == 0
    return folder


def told(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_every_command_takes_it_and_is_documented() -> None:
    assert {*documented()} == {*main.commands} - {"help"}  # type: ignore[attr-defined]
    assert {words[0] for words in COMMANDS} == {*documented()} - {"record", "merge", "tune"}
    kinds = [import_.get_command(None, kind) for kind in import_.list_commands(None)]  # type: ignore[arg-type]
    for command in (*main.commands.values(), *kinds):  # type: ignore[attr-defined]
        has = any("--json" in option.opts for option in command.params)
        assert has != (command.name in ("help", "import")), command.name


def test_the_keys_of_tune_are_documented() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    verified = re.findall("`([a-z_]+)`", page.partition("with `--verify` instead ")[2].partition(" |")[0])
    assert documented()["tune"] == [*SweepSummary.__dataclass_fields__]
    assert verified == [*Verification((), 1.0, 1.0, 1.0, 1.0, ()).to_dict(), "allowed"]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_standard_output_is_one_document_with_the_keys_of_the_docs(
    here: Path, words: tuple[str, ...]
) -> None:
    assert [*told(*words)] == documented()[words[0]]


@pytest.mark.parametrize("words", [w for w in COMMANDS if len(w) > 1], ids=lambda words: words[0])
def test_standard_output_is_empty_where_a_command_fails(here: Path, words: tuple[str, ...]) -> None:
    for name in ("log.csv", "model.json", MOE):
        (here / name).write_text("")
    result = run(*words, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")


def test_init_says_what_each_column_is_and_what_is_to_be_confirmed(here: Path) -> None:
    (here / "a.csv").write_text(
        "gpu,M,BLOCK (rows),note,time_us\n"
        + "".join(f"NVIDIA H200,{m},{b},x,{m / b}\n" for m in (64, 128) for b in (16, 32))
    )
    found = told("init", "a.csv", "-o", "a.toml")
    assert found["files"] == [{"path": "a.toml", "written": True}]
    assert (found["rows"], found["kernel"]) == (4, "a")
    assert [(c["column"], c["role"]) for c in found["columns"]] == [
        ("gpu", "device"), ("M", "feature"), ("BLOCK (rows)", "parameter"), ("note", "none"), ("time_us", "time"),
    ]  # fmt: skip
    assert found["columns"][2] == {
        "column": "BLOCK (rows)",
        "role": "parameter",
        "why": "guess: a known parameter; confirm",
        "name": "BLOCK",
        "type": "int",
        "used": True,
    }
    remarks = re.findall(r"^([\w]+) = .*  # (.+)$", (here / "a.toml").read_text(), re.M)
    assert sorted((q["key"].rpartition(".")[2], q["why"]) for q in found["questions"]) == sorted(remarks)
    assert told("init", "a.csv", "-o", "a.toml")["files"] == [{"path": "a.toml", "written": False}]


def test_init_names_the_configs_of_a_wide_table(here: Path) -> None:
    (here / "w.csv").write_text("M,a,b\n64,1.5,2.5\n128,2.5,1.5\n")
    found = told("init", "w.csv", "-o", "w.toml", "--wide", "--features", "M")
    assert [(c["column"], c["role"]) for c in found["columns"]] == [
        ("M", "feature"), ("a", "config"), ("b", "config"),
    ]  # fmt: skip


def test_import_says_the_kind_that_it_found(here: Path) -> None:
    found = told("import", "auto", MOE, "-o", "moe.csv", "--write-spec", "moe.toml")
    assert (found["kind"], found["rows"]) == ("vllm", 2)
    assert [f["path"] for f in found["files"]] == ["moe.csv", "moe.toml"]
    assert [c["column"] for c in found["columns"]] == (here / "moe.csv").read_text().split("\n")[0].split(",")
    assert "winners only" in " ".join(found["notes"])


def test_train_tells_what_its_text_tells(made: Path, tmp_path: Path) -> None:
    words = ("train", f"{made}/log.csv", "--spec", f"{made}/kernel.toml", "-o", f"{tmp_path}/m.json")
    text, found = run(*words).stdout, told(*words)
    assert (found["kernel"], found["files"]) == ("matmul", [{"path": f"{tmp_path}/m.json", "written": False}])
    assert [s["vendor"] for s in found["selectors"]] == ["amd", "nvidia"]
    for s in found["selectors"]:
        title = f"{s['n_scenarios']} scenarios, depth {s['depth']}, {s['leaves']} leaves, {len(s['configs'])} configs"
        assert title in text
        assert f"held out: geomean {s['choice']['held_out']['geomean_slowdown']:.4f}" in text
        assert f"(95 % interval {' to '.join(map(slowdown_text, s['interval']))})" in text
        slow = s["worst"]["slowdown"]
        assert f": {'invalid' if slow is None else f'{slow:.2f}x'}" in text
        assert s["worst"]["chosen"].keys() == s["configs"][0].keys()
        assert s["worst"]["features"].keys() == {"m", "k", "density", "dtype"}


def test_advise_writes_its_workload_too(here: Path) -> None:
    found = told("advise", "model.json", "log.csv", *SPEC, "-n", "2", "-o", "next.toml")
    assert (here / "next.toml").read_text().count("[[scenario]]") == len(found["scenarios"]) == 2


def test_record_sends_what_the_program_prints_to_stderr(tmp_path: Path) -> None:
    sweep = {
        "event": "sweep", "kernel": "k", "keys": ["n"], "features": {"n": 1}, "dtypes": {}, "vendor": "nvidia",
        "device": "NVIDIA H200", "timings": [[{"BLOCK": 16}, [1.0]], [{"BLOCK": 32}, [2.0]]],
    }  # fmt: skip
    program = (
        "import json, os, pathlib; print('loss 0.5');"
        f"pathlib.Path(os.environ['HEURGEN_RECORD'], 'a.jsonl').write_text({json.dumps(sweep)!r} + '\\n'); exit(3)"
    )
    words = ("record", "-o", "log.csv", "--json", "--", sys.executable, "-c", program)
    result = subprocess.run(
        [sys.executable, "-m", "heurgen", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 3, result.stderr
    assert "loss 0.5" in result.stderr
    found = json.loads(result.stdout)
    assert [*found] == documented()["record"]
    assert (found["status"], found["logs"]) == (
        3,
        [
            {
                "kernel": "k",
                "rows": 2,
                "files": [{"path": p, "written": True} for p in ("log.csv", "log.toml")],
            }
        ],
    )
