from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from heurgen.cli import main
from heurgen.ship import stale as module
from heurgen.ship.project import read_project
from heurgen.ship.stale import installed, stale

ROOT = Path(__file__).parents[2]


def test_versions_of_the_cards_are_compared() -> None:
    heuristics = read_project(ROOT / "heurgen.toml")
    own = [h for h in heuristics if h.model.name == "paged_attention.json"]
    here = {"triton": "3.6.0", "torch": "2.11.0", "driver": "580.159.04"}
    assert stale(own, here) == []  # the card's torch names its build
    assert stale(own, {**here, "triton": "3.7.0", "driver": "590.1"}) == [
        "paged_attention.json was measured with triton 3.6.0, here is 3.7.0; driver 580.159.04, here is 590.1: "
        "heurgen tune --verify says what that costs"
    ]
    assert stale(own, {}) == []  # nothing is installed to launch with


def test_what_is_here() -> None:
    found = installed()
    assert set(found) <= {"triton", "torch", "driver"}


def test_the_command_warns_and_passes() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda: {"triton": "99.0"})
        patch.setattr("heurgen.ship.project.check", lambda *_: ([], []))
        result = CliRunner().invoke(main, ["check", str(ROOT / "heurgen.toml"), "--stale"])
    assert result.exit_code == 0, result.output
    assert "paged_attention.json was measured with triton 3.6.0, here is 99.0" in result.stderr
