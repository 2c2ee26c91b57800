"""`matmul` as a tunable: a space of configs that a launch knows, inputs, reference, classes and what is launched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.gemm.config import Config, normalise
from heurgen_kernels.gemm.launch import launch_of
from heurgen_kernels.heuristics import matmul as generated
from heurgen_kernels.heuristics import matmul_fp8
from heurgen_kernels.tools import matmul_fp8_tunable as fp8
from heurgen_kernels.tools.matmul_fits import Shape, meta_product
from heurgen_kernels.tools.matmul_tunable import FORMS, Inputs, make_inputs, tunable

from heurgen.tune.protocol import DeviceInfo
from heurgen.tune.space import enumerate_configs
from heurgen.tune.workloads import make_scenarios
from tests.kernels.products import error

H200 = DeviceInfo("nvidia", "H200", capability="9.0", multiprocessors=132, shared_memory=232448)
SCENARIOS = make_scenarios(tunable.workload, tunable.features)


@pytest.fixture(scope="module")
def space():
    return enumerate_configs(tunable.space, "nvidia", list(tunable.features))


def scenario(features):
    return next(s for s in SCENARIOS if all(s.features[name] == value for name, value in features.items()))


def test_every_config_of_the_space_is_one_that_a_launch_knows(space):
    assert tuple(tunable.space.parameters) == Config._fields
    assert len(space.configs) == sum(len(per) for forms in FORMS.values() for _, per in forms)
    assert len({normalise(dict(config)) for config in space.configs}) == len(space.configs)


def test_the_forms_that_are_listed_are_in_the_space_and_no_others_of_their_variants(space):
    listed = {
        (variant, *values, 1, per)
        for variant, forms in FORMS.items()
        for values, programs in forms
        for per in programs
    }
    assert listed == {tuple(c.values()) for c in space.configs}


def test_every_scenario_has_configs_of_each_kernel_that_suits_it(space):
    for one in SCENARIOS:
        here = [config for config in space.configs if space.applies(config, one.features)]
        m = one.features["M"]
        expected = {"vector"} if m <= 2 else set()
        expected |= {"stream_k", "stream_k_tma"} if m <= 512 else set()
        expected |= {"warp_specialized"} if m > 16 else set()
        assert {config["variant"] for config in here} == expected, one.features
        assert all(config["BLOCK_M"] <= 16 or one.features["M"] > config["BLOCK_M"] / 2 for config in here)


def test_what_the_selector_answers_is_of_the_space(space):
    known = {normalise(dict(config)) for config in space.configs}
    named = {normalise(value) for name, value in vars(generated).items() if name.startswith("_CONFIG_")}
    assert named
    assert named <= known


def test_the_workload_has_few_rows_and_many_plain_and_gated():
    assert all(set(one.features) >= set(tunable.features) for one in SCENARIOS)
    assert {one.features["gated"] for one in SCENARIOS} == {False, True}
    rows = {one.features["M"] for one in SCENARIOS}
    assert min(rows) == 1
    assert max(rows) == 8192


@pytest.mark.parametrize("gated", [False, True])
def test_inputs_are_what_the_features_say_and_the_same_for_a_seed(gated):
    features = {"M": 5, "N": 24, "K": 400, "gated": gated}
    one, same, other = (make_inputs(features, "cpu", seed) for seed in (3, 3, 4))
    assert [tuple(t.shape) for t in (one.x, one.weight, one.out)] == [
        (5, 400),
        (48 if gated else 24, 400),
        (5, 24),
    ]
    assert torch.equal(one.x, same.x)
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.x, other.x)
    assert float(one.weight.float().norm(dim=1).mean()) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("gated", [False, True])
def test_the_reference_is_the_product_in_float64(gated):
    x, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.5, -0.25]])
    found = tunable.reference(Inputs(x.half(), weight.half(), torch.empty(1, 1 if gated else 2), gated))
    product = [11.0, 0.0]
    expected = [[11.0 / (1 + 2.718281828459045**-11) * 0.0]] if gated else [product]
    assert found.dtype == torch.float64
    assert found.tolist() == expected
    if gated:
        weight[1] = torch.tensor([0.5, 0.25])
        found = tunable.reference(Inputs(x.half(), weight.half(), torch.empty(1, 1), gated))
        assert float(found) == pytest.approx(11.0 / (1 + 2.718281828459045**-11))


def test_a_launch_gives_what_the_reference_says(device):
    inputs = make_inputs({"M": 3, "N": 40, "K": 64, "gated": False}, device, 0)
    config = {"variant": "stream_k", "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
    got, expected = tunable.launch(inputs, config), tunable.reference(inputs)
    assert got.data_ptr() == inputs.out.data_ptr()
    assert float((got.double() - expected).norm() / expected.norm()) < 4e-3


def test_configs_that_come_to_the_same_share_their_launch(space):
    """As long as each tile has as many parts; what is launched is a config that shares out the same."""
    told = 0
    for one in SCENARIOS[::7]:
        f = one.features
        call = meta_product(Shape(f["M"], f["N"], f["K"], gated=f["gated"]), "sm_90")
        for config in space.configs:
            if not space.applies(config, f):
                continue
            launched = tunable.launched(config, one, H200)
            told += launched != config
            before, after = (launch_of(call, normalise(given))[-1] for given in (config, launched))
            assert launched == config or (launched["num_splits"], launched["programs_per_sm"]) == (
                before.splits,
                0,
            )
            assert after == before
    assert told > 50


def test_classes_change_with_what_changes_the_compiled_code_alone():
    def label(**changes):
        features = {"M": 16, "N": 4096, "K": 4096, "gated": False, "multiprocessors": 132} | changes
        return tunable.scenario_class(type("Scenario", (), {"features": features}))

    same, others = [{"M": 3}, {"N": 6144}, {"K": 14336}], [
        {"M": 1}, {"M": 2}, {"M": 17}, {"M": 257}, {"gated": True}, {"K": 4112}, {"K": 4104}, {"N": 4100},
    ]  # fmt: skip
    assert {label(**changes) for changes in same} == {label()}
    assert len({label(), *(label(**changes) for changes in others)}) == 9


def test_stages_that_have_no_room_are_said():
    few = scenario({"M": 16, "gated": False})
    big = {"variant": "stream_k", "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 256, "num_stages": 4}
    assert tunable.fits(big, few, H200) == "needs 393216 bytes of shared memory, the device has 232448"
    assert tunable.fits(big | {"BLOCK_K": 64}, few, H200) is None
    assert tunable.fits(big | {"variant": "warp_specialized"}, few, H200) is None
    gated = scenario({"M": 16, "gated": True})
    edge = big | {"BLOCK_K": 64, "num_stages": 6}
    assert tunable.fits(edge, few, H200) is None
    assert "needs 245760 bytes" in tunable.fits(edge, gated, H200)


def test_fp8_weights_are_a_tunable_of_their_own():
    """Its space, the module made from its log, and inputs that are right against its reference."""
    found = enumerate_configs(fp8.tunable.space, "nvidia", list(fp8.tunable.features)).configs
    known = {normalise(dict(config)) for config in found}
    assert len(known) == sum(len(per) for forms in fp8.FORMS.values() for _, per in forms)
    named = {normalise(value) for name, value in vars(matmul_fp8).items() if name.startswith("_CONFIG_")}
    assert named
    assert named <= known
    features = {"M": 3, "N": 40, "K": 200, "gated": True, "multiprocessors": 132}
    inputs = fp8.tunable.inputs(SimpleNamespace(features=features, seed=1), "cpu")
    assert (inputs.weight.dtype, inputs.scale.shape) == (torch.float8_e4m3fn, (80,))
    config = Config("stream_k", 16, 32, 64, 4, 3)._asdict()
    assert error(fp8.tunable.launch(inputs, config), fp8.tunable.reference(inputs)) < 1e-3
    assert fp8.tunable.name == "matmul_fp8" != tunable.name
