"""The pictures of README and docs, made by one command: `make pictures`. `test_pictures.py` compares them.

Those of the report are a browser's, at fixed sizes and themes; `serving.png` is drawn from its measurements.
`docs/pictures.json` says what the reports' figures hold, since letters look otherwise on another machine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from heurgen.cli import main
from tests.audit.learner import LOG, ROOT, SPEC

MODEL = ROOT / "kernels" / "heurgen_kernels" / "heuristics" / "vllm_unified_attention.json"
DOCS = ROOT / "docs"
SERVING = ROOT / "benchmarks" / "h200"
# docs' pictures of what vLLM served, by device.
DRAWN_SERVING = {"h200": "serving.png", "h100": "serving_h100.png"}
# What a picture says, letter for letter: the sentence, its figures, the tree and the map's axes and marks.
SAID = """() => {
  const tree = document.querySelector('svg.tree').cloneNode(true);
  tree.querySelectorAll('[class]').forEach(e => e.classList.remove('on', 'path'));
  const text = s => [...document.querySelectorAll(s)].map(e => e.textContent);
  return { sentence: text('.lead'), figures: text('.kpis dd'), tree: tree.outerHTML,
           map: ['.axes', '.marks'].map(s => document.querySelector(s).innerHTML) };
}"""


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture of the report: viewport in pixels, and what is done before."""

    name: str
    size: tuple[int, int]
    theme: str
    prepare: Callable[[Any], None]


def top(page: Any) -> None:
    """Nothing to do: the top of the page."""


def tree(page: Any) -> None:
    page.evaluate("document.querySelector('svg.tree').scrollIntoView()")


def linked(page: Any) -> None:
    """A leaf in the middle of the tree, highlighted."""
    tree(page)
    leaves = page.locator(".wide svg.tree .leaf")
    leaves.nth(leaves.count() // 2).hover()


SHOTS = (
    Shot("report-light.png", (1440, 1000), "light", top),
    Shot("report-linked.png", (1440, 1000), "light", linked),
    Shot("report-dark.png", (1440, 1000), "dark", tree),
    Shot("report-phone.png", (390, 844), "light", top),
)


def shoot(browser: Any, folder: Path) -> str:
    """Makes the report and its pictures in a folder; returns what they say as JSON."""
    report = folder / "report.html"
    words = ["audit", str(MODEL), str(LOG), "--spec", str(SPEC), "--html", str(report)]
    assert CliRunner().invoke(main, words).exit_code == 0
    said: dict[str, Any] = {}
    for shot in SHOTS:
        width, height = shot.size
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=shot.theme)
        page.goto(report.as_uri())
        page.wait_for_selector(".settled")
        page.wait_for_function("document.fonts.status === 'loaded'")
        shot.prepare(page)
        page.screenshot(path=folder / shot.name, animations="disabled")
        said = page.evaluate(SAID)
        page.close()
    report.unlink()
    parts = {k: v if k in ("sentence", "figures") else _digest(v) for k, v in said.items()}
    return json.dumps(parts, indent=1, ensure_ascii=False) + "\n"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def draw_serving(device: str, path: Path) -> None:
    """serving.png from a device's serving.json."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from serving_results import plot

    plot(json.loads((SERVING.parent / device / "serving.json").read_text(encoding="utf-8"))["summary"], path)


def make() -> None:
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import FLAGS

    chromium = shutil.which("chromium")
    assert chromium, "Chromium is not installed: `make test-browser` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        (DOCS / "pictures.json").write_text(shoot(browser, DOCS), encoding="utf-8")
        browser.close()
    for device, name in DRAWN_SERVING.items():
        draw_serving(device, DOCS / name)
        shutil.copyfile(DOCS / name, SERVING.parent / device / "serving.png")


if __name__ == "__main__":
    make()
