"""Figures of the documentation that are quick to measure are measured again; the others agree wherever they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import kernel_figures, serving_results
from benchmarks.choices import COMPARISON, LEARNING, h200, line
from benchmarks.pictures import pictures
from heurgen.ir.schema import read_model
from heurgen.logs.costs import CostTable

ROOT = Path(__file__).parent.parent
AGAIN = "python -m benchmarks.choices --write"


@pytest.fixture(scope="module")
def table() -> CostTable:
    return h200()


def marked(page: str, mark: str) -> str:
    return between(ROOT / "docs" / f"{page}.md", mark)


def between(page: Path, mark: str) -> str:
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("page", "mark", "rows"), [("learning", "choices", LEARNING), ("comparison", "tables", COMPARISON)]
)
def test_every_row_stands_in_the_page(page: str, mark: str, rows: dict[str, object]) -> None:
    shown = re.findall(r"^\| (.+?) \| [0-9-]", marked(page, mark), re.MULTILINE)
    assert shown == list(rows), AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in COMPARISON if "joint" not in n])
def test_quick_rows_are_what_the_code_gives(name: str, table: CostTable) -> None:
    assert line(name, COMPARISON[name], table) in marked("comparison", "tables"), AGAIN


@pytest.mark.parametrize("name", kernel_figures.TABLES)
def test_a_table_of_the_kernels_is_what_was_measured_and_what_ships(name: str) -> None:
    page = kernel_figures.ELSEWHERE.get(name, kernel_figures.PAGE)
    assert between(page, name).strip() == kernel_figures.TABLES[name]().strip(), (
        "python -m benchmarks.kernel_figures --write"
    )


@pytest.mark.parametrize("device", kernel_figures.DEVICES)
def test_the_table_of_servers_is_what_was_measured(device: str) -> None:
    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    made = serving_results.shown(kernel_figures.read(device, "serving")["summary"])
    assert serving_results.place(page, device, made) == page, "python benchmarks/serving_results.py --again"


def test_the_pictures_are_of_today() -> None:
    for path, drawn in pictures().items():
        assert path.read_text(encoding="utf-8") == drawn, "python -m benchmarks.pictures"


def figures(text: str, name: str) -> list[str]:
    row = next(row for row in text.splitlines() if row.startswith((f"| {name}", f"| **{name}")))
    return re.findall(r"[0-9]+\.[0-9]{4}", row)[:3]


def test_the_same_strategy_has_the_same_figures_everywhere() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    learning = (ROOT / "docs/learning.md").read_text(encoding="utf-8")
    strategies = learning.split("## Strategies")[1]
    for name in (
        "best single config",
        "winner-label tree",
        "the same",
        "`--strategy joint`",
        "`--strategy auto`",
    ):
        assert figures(readme, name) == figures(strategies, name), name
    joint = figures(readme, "`--strategy joint`")
    assert figures(marked("learning", "choices"), "`joint`") == joint, AGAIN
    assert figures(marked("comparison", "tables"), "`heurgen train --strategy joint`") == joint, AGAIN


def test_the_readme_says_how_fast_attention_is() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for device in ("h200", "h100"):
        drawn = kernel_figures.mean(
            row[kernel_figures.FLASH] for row in kernel_figures.read(device, "layouts")["points"]
        )
        for mean in (kernel_figures.average(device, kernel_figures.FLASH), drawn):
            assert f"{mean:.3f}" in readme, f"FlashAttention-3's time / ours on the {device} is {mean:.3f}"


@pytest.mark.parametrize(
    ("said", "model"),
    [
        (
            r"\*\*16-bit attention\*\* is learnt from ([\d,]+) scenarios of H100s and ([\d,]+) of H200s",
            "paged_attention",
        ),
        (
            r"\*\*fp8 attention\*\* is learnt from ([\d,]+) scenarios of H100s and ([\d,]+) of H200s",
            "paged_attention_fp8",
        ),
        (r"\*\*Linear layers\*\* are learnt from ([\d,]+) scenarios", "matmul"),
        (r"\*\*fp8 weights\*\* have a selector of their own, learnt from ([\d,]+) scenarios", "matmul_fp8"),
    ],
)
def test_notes_say_how_many_scenarios_a_selector_was_learnt_from(said: str, model: str) -> None:
    found = re.search(said, (ROOT / "docs/kernel_notes.md").read_text(encoding="utf-8"))
    assert found is not None
    learnt = read_model(ROOT / f"kernels/heurgen_kernels/heuristics/{model}.json")
    assert sum(int(n.replace(",", "")) for n in found.groups()) == learnt.provenance["n_scenarios"]
