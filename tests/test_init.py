"""The public names: typed for a checker, imported when first used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import heurgen

SOURCE = Path(heurgen.__file__).read_text(encoding="utf-8")
TYPED = {
    alias.asname
    for node in ast.walk(ast.parse(SOURCE))
    if isinstance(node, ast.ImportFrom) and str(node.module).startswith("heurgen.")
    for alias in node.names
}


def test_every_name_is_typed_and_documented() -> None:
    assert set(dir(heurgen)) == TYPED
    for name in dir(heurgen):
        value = getattr(heurgen, name)
        assert name in ("__version__", "Node") or value.__doc__, f"{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'heurgen' has no attribute 'nothing'"):
        heurgen.nothing  # noqa: B018


def test_no_public_name_is_a_module() -> None:
    """A submodule of the same name would take its place as soon as anything imports it."""
    modules = {path.stem for path in Path(heurgen.__file__).parent.glob("*")}
    assert not modules & set(dir(heurgen))
