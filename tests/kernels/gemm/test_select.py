"""Which config a product takes: the caller's heuristics, the generated selector of the vendor, the default."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from heurgen_kernels.gemm import select
from heurgen_kernels.gemm.config import Config, normalise
from heurgen_kernels.gemm.defaults import default_config, default_fp8
from heurgen_kernels.heuristics import matmul as generated
from heurgen_kernels.heuristics import matmul_fp8
from heurgen_kernels.tools.matmul_fits import Shape, meta_product

SHAPES = [
    (1, 4096, 4096, False),
    (16, 14336, 4096, True),
    (100, 3000, 5000, False),
    (4096, 6144, 4096, False),
]


def call_of(m, n, k, gated):
    return meta_product(Shape(m, n, k, gated=gated), "sm_90")


@pytest.mark.parametrize("shape", SHAPES)
def test_nvidia_takes_what_was_learnt_and_amd_the_default(shape):
    call = call_of(*shape)
    values = (*shape, 132)
    features = dict(zip(select.FEATURES, values, strict=True))
    assert call.layout.features == values
    assert select.choose(call, None, "nvidia") == normalise(generated.select(vendor="nvidia", **features))
    assert select.choose(call, None, "amd") == default_config(vendor="amd", **features)


@pytest.mark.parametrize("shape", SHAPES)
def test_fp8_weights_have_a_selector_of_their_own(shape, monkeypatch):
    m, n, k, gated = shape
    call = meta_product(Shape(m, n, k, gated=gated, scaled="row"), "sm_90")
    features = dict(zip(select.FEATURES, (*shape, 132), strict=True))
    assert select.choose(call, None, "nvidia") == normalise(matmul_fp8.select(vendor="nvidia", **features))
    assert select.choose(call, None, "amd") == default_config(vendor="amd", **features)
    monkeypatch.setitem(select.SHIPPED_FP8, "nvidia", "absent")
    assert select.bind(None, "nvidia", True)((*shape, 132)) == default_fp8(vendor="nvidia", **features)


def test_without_a_shipped_module_the_default_answers(monkeypatch):
    monkeypatch.setitem(select.SHIPPED, "nvidia", "absent")
    for shape in SHAPES:
        expected = default_config(vendor="nvidia", **dict(zip(select.FEATURES, (*shape, 132), strict=True)))
        assert select.bind(None, "nvidia")((*shape, 132)) == expected


def test_a_callers_module_answers_for_its_vendors_alone():
    own = SimpleNamespace(SELECTORS={"nvidia": lambda K, M: {"num_splits": K // M}})
    call = call_of(8, 512, 64, False)
    assert select.choose(call, own, "nvidia") == Config(num_splits=8)
    assert select.choose(call, own, "amd") == select.choose(call, None, "amd")


def test_an_answer_that_no_launch_knows_is_refused():
    with pytest.raises(ValueError, match=r"config\.BLOCK_M is 24; allowed"):
        select.choose(call_of(*SHAPES[0]), lambda **_: {"BLOCK_M": 24}, "nvidia")
    with pytest.raises(ValueError, match="the heuristics ask for 'head_size'; a launch knows M, N, K"):
        select.bind(SimpleNamespace(SELECTORS={"nvidia": lambda head_size: Config()}), "nvidia")
