"""`matmul` with fp8 weights on a GPU: each form of each variant, what is chosen, scales, range, graphs, warm-up."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels import Linear, warm_up_matmul
from heurgen_kernels.gemm.api import matmul
from heurgen_kernels.gemm.call import Product
from heurgen_kernels.gemm.call import check as check_product
from heurgen_kernels.gemm.config import Config, normalise
from heurgen_kernels.gemm.device.scales import FEW as FEW_ROWS
from heurgen_kernels.gemm.device.scales import SIDE
from heurgen_kernels.gemm.launch import _plans
from heurgen_kernels.gemm.plan import adapted
from heurgen_kernels.heuristics import matmul_fp8 as generated

from tests.kernels.products import dequantised, error, exact, quantised, right
from tests.kernels.test_gpu_matmul import FEW, LIMITS, ODD, apart, copies, draw  # noqa: F401

pytestmark = pytest.mark.gpu

SCALED = ("one", "row", "column", "block")
FORMS = [
    Config("vector", 1, 8, 512, 4, 3), Config("vector", 2, 4, 512, 2, 4), Config("stream_k", 16, 64, 128, 4, 6, 1, 2),
    Config("stream_k", 16, 64, 256, 4, 4, 3), Config("stream_k", 32, 128, 128, 8, 4, 1, 1),
    Config("stream_k", 64, 64, 128, 4, 4, 0, 1), Config("stream_k", 64, 128, 64, 4, 4, 1, 1),
    Config("stream_k_tma", 16, 64, 256, 4, 5, 1, 1), Config("stream_k_tma", 64, 128, 64, 4, 5),
    *(
        Config("warp_specialized", rows, width, 64, 4, 12, 1, shared)
        for rows, width in ((16, 128), (32, 64), (64, 64), (64, 128), (128, 128), (256, 128))
        for shared in (0, 1)
    ),
    Config("warp_specialized", 32, 128, 64, 4, 12, 0, 1), Config("warp_specialized", 64, 64, 64, 4, 12, 3),
    Config("warp_specialized", 128, 256, 64, 4, 12),
]  # fmt: skip
CHOSEN = [normalise(value) for name, value in vars(generated).items() if name.startswith("_CONFIG_")]
SPACE = list(dict.fromkeys([*FORMS, *CHOSEN]))


def check(gpu, config, rows, width, size, scaled, dtype=torch.bfloat16, spread=False):
    """Plain, with bias and residual, and gated, against float64; nothing but the output is written."""
    lay = apart if spread else (lambda matrix: matrix)
    x = lay(draw(rows, size, device=gpu, dtype=dtype))
    w, scale, weight = quantised(draw(width, size, device=gpu) / size**0.5, scaled, dtype)
    w = lay(w)
    bias, residual = draw(width, device=gpu, dtype=dtype), lay(draw(rows, width, device=gpu, dtype=dtype))
    given, limit = {"w_scale": scale, "config": config}, LIMITS[dtype]
    out = apart(torch.zeros(rows, width, device=gpu, dtype=dtype))
    assert error(matmul(x, w, out=out, **given), right(x, weight)) < limit
    assert out._base[rows:].isnan().all()
    assert out._base[:, width:].isnan().all()
    assert error(matmul(x, w, bias, residual=residual, **given), right(x, weight, bias, residual)) < limit
    if width % 2 == 0:
        assert error(matmul(x, w, bias, gated=True, **given), right(x, weight, bias, gated=True)) < limit


@pytest.mark.parametrize("config", SPACE, ids=lambda c: "-".join(map(str, c)))
def test_every_config_is_right(gpu, config):
    first = SPACE.index(config)
    for place in (first % 3, SCALED.index("block")):
        number = first + place
        shape = ODD[number % 11] if number % 2 else (config.BLOCK_M + 1, 1536, 4096)
        check(gpu, config, *shape, SCALED[place], tuple(LIMITS)[number // 2 % 2], spread=number % 3 == 0)


def launched(config, x, w, scale, gated):
    """What runs of a config, or in its place."""
    out = x.new_empty(len(x), len(w) // (2 if gated else 1))
    call = Product(x, w, None, None, out, gated, scale)
    check_product(call)
    return adapted(config, call)


def scales_sums(ran):
    """Whether what runs multiplies sums by scales, and leaves the weight as it is."""
    few = ran.variant.startswith("stream_k") and FEW_ROWS.value >= ran.BLOCK_M and SIDE.value >= ran.BLOCK_K
    return ran.variant == "vector" or few


def is_exact(config, rows, n, k, dtype, device, gated=False):
    """To the bit as with the dequantised weight; but for SiLU, and where few rows leave the weight as it is."""
    x, w, scale = exact(rows, n, k, device)
    exactly = scales_sums(launched(config, x, w, scale, gated))
    held = torch.float32 if exactly else dtype
    x, expected = x.to(dtype), right(x, dequantised(w, scale, held), gated=gated)
    got = matmul(x, w, w_scale=scale, gated=gated, config=config)
    if gated or exactly:
        assert error(got, expected) < LIMITS[dtype]
    else:
        assert torch.equal(got, expected.to(dtype))


@pytest.mark.parametrize("config", SPACE, ids=lambda c: "-".join(map(str, c)))
def test_a_weight_times_its_blocks_scales_is_rounded_as_a_dequantised_one(gpu, config):
    """Random scales: one of another block is far off. Rows and columns end inside blocks and inside 16 bytes; the up
    projection begins at a block, within one, and within a tile.
    """
    for number, (n, k) in enumerate(((1536, 2048), (1000, 520), (136, 1000), (257, 333))):
        rows = config.BLOCK_M + number % 2
        is_exact(config, rows, n, k, tuple(LIMITS)[number % 2], gpu)
        is_exact(config, rows, 2 * n, k, tuple(LIMITS)[number % 2], gpu, gated=True)


@pytest.mark.parametrize("config", FORMS[:10], ids=str)
def test_few_rows_do_not_round_the_weight(gpu, config):
    """The difference of two columns that differ by less than a 16-bit number can."""
    x = torch.zeros(1, 256, device=gpu).half()
    x[0, 0], x[0, 128] = 1, -1
    scale = torch.tensor([[1.0 + 2.0**-13, 1.0]], device=gpu)
    w = torch.ones(8, 256, device=gpu).to(torch.float8_e4m3fn)
    left = 2.0**-13 if scales_sums(launched(config, x, w, scale, False)) else 0.0
    assert torch.equal(matmul(x, w, w_scale=scale, config=config), x.new_full((1, 8), left))


@pytest.mark.parametrize("config", FORMS, ids=str)
def test_scales_of_any_strides(gpu, config):
    """As in each layout that a checkpoint may have them: turned, and among other numbers."""
    x, gated = draw(config.BLOCK_M + 1, 1000, device=gpu), FORMS.index(config) % 2 == 0
    for scaled in ("row", "column", "block"):
        w, scale, _ = quantised(draw(1040, 1000, device=gpu) / 32, scaled, x.dtype)
        wide = torch.full((scale.shape[-1] * 2, 1048), torch.nan, device=gpu)
        turned = wide[::2, : scale.shape[0]].T if scale.dim() == 2 else wide.view(-1)[: 2 * 1040 : 2]
        turned.copy_(scale)
        given = {"gated": gated, "config": config}
        assert torch.equal(matmul(x, w, w_scale=turned, **given), matmul(x, w, w_scale=scale, **given))


@pytest.mark.parametrize(("rows", "width", "size"), [*ODD, *FEW, (20, 64, 1), (900, 18568, 1040)])
def test_what_is_chosen_is_right(gpu, rows, width, size):
    for number, scaled in enumerate(SCALED):
        check(gpu, None, rows, width, size, scaled, tuple(LIMITS)[(rows + number) % 2], spread=width % 3 == 0)


@pytest.mark.parametrize(
    "config", [config for config in FORMS if config.num_splits != 1 or config.programs_per_sm][::2], ids=str
)
def test_shared_sums_are_the_same_each_time(gpu, config):
    x = draw(13, 8192, device=gpu)
    for scaled in ("row", "block"):
        w, scale, weight = quantised(draw(3000, 8192, device=gpu) / 90, scaled, x.dtype)
        first = matmul(x, w, w_scale=scale, config=config)
        assert error(first, right(x, weight)) < LIMITS[torch.bfloat16]
        for _ in range(30):
            assert torch.equal(matmul(x, w, w_scale=scale, config=config), first)


@pytest.mark.parametrize("config", FORMS[::3], ids=str)
def test_bfloat16_keeps_its_range_and_every_number_is_exact(gpu, config):
    """Beside numbers of 2^60 others of 2^-60 count, where the large ones meet zeros; NaN of e4m3 stays NaN."""
    every = torch.arange(256, dtype=torch.uint8, device=gpu)
    every = every.where(every % 128 < 127, 0).view(torch.float8_e4m3fn)
    w = torch.zeros(512, 256, device=gpu).to(torch.float8_e4m3fn)
    w[:, :128], w[64, :128], w[65, :128] = every[:1], every[:128], every[128:]
    x = torch.full((128, 256), 2.0**60, device=gpu, dtype=torch.bfloat16)
    x[:, :128] = torch.eye(128, device=gpu) * 2.0**-60
    out = matmul(x, w, w_scale=torch.ones(1, device=gpu), config=config)
    assert torch.equal(out[:, 64:66].float(), (w[64:66, :128].float() * 2.0**-60).T)
    w[70, 5] = torch.nan
    out = matmul(x, w, w_scale=torch.ones(1, device=gpu), config=config)
    assert out[:, 70].isnan().all()
    assert not out[:, :70].isnan().any()


@pytest.mark.parametrize("scaled", ["one", "row", "block"])
@pytest.mark.parametrize("size", [3000, 3001, 3002, 3004])
def test_what_no_descriptor_reads_is_copied(gpu, copies, scaled, size):  # noqa: F811
    """Bytes of the weight from anywhere in a word, and x beside it."""
    x = draw(300, size, device=gpu)
    w, scale, weight = quantised(draw(1008, size, device=gpu) / 55, scaled, x.dtype)
    for gated in (False, True):
        got = matmul(x, w, w_scale=scale, gated=gated)
        assert error(got, right(x, weight, gated=gated)) < LIMITS[torch.bfloat16]
    assert [call.weight is not w for call in copies] == [True, True]


@pytest.mark.parametrize("scaled", ["row", "block"])
def test_x_is_copied_to_whole_lines(gpu, copies, scaled):  # noqa: F811
    """Rows of the weight are whole 16 bytes, those of x no whole lines."""
    x = draw(300, 3024, device=gpu)
    w, scale, weight = quantised(draw(1008, 3024, device=gpu) / 55, scaled, x.dtype)
    for gated in (False, True):
        got = matmul(x, w, w_scale=scale, gated=gated)
        assert error(got, right(x, weight, gated=gated)) < LIMITS[torch.bfloat16]
    assert len(copies) == 2


def test_launches_are_recorded_and_replayed(gpu):
    x = draw(9, 4096, device=gpu)
    w, scale, weight = quantised(draw(2048, 4096, device=gpu) / 64, "block", x.dtype)
    for config in (None, FORMS[0], FORMS[2], FORMS[7], FORMS[10]):
        matmul(x, w, w_scale=scale, config=config)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs = [matmul(x, w, w_scale=scale, config=config) for _ in range(3)]
        for seed in range(3):
            x.copy_(draw(9, 4096, device=gpu, seed=seed))
            graph.replay()
            assert all(error(out, right(x, weight)) < LIMITS[torch.bfloat16] for out in outs)


def test_later_launches_follow_addresses_and_scales(gpu):
    """Bound: with one weight and scale after the other, and with addresses that are no multiples of 16."""
    flat = torch.empty(512 * 1024 + 4, device=gpu, dtype=torch.float8_e4m3fn)
    scales = torch.empty(513, device=gpu)
    for config in (FORMS[0], FORMS[2], FORMS[7], FORMS[14]):
        for seed, shift in ((0, 0), (1, 0), (2, 1), (3, 0)):
            w, scale, weight = quantised(draw(512, 1024, device=gpu, seed=seed) / 32, "row")
            w, scale = (
                flat[shift : shift + w.numel()].view(512, 1024).copy_(w),
                scales[shift:][:512].copy_(scale),
            )
            x = draw(20 + seed, 1024, device=gpu)
            assert (
                error(matmul(x, w, w_scale=scale, config=config), right(x, weight)) < LIMITS[torch.bfloat16]
            )
    assert all(plan.bound is not None for plan in _plans.values())


def test_warm_ups_know_fp8_layers(gpu):
    layers = [Linear(1536, 2048, scaled="block"), Linear(1536, 2048, gated=True, scaled="row")]
    warm_up_matmul(layers, [1, 16, 300])
    for layer in layers:
        w, scale, weight = quantised(draw(1536, 2048, device=gpu) / 45, layer.scaled, layer.dtype)
        for rows in (1, 16, 300):
            x = draw(rows, 2048, device=gpu)
            got = matmul(x, w, w_scale=scale, gated=layer.gated)
            assert error(got, right(x, weight, gated=layer.gated)) < LIMITS[torch.bfloat16]


def test_the_op_compiles_whole(gpu):
    import heurgen_kernels.ops  # noqa: F401

    x = draw(5, 256, device=gpu)
    w, scale, weight = quantised(draw(128, 256, device=gpu) / 16, "block", x.dtype)

    def block(x, w, scale):
        return torch.ops.heurgen.matmul(torch.relu(x), w, w_scale=scale) * 2

    found = torch.compile(block, fullgraph=True)(x, w, scale)
    assert error(found, 2 * right(torch.relu(x), weight)) < LIMITS[torch.bfloat16]
