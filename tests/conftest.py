"""Options and settings that every test shares."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The same examples in every run, however slow the machine.
settings.register_profile("heurgen", derandomize=True, deadline=None)
settings.load_profile("heurgen")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden again instead of comparing with it"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
