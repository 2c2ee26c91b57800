"""Versions that shipped heuristics were measured with, beside those that are installed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from heurgen.logs.card import read_tools
from heurgen.machine import nvidia_driver

if TYPE_CHECKING:
    from heurgen.ship.project_file import Heuristic

# What a kernel's times depend on. The card's torch may name its build: 2.11.0+cu130.
_PACKAGES = ("triton", "torch")


def installed() -> dict[str, str]:
    """Tool -> its version here; without those that are not here."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if driver := nvidia_driver():
        found["driver"] = driver
    return found


def stale(heuristics: Sequence[Heuristic], here: Mapping[str, str] | None = None) -> list[str]:
    """A warning for each heuristic whose logs were measured with other versions, or that nobody can tell.

    Raises:
        SpecError: a card cannot be read.
    """
    here = installed() if here is None else here
    warnings = []
    for heuristic in heuristics:
        tools = read_tools(heuristic.cards)
        others = [
            f"{tool} {' and '.join(tools[tool])}, here is {have}"
            for tool, have in here.items()
            if tool in tools and not any(_same(have, said) for said in tools[tool])
        ]
        if others:
            warnings.append(
                f"{heuristic.model.name} was measured with {'; '.join(others)}: "
                "heurgen tune --verify says what that costs"
            )
        elif not tools:
            warnings.append(f"{heuristic.model.name}: no card says what its logs were measured with")
    return warnings


def _same(have: str, said: str) -> bool:
    """Whether a version is the one that a card names, as far as both go: 3.6 is any 3.6.x."""
    ours, theirs = (text.partition("+")[0].split(".") for text in (have, said))
    return all(a == b for a, b in zip(ours, theirs, strict=False))
