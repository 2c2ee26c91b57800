"""`matmul` with fp8 weights in Triton's interpreter against float64, whose scales are of all, of rows or of blocks."""

from __future__ import annotations

import re

import heurgen_kernels.ops  # noqa: F401  registers torch.ops.heurgen.matmul
import pytest
import torch
from heurgen_kernels.gemm import launch as launching
from heurgen_kernels.gemm.api import matmul
from heurgen_kernels.gemm.call import Product, check, check_scale, scales_of
from heurgen_kernels.gemm.config import Config
from heurgen_kernels.gemm.device.scales import BLOCK, ROW, WITHIN
from heurgen_kernels.gemm.launch import launch
from heurgen_kernels.gemm.plan import adapted
from heurgen_kernels.host.hardware import Device

from tests.kernels.products import dequantised, error, exact, quantised, right, shape_of

SCALED = ("one", "row", "block")
CONFIGS = {
    "whole": Config("stream_k", 32, 32, 32),
    "split": Config("stream_k", 16, 64, 128, num_splits=3),
    "wide": Config("stream_k", 16, 256, 256),
    "vector": Config("vector", 1, 16, 256, 2, 1),
    "two vectors": Config("vector", 2, 4, 512, 4, 3),
}
ROUNDING = ["whole", "wide"]  # whose weight is rounded when scales of blocks have multiplied it
SHAPES = [(1, 40, 64), (3, 140, 260), (2, 33, 1030)]


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


@pytest.mark.parametrize("scaled", SCALED)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(("rows", "width", "size"), SHAPES)
def test_products_are_right(config, rows, width, size, scaled):
    x = draw(rows, size)
    w, scale, weight = quantised(draw(width, size, seed=1) / size**0.5, scaled)
    bias, residual = draw(width, seed=2), draw(rows, width, seed=3)
    got = matmul(x, w, bias, w_scale=scale, residual=residual, config=config)
    assert error(got, right(x, weight, bias, residual)) < 1e-3


@pytest.mark.parametrize("scaled", SCALED)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(("rows", "width", "size"), [(2, 66, 300), (3, 128, 129)])
def test_gated_products_are_right(config, rows, width, size, scaled):
    """The up projection begins inside a block, and inside a tile of rows; with a block."""
    x, bias = draw(rows, size), draw(2 * width, seed=2)
    w, scale, weight = quantised(draw(2 * width, size, seed=1) / size**0.5, scaled)
    got = matmul(x, w, bias, w_scale=scale, gated=True, config=config)
    assert error(got, right(x, weight, bias, gated=True)) < 1e-3


def test_every_number_is_exact():
    """Subnormal ones, both zeros; not NaN, which the interpreter takes for a number."""
    every = torch.arange(256, dtype=torch.uint8)
    w = every.where(~every.view(torch.float8_e4m3fn).float().isnan(), 0).view(torch.float8_e4m3fn)[None]
    x = torch.eye(256).half()
    for config in (CONFIGS["split"], CONFIGS["vector"]):
        out = matmul(x[100:104], w, w_scale=torch.ones(1), config=config)
        assert torch.equal(out[:, 0], w[0, 100:104].half())
    out = matmul(x, w, w_scale=torch.ones(()), config=CONFIGS["wide"])
    assert torch.equal(out[:, 0], w[0].half())


@pytest.mark.parametrize("gated", [False, True])
def test_a_weight_times_its_blocks_scales_is_rounded_as_a_dequantised_one(gated):
    """To the bit: sums have no error."""
    x, w, scale = exact(5, 280, 390)
    expected = right(x, dequantised(w, scale, torch.float16), gated=gated)
    got = matmul(x, w, w_scale=scale, gated=gated, config=CONFIGS["whole"])
    if not gated:
        assert torch.equal(got, expected.half())
        assert not torch.equal(got, (x.double() @ dequantised(w, scale, torch.float64).T).half())
    assert error(got, expected) < 4e-4


def test_few_rows_do_not_round_the_weight():
    """The difference of two columns that differ by less than a 16-bit number can."""
    x = torch.zeros(1, 256).half()
    x[0, 0], x[0, 128] = 1, -1
    scale = torch.tensor([[1.0 + 2.0**-13, 1.0]])
    w = torch.ones(8, 256).to(torch.float8_e4m3fn)
    for name, config in CONFIGS.items():
        found = matmul(x, w, w_scale=scale, config=config)
        assert torch.equal(found, torch.full((1, 8), 0.0 if name in ROUNDING else 2.0**-13).half())


def test_what_float16_can_not_hold_is_infinite_as_in_a_dequantised_weight():
    """With scales of blocks; those of rows multiply sums, as all do in short steps of few rows."""
    w = torch.full((200, 256), 448.0).to(torch.float8_e4m3fn)
    x = torch.full((2, 256), 2.0**-10).half()
    block = torch.ones(2, 2)
    block[1, 0] = 200.0
    weight = dequantised(w, block, torch.float16)
    assert torch.isinf(weight[128:, :128]).all()
    got = matmul(x, w, w_scale=block, config=CONFIGS["wide"])
    assert torch.equal(got, right(x, weight).half())
    assert torch.isinf(got[:, 128:]).all()
    few = right(x, dequantised(w, block, torch.float32)).half()
    assert torch.equal(matmul(x, w, w_scale=block, config=CONFIGS["split"]), few)
    assert few.isfinite().all()
    row = torch.full((200,), 200.0)
    assert torch.equal(
        matmul(x, w, w_scale=row, config=CONFIGS["split"]), torch.full((2, 200), 22400.0).half()
    )


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_scales_of_any_strides(config):
    """NaN lies between them, and behind the last."""

    def laid_out(scale, *, turned):
        wide = torch.full([3 * length + 2 for length in scale.shape], torch.nan)
        lay = wide.permute(*reversed(range(wide.dim()))) if turned else wide
        lay = lay[
            tuple(slice(0, 3 * length, 3) for length in (reversed(scale.shape) if turned else scale.shape))
        ]
        return (lay.permute(*reversed(range(lay.dim()))) if turned else lay).copy_(scale)

    x = draw(1, 260)
    for scaled in ("row", "column", "block"):
        w, scale, weight = quantised(draw(140, 260, seed=1) / 16, scaled)
        given = {"gated": True, "config": config}
        expected = matmul(x, w, w_scale=scale, **given)
        assert error(expected, right(x, weight, gated=True)) < 1e-3
        for turned in (False, True):
            apart = laid_out(scale, turned=turned)
            assert not apart.is_contiguous()
            assert torch.equal(matmul(x, w, w_scale=apart, **given), expected)
    one = torch.full((), 0.03)
    expected = matmul(x, w, w_scale=one, **given)
    for same in (one.expand(140, 1), one.view(1, 1), one.view(1, 1, 1)):
        assert torch.equal(matmul(x, w, w_scale=same, **given), expected)


@pytest.mark.parametrize(
    ("n", "k", "shape", "expected"),
    [
        (300, 300, (), (ROW, 0, 0)), (300, 300, (1,), (ROW, 0, 0)), (300, 300, (1, 1), (ROW, 0, 0)),
        (300, 300, (300,), (ROW, 1, 0)),
        (300, 300, (300, 1), (ROW, 1, 0)), (300, 300, (3, 3), (BLOCK, 3, 1)), (300, 100, (3, 1), (BLOCK, 1, 0)),
        (2, 100, (2, 1), (ROW, 1, 0)), (1, 300, (1, 3), (BLOCK, 0, 1)), (1, 300, (1, 1), (ROW, 0, 0)),
        (1, 100, (1, 1), (ROW, 0, 0)), (100, 100, (1, 1), (ROW, 0, 0)), (128, 16384, (1, 128), (BLOCK, 0, 1)),
    ],
)  # fmt: skip
def test_what_a_scale_is_of(n, k, shape, expected):
    """One number is of all; no other shape says two things."""
    scale = torch.ones(shape)
    check_scale(torch.empty(n, k).to(torch.float8_e4m3fn), scale)
    kind, strides = scales_of(scale, n, gated=False)
    assert (kind, *strides) == (expected[0].value, *expected[1:])


def test_scales_that_lie_beyond_32_bits_are_refused():
    weight = torch.empty(129, 64, dtype=torch.float8_e4m3fn, device="meta")
    check_scale(weight, torch.empty_strided((129,), ((1 << 24) - 1,), device="meta"))
    with pytest.raises(
        ValueError, match=re.escape(f"has strides ({1 << 24},): its numbers lie {1 << 31} elements")
    ):
        check_scale(weight, torch.empty_strided((129,), (1 << 24,), device="meta"))
    alone = torch.empty_strided((1, 1), (1 << 40, 1), device="meta")
    check_scale(weight[:1], alone)
    assert scales_of(alone, 1, gated=False)[1] == (0, 0)


@pytest.mark.parametrize(("n", "expected"), [(512, BLOCK), (768, BLOCK), (600, WITHIN), (384, WITHIN)])
def test_an_up_projection_may_begin_within_a_block(n, expected):
    scale = torch.ones(-(-n // 128), 2)
    assert scales_of(scale, n, gated=True)[0] == expected.value
    assert scales_of(scale, n, gated=False)[0] == BLOCK.value


def meta_product(rows=9, width=512, size=1024, scaled="one", gated=False, device=(9, 0)):
    def meta(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device="meta")

    n = 2 * width if gated else width
    scale = shape_of(scaled, n, size)
    call = Product(
        meta(rows, size), meta(n, size, dtype=torch.float8_e4m3fn), None, None, meta(rows, width), gated,
        meta(*scale, dtype=torch.float32),
    )  # fmt: skip
    check(call, Device("nvidia", device, 132))
    return call


def test_bytes_are_taken_apart_where_the_compiler_has_no_e4m3():
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    for rows, config in ((64, CONFIGS["split"]), (2, CONFIGS["vector"])):
        x = torch.eye(256).half()[64 : 64 + rows]
        w = every.view(torch.uint8).where(~every.float().isnan(), 0).view(torch.float8_e4m3fn)
        call = Product(x, w.repeat(3, 1), None, None, torch.empty(rows, 3).half(), False, torch.ones(1))
        check(call, Device("nvidia", (8, 0), 108))
        assert launching.readable(call).dtype == torch.uint8
        launch(call, config)
        assert torch.equal(call.out, call.weight[:, 64 : 64 + rows].T.half())
    assert launching.readable(meta_product()).dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("scaled", SCALED)
def test_sums_of_parts_that_nobody_wrote_are_not_read(scaled, monkeypatch):
    empty = torch.empty

    def poisoned(*given, **more):
        made = empty(*given, **more)
        return made.fill_(torch.nan) if made.dtype == torch.float32 else made

    monkeypatch.setattr(launching.torch, "empty", poisoned)
    x = draw(3, 300)
    w, scale, weight = quantised(draw(72, 300, seed=1) / 17, scaled)
    for config in (CONFIGS["split"], Config("stream_k", 64, 16, 16, num_splits=0, programs_per_sm=1)):
        assert error(matmul(x, w, w_scale=scale, config=config), right(x, weight)) < 1e-3


@pytest.mark.parametrize("scaled", SCALED)
@pytest.mark.parametrize(
    "config", [Config("stream_k_tma", 16, 64, 128, 4, 5), Config("stream_k_tma", 64, 32, 32, 4, 3, 3)]
)
def test_descriptors_and_rows_that_lie_apart(config, scaled):
    """NaN between the rows of the weight and behind the last."""
    x = torch.full((20, 208), torch.nan).half()[:, :200]
    x[:] = draw(20, 200)
    given, scale, weight = quantised(draw(66, 200, seed=1) / 14, scaled)
    w = torch.full((70, 208), 0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn)[:66, :200]
    w.copy_(given)
    call = Product(x, w, None, None, torch.empty(20, 66).half(), False, scale)
    check(call, Device("nvidia", (9, 0), 132))
    assert adapted(config, call).variant == "stream_k_tma"
    launch(call, config)
    assert error(call.out, right(x, weight)) < 1e-3


def test_what_a_weight_of_8_bits_is_launched_with():
    wide = Config("warp_specialized", 128, 256, 64, 4, 12)
    assert adapted(wide, meta_product())[:3] == ("warp_specialized", 128, 128)
    tall = wide._replace(BLOCK_M=256, BLOCK_N=128)
    for scaled in SCALED:
        assert adapted(tall, meta_product(scaled=scaled)).BLOCK_M == 256
        assert adapted(tall, meta_product(scaled=scaled, gated=True)).BLOCK_M == 128
        assert adapted(CONFIGS["wide"], meta_product(scaled=scaled)) == CONFIGS["wide"]
        assert adapted(CONFIGS["vector"], meta_product(rows=1, scaled=scaled)).variant == "vector"
    for scaled, gated, width, step in (
        ("block", True, 128, 128),
        ("row", True, 256, 128),
        ("block", False, 256, 256),
    ):
        old = meta_product(scaled=scaled, gated=gated, device=(8, 0))
        assert adapted(CONFIGS["wide"], old) == CONFIGS["wide"]._replace(BLOCK_N=width, BLOCK_K=step)
    described = Config("stream_k_tma", 64, 64, 128, 4, 16)
    assert adapted(described, meta_product(scaled="block", gated=True)).num_stages == 7
    assert adapted(described, meta_product(width=576, scaled="block", gated=True)).num_stages == 6
    assert adapted(wide, meta_product(size=1032)).variant == "stream_k"  # rows end inside 16 bytes
    assert adapted(wide, meta_product(device=(8, 9))).variant == "stream_k"


def test_what_nobody_gave_a_config_for_is_answered_by_the_default_or_the_selector():
    x = draw(3, 256)
    w, scale, weight = quantised(draw(80, 256, seed=1) / 16, "block")
    assert error(matmul(x, w, w_scale=scale), right(x, weight)) < 1e-3
    assert error(torch.ops.heurgen.matmul(x, w, w_scale=scale), right(x, weight)) < 1e-3


@pytest.mark.parametrize(
    ("w", "scale", "message"),
    [
        (torch.float8_e4m3fn, None, "w_scale is missing and w is torch.float8_e4m3fn"),
        (torch.float16, torch.ones(1), "w_scale is given and w is torch.float16"),
        (
            torch.float8_e5m2,
            torch.ones(1),
            "w is torch.float8_e5m2 and x is torch.float16; expected the same type, or",
        ),
        (torch.float8_e4m3fnuz, torch.ones(1), "w is torch.float8_e4m3fnuz"),
        (torch.float8_e4m3fn, torch.ones(1).half(), "w_scale is torch.float16; expected float32"),
        (
            torch.float8_e4m3fn,
            torch.ones(2, 2),
            "w_scale has shape (2, 2); expected one number, [N] or [N, 1], here (200,), or one for each block of 128 x "
            "128, here (2, 3)",
        ),
        (
            torch.float8_e4m3fn,
            torch.ones(1, 200),
            "w_scale has shape (1, 200); expected one number, [N] or [N, 1]",
        ),
        (torch.float8_e4m3fn, torch.ones(200, 1, 1), "w_scale has shape (200, 1, 1); expected one number"),
        (torch.float8_e4m3fn, torch.ones(1, device="meta"), "w_scale is on meta and w on cpu"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(w, scale, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        matmul(draw(2, 300), draw(200, 300).to(w), w_scale=scale)
