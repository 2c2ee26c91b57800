"""Trees as plain text and as JSON; a drawing on a terminal, plain text off it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from heurgen.audit.draw import draw
from heurgen.audit.show import config_text, selector_title, show, show_data
from heurgen.base.errors import UsageError
from heurgen.ir.schema import to_json
from tests.support.modules import two_vendors

AMD = """\
amd (AMD Instinct MI300X): 4 scenarios, depth 1, 2 leaves, 2 configs; winners only, slowdown unknown
  if num_seqs <= 8:
    variant='2d' BLOCK_M=16  # 2 scenarios
  else:
    variant='2d' BLOCK_M=64 waves_per_eu=2  # 2 scenarios"""
BLOCK_M = """\
nvidia (NVIDIA H200): 36 scenarios, depth 3, 5 leaves, 3 configs; held out 1.050x (in the leaves: training)
  if kv_tokens <= 4096:
    BLOCK_M = 16  # 13 scenarios, 1.044x
  else:
    if num_seqs <= 64:
      BLOCK_M = 16  # 20 scenarios, 1.250x
    else:
      if causal is false:
        BLOCK_M = 16  # 1 scenario, 1.000x
      else:
        BLOCK_M = 64  # 2 scenarios, 1.500x"""


def test_held_out_figures_stand_over_the_training_ones_of_the_leaves() -> None:
    module = two_vendors()
    held = {"held_out": {"geomean_slowdown": 1.3, "max_slowdown": 2.5}}
    module = replace(module, selectors=tuple(replace(s, choice=held) for s in module.selectors))
    told = "3 configs; held out 1.300x, worst 2.50x (in the leaves: training)"
    assert show(module, "nvidia").splitlines()[0].endswith(told)
    (drawn,) = draw(module, "nvidia")
    assert str(drawn.label).endswith(told)
    assert show(module, "amd") == AMD  # winners only: no slowdown is known


def test_trees_as_indented_text() -> None:
    module = two_vendors()
    assert show(module, "amd") == AMD
    assert show(module, "nvidia", "BLOCK_M") == BLOCK_M
    assert [part.splitlines()[0][:6] for part in show(module).split("\n\n")] == ["amd (A", "nvidia"]
    assert show(module, parameter="waves_per_eu").count("scenarios, depth") == 1  # nvidia does not set it
    with pytest.raises(UsageError, match="'waves_per_eu' is no parameter"):
        show(module, "nvidia", "waves_per_eu")


def test_a_selector_is_titled_by_its_device_else_by_those_it_was_trained_on() -> None:
    amd, nvidia = two_vendors().selectors
    assert selector_title(replace(nvidia, device="NVIDIA H100")).startswith("nvidia (NVIDIA H100): ")
    assert selector_title(replace(nvidia, devices=("A", "B"))).startswith("nvidia (A, B): ")
    assert selector_title(replace(nvidia, devices=())).startswith("nvidia: 36 scenarios")
    agreed = selector_title(replace(amd, choice={"held_out": {"agreement": 0.75}}))
    assert agreed.endswith("slowdown unknown, the winner on 75.0 % of held-out scenarios")
    edited = replace(two_vendors().selectors[0], costs_known=False, choice={"held_out": 1.2})
    assert selector_title(edited).endswith("slowdown unknown")


def test_values_are_bare_where_they_are_plain_words() -> None:
    values = (None, 16, True, "split_kv", "2d", "a b", "né \u202e")
    assert config_text(tuple("abcdefg"), values) == r"b=16 c=True d=split_kv e='2d' f='a b' g='né \u202e'"


def test_data_of_all_trees_and_of_one_parameter() -> None:
    whole = show_data(two_vendors(), "amd")
    assert [s["vendor"] for s in whole["selectors"]] == ["amd"]
    assert whole["selectors"][0]["tree"]["threshold"] == 8
    one = show_data(two_vendors(), parameter="BLOCK_M")
    assert (one["kernel"], one["parameter"]) == ("unified_attention", "BLOCK_M")
    assert [(s["vendor"], s["device"], s["values"]) for s in one["selectors"]] == [
        ("amd", None, [16, 64]), ("nvidia", None, [16, 64]),
    ]  # fmt: skip
    assert one["selectors"][1]["tree"]["left"]["slowdown"] == pytest.approx(
        1.02 ** (9 / 13) * 1.1 ** (4 / 13)
    )


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


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a Unix thing")
def test_a_terminal_of_ascii_gets_escapes(tmp_path: Path) -> None:
    """It was a traceback: Python encodes what rich draws."""
    path = tmp_path / "model.json"
    data = json.loads(to_json(two_vendors()).replace('"2d"', '"caf\\u00e9"'))
    del data["checksum"]
    path.write_text(json.dumps(data))
    drawn = on_terminal(["show", str(path)], PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert rb"caf\xe9" in drawn
