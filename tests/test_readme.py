"""Every command and every Python block of the README runs, in a copy of what a reader has."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    \$ (.+)$", README, re.MULTILINE)
PYTHON = re.findall(r"^```python run\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    for name in ("data", "kernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "heurgen.toml", folder)
    published = ROOT.parent / "shared" / "data" / "published"
    if published.is_dir():
        (folder / "published").symlink_to(published)
    return folder


def test_the_readme_has_commands() -> None:
    assert len(COMMANDS) >= 10
    assert len(PYTHON) >= 1


@pytest.mark.slow
def test_commands_run_in_order(folder: Path) -> None:
    skipped = []
    for command in COMMANDS:
        words = shlex.split(command, comments=True)
        if words[0] == "make":  # see test_make_targets_exist
            continue
        assert words[0] == "heurgen", f"the README shows {command!r}, which is neither heurgen nor make"
        # what reads the published caches, or what was made from them
        if ("published" in command or "mi300x." in command) and not (folder / "published").exists():
            skipped.append(command)
            continue
        done = run(folder, "-m", "heurgen", *(w for word in words[1:] for w in expanded(folder, word)))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    if skipped:
        pytest.skip(f"shared/data/published is absent, not run: {'; '.join(skipped)}")


def expanded(folder: Path, word: str) -> list[str]:
    """A word as a shell expands it."""
    return sorted(str(p.relative_to(folder)) for p in folder.glob(word)) if "*" in word else [word]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(PYTHON)))
def test_python(folder: Path, index: int) -> None:
    done = run(folder, "-c", PYTHON[index])
    assert done.returncode == 0, done.stderr


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in COMMANDS:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_function_shown_is_the_one_that_ships() -> None:
    module = (ROOT / "kernels/heurgen_kernels/heuristics/unified_attention.py").read_text()
    shown = README.split("```python\ndef nvidia_TILE_SIZE(")[1].split("```")[0].split(":\n", 1)[1]
    assert shown.strip() in module
