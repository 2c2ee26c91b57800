"""Options and settings that every test shares."""

from __future__ import annotations

import re

import pytest
from hypothesis import settings

# The same examples in every run, however slow the machine.
settings.register_profile("heurgen", derandomize=True, deadline=None)
settings.load_profile("heurgen")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden again instead of comparing with it"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The two workers of `make test` must collect the same names: a gzip header holds the time of day."""
    timed = [item.nodeid for item in items if re.search(r"\\x1f\\x8b\\x08\\x00(?!(\\x00){4})", item.nodeid)]
    if timed:
        raise pytest.UsageError(f"the time of day in a test's name (give ids, or mtime=0): {timed[0]}")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
