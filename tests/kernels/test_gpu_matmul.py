"""`matmul` on a GPU: every config of the selector, shapes around each threshold, graphs, streams, determinism."""

from __future__ import annotations

import os
from collections import defaultdict
from random import Random

import pytest
import torch
from heurgen_kernels import Linear, warm_up_matmul
from heurgen_kernels.ahead.compiling import KERNELS, instead_of_compiling
from heurgen_kernels.caches import Cache
from heurgen_kernels.gemm import launch, padding
from heurgen_kernels.gemm.api import matmul
from heurgen_kernels.gemm.config import Config, normalise
from heurgen_kernels.gemm.launch import _plans
from heurgen_kernels.heuristics import matmul as generated

from tests.kernels.products import error, right

pytestmark = pytest.mark.gpu

LIMITS = {torch.bfloat16: 4e-3, torch.float16: 6e-4}

# A generated module holds the configs that its selector returns as constants.
CHOSEN = [normalise(value) for name, value in vars(generated).items() if name.startswith("_CONFIG_")]

# One consumer; second sums; whole tiles, cut and streamed.
FORMS = [
    Config("warp_specialized", rows, width, 64, 4, 12, *shared)
    for rows, width in ((32, 64), (64, 64), (64, 80), (64, 144), (64, 256), (128, 96), (128, 160), (128, 192))
    for shared in ((1, 0), (3, 0), (1, 1), (0, 1))
    if rows < 128 or shared != (0, 1)
]


def configs():
    """What the selector can return and the forms of a tile; where all is asked for also the tunable's space, each of
    which the tuner compares with the reference.
    """
    if not os.environ.get("HEURGEN_WHOLE_TABLE"):
        return list(dict.fromkeys([*CHOSEN, *FORMS]))
    try:
        from heurgen_kernels.tools.matmul_tunable import tunable

        from heurgen.tune.space import enumerate_configs
    except ImportError:  # the compiler is not installed here
        return [*CHOSEN, *FORMS]
    found = enumerate_configs(tunable.space, "nvidia", list(tunable.features)).configs
    return list(dict.fromkeys([*CHOSEN, *FORMS, *(normalise(dict(config)) for config in found)]))


SPACE = configs()
ODD = [
    (1, 128, 4096), (15, 136, 64), (17, 1000, 520), (33, 72, 2048), (64, 384, 192), (65, 640, 1000), (130, 264, 4104),
    (257, 2304, 128), (400, 520, 8), (20, 264, 2880), (70, 136, 208),
]  # fmt: skip
# K that is a multiple of 8 and not of 16, and strides with it; rows that begin inside 16 bytes; one and two rows.
FEW = [(1, 1000, 3000), (2, 5000, 520), (3, 33, 77), (16, 264, 24)]


def draw(*shape, device, dtype=torch.bfloat16, seed=0):
    generator = torch.Generator(device).manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device=device).to(dtype)


def apart(matrix):
    """The matrix, its rows apart, with NaN between and behind them."""
    wide = torch.full((matrix.shape[0] + 3, matrix.shape[1] + 16), torch.nan, device=matrix.device).to(
        matrix.dtype
    )
    wide[: matrix.shape[0], : matrix.shape[1]] = matrix
    return wide[: matrix.shape[0], : matrix.shape[1]]


def check(gpu, config, rows, width, size, dtype=torch.bfloat16, spread=False):
    """Plain, with bias and residual, and gated; nothing but the output is written."""
    lay = apart if spread else (lambda matrix: matrix)
    x, w = (
        lay(draw(rows, size, device=gpu, dtype=dtype)),
        lay(draw(width, size, device=gpu, dtype=dtype) / size**0.5),
    )
    bias, residual = draw(width, device=gpu, dtype=dtype), lay(draw(rows, width, device=gpu, dtype=dtype))
    limit = LIMITS[dtype]
    out = apart(torch.zeros(rows, width, device=gpu, dtype=dtype))
    assert error(matmul(x, w, out=out, config=config), right(x, w)) < limit
    whole = out._base
    assert whole[rows:].isnan().all()
    assert whole[:, width:].isnan().all()
    assert error(matmul(x, w, bias, residual=residual, config=config), right(x, w, bias, residual)) < limit
    if width % 2 == 0:
        assert error(matmul(x, w, bias, gated=True, config=config), right(x, w, bias, gated=True)) < limit


@pytest.mark.parametrize("config", SPACE, ids=lambda c: "-".join(map(str, c)))
def test_every_config_is_right(gpu, config):
    number = SPACE.index(config)
    for rows, width, size in {ODD[number % 11], ODD[(number * 5 + 2) % 11], (config.BLOCK_M + 1, 1536, 4096)}:
        check(
            gpu,
            config,
            rows,
            width,
            size,
            (torch.bfloat16, torch.float16)[number % 2],
            spread=number % 3 == 0,
        )


@pytest.mark.parametrize("rows", [32, 64, 128])
def test_an_output_that_no_descriptor_writes(gpu, rows):
    config = Config("warp_specialized", rows, 64 if rows < 128 else 128, 64, 4, 12, 1, 1)
    for width, size in ((1001, 1000), (5002, 512), (257, 4096)):
        check(gpu, config, rows + 1, width, size, spread=rows == 64)


@pytest.mark.parametrize("config", [config for config in SPACE if config.BLOCK_M <= 16], ids=str)
def test_few_rows_are_right(gpu, config):
    for number, shape in enumerate(FEW):
        check(gpu, config, *shape, (torch.bfloat16, torch.float16)[number % 2], spread=number % 3 == 1)


@pytest.mark.parametrize(("rows", "width", "size"), [*ODD, (3, 33, 77), (70, 771, 640), (20, 64, 1)])
def test_what_is_chosen_is_right(gpu, rows, width, size):
    for dtype in LIMITS:
        check(gpu, None, rows, width, size, dtype, spread=True)


@pytest.mark.parametrize("shift", [1, 4, 8])
def test_addresses_need_no_alignment(gpu, shift):
    flat = draw(40 * 256 + shift, device=gpu)
    x = flat[shift:].view(40, 256)
    w = draw(192, 256, device=gpu) / 16
    for config in (
        Config("warp_specialized", 64, 128, 64, 4, 12), Config("stream_k", 64, 64, 64, 4, 4, 2),
        Config("stream_k_tma", 64, 64, 128, 4, 4), Config("vector", 2, 16, 256, 4, 4),
    ):  # fmt: skip
        assert error(matmul(x, w, config=config), right(x, w)) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize(
    "config",
    [
        Config("warp_specialized", 16, 128, 64, 4, 12, 1, 1), Config("warp_specialized", 32, 64, 64, 4, 12, 1, 1),
        Config("warp_specialized", 128, 96, 64, 4, 12, 1, 1), Config("stream_k", 16, 64, 128, 4, 4, 1, 4),
        Config("stream_k_tma", 16, 64, 128, 4, 5, 1, 2),
    ],
    ids=str,
)  # fmt: skip
def test_shared_sums_are_the_same_each_time_and_counters_return_to_zero(gpu, config):
    from heurgen_kernels.host import scratch

    x, w = draw(13, 8192, device=gpu), draw(3000, 8192, device=gpu) / 90
    first = matmul(x, w, config=config)
    assert error(first, right(x, w)) < LIMITS[torch.bfloat16]
    for _ in range(50):
        assert torch.equal(matmul(x, w, config=config), first)
    assert not any(arena.zeros.any() for arena in scratch._counters.values())


def test_large_products_are_right(gpu):
    x, w = draw(8192, 4096, device=gpu), draw(6144, 4096, device=gpu) / 64
    residual = draw(8192, 6144, device=gpu)
    expected = (x @ w.T + residual).double()
    wide = [Config("warp_specialized", 128, width, 64, 4, 12) for width in (64, 96, 128, 160, 192, 256)]
    for config in (None, *wide, *(one._replace(programs_per_sm=1) for one in wide)):
        assert error(matmul(x, w, residual=residual, config=config), expected) < 6e-3


@pytest.mark.parametrize("config", FORMS, ids=str)
def test_programs_with_several_tiles_are_right(gpu, config):
    """Buffers, barriers and staging are used again; the last columns of tiles reach past the weight's rows."""
    check(gpu, config, config.BLOCK_M * (5 if config.BLOCK_M == 128 else 1), 18568, 1032)


@pytest.mark.parametrize(
    "config",
    [
        Config("warp_specialized", rows, width, 64, 4, 12, 1, shared)
        for rows, width in ((16, 128), (32, 64), (64, 128), (128, 64), (128, 192), (128, 256))
        for shared in (0, 1)
    ],
    ids=str,
)
def test_what_ends_behind_a_tensor_begins_earlier_and_stores_what_is_its_own(gpu, config):
    """Added to in place: what two tiles have is added once. The same each time, whichever tile is the last."""
    w = draw(1352, 4096, device=gpu) / 64
    for rows in (63, 65, 127, 129, 200, 1001):
        x, residual = draw(rows, 4096, device=gpu), draw(rows, 1352, device=gpu)
        expected = right(x, w, None, residual)
        first = matmul(x, w, residual=residual, config=config)
        for _ in range(5):
            out = residual.clone()
            matmul(x, w, residual=out, out=out, config=config)
            assert error(out, expected) < LIMITS[torch.bfloat16]
            assert torch.equal(out, first)


@pytest.fixture
def copies(gpu, monkeypatch):
    """The calls over copies of launches: each copy holds NaN before it is filled."""
    if torch.cuda.get_device_capability(gpu)[0] != 9:
        pytest.skip("x is copied on Hopper alone")
    made = []

    def poisoned(call, copied):
        made.append(padding.over(call, copied))
        for matrix, has in zip((made[-1].x, made[-1].weight), copied, strict=True):
            if has:
                count = matrix.untyped_storage().nbytes()
                whole = matrix.as_strided((count // matrix.itemsize,), (1,))
                whole.view(torch.uint8).fill_(0x7F) if matrix.itemsize == 1 else whole.fill_(torch.nan)
        return made[-1]

    monkeypatch.setattr(launch, "over", poisoned)
    return made


# K of whole 16 bytes and no lines; rows of whole and of begun tiles.
COPIED = [(192, 1008, 3000), (193, 5008, 3000), (256, 1360, 4104), (1000, 5008, 3000), (4096, 1040, 1016)]


@pytest.mark.parametrize("block", [(), (64, 64), (128, 192)], ids=str)
@pytest.mark.parametrize("spread", [False, True])
def test_x_is_copied_to_whole_lines(gpu, copies, block, spread):
    """NaN behind K in the copy, before it is filled; with rows that lie apart in x and in the weight, too. Chosen,
    where the selector answers with warp_specialized, and with tiles in parts.
    """
    config = Config("warp_specialized", *block, 64, 4, 12, 1, 1) if block else None
    expected, processors = 0, torch.cuda.get_device_properties(gpu).multi_processor_count
    for number, (rows, width, size) in enumerate(COPIED):
        check(gpu, config, rows, width, size, (torch.bfloat16, torch.float16)[number % 2], spread)
        for gated in (False, False, True):  # what `check` launches
            chosen = config or generated.select_nvidia(rows, width // (1 + gated), size, gated, processors)
            expected += chosen.variant == "warp_specialized"
    assert len(copies) == expected > 2 * len(COPIED)
    assert all(call.x.stride(0) == padding.padded_row(call.x.shape[1]) for call in copies)


@pytest.mark.parametrize(("between", "shift"), [(0, 0), (1, 0), (4, 0), (72, 8), (72, 1)])
def test_x_is_copied_to_whole_lines_from_any_address_and_stride(gpu, copies, between, shift):
    """Rows that begin inside 16 bytes, which no descriptor reads; whole lines from an address inside one."""
    stride, rows, size = 3000 + between, 300, 3000
    flat = torch.full((shift + rows * stride + 64,), torch.nan, device=gpu, dtype=torch.bfloat16)
    x = flat[shift:].as_strided((rows, size), (stride, 1))
    x.copy_(draw(rows, size, device=gpu))
    w = draw(1352, size, device=gpu) / 55
    config = Config("warp_specialized", 128, 128, 64, 4, 12)
    for _ in range(3):
        assert error(matmul(x, w, config=config), right(x, w)) < LIMITS[torch.bfloat16]
    matmul(x[:191], w, config=config)
    assert len(copies) == (4 if stride % 8 or shift % 8 else 3)


# Rows that no descriptor reads, of single elements, two and four; N of whole 16 bytes and not.
UNREAD = [
    (65, 5008, 3001), (300, 1999, 3002), (257, 2003, 3004), (1000, 1040, 1015), (2048, 520, 1001), (400, 50257, 514),
]  # fmt: skip


@pytest.mark.parametrize(("gated", "copied"), [(False, 6), (True, 3)])
def test_what_no_descriptor_reads_is_copied(gpu, copies, gated, copied):
    """A gated product's output of N / 2 columns that no descriptor writes is left to kernels that read no copy."""
    for number, (rows, n, k) in enumerate(UNREAD):
        dtype = (torch.bfloat16, torch.float16)[number % 2]
        n += n % 2 if gated else 0
        x, w = draw(rows, k, dtype=dtype, device=gpu), draw(n, k, dtype=dtype, device=gpu) / k**0.5
        bias = draw(1, n, dtype=dtype, device=gpu)[0]
        residual = None if gated else draw(rows, n, dtype=dtype, device=gpu)
        got = matmul(x, w, bias, residual=residual, gated=gated)
        assert error(got, right(x, w, bias, residual, gated)) < LIMITS[dtype]
    assert len(copies) == copied
    assert all(call.weight.stride(0) == padding.padded_row(call.weight.shape[1]) for call in copies)


@pytest.mark.parametrize(("between", "shift"), [(0, 1), (1, 0), (1, 3), (3, 2), (2, 0), (4, 4)])
def test_a_weight_is_copied_from_any_address_and_stride(gpu, copies, between, shift):
    """Between NaN; whole rows of x beside it."""
    stride, n, size = 3000 + between, 1352, 3000
    flat = torch.full((shift + n * stride + 64,), torch.nan, device=gpu, dtype=torch.bfloat16)
    w = flat[shift:].as_strided((n, size), (stride, 1))
    w.copy_(draw(n, size, device=gpu) / 55)
    x = draw(300, size, device=gpu)
    for _ in range(3):
        assert error(matmul(x, w), right(x, w)) < LIMITS[torch.bfloat16]
    assert [call.weight is not w for call in copies] == 3 * [True]


@pytest.mark.parametrize("size", [3000, 3001])
def test_copies_of_a_graph(gpu, copies, size):
    """The memory is the graph's: what is launched between replays does not change it."""
    x, w = draw(300, size, device=gpu), draw(1000, size, device=gpu) / 55
    matmul(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = [matmul(x, w) for _ in range(3)]
    for seed in range(3):
        x.copy_(draw(300, size, device=gpu, seed=seed))
        matmul(draw(300, size, device=gpu, seed=7), w)
        graph.replay()
        assert all(error(out, right(x, w)) < LIMITS[torch.bfloat16] for out in outs)


def test_x_is_copied_to_whole_lines_on_two_streams(gpu, copies):
    w = draw(1000, 3000, device=gpu) / 55
    streams = [torch.cuda.Stream(gpu) for _ in range(2)]
    xs = [draw(1000, 3000, device=gpu, seed=seed) for seed in range(2)]
    torch.cuda.synchronize(gpu)
    outs = [[], []]
    for _ in range(20):
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                outs[number].append(matmul(xs[number], w))
                copies.clear()  # their memory is free for the stream's next launch
    torch.cuda.synchronize(gpu)
    for x, found in zip(xs, outs, strict=True):
        assert all(error(out, right(x, w)) < LIMITS[torch.bfloat16] for out in found)


def test_launches_are_recorded_and_replayed(gpu):
    w = draw(2048, 4096, device=gpu) / 64
    x = draw(9, 4096, device=gpu)
    configs = [
        None,
        Config("warp_specialized", 16, 128, 64, 4, 12, 1, 1),
        Config("stream_k", 16, 64, 64, 4, 6, 4),
        Config("stream_k_tma", 16, 64, 128, 4, 8, 1, 1),
        Config("vector", 1, 8, 512, 4, 3),
    ]
    for config in configs:
        matmul(x, w, config=config)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs = [matmul(x, w, config=config) for _ in range(3)]
        for seed in range(3):
            x.copy_(draw(9, 4096, device=gpu, seed=seed))
            graph.replay()
            assert all(error(out, right(x, w)) < LIMITS[torch.bfloat16] for out in outs)


def test_two_streams_do_not_share_sums(gpu):
    w = draw(1024, 8192, device=gpu) / 90
    config = Config("warp_specialized", 16, 128, 64, 4, 12, 1, 1)
    streams = [torch.cuda.Stream(gpu) for _ in range(2)]
    xs = [draw(8, 8192, device=gpu, seed=seed) for seed in range(2)]
    torch.cuda.synchronize(gpu)
    outs = [[], []]
    for _ in range(20):
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                outs[number].append(matmul(xs[number], w, config=config))
    torch.cuda.synchronize(gpu)
    for x, found in zip(xs, outs, strict=True):
        assert all(error(out, right(x, w)) < LIMITS[torch.bfloat16] for out in found)


@pytest.mark.parametrize(
    "config",
    [
        Config("warp_specialized", 32, 128, 64, 4, 12), Config("warp_specialized", 64, 64, 64, 4, 12),
        Config("warp_specialized", 128, 160, 64, 4, 12), Config("stream_k_tma", 16, 64, 128, 4, 5),
        Config("vector", 1, 4, 512, 2, 4),
    ],
    ids=str,
)  # fmt: skip
def test_later_launches_are_bound_and_follow_addresses_and_rows(gpu, config):
    w = [draw(512, 1024, device=gpu, seed=seed) / 32 for seed in range(2)]
    for rows in (20, 31, 7, 20):
        for weight in w:
            x, residual = draw(rows, 1024, device=gpu, seed=rows), draw(rows, 512, device=gpu)
            got = matmul(x, weight, residual=residual, config=config)
            assert error(got, right(x, weight, residual=residual)) < LIMITS[torch.bfloat16]
    assert all(plan.bound is not None for plan in _plans.values())


@pytest.mark.parametrize(
    "config",
    [
        Config("warp_specialized", 128, 64, 64, 4, 12), Config("stream_k", 16, 64),
        Config("stream_k_tma", 16, 64, 128, 4, 8), Config("vector", 2, 16, 256, 4, 4),
    ],
    ids=str,
)  # fmt: skip
def test_bound_launches_go_past_tritons_launcher(gpu, config):
    """The weight first or second, or second and third; with a residual, whose descriptor is the last."""
    import triton
    from heurgen_kernels.host.bound import TOGETHER

    if not triton.__version__.startswith(("3.6.", *TOGETHER)) or torch.version.hip is not None:
        pytest.skip(f"Triton {triton.__version__}")
    x, w, residual = draw(30, 512, device=gpu), draw(256, 512, device=gpu), draw(30, 256, device=gpu)
    wide, few = (Config("warp_specialized", *blocks, 64, 4, 12) for blocks in ((128, 96), (32, 128)))
    for given in (config, wide, few):
        for more in ({}, {"residual": residual}):
            for _ in range(2):
                matmul(x, w, config=given, **more)
    assert all(type(plan.bound.launch).__name__ != "CudaLauncher" for plan in _plans.values())


def test_no_product_compiles_after_a_warm_up(gpu, monkeypatch):
    """Triton and the launch path have forgotten what other tests compiled; Triton's cache on disk may have it."""
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "device_caches", defaultdict(kernel.create_binder))
    for module, name in ((launch, "_plans"), (launch, "_launches"), (padding, "_kept")):
        monkeypatch.setattr(module, name, Cache())
    compiled, random = [], Random(0)

    def compile(kernel, original, *given):
        compiled.append(kernel.fn.__name__)
        return original(*given)

    layers = (Linear(1000, 3000, residual=True), Linear(2048, 1536, gated=True))
    with instead_of_compiling(compile):
        warm_up_matmul(layers, range(1, 401))
        before = len(compiled)
        for layer in layers:
            w = draw(layer.n, layer.k, device=gpu) / layer.k**0.5
            for rows in (1, 2, *(random.randint(1, 400) for _ in range(30))):
                x = draw(rows, layer.k, device=gpu)
                residual = draw(rows, layer.n, device=gpu) if layer.residual else None
                got = matmul(x, w, residual=residual, gated=layer.gated)
                expected = right(x, w, residual=residual, gated=layer.gated)
                assert error(got, expected) < LIMITS[torch.bfloat16]
    assert len(set(compiled)) > 1
    assert ("pad_kernel" in compiled) == (torch.cuda.get_device_capability(gpu)[0] == 9)
    assert compiled[before:] == []


def test_the_op_compiles_whole(gpu):
    import heurgen_kernels.ops  # noqa: F401

    x, w, residual = draw(5, 256, device=gpu), draw(128, 256, device=gpu) / 16, draw(5, 128, device=gpu)

    def block(x, w, residual):
        return torch.ops.heurgen.matmul(torch.relu(x), w, None, residual) * 2

    found = torch.compile(block, fullgraph=True)(x, w, residual)
    assert error(found, 2 * right(torch.relu(x), w, residual=residual)) < LIMITS[torch.bfloat16]


def test_launches_on_a_device_that_is_not_the_current_one(gpu):
    """Few rows; many, of which a copy is made."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    for device in (torch.device("cuda", 1), torch.device("cuda", 0)):
        for rows, width, size in ((8, 512, 2048), (300, 1000, 3000)):
            x, w = draw(rows, size, device=device), draw(width, size, device=device) / 45
            for _ in range(2):
                assert error(matmul(x, w), right(x, w)) < LIMITS[torch.bfloat16]
