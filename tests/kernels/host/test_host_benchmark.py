"""benchmarks/host.py without a GPU: the parts that it times are those of a launch as `host/` has them today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from heurgen_kernels.caches import Cache
from heurgen_kernels.host import bound, launch, plan
from heurgen_kernels.tools.tunable import make_inputs

from tests.kernels.host.test_bound import compiled, encoded  # noqa: F401

PATH = Path(__file__).parents[3] / "benchmarks/host.py"
_SPEC = importlib.util.spec_from_file_location("host_benchmark", PATH)
host = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(host)


def test_every_part_is_called_and_descriptors_are_those_that_the_launch_kept(monkeypatch, encoded):  # noqa: F811
    tma = (True, True)
    kernel, given = compiled(tma)
    called = []

    def make(call, config):
        made = plan.make_plan(call, config)
        made.bound = bound.bind(kernel, launch.sources_of(tma))
        return made

    def microseconds(call, launches=False):
        call()
        called.append(launches)
        return float(len(called))

    monkeypatch.setattr(plan, "descriptor_sources", lambda *_: tma)
    monkeypatch.setattr(launch, "_plans", Cache())
    monkeypatch.setattr(launch, "make_plan", make)
    monkeypatch.setattr(host, "microseconds", microseconds)
    found = host.parts(make_inputs(((5, 40), (3, 33)), {**host.LLAMA, "fresh": True}, "cpu", 0))
    assert set(found) == set(host.COLUMNS) - {"vllm", "fa3"}
    assert (called.count(True), len(given)) == (2, 4)  # two launches before anything is timed
    assert len(encoded) == 4  # K and V of the pages, K and V of the new tokens, once each
