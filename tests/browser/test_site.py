"""The documentation in a real browser, from its folder: silent, nothing loaded from elsewhere, and its search finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_page import Opened
from tests.test_site import build_site

pytestmark = pytest.mark.browser
FOUND = ".md-search-result__item a"


def said(stuck: Opened) -> str:
    """What the search says of itself; a page may be as stuck as its search, and `evaluate` would wait for ever."""
    from playwright.sync_api import TimeoutError as Unanswered

    try:
        return str(stuck.page.locator(".md-search-result__meta").inner_text(timeout=5_000))
    except Unanswered:
        return "no answer"


def search(browser: Any, index: Path, words: str) -> tuple[Opened, list[str]]:
    """The page and the addresses found. On CI's machine one page in thirty never answers: a reader loads it again."""
    from playwright.sync_api import TimeoutError as Unanswered

    stuck = []
    for _ in range(3):
        one = Opened(browser, index, (1440, 900), "light", offline=True)
        try:
            one.page.locator("input.md-search__input").fill(words)
            one.page.wait_for_selector(FOUND, timeout=40_000)
        except Unanswered:
            stuck.append((said(one), one.problems, one.requests))
            one.context.close()
        else:
            return one, one.page.locator(FOUND).evaluate_all("all => all.map(a => a.href)")
    pytest.fail(f"no search was answered: {stuck}")


def test_the_search_works_without_a_network(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    one, found = search(chromium, build_site(tmp_path_factory) / "index.html", "throughput")
    assert any("importing.html" in address for address in found)
    assert one.problems == []
    assert [r for r in one.requests if not r.startswith(("file:", "data:", "blob:"))] == []
    one.context.close()
