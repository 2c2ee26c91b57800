"""Several devices of one vendor, from the command line: what train and validate say, what audit holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heurgen.cli import main
from tests.trees.devices import A100, H100, log_text, spec_text


def run(*words: object) -> Result:
    found = CliRunner().invoke(main, [str(w) for w in words])
    assert found.exit_code == 0, found.output
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("devices")
    (found / "log.csv").write_text(log_text({A100: 0.25, H100: 2.0}, 24))
    (found / "k.toml").write_text(spec_text())
    for name, device, multiprocessors in (("a", A100, 108), ("h", H100, 132)):
        card = f'[device]\nname = "{device}"\nmultiprocessors = {multiprocessors}\ngpus = 8\n'
        (found / f"{name}.card.toml").write_text(card)
    return found


def test_train_says_what_it_compared_and_audit_holds_it(folder: Path) -> None:
    cards = [word for name in "ah" for word in ("--card", folder / f"{name}.card.toml")]
    model = folder / "m.json"
    words = ("--spec", folder / "k.toml", "-o", model, "--strategy", "joint", *cards)
    said = run("train", folder / "log.csv", *words).stdout
    assert "  48 scenarios in 24 groups of equal m, n\n" in said
    assert (
        "  2 devices, held out in 5 folds, 3 times, each form at the sizes that it ships:\n    pooled "
        in said
    )
    assert said.count("<- ships") == 1
    assert "    device features: multiprocessors\n  on a device that was not measured: geomean " in said
    audit = run("audit", model, folder / "log.csv", "--spec", folder / "k.toml", "--json").stdout
    record = json.loads(audit)["training"][0]["choice"]
    assert [f["form"] for f in record["device_forms"]["compared"]] == [
        "pooled",
        "pooled with device features",
        "one tree a device",
    ]
    assert [d["device"] for d in record["unknown_device"]["devices"]] == [A100, H100]
    one = run(
        "explain", model, "m=4096", "n=4096", "--device", "NVIDIA H20", "--capability", "9.0", "--json"
    ).stdout
    assert json.loads(one)["device"] == H100


def test_train_and_build_tell_a_card_of_no_device_in_the_log(folder: Path) -> None:
    (folder / "other.card.toml").write_text('[device]\nname = "NVIDIA H100"\nmultiprocessors = 132\n')
    words = (
        "train",
        folder / "log.csv",
        "--spec",
        folder / "k.toml",
        "--strategy",
        "joint",
        "--max-leaves",
        2,
    )
    found = run(*words, "-o", folder / "o.json", "--card", folder / "other.card.toml", "--json")
    assert "note: the card of 'NVIDIA H100' is of no device in the logs" in found.stderr
    assert json.loads(found.stdout)["notes"][0].startswith("the card of 'NVIDIA H100' is of no device")
    (folder / "heurgen.toml").write_text(
        '[[heuristic]]\nlogs = ["log.csv"]\nspec = "k.toml"\ncards = ["other.card.toml"]\nmodel = "b.json"\n'
        'module = "b.py"\nstrategy = "joint"\nmax_leaves = 2\n'
    )
    assert "note: the card of 'NVIDIA H100' is of no device" in run("build", folder / "heurgen.toml").stderr


def test_evaluate_says_that_it_pools_devices(folder: Path) -> None:
    page = folder / "strategies.html"
    words = ("evaluate", folder / "log.csv", "--spec", folder / "k.toml", "--folds", 2, "--html", page)
    said = "2 devices under one tree; `heurgen train` weighs one tree a device too"
    assert said in run(*words).stderr
    assert said in page.read_text()


def test_validate_warns_of_devices_that_want_other_configs_and_of_configs_that_fail_on_one(
    folder: Path,
) -> None:
    lines = (folder / "log.csv").read_text().splitlines()
    fails = [
        ",".join([*line.split(",")[:-2], "error", ""])
        if line.startswith(f"nvidia,{H100}") and ",128,8," in line
        else line
        for line in lines
    ]
    (folder / "fails.csv").write_text("\n".join(fails) + "\n")
    said = run("validate", folder / "fails.csv", "--spec", folder / "k.toml").stderr
    assert f"note: nvidia: {A100} and {H100} want different configs in " in said
    assert f"note: nvidia: on {H100} 1 config of 8 always failed that succeeded on other devices\n" in said
