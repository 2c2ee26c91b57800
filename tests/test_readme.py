"""The README: what it shows exists. Its commands and snippets are run by test_docs.py."""

from __future__ import annotations

import re

from heurgen.logs.importers.registry import BY_KIND
from tests.support.documents import ROOT, steps

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [step.text for step in steps(README) if not step.python]
PYTHON = [step.text for step in steps(README) if step.python]


def test_the_readme_has_commands() -> None:
    assert len(COMMANDS) >= 10
    assert len(PYTHON) >= 1


def test_it_stays_short() -> None:
    assert README.count("\n") < 200


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in COMMANDS:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_function_shown_is_the_one_that_ships() -> None:
    module = (ROOT / "kernels/heurgen_kernels/heuristics/vllm_unified_attention.py").read_text()
    shown = README.split("```python\ndef nvidia_TILE_SIZE(")[1].split("```")[0].split(":\n", 1)[1]
    assert shown.strip() in module


def test_as_many_tools_are_read_as_it_says() -> None:
    """Beside triton-dejavu. `triton-printed` is another file of Triton's, `vllm-helion` of vLLM's."""
    words = {14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen"}
    tools = [kind for kind in BY_KIND if not any(kind.startswith(f"{other}-") for other in BY_KIND)]
    assert f"Logs of {words[len(tools) - 1]} more tools are read" in README
