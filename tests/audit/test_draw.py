"""Trees drawn for a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from heurgen import ir
from heurgen.audit.draw import draw
from heurgen.base.errors import ModelError
from heurgen.ir.schema import to_json
from tests.support.commands import run
from tests.support.modules import two_vendors


def drawn(module: ir.HeuristicModule, **more: str) -> str:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=100, color_system=None)
    for tree in draw(module, **more):
        console.print(tree)
    return out.getvalue()


def test_trees_are_drawn_with_conditions_configs_and_evidence() -> None:
    text = drawn(two_vendors(), vendor="nvidia")
    assert "├── kv_tokens <= 4096\n" in text
    assert "└── causal is true\n" in text
    assert "variant='2d' BLOCK_M=64  2 scenarios, 1.500x" in text
    assert "BLOCK_M = 64" in drawn(two_vendors(), parameter="BLOCK_M")
    with pytest.raises(ModelError):
        draw(two_vendors(), vendor="intel")


def test_no_part_of_a_deep_tree_is_missing_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, model = two_vendors(), tmp_path / "model.json"
    tree: ir.Node = ir.Leaf(0, 1)
    for n in range(100, 120):
        tree = ir.Split("num_seqs", n, tree, ir.Leaf(1, n))
    model.write_text(to_json(replace(module, selectors=(replace(module.selectors[0], tree=tree),))))
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    for name, value in {"COLUMNS": "40", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    text = " ".join(run("show", model).stdout.replace("│", " ").split())
    assert "└── num_seqs > 119 " in text
    assert all(f"num_seqs <= {n} " in text and f" {n} scenarios" in text for n in range(100, 120))


def test_hostile_categories_are_drawn_as_text() -> None:
    module = two_vendors()
    split = ir.Membership("dtype", ("[bold red]x[/]\x1b[31m",), ("fp8",), False, ir.Leaf(0, 1), ir.Leaf(1, 1))
    amd = replace(module.selectors[0], tree=split)
    text = drawn(replace(module, selectors=(amd, module.selectors[1])))
    assert "[bold red]x[/]" in text
    assert "\x1b" not in text
