"""`make docs`: the site builds without a warning, loads nothing from elsewhere, and shows every public name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import heurgen
from tests.support.once import once

ROOT = Path(__file__).parent.parent
# Attributes that a browser follows by itself. A link (<a href>) waits for its reader.
LOADED = {"src", "srcset", "data", "poster"}
# Material says at every build that a successor exists; that is no warning about these pages.
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory)


def build_site(factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed (make docs)")
    return once(factory, "site", build)


def build(folder: Path) -> None:
    """As `make docs` does. Not with --quiet: then MkDocs does not count warnings, and strict stops at none."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=QUIET, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


class Loads(HTMLParser):
    """What a page loads when it is opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [v or "" for k, v in attrs if k in LOADED or (k == "href" and tag == "link")]


def remote(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    loads = Loads(text).found if file.suffix == ".html" else []
    loads += re.findall(r"""(?:url\(|@import )\s*['"]?([^'")\s]+)""", text) if file.suffix != ".js" else []
    return [f"{file.name}: {load}" for load in loads if REMOTE.match(load)]


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    files = [f for f in site.rglob("*") if f.suffix in (".html", ".css")]
    assert len([f for f in files if f.suffix == ".html"]) >= 20
    assert [load for file in files for load in remote(file)] == []
    # Material's own scripts name a CDN for diagrams and polyfills that these pages do not have.
    known = {"https://unpkg.com/mermaid@11/dist/mermaid.min.js", "https://unpkg.com/resize-observer-polyfill"}
    named = {
        address
        for file in site.rglob("*.js")
        for address in re.findall(r"https?://(?:unpkg|cdn|fonts|[a-z.]*jsdelivr)[^\"'`\s]+", file.read_text())
    }
    assert named <= known
    assert not [f for f in files if 'class="mermaid"' in f.read_text(encoding="utf-8")]


def test_a_remote_load_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="https://a.example/">read</a><script src="https://b.example/x.js"></script>'
        '<link rel="stylesheet" href="//c.example/x.css"><style>@import "https://d.example/y.css";</style>'
        '<img src="near.png"><p style="background: url(https://e.example/z.png)">'
    )
    assert [load[-7:] for load in remote(page)] == ["le/x.js", "e/x.css", "e/y.css", "e/z.png"]


@pytest.mark.slow
def test_the_search_index_lies_in_the_site(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = {")
    assert "heurgen help missing-column" in index
    page = (site / "index.html").read_text(encoding="utf-8")
    assert '<script src="assets/iframe-worker.js"></script>' in page
    assert (site / "assets" / "iframe-worker.js").is_file()


@pytest.mark.slow
def test_the_api_page_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    missing = [n for n in heurgen.__all__ if n != "__version__" and f'id="heurgen.{n}"' not in page]
    assert not missing


@pytest.mark.slow
def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    assert "mkdocs build\n" in (ROOT / "Makefile").read_text()
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed (make docs)")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    settings = (ROOT / "mkdocs.yml").read_text().split("  - mkdocstrings:")[0] + "validation:\n"
    settings += "  links: { not_found: warn, anchors: warn }\n"
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "docs" / "index.md").write_text("[nowhere](spec.md#no-such-anchor)\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, env=QUIET, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no-such-anchor" in done.stderr
