"""The table of targets."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from heurgen.base.errors import UsageError
from heurgen.render.registry import _OPTIONS, TARGETS, emit
from heurgen.render.target import Request
from tests.render.examples import listing2


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_has_a_module_with_emit_and_takes_options_that_exist(name: str) -> None:
    assert callable(import_module(f"heurgen.render.{TARGETS[name].home}").emit)
    assert TARGETS[name].name == name
    assert TARGETS[name].takes <= set(_OPTIONS)


def test_an_unknown_target_is_answered_with_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        emit(listing2(), "fortran", Request())
    assert str(caught.value) == f"unknown target 'fortran' (known targets: {', '.join(TARGETS)})"


@pytest.mark.parametrize(
    ("target", "option", "request_"),
    [
        ("python", "--vendor", {"vendor": "nvidia"}),
        ("triton", "--at", {"at": ({"E": "8"},)}),
        ("cpp", "--parameter", {"parameters": ("BLOCK_M",)}),
        ("vllm-moe", "--approximate", {"approximate": True}),
    ],
)
def test_an_option_that_means_nothing_to_a_target_is_refused(
    target: str, option: str, request_: dict[str, Any]
) -> None:
    with pytest.raises(UsageError) as caught:
        emit(listing2(), target, Request(**request_))
    users = [t.name for t in TARGETS.values() if next(iter(request_)) in t.takes]
    assert str(caught.value) == f"--target {target} takes no {option} ({option} goes with {', '.join(users)})"


def test_python_renders_through_the_table() -> None:
    assert "def select(" in emit(listing2(), "python", Request()).files[""]
