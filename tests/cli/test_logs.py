"""Commands on logs, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.documents import ROOT


def test_validate_counts(made: Path) -> None:
    words = ("validate", made / "log.csv", "--spec", made / "kernel.toml")
    assert run(*words).exit_code == 0
    data = json.loads(run(*words, "--json").stdout)
    assert isinstance(data, dict)


def test_validate_names_measurements_that_stand_out() -> None:
    log = ROOT / "data/h200_unified_attention.csv"
    result = run("validate", log, "--spec", ROOT / "data/unified_attention.toml", "--json")
    assert (
        f"note: 114 of 12,312 measurements stand out from those of configs one step away (worst: line 4893 of {log}, "
        "92.8x): measure them again\n"
    ) in result.stderr
    found = json.loads(result.stdout)["stand_out"]
    assert len(found) == 114
    assert [*found[0]] == ["file", "line", "factor"]
    assert (found[0]["file"], found[0]["line"]) == (str(log), 4893)
    assert found[0]["factor"] >= found[1]["factor"] >= found[-1]["factor"] > 1.3


@pytest.mark.parametrize("name", ["_", "__", "_.csv", "__x", "0", "class", "x" * 250, "_" * 200, "é"])
def test_files_of_any_name_become_a_kernel(folder: Path, name: str) -> None:
    Path(name).write_bytes(Path("log.csv").read_bytes())
    result = run("init", name, "-o", "new.toml")
    assert result.exit_code == 0, result.stderr
    assert run("train", name, "--spec", "new.toml", "-o", "new.json").exit_code == 0


def test_init_writes_over_no_other_spec(folder: Path) -> None:
    for _ in range(2):
        assert run("init", "log.csv", "-o", "draft.toml").exit_code == 0
    confirmed = "# mine\n" + Path("draft.toml").read_text()
    Path("draft.toml").write_text(confirmed)
    result = run("init", "log.csv", "-o", "draft.toml")
    assert (result.exit_code, Path("draft.toml").read_text()) == (2, confirmed)
    assert result.stderr.startswith(
        "error: draft.toml: another spec is there (remove it where its guesses may go, or name another file)\n"
    )


def test_init_says_that_cells_may_be_throughputs(folder: Path) -> None:
    Path("wide.csv").write_text("gpu,n,old,new\nH200,8,1,2\nH200,9,2,1\n")
    result = run("init", "wide.csv", "-o", "wide.toml", "--wide")
    assert (result.exit_code, result.stderr) == (
        0,
        "note: nothing says whether the cells are times or throughputs: read as times, less is better. If more is "
        'better, this would choose the slowest configs: write objective = "max" and time = "throughput" in [log]\n',
    )
