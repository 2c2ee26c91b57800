"""The pictures in docs/: `python -m tests.browser.screenshots`, after `make test-browser` has installed Chromium."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import Page, sync_playwright

from heurgen.cli import main
from tests.audit.learner import LOG, ROOT, SPEC
from tests.browser.conftest import FLAGS

MODEL = ROOT / "kernels" / "heurgen_kernels" / "heuristics" / "unified_attention.json"
DOCS = ROOT / "docs"


def top(page: Page) -> None:
    """Nothing to do: the top of the page."""


def linked(page: Page) -> None:
    """A leaf in the middle of the tree, highlighted, with its scenarios in both maps."""
    page.evaluate("document.querySelector('.linked').scrollIntoView()")
    leaves = page.locator(".linked svg.tree .leaf")
    leaves.nth(leaves.count() // 2).hover()
    page.wait_for_timeout(300)


def tree(page: Page) -> None:
    page.evaluate("document.querySelector('.linked').scrollIntoView()")


SHOTS = (
    ("report-light.png", (1440, 1000), "light", top),
    ("report-linked.png", (1440, 1000), "light", linked),
    ("report-dark.png", (1440, 1000), "dark", tree),
    ("report-phone.png", (360, 740), "light", top),
)


def shoot() -> None:
    chromium = shutil.which("chromium")
    assert chromium, "Chromium is not installed"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder) / "report.html"
        words = ["audit", str(MODEL), str(LOG), "--spec", str(SPEC), "--html", str(report)]
        assert CliRunner().invoke(main, words).exit_code == 0
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for name, (width, height), theme, prepare in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
            page.goto(report.as_uri())
            prepare(page)
            page.screenshot(path=DOCS / name)
        browser.close()


if __name__ == "__main__":
    shoot()
