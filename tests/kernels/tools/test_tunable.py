"""The tunables that are bundled: what they bring along is whole."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from heurgen_kernels.tools.static_tunable import StaticGrid
from heurgen_kernels.tools.tunable import Tunable

from heurgen.tune.workloads import make_scenarios


@pytest.mark.parametrize("tunable", [Tunable(), StaticGrid()], ids=lambda t: t.name)
def test_its_own_workload_gives_every_feature(tunable: Tunable) -> None:
    scenarios = make_scenarios(tunable.workload, tunable.features)
    assert len(scenarios) >= 50
    assert all(set(tunable.features) <= set(s.features) for s in scenarios)
