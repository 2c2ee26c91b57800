"""A headless Chromium, or a skip with its reason; a failure where HEURGEN_REQUIRE_BROWSER is set."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heurgen.audit.defaults import read_defaults
from heurgen.audit.diff import diff
from heurgen.audit.report import render_html
from heurgen.audit.report.data import Given
from heurgen.audit.score import score
from heurgen.logs.cells import read_cells
from tests.audit.learner import LOG, load, module_of

REQUIRED = bool(os.environ.get("HEURGEN_REQUIRE_BROWSER"))
# Without the background flags Chromium looks for Google's hosts at every start.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def missing(what: str) -> None:
    if REQUIRED:
        pytest.fail(f"{what}; HEURGEN_REQUIRE_BROWSER is set", pytrace=False)
    pytest.skip(f"{what}: `make test-browser` installs it")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the Python package playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, an accessibility checker."""
    folder = Path(
        os.environ.get("HEURGEN_AXE", Path(__file__).parents[2] / ".stamps" / "node_modules" / "axe-core")
    )
    source = folder / "axe.min.js"
    if not source.is_file():
        missing("axe-core is not installed")
    return source.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def report_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The H200 report with a baseline and defaults, on disk: the page is opened as a reader opens it."""
    spec, log, tables = load()
    new, old = module_of(spec, log, tables, 5), module_of(spec, log, tables, 2)
    default = "variant=2d,BLOCK_M=16,TILE_SIZE=32,num_warps=4,num_stages=3,segments=0"
    given = Given(
        new,
        tables,
        score(new, tables),
        log,
        (),
        read_defaults(default, read_cells([LOG]), log, spec, tables),
        score(old, tables),
        diff(old, new, tables),
    )
    path = tmp_path_factory.mktemp("browser") / "report with spaces & <signs>.html"
    path.write_text(render_html(given), encoding="utf-8")
    return path
