"""Commands that explain a model, through the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from heurgen.cli import main
from tests.audit.pages import Page
from tests.support import logs
from tests.support.commands import run


def test_evaluate_and_diff_write_their_page(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path, logs.rows(8, ("nvidia",)))
    page, model = tmp_path / "page.html", tmp_path / "model.json"

    def heurgen(*words: object) -> int:
        return run(*words).exit_code

    assert heurgen("evaluate", log, "--spec", spec, "--folds", 2, "--html", log) == 2  # an input is no output
    assert heurgen("evaluate", log, "--spec", spec, "--folds", 2, "--html", page) == 0
    assert "winner-label tree" in page.read_text()
    assert heurgen("train", log, "--spec", spec, "-o", model, "--strategy", "joint") == 0
    page.unlink()
    assert heurgen("diff", model, model, "--html", model) == 2
    assert heurgen("diff", model, model, "--html", page) == 0
    assert "No region changes config." in Page(page.read_text()).text


def test_explain_needs_no_vendor_where_there_is_one(tmp_path: Path) -> None:
    values = ["m=64", "k=64", "density=0.5", "dtype=float16"]
    for vendors, exit_code in ((("nvidia",), 0), (("nvidia", "amd"), 2)):
        log, spec = logs.write(tmp_path, logs.rows(8, vendors))
        model = tmp_path / "model.json"
        assert run("train", log, "--spec", spec, "-o", model, "--strategy", "joint").exit_code == 0
        found = run("explain", model, *values)
        assert found.exit_code == exit_code, found.output
    assert "choose one with --vendor" in found.stderr
    told = run("explain", model, *values, "--device", "AMD Instinct MI300X", "--json")
    assert json.loads(told.stdout)["vendor"] == "amd"
    assert "choose one with --vendor" in run("explain", model, *values, "--device", "NVIDIA B200").stderr
    crossed = run("explain", model, *values, "--vendor", "nvidia", "--device", "AMD Instinct MI300X")
    assert (crossed.exit_code, crossed.stdout) == (2, "")
    assert "the device 'AMD Instinct MI300X' is of amd, not of nvidia" in crossed.stderr


FIGURES = " geomean p95 max within 1.1x invalid scenarios"


def headers(text: str) -> list[str]:
    """The first line of every part of a text, its words one space apart."""
    return [" ".join(part.splitlines()[0].split()) for part in text.split("\n\n")]


def test_held_out_figures_lead_where_the_log_is_the_training_log(made: Path, tmp_path: Path) -> None:
    spec = made / "kernel.toml"
    of_model = run("audit", made / "model.json", made / "log.csv", "--spec", spec)
    assert headers(of_model.stdout)[:2] == [
        "slowdown, held out" + FIGURES,
        "slowdown, training log" + FIGURES,
    ]
    assert [line.split()[0] for line in of_model.stdout.splitlines()[1:3]] == ["amd", "nvidia"]
    of_module = run("audit", made / "module.py", made / "log.csv", "--spec", spec)  # does not carry any
    assert headers(of_module.stdout) == [
        "held out: a generated module carries no figure; audit the model (.json) that it was made from",
        "slowdown, training log" + FIGURES,
    ]

    data = json.loads(run("audit", made / "model.json", made / "log.csv", "--spec", spec, "--json").stdout)
    assert data["on_training_log"]
    recorded = {s["vendor"]: s["choice"]["held_out"]["geomean_slowdown"] for s in data["training"]}
    assert {name: s["geomean_slowdown"] for name, s in data["held_out"].items()} == recorded

    gate = run("audit", made / "model.json", made / "log.csv", "--spec", spec, "--fail-above", "max=9")
    flatters = "note: the limits are compared with figures of the training log, which flatter\n"
    assert gate.exit_code == 0
    assert flatters in gate.stderr
    assert flatters not in of_model.stderr

    other, _ = logs.write(tmp_path, logs.rows(8, ("nvidia",)))
    assert (
        flatters
        not in run("audit", made / "model.json", other, "--spec", spec, "--fail-above", "max=9").stderr
    )
    words = ("audit", made / "model.json", other, "--spec", spec)
    assert headers(run(*words).stdout)[0] == "slowdown" + FIGURES
    assert not json.loads(run(*words, "--json").stdout)["on_training_log"]


@pytest.mark.parametrize("artifact", ["model.json", "module.py"])
def test_audit_prints_slowdowns(made: Path, artifact: str) -> None:
    words = ("audit", made / artifact, made / "log.csv", "--spec", made / "kernel.toml")
    result = run(*words)
    assert result.exit_code == 0
    data = json.loads(run(*words, "--json").stdout)
    assert set(data["groups"]) == {"amd", "amd / AMD Instinct MI300X", "nvidia", "nvidia / NVIDIA H200"}
    for summary in (data, *data["groups"].values()):
        assert 1 <= summary["geomean_slowdown"] <= summary["p95_slowdown"] <= summary["max_slowdown"]
        assert summary["invalid_share"] == 0
        assert 0 <= summary["within_1_1"] <= 1
    assert data["n_scenarios"] == 48


def test_the_standard_input_is_read_once(made: Path, tmp_path: Path) -> None:
    """The page asks the log for a column of defaults too, and a second reading finds a pipe empty."""
    page = tmp_path / "page.html"
    words = ["audit", made / "model.json", "-", "--spec", made / "kernel.toml", "--html", page]
    text = (made / "log.csv").read_bytes()
    found = CliRunner().invoke(main, [str(w) for w in words], input=text, catch_exceptions=False)
    assert (found.exit_code, page.exists()) == (0, True), found.output


def test_a_model_and_its_module_score_the_same(made: Path) -> None:
    words = (made / "log.csv", "--spec", made / "kernel.toml", "--json")
    of_model, of_module = (
        json.loads(run("audit", made / name, *words).stdout) for name in ("model.json", "module.py")
    )
    assert {s["vendor"] for s in of_model.pop("training") if s["choice"]["alternatives"]} == {"amd", "nvidia"}
    assert of_model.pop("held_out")
    assert not of_module.pop("held_out")
    assert len(of_model.pop("worst")) == 5  # held out
    assert of_module.pop("worst") == []
    del of_module["training"]  # a module does not carry how it was chosen
    assert of_model == of_module


def test_an_edited_module_is_refused(made: Path, tmp_path: Path) -> None:
    edited = tmp_path / "module.py"
    edited.write_text((made / "module.py").read_text().replace("128", "256"))
    result = run("audit", edited, made / "log.csv", "--spec", made / "kernel.toml")
    assert result.exit_code == 2
    assert "checksum" in result.stderr


def test_a_model_that_does_not_fit_the_log_is_named(made: Path, tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path)
    spec.write_text(logs.SPEC.replace('type = "float"', 'type = "int"'))
    log.write_text(re.sub(r",0\.\d+,", ",1,", log.read_text()))
    other = tmp_path / "other.json"
    assert run("train", log, "--spec", spec, "-o", other, "--strategy", "joint").exit_code == 0
    told = "reads the int feature 'density', which the spec says is float"
    given = (made / "log.csv", "--spec", made / "kernel.toml")
    for words in (
        ("audit", other, *given),
        ("audit", made / "model.json", *given, "--baseline", other),
        ("diff", made / "model.json", other, *given),
        ("advise", other, *given),
    ):
        found = run(*words)
        assert found.exit_code == 2
        assert found.stderr.startswith(
            f"error: {other}: {told} (audit with the spec that the model was trained with)"
        )


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
        (
            ("m=1.5",),
            "error: m: found '1.5', expected a value of type int (a whole number of at most 18 digits)",
        ),
        (("m=1", "m=2"), "error: m is given twice"),
    ],
)
def test_explain_refuses(made: Path, words: tuple[str, ...], message: str) -> None:
    result = run("explain", made / "model.json", "--vendor", "nvidia", *words)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == message


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
