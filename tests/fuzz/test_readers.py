"""Damaged files of every kind, for a second or two each: a reader gives a result or the project's own error."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError
from tests.fuzz.targets import TARGETS, damaged


def attempt(name: str, data: bytes, folder: Path) -> str:
    """Read damaged data; "read" or "refused". Whatever else is raised, or an error without a word, is a finding."""
    target = TARGETS[name]
    path = folder / f"fuzzed{target.suffix}"
    path.write_bytes(data)
    refusal = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # ast.parse on `1 is 2`
            target.read(path)
    except HeurgenError as error:
        refusal = str(error)
    assert refusal != ""
    return "read" if refusal is None else "refused"


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.startswith("import")])
def test_sound_files_are_read(name: str, tmp_path: Path) -> None:
    assert {attempt(name, seed.encode(), tmp_path) for seed in TARGETS[name].seeds} == {"read"}


@pytest.mark.parametrize("name", TARGETS)
def test_only_the_projects_own_error_escapes(name: str, tmp_path: Path) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        attempt(name, data.draw(damaged(TARGETS[name].seeds)), tmp_path)

    run()
