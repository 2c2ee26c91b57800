"""Commands that learn, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import logs
from tests.support.commands import run


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


def test_a_model_that_no_module_can_be_made_of_says_so_at_once(tmp_path: Path) -> None:
    """Devices whose names give one function name: `emit` was the first to say it, after all the training."""
    one = [[c[0], "X 1", *c[2:]] for c in logs.rows(8, ("nvidia",))]
    other = [[c[0], "X-1", *c[2:]] for c in logs.rows(8, ("nvidia",), seed=5)]
    log, spec = logs.write(tmp_path, one + other)
    words = ("train", log, "--spec", spec, "-o", tmp_path / "model.json")
    result = run(*words, "--group-by", "device")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == (
        "note: emit will refuse to make a Python module of this model: the name select_nvidia_x_1 is needed by the "
        "selector of the device 'X 1' and by the selector of the device 'X-1' (rename the device in the log, or "
        "train with --group-by vendor)"
    )
    assert "emit will refuse" not in run(*words, "--group-by", "vendor").stderr


@pytest.mark.parametrize(
    "words",
    [
        ("train", "log.csv", "--spec", "kernel.toml", "-o"),
        ("evaluate", "log.csv", "--spec", "kernel.toml", "--html"),
        ("audit", "model.json", "log.csv", "--spec", "kernel.toml", "--html"),
        ("diff", "model.json", "old.json", "--html"),
        ("advise", "model.json", "log.csv", "--spec", "kernel.toml", "-o"),
        ("import", "auto", "log.csv", "-o"),
    ],
)
def test_a_folder_that_is_not_there_is_told_before_the_work(tmp_path: Path, words: tuple[str, ...]) -> None:
    """`train` gave up its model after minutes. Here nothing else is there either."""
    output = tmp_path / "missing" / "file"
    result = run(*words, output)
    assert result.exit_code == 2
    said = f"error: {output}: cannot write: No such file or directory (create the folder first)"
    assert result.stderr.splitlines()[0] == said
