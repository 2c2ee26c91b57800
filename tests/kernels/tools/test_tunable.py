"""The tunables that are bundled: what they bring along is whole."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from heurgen_kernels.tools.static_tunable import StaticGrid, tunable
from heurgen_kernels.tools.tunable import Tunable

from heurgen.tune.launches import launches_of
from heurgen.tune.protocol import DeviceInfo
from heurgen.tune.space import config_key, enumerate_configs
from heurgen.tune.target import Target
from heurgen.tune.workloads import make_scenarios


@pytest.mark.parametrize("tunable", [Tunable(), StaticGrid()], ids=lambda t: t.name)
def test_its_own_workload_gives_every_feature(tunable: Tunable) -> None:
    scenarios = make_scenarios(tunable.workload, tunable.features)
    assert len(scenarios) >= 50
    assert all(set(tunable.features) <= set(s.features) for s in scenarios)


def test_every_number_of_segments_is_a_launch_of_its_own() -> None:
    target = Target("static_grid", tunable)
    scenario = make_scenarios(tunable.workload, tunable.features)[0]
    space = enumerate_configs(tunable.space, "nvidia", tuple(tunable.features))
    configs = {config_key(config): config for config in space.configs}
    found = launches_of(configs, space, target, scenario, DeviceInfo("nvidia", "H200", multiprocessors=132))
    assert [launch.configs for launch in found.values()] == [[key] for key in configs]
    assert [launch.settings for launch in found.values()] == list(configs.values())
