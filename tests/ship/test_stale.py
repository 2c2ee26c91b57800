"""Versions that shipped heuristics were measured with, beside those that are here."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from heurgen.cli import main
from heurgen.ship import stale as module
from heurgen.ship.project_file import read_project
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


def test_a_card_that_names_no_patch_release_is_of_any() -> None:
    heuristics = read_project(ROOT / "heurgen.toml")
    other = [h for h in heuristics if h.model.name == "vllm_unified_attention.json"]  # triton 3.6, torch 2.11
    assert stale(other, {"triton": "3.6.1", "torch": "2.11.0+cu130"}) == []
    assert stale(other, {"triton": "3.60.1"}) == [
        "vllm_unified_attention.json was measured with triton 3.6, here is 3.60.1: "
        "heurgen tune --verify says what that costs"
    ]


@pytest.mark.parametrize(
    ("answer", "driver"),
    [("580.1\n580.1\n", "580.1"), ("\n", None), (FileNotFoundError("nvidia-smi"), None),
     (subprocess.CalledProcessError(9, "nvidia-smi"), None)],
)  # fmt: skip
def test_the_driver_is_the_first_gpus(
    monkeypatch: pytest.MonkeyPatch, answer: str | Exception, driver: str | None
) -> None:
    def instead(query: list[str], **_: object) -> SimpleNamespace:
        assert query[0] == "nvidia-smi"
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(stdout=answer)

    monkeypatch.setattr(subprocess, "run", instead)
    found = installed()
    assert found.get("driver") == driver
    assert set(found) <= {"triton", "torch", "driver"}


def test_a_tool_that_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "torch":
            raise PackageNotFoundError
        return "3.6.0"

    monkeypatch.setattr(module, "version", version)
    monkeypatch.setattr(module, "nvidia_driver", lambda: "")
    assert installed() == {"triton": "3.6.0"}


def test_without_a_card_nobody_can_tell() -> None:
    heuristic = replace(read_project(ROOT / "heurgen.toml")[0], cards=())
    told = "vllm_unified_attention.json: no card says what its logs were measured with"
    assert stale([heuristic], {"triton": "3.6.0"}) == [told]


def test_the_command_warns_and_passes() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "installed", lambda: {"triton": "99.0"})
        patch.setattr("heurgen.ship.project.check", lambda *_: ([], []))
        result = CliRunner().invoke(main, ["check", str(ROOT / "heurgen.toml"), "--stale"])
    assert result.exit_code == 0, result.output
    assert "paged_attention.json was measured with triton 3.6.0, here is 99.0" in result.stderr
