"""What a package index shows: no picture and no link that leads nowhere, with an address and without one."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGET = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_with_an_address_every_target_is_absolute(hook: ModuleType) -> None:
    files = "https://code.example/heurgen/blob/main"
    shown = hook.description(README, files)
    targets = TARGET.findall(shown)
    assert len(targets) == len(TARGET.findall(README))
    assert all(t.startswith("https://") for t in targets)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", shown)
    assert pictures
    for picture in pictures:
        path = picture.removeprefix(f"{files}/").removesuffix("?raw=true")
        assert (ROOT / path).is_file(), picture


def test_without_an_address_nothing_leads_nowhere(hook: ModuleType) -> None:
    shown = hook.description(README, "")
    assert [t for t in TARGET.findall(shown) if not t.startswith("https://")] == []
    assert "![" not in shown
    assert "are in the source distribution" in shown
    assert len(shown) > len(README) * 0.85


@pytest.mark.parametrize(
    ("text", "with_address", "without"),
    [
        ("![a](b.png)\n", "![a](https://x/b.png?raw=true)\n", ""),
        ("[a](b.md#c)", "[a](https://x/b.md#c)", "a"),
        ("[`a[0]`](b.md)", "[`a[0]`](https://x/b.md)", "`a[0]`"),
        ("[a](https://y) [b](#c)", "[a](https://y) [b](#c)", "[a](https://y) [b](#c)"),
    ],
)
def test_links_and_pictures(hook: ModuleType, text: str, with_address: str, without: str) -> None:
    assert hook.description(text, "https://x") == with_address
    assert hook.description(text, "").startswith(without)


def test_the_addresses(hook: ModuleType) -> None:
    assert hook.addresses({"address": "", "files": ""}) == {}
    made = hook.addresses({"address": "https://x", "files": "https://x/blob/main"})
    assert made["Repository"] == "https://x"
    assert all(a.startswith("https://x") for a in made.values())
    for name in ("Documentation", "Troubleshooting", "Changelog"):
        assert (ROOT / made[name].removeprefix("https://x/blob/main/")).is_file()


def test_both_are_filled_in_or_neither() -> None:
    index = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["heurgen"]["index"]
    assert bool(index["address"]) == bool(index["files"])
