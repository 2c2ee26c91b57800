"""Cost tables that the tests of trees share."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.ir import Selector
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.trees import fit
from tests.trees.modelled import matmul
from tests.trees.synthetic import surface

DATA = Path(__file__).parent.parent.parent / "data"


@pytest.fixture(scope="session")
def h200() -> CostTable:
    spec = read_spec(DATA / "unified_attention.toml")
    return cost_tables(read_logs([DATA / "h200_unified_attention.csv"], spec), spec)[0]


@pytest.fixture(scope="session")
def mm() -> CostTable:
    return matmul(700)


@pytest.fixture(scope="session")
def small() -> CostTable:
    return surface(60, 8, 3, holes=0.2, categories=3)


@pytest.fixture(scope="session")
def small_fit(small: CostTable) -> Selector:
    """What a default fit makes of `small`."""
    return fit(small)
