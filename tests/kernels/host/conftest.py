"""What tests of the copy of fp8 pages and of batches that are taken apart share."""

from __future__ import annotations

import pytest
from heurgen_kernels.caches import forget
from heurgen_kernels.host import widen as widening


@pytest.fixture
def small_copies(monkeypatch):
    """What is remembered of batches follows from limits that tests change."""
    monkeypatch.setattr(widening, "STEP", 1)
    forget()
    yield
    forget()
