"""The tunables that are bundled: what they bring along is whole."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from heurgen_kernels.gemm import call as products
from heurgen_kernels.gemm import launch as multiplying
from heurgen_kernels.host import call as calls
from heurgen_kernels.host import launch as launching
from heurgen_kernels.host import validate
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.tools.matmul_fp8_tunable import MatmulFp8
from heurgen_kernels.tools.matmul_tunable import Matmul
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


LENGTHS = {
    "decodes and a chunk": [[1, 900]] * 7 + [[90, 700]],
    "drafts and prompts": [[5, 300]] * 4 + [[130, 130], [70, 500]],
    "the end of a long prompt": [[657, 5393], [155, 155]],
    "decodes": [[1, 60]] * 20,
}


@pytest.fixture
def ran(monkeypatch) -> list[object]:
    """What launches on a Hopper GPU run: of a copy its grid, of others the kernel, parts and grid."""
    found: list[object] = []
    for module in (validate, calls):
        monkeypatch.setattr(module, "device_of", lambda place: Device("nvidia", (9, 0), 132))
    monkeypatch.setattr(launching, "widen", lambda call, copy: found.append(copy.wide.room.grid))

    def run(plan, call, addresses, grid, *_) -> None:
        found.append((plan.variant, call.above, call.upto, plan.segments, grid))

    monkeypatch.setattr(launching, "_run", run)
    return found


def scenario_of(lengths, dtype: str = "float8_e4m3fn", fresh: bool = False):
    layout = {"num_query_heads": 8, "num_kv_heads": 2, "head_size": 64, "page_size": 16, "dtype": dtype}
    features = {**layout, "fresh": fresh, "window": 1 << 30, "softcap": False, "sinks": False}
    one = {"id": "one", "lengths": lengths, **features, **sums(lengths)}
    return make_scenarios({"scenario": [one]}, Tunable().features)[0]


def test_the_interpreter_launches_what_132_processors_would() -> None:
    """It has none, by which the keys of decodes were divided."""
    given, scenario = Tunable(), scenario_of(LENGTHS["decodes"], "bfloat16")
    config = {
        "variant": "split_kv",
        "BLOCK_M": 16,
        "TILE_SIZE": 16,
        "num_warps": 1,
        "num_stages": 3,
        "programs_per_sm": 4,
    }
    interpreted, h200 = DeviceInfo("nvidia", "interpreter"), DeviceInfo("nvidia", "H200", multiprocessors=132)
    assert given.launched(config, scenario, interpreted) == given.launched(config, scenario, h200)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_what_is_measured_is_what_a_launch_of_the_config_runs(ran, dtype: str, lengths) -> None:
    """As many parts, programs and launches: a log would else be of other launches than those that it is learnt for."""
    given, scenario = Tunable(), scenario_of(lengths, dtype)
    inputs = given.inputs(scenario, "cpu")
    space = enumerate_configs(given.space, "nvidia", tuple(given.features))
    device, variants = DeviceInfo("nvidia", "H200", multiprocessors=132), set()
    for config in space.configs:
        if space.applies(config, scenario.features) and given.applies(config, scenario):
            measured = given.launched(config, scenario, device)
            assert runs(ran, given, inputs, config) == runs(ran, given, inputs, measured), config
            variants.add(config["variant"])
    assert len(variants) >= 2


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("fresh", [False, True])
def test_all_launches_of_a_batch_that_is_taken_apart_are_compiled(ran, lengths, fresh: bool) -> None:
    """Cut keys and whole ones, with sequences between decodes and prompts and without: whatever its lengths are."""
    given = Tunable()
    config = {
        "variant": "mixed",
        "BLOCK_M": 128,
        "TILE_SIZE": 64,
        "num_warps": 4,
        "num_stages": 3,
        "programs_per_sm": 4,
    }
    given.compile(given.inputs(scenario_of(lengths, fresh=fresh), "cpu"), config)
    kinds = {
        (variant, above, upto, segments > 1)
        for variant, above, upto, segments, _ in (r for r in ran if len(r) == 5)
    }
    for cut in (False, True):
        between = {("warp_specialized", 16, 0, cut), ("split_kv", 4, 16, cut), ("split_kv", 0, 4, cut)}
        assert between <= kinds


@pytest.mark.parametrize("given", [Matmul(), MatmulFp8()], ids=lambda t: t.name)
@pytest.mark.parametrize(("rows", "n", "k", "gated"), [
    (1, 512, 1024, False), (3, 515, 1000, False), (16, 515, 1000, True), (40, 3000, 1000, False),
    (64, 1000, 3000, False), (100, 515, 3000, True), (100, 512, 2048, True), (80, 256, 1226, False),
    (300, 1024, 1000, False), (200, 512, 1001, False),
])  # fmt: skip
def test_a_product_is_measured_in_as_many_parts_as_it_is_launched(
    monkeypatch, given, rows, n, k, gated
) -> None:
    """Also where the launch takes other tiles than the config's: rows that no descriptor reads, columns that end inside
    16 bytes.
    """
    hopper, ran = Device("nvidia", (9, 0), 132, shared_memory=232448), []
    monkeypatch.setattr(products, "device_of", lambda place: hopper)
    monkeypatch.setattr(multiplying, "fill", lambda *_: ran.append("copied"))
    monkeypatch.setattr(
        multiplying, "_run", lambda plan, call, at, shares: ran.append((plan.kernel, plan.constants, shares))
    )
    features = {"M": rows, "N": n, "K": k, "gated": gated, "multiprocessors": 132}
    scenario = make_scenarios({"scenario": [{"id": "one", **features}]}, given.features)[0]
    inputs, space = (
        given.inputs(scenario, "cpu"),
        enumerate_configs(given.space, "nvidia", tuple(given.features)),
    )
    device = DeviceInfo("nvidia", "H200", capability="9.0", multiprocessors=132, shared_memory=232448)
    configs = [config for config in space.configs if space.applies(config, features)]
    for config in configs:
        measured = given.launched(config, scenario, device)
        assert runs(ran, given, inputs, config) == runs(ran, given, inputs, measured), config
    assert len(configs) > 5


def runs(ran: list[object], given: Tunable, inputs, config) -> list[object]:
    """What a launch of the config adds to `ran`."""
    ran.clear()
    given.launch(inputs, config)
    return list(ran)


def sums(lengths) -> dict[str, int]:
    queries, keys = zip(*lengths, strict=True)
    return {
        "num_seqs": len(lengths), "total_query_tokens": sum(queries), "max_seqlen_q": max(queries),
        "max_seqlen_k": max(keys), "total_seqlen_k": sum(keys),
    }  # fmt: skip
