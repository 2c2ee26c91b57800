"""The documentation in a real browser, from its folder: silent, nothing loaded from elsewhere, and its search finds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.test_page import Opened
from tests.test_site import build_site

pytestmark = pytest.mark.browser


def test_the_search_works_without_a_network(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    one = Opened(chromium, build_site(tmp_path_factory) / "index.html", (1440, 900), "light", offline=True)
    page = one.page
    page.locator("input.md-search__input").fill("throughput")
    page.wait_for_selector(".md-search-result__item a", timeout=120_000)
    found = page.locator(".md-search-result__item a").evaluate_all("all => all.map(a => a.href)")
    assert any("importing.html" in address for address in found)
    assert one.problems == []
    assert [r for r in one.requests if not r.startswith(("file:", "data:", "blob:"))] == []
    one.context.close()
