"""explain and show: the numbers behind each step, the drawing on a terminal, plain text off it."""

from __future__ import annotations

import io
import math
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen import ir
from heurgen.audit.draw import draw
from heurgen.audit.explain import explain, value_text
from heurgen.base.errors import ModelError
from heurgen.ir.schema import to_json
from tests.support.modules import two_vendors

ROW = {"num_seqs": 80, "avg_seqlen_k": 100.0, "dtype": "fp8", "causal": True}


def test_every_step_says_how_many_training_scenarios_went_where() -> None:
    found = explain(two_vendors(), "nvidia", ROW)
    counts = [(s.held, s.yes.n_scenarios, s.no.n_scenarios) for s in found.steps]
    assert counts == [(False, 13, 23), (False, 20, 3), (False, 1, 2)]
    assert [(s.yes.n_leaves, s.no.n_leaves) for s in found.steps] == [(2, 3), (1, 2), (1, 1)]
    step = found.to_dict()["path"][1]
    assert step["yes"] == {"n_scenarios": 20, "expected_slowdown": 1.25, "n_leaves": 1}
    assert found.to_text() == (
        "kv_tokens <= 4096: no, it is 8000\n"
        "    in training: 23 scenarios, 1.258x went this way; 13 scenarios, 1.044x the other\n"
        "num_seqs <= 64: no, it is 80\n"
        "    in training: 3 scenarios, 1.310x went this way; 20 scenarios, 1.250x the other\n"
        "causal <= 0: no, it is True\n"
        "    in training: 2 scenarios, 1.500x went this way; 1 scenario, 1.000x the other\n"
        "\nconfig\n  variant = '2d'\n  BLOCK_M = 64\n"
        "\nevidence: 2 of 36 training scenarios, expected slowdown 1.500x"
    )


def test_winners_only_steps_have_counts_without_slowdowns() -> None:
    text = explain(two_vendors(), "amd", ROW).to_text()
    assert "in training: 2 scenarios went this way; 2 scenarios the other" in text
    assert "evidence: 2 of 4 training scenarios, expected slowdown unknown" in text


@pytest.mark.parametrize(
    ("value", "limits", "text"),
    [
        (2857.5714285714284, (2600.0,), "2857.57"),
        (0.0028930476448784017, (0.00286,), "0.00289305"),
        (8.0, (7.999999999999999,), "8"),
        (7.9999999, (7.99999999,), "7.9999999"),  # 8 would have gone the other way
        (0.30000000000000004, (0.3,), "0.30000000000000004"),
        (2765.250001, (1.0, 2765.25), "2765.250001"),  # 2765.25 would have been within
        (math.nan, (1.0,), "nan"),
        (math.inf, (), "inf"),
        (123456789, (1.0,), "123456789"),
        (True, (0,), "True"),
        ("fp8", (), "'fp8'"),
    ],
)
def test_a_value_is_rounded_where_it_stays_on_its_side(
    value: Any, limits: tuple[float, ...], text: str
) -> None:
    assert value_text(value, limits) == text


def test_what_lies_outside_training_is_rounded_and_json_keeps_every_digit() -> None:
    found = explain(two_vendors(), "nvidia", {**ROW, "num_seqs": 129, "avg_seqlen_k": 100000 / 3})
    assert found.to_text().splitlines()[-3:] == [
        "outside training: num_seqs = 129, seen 1 to 128",
        "outside training: avg_seqlen_k = 33333.3, seen 16 to 8192",
        "outside training: kv_tokens = 4300000, seen 16 to 1048576",
    ]
    told = [(o["feature"], o["value"], o["seen"]) for o in found.to_dict()["outside_training"]]
    assert told[1] == ("avg_seqlen_k", 33333.333333333336, [16.0, 8192.0])


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


def test_hostile_categories_are_drawn_as_text() -> None:
    module = two_vendors()
    split = ir.Membership("dtype", ("[bold red]x[/]\x1b[31m",), ("fp8",), False, ir.Leaf(0, 1), ir.Leaf(1, 1))
    amd = replace(module.selectors[0], tree=split)
    text = drawn(replace(module, selectors=(amd, module.selectors[1])))
    assert "[bold red]x[/]" in text
    assert "\x1b" not in text


def on_terminal(words: list[str], **environment: str) -> bytes:
    """The output of a command whose stdout is a terminal."""
    main, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment}
    process = subprocess.Popen([sys.executable, "-m", "heurgen", *words], stdout=follower, env=environment)
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # Linux: the other side is closed
            break
        if not part:
            break
        parts.append(part)
    assert process.wait() == 0
    os.close(main)
    return b"".join(parts)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a Unix thing")
def test_show_draws_on_a_terminal_and_respects_no_color(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(to_json(two_vendors()))
    words = ["show", str(path)]
    coloured = on_terminal(words)
    assert b"\x1b[" in coloured
    assert "├──".encode() in coloured
    plain = on_terminal(words, NO_COLOR="1")
    assert b"\x1b" not in plain
    assert "├──".encode() in plain
    piped = subprocess.run([sys.executable, "-m", "heurgen", *words], capture_output=True, check=True).stdout
    assert piped.isascii()
    assert b"if num_seqs <= 8:" in piped
