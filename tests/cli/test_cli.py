"""The commands: what they print, where, and their exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from heurgen.cli import main
from tests.support.commands import run


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
