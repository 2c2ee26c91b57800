"""The commands: what they print, where, and their exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from heurgen.cli import main
from tests.support import logs


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with log.csv, kernel.toml, model.json, module.py."""
    folder = tmp_path_factory.mktemp("made")
    log, spec = logs.write(folder)
    assert run("train", log, "--spec", spec, "-o", folder / "model.json").exit_code == 0
    assert run("emit", folder / "model.json", "-o", folder / "module.py").exit_code == 0
    return folder


def commands() -> list[list[str]]:
    found = []
    for name, command in main.commands.items():
        found += [[name, sub] for sub in getattr(command, "commands", {})] or [[name]]
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_helps_with_an_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"heurgen {' '.join(command)}" in result.stdout


def test_train_writes_a_model_and_says_what_it_is(made: Path) -> None:
    result = run("train", made / "log.csv", "--spec", made / "kernel.toml", "-o", made / "again.json")
    assert result.exit_code == 0
    assert "nvidia (NVIDIA H200): 24 scenarios" in result.stdout
    assert result.stderr == ""
    assert (made / "again.json").read_bytes() == (made / "model.json").read_bytes()


def test_train_learns_shortlists_where_asked(made: Path, tmp_path: Path) -> None:
    words = ("train", made / "log.csv", "--spec", made / "kernel.toml", "-o", tmp_path / "model.json")
    result = run(*words, "--shortlist", 2)
    assert result.exit_code == 0
    assert "  held out, best of the shortlist of 2: geomean 1." in result.stdout
    assert run("emit", tmp_path / "model.json", "-o", tmp_path / "module.py").exit_code == 0
    assert "def shortlist(" in (tmp_path / "module.py").read_text()
    assert "def shortlist(" not in (made / "module.py").read_text()
    assert run(*words, "--shortlist", 65).exit_code == 2


@pytest.mark.parametrize("artifact", ["model.json", "module.py"])
def test_audit_prints_slowdowns(made: Path, artifact: str) -> None:
    words = ("audit", made / artifact, made / "log.csv", "--spec", made / "kernel.toml")
    result = run(*words)
    assert result.exit_code == 0
    assert (
        result.stdout.splitlines()[0].split()
        == "slowdown geomean p95 max within 1.1x invalid scenarios".split()
    )
    data = json.loads(run(*words, "--json").stdout)
    assert set(data["groups"]) == {"amd", "amd / AMD Instinct MI300X", "nvidia", "nvidia / NVIDIA H200"}
    for summary in (data, *data["groups"].values()):
        assert 1 <= summary["geomean_slowdown"] <= summary["p95_slowdown"] <= summary["max_slowdown"]
        assert summary["invalid_share"] == 0
        assert 0 <= summary["within_1_1"] <= 1
    assert data["n_scenarios"] == 48


def test_a_model_and_its_module_score_the_same(made: Path) -> None:
    words = (made / "log.csv", "--spec", made / "kernel.toml", "--json")
    of_model, of_module = (
        json.loads(run("audit", made / name, *words).stdout) for name in ("model.json", "module.py")
    )
    assert {s["vendor"] for s in of_model.pop("training") if s["choice"]["alternatives"]} == {"amd", "nvidia"}
    del of_module["training"]  # a module does not carry how it was chosen
    assert of_model == of_module


def test_an_edited_module_is_refused(made: Path, tmp_path: Path) -> None:
    edited = tmp_path / "module.py"
    edited.write_text((made / "module.py").read_text().replace("128", "256"))
    result = run("audit", edited, made / "log.csv", "--spec", made / "kernel.toml")
    assert result.exit_code == 2
    assert "checksum" in result.stderr


def test_validate_counts(made: Path) -> None:
    words = ("validate", made / "log.csv", "--spec", made / "kernel.toml")
    assert run(*words).exit_code == 0
    data = json.loads(run(*words, "--json").stdout)
    assert isinstance(data, dict)


def test_show_and_explain(made: Path) -> None:
    assert "if " in run("show", made / "model.json", "--vendor", "amd").stdout
    assert "BLOCK_M = " in run("show", made / "model.json", "--parameter", "BLOCK_M").stdout
    words = (
        "explain",
        made / "model.json",
        "--vendor",
        "nvidia",
        "m=4096",
        "k=99999",
        "density=0.5",
        "dtype=float16",
    )
    assert "outside training: k = 99999" in run(*words).stdout
    data = json.loads(run(*words, "--json").stdout)
    assert data["config"]["num_warps"] == 8
    assert [o["feature"] for o in data["outside_training"]][:1] == ["k"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("m=1",), "error: no value for k, density, dtype (give name=value for every feature)"),
        (("m",), "error: found 'm', expected name=value"),
        (("n=1",), "error: 'n' is no feature (features: m, k, density, dtype)"),
        (("m=1.5",), "error: m: found '1.5', expected a value of type int"),
        (("m=1", "m=2"), "error: m is given twice"),
    ],
)
def test_explain_refuses(made: Path, words: tuple[str, ...], message: str) -> None:
    result = run("explain", made / "model.json", "--vendor", "nvidia", *words)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "missing.json"), "error: missing.json: cannot be read: No such file or directory"),
        (
            ("emit", "missing.json", "-o", "x.py"),
            "error: missing.json: cannot be read: No such file or directory",
        ),
        (("check", "missing.toml"), "error: missing.toml: cannot be read: No such file or directory"),
        (("build", "missing.toml"), "error: missing.toml: cannot be read: No such file or directory"),
    ],
)
def test_missing_files(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stdout == ""


def test_wrong_vendor_or_parameter(made: Path) -> None:
    result = run("show", made / "model.json", "--vendor", "intel")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "error: unknown vendor 'intel' (known vendors: amd, nvidia)",
    )
    result = run("show", made / "model.json", "--vendor", "nvidia", "--parameter", "waves_per_eu")
    assert result.exit_code == 2
    message = "error: 'waves_per_eu' is no parameter (parameters: BLOCK_M, num_warps)"
    assert result.stderr.splitlines()[0] == message


def test_a_bad_log_writes_nothing(made: Path, tmp_path: Path) -> None:
    cells = logs.rows(4)
    cells[3][HEADER_TIME] = "nan"
    log, spec = logs.write(tmp_path, cells)
    result = run("train", log, "--spec", spec, "-o", tmp_path / "model.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {log}:5: column 'time_ms': ")
    assert not (tmp_path / "model.json").exists()


HEADER_TIME = logs.HEADER.index("time_ms")


def test_three_scenarios_are_enough(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path, logs.rows(3, ("nvidia",)))
    result = run("train", log, "--spec", spec, "-o", tmp_path / "model.json")
    assert result.exit_code == 0, result.stderr
    assert json.loads((tmp_path / "model.json").read_text())["selectors"][0]["n_scenarios"] == 3


def test_group_by_device(tmp_path: Path) -> None:
    cells = logs.rows(8, ("nvidia",)) + [
        [c[0], "NVIDIA H100", *c[2:]] for c in logs.rows(8, ("nvidia",), seed=5)
    ]
    log, spec = logs.write(tmp_path, cells)
    model, module = tmp_path / "model.json", tmp_path / "module.py"
    assert run("train", log, "--spec", spec, "-o", model, "--group-by", "device").exit_code == 0
    assert run("emit", model, "-o", module).exit_code == 0
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(module.read_text(), namespace)
    assert set(namespace["DEVICE_SELECTORS"]) == {"NVIDIA H100", "NVIDIA H200"}
    assert set(namespace["SELECTORS"]) == {"nvidia"}
    features = {"m": 64, "k": 64, "density": 0.5, "dtype": "float16"}
    select = namespace["select"]
    assert select(vendor="nvidia", device="unheard of", **features) == select(vendor="nvidia", **features)


def test_help_sorts_the_commands_by_what_one_wants_to_do() -> None:
    lines = run("--help").stdout.splitlines()
    at = {word: i for i, line in enumerate(lines) for word in line.split()[:1]}
    assert (
        at["Bring"]
        < at["init"]
        < at["Learn"]
        < at["train"]
        < at["Look"]
        < at["audit"]
        < at["Ship"]
        < at["emit"]
    )
    assert "More:" not in lines  # every command has its section


def test_help_is_quick_and_works_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "heurgen", "--help"], capture_output=True, text=True, check=True
    )
    assert "Usage: heurgen [OPTIONS] COMMAND" in done.stdout
