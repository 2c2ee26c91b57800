"""Files that the tests of the commands read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import logs
from tests.support.commands import run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with log.csv, kernel.toml, model.json, module.py."""
    folder = tmp_path_factory.mktemp("made")
    log, spec = logs.write(folder)
    assert run("train", log, "--spec", spec, "-o", folder / "model.json").exit_code == 0
    assert run("emit", folder / "model.json", "-o", folder / "module.py").exit_code == 0
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """log.csv, kernel.toml, model.json, module.py, traffic.csv, heurgen.toml, cache.json of one small log."""
    folder = tmp_path_factory.mktemp("tiny")
    log, spec = logs.write(folder, logs.rows(3, ("nvidia",)))
    assert run("train", log, "--spec", spec, "-o", folder / "model.json").exit_code == 0
    assert run("emit", folder / "model.json", "-o", folder / "module.py").exit_code == 0
    (folder / "traffic.csv").write_text("m,k,density,dtype,count\n1,1,0.5,float16,3\n")
    (folder / "cache.json").write_text("{}")
    return folder


@pytest.fixture
def folder(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `tiny`, where the test runs."""
    copy = Path(shutil.copytree(tiny, tmp_path / "copy"))
    monkeypatch.chdir(copy)
    return copy
