"""Commands on logs, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import run


def test_validate_counts(made: Path) -> None:
    words = ("validate", made / "log.csv", "--spec", made / "kernel.toml")
    assert run(*words).exit_code == 0
    data = json.loads(run(*words, "--json").stdout)
    assert isinstance(data, dict)


@pytest.mark.parametrize("name", ["_", "__", "_.csv", "__x", "0", "class", "x" * 250, "_" * 200, "é"])
def test_files_of_any_name_become_a_kernel(folder: Path, name: str) -> None:
    Path(name).write_bytes(Path("log.csv").read_bytes())
    result = run("init", name, "-o", "new.toml")
    assert result.exit_code == 0, result.stderr
    assert run("train", name, "--spec", "new.toml", "-o", "new.json").exit_code == 0
