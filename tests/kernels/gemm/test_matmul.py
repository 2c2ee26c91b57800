"""`matmul` in Triton's interpreter against float64: odd shapes, strides, bias, residual, gate, shared K."""

import heurgen_kernels.ops  # noqa: F401  registers torch.ops.heurgen.matmul
import numpy as np
import pytest
import torch
from heurgen_kernels.caches import forget
from heurgen_kernels.gemm.api import matmul
from heurgen_kernels.gemm.call import Product, check
from heurgen_kernels.gemm.config import Config
from heurgen_kernels.gemm.launch import launch
from heurgen_kernels.gemm.plan import adapted, share
from heurgen_kernels.host import scratch
from heurgen_kernels.host.hardware import Device
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.kernels.products import error, right

WHOLE = Config("stream_k", 32, 32, 32)
CONFIGS = {
    "whole": WHOLE,
    "split": WHOLE._replace(num_splits=3),
    "parts": WHOLE._replace(programs_per_sm=1),
    "streamed": Config("stream_k", 64, 16, 16, num_splits=0, programs_per_sm=1),
    "small": Config("stream_k", 16, 64, 64),
    "vector": Config("vector", 1, 16, 256, 2, 1),
    "two vectors": Config("vector", 2, 16, 512, 4, 3),
}
SHAPES = [(1, 40, 64), (3, 72, 100), (17, 33, 200), (70, 130, 33), (16, 16, 8), (5, 64, 1), (2, 40, 1030)]


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(("rows", "width", "size"), SHAPES)
def test_products_are_right(config, rows, width, size):
    rows = min(rows, 5) if config.variant == "vector" else rows  # a program has one or two
    x, w = draw(rows, size), draw(width, size, seed=1) / size**0.5
    bias, residual = draw(width, seed=2), draw(rows, width, seed=3)
    assert error(matmul(x, w, config=config), right(x, w)) < 1e-3
    assert error(matmul(x, w, bias, residual=residual, config=config), right(x, w, bias, residual)) < 1e-3


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(("rows", "width", "size"), [(1, 40, 64), (19, 33, 100)])
def test_gated_products_are_right(config, rows, width, size):
    x, w, bias = draw(rows, size), draw(2 * width, size, seed=1) / size**0.5, draw(2 * width, seed=2)
    assert error(matmul(x, w, gated=True, config=config), right(x, w, gated=True)) < 1e-3
    assert error(matmul(x, w, bias, gated=True, config=config), right(x, w, bias, gated=True)) < 1e-3


HOPPER = Device("nvidia", (9, 0), 132)


@pytest.mark.parametrize("gated", [False, True])
def test_the_weight_may_be_the_left_operand(gated):
    """As on Hopper, where the matrix unit takes no less than 64 rows there."""
    x, w = draw(9, 96), draw(2 * 72 if gated else 72, 96, seed=1) / 10
    call = Product(x, w, None, None, torch.empty(9, 72).half(), gated)
    check(call, HOPPER)
    launch(call, Config("stream_k", 16, 64, 32, num_splits=2))
    assert error(call.out, right(x, w, gated=gated)) < 1e-3


@pytest.mark.parametrize(
    ("config", "rows", "width", "expected"),
    [
        # 96 tiles of 64 columns: 4 parts of each keep 3 programs a processor busy
        (Config("stream_k", 16, 64, 64, num_stages=6, programs_per_sm=3), 16, 6144, (0, 0, 4, 384, 384, 384)),
        # 192 tiles: 132 whole, then the halves of 60
        (Config("warp_specialized", 128, 128, 64, 4, 12, 1, 1), 512, 6144, (132, 0, 2, 252, 132, 120)),
        (Config("warp_specialized", 128, 256, 64, 4, 12), 512, 6144, (96, 0, 1, 96, 96, 0)),
        # 39 columns of tiles; 96 of 64 x 64
        (Config("warp_specialized", 128, 160, 64, 4, 12, 1, 1), 512, 6144, (132, 0, 5, 252, 132, 120)),
        (Config("warp_specialized", 64, 64, 64, 4, 12, 2), 64, 6144, (0, 0, 2, 192, 132, 192)),
        # one row of 48 tiles, streamed; two rows of them are not
        (Config("warp_specialized", 16, 128, 64, 4, 12, 0, 1), 16, 6144, (0, 48, 1, 0, 132, 264)),
        (Config("warp_specialized", 16, 128, 64, 4, 12, 0, 1), 32, 6144, (96, 0, 1, 96, 96, 0)),
    ],
)
def test_how_tiles_are_shared(config, rows, width, expected):
    """(whole, left, splits, items, programs, slots) of a Hopper with 132 processors, K 4096."""
    meta = {"dtype": torch.bfloat16, "device": "meta"}
    x, w, out = (
        torch.empty(rows, 4096, **meta),
        torch.empty(width, 4096, **meta),
        torch.empty(rows, width, **meta),
    )
    call = Product(x, w, None, None, out, False)
    check(call, HOPPER)
    found = share(adapted(config, call), rows, width, 4096, False, 132)
    assert found[3:] == expected


def test_rows_that_end_inside_16_bytes_are_read_through_descriptors():
    """K 515 on Hopper: stream_k would load one element at a time; not where its steps or 16 bytes divide K."""

    def launched(size, config, width=512, apart=8):
        def meta(rows, columns):
            return torch.empty((rows, -(-columns // 8) * apart), dtype=torch.bfloat16, device="meta")[
                :, :columns
            ]

        call = Product(meta(9, size), meta(width, size), None, None, meta(9, width), False)
        check(call, HOPPER)
        return adapted(config, call).variant

    config = Config("stream_k", 16, 64, 64)
    assert launched(515, config) == launched(524, config) == "warp_specialized"
    assert launched(520, config) == launched(528, config) == launched(512, config) == "stream_k"
    assert launched(515, config, apart=9) == "stream_k"


@pytest.mark.parametrize(
    ("k", "counted"),
    [
        (8, 8),
        (24, 8),
        (40, 8),
        (136, 8),
        (200, 8),
        (4, 4),
        (12, 4),
        (132, 4),
        (2, 2),
        (6, 2),
        (130, 2),
        (1, 1),
        (3, 1),
    ],
)
@pytest.mark.parametrize("apart", [0, 8])
def test_strides_and_k_are_counted_in_what_all_divide_by(k, counted, apart):
    """K no multiple of 16, and rows of the output that divide by nothing."""
    x, w = draw(20, k + apart)[:, :k], draw(71, k + apart, seed=1)[:, :k] / k**0.5
    residual, given = draw(20, 71, seed=2), torch.full((20, 79), 7.0).half()
    call = Product(x, w, None, residual, given[:, :71], False)
    check(call, HOPPER)
    assert call.layout.counted == counted
    for config in (CONFIGS["split"], CONFIGS["two vectors"]):
        given.fill_(7)
        launch(call, config)
        assert error(call.out, right(x, w, None, residual)) < 1e-3
        assert (given[:, 71:] == 7).all()


DESCRIBED = [
    Config("stream_k_tma", 16, 64, 64, 4, 5),
    Config("stream_k_tma", 64, 32, 32, 4, 3, 3),
    Config("stream_k_tma", 32, 16, 64, 4, 3, 0, 1),
]


@pytest.mark.parametrize("config", DESCRIBED, ids=str)
@pytest.mark.parametrize("size", [8, 72, 193])
@pytest.mark.parametrize("gated", [False, True])
def test_descriptors_read_no_more_than_the_matrices(config, size, gated):
    """Rows lie 200 elements apart, NaN between them and behind the last."""

    def lay(matrix):
        wide = torch.full((len(matrix) + 3, 200), torch.nan).half()
        wide[: len(matrix), :size] = matrix
        return wide[: len(matrix), :size]

    x, w = lay(draw(37, size)), lay(draw(66, size, seed=1) / size**0.5)
    bias, residual = draw(66, seed=2), None if gated else draw(37, 66, seed=3)
    call = Product(x, w, bias, residual, torch.empty(37, 33 if gated else 66).half(), gated)
    check(call, HOPPER)
    assert adapted(config, call).variant == "stream_k_tma"
    launch(call, config)
    assert error(call.out, right(x, w, bias, residual, gated)) < 1e-3


def test_counters_are_left_as_zeros():
    matmul(draw(20, 256), draw(70, 256, seed=1), config=CONFIGS["streamed"])
    matmul(draw(20, 256), draw(70, 256, seed=1), config=CONFIGS["split"])
    real = [arena.zeros for arena in scratch._counters.values() if not arena.zeros.is_meta]
    assert real
    assert not any(zeros.any() for zeros in real)


def test_rows_may_lie_apart_and_what_lies_between_is_not_read():
    x, w = draw(7, 48), draw(24, 48, seed=1)
    wide_x, wide_w, wide_out = (torch.full(size, torch.nan).half() for size in ((7, 64), (24, 80), (7, 40)))
    wide_x[:, :48], wide_w[:, :48] = x, w
    out = wide_out[:, :24]
    assert matmul(wide_x[:, :48], wide_w[:, :48], out=out, config=WHOLE).data_ptr() == out.data_ptr()
    assert error(out, right(x, w)) < 1e-3
    assert wide_out[:, 24:].isnan().all()


def test_leading_dimensions_are_kept_and_no_rows_are_no_launch():
    x, w = draw(2, 3, 32), draw(16, 32, seed=1)
    got = matmul(x, w, config=WHOLE)
    assert got.shape == (2, 3, 16)
    assert error(got, right(x, w)) < 1e-3
    row, residual, out = x[0, 0], draw(16, seed=2), torch.empty(16, dtype=x.dtype)
    assert matmul(row, w, residual=residual, out=out, config=WHOLE).shape == (16,)
    assert error(out, right(row, w, residual=residual)) < 1e-3
    assert torch.equal(torch.ops.heurgen.matmul(row, w, residual=residual), matmul(row, w, residual=residual))
    assert matmul(x[:0], w, config=WHOLE).shape == (0, 3, 16)
    assert matmul(draw(0, 32), w, gated=True).shape == (0, 8)


def test_the_residual_may_be_the_output():
    x, w, residual = draw(9, 32), draw(16, 32, seed=1), draw(9, 16, seed=2)
    expected = right(x, w, residual=residual)
    matmul(x, w, residual=residual, out=residual, config=WHOLE)
    assert error(residual, expected) < 1e-3


def test_without_a_config_the_default_or_the_shipped_selector_chooses():
    x, w = draw(5, 64), draw(48, 64, seed=1)
    assert error(matmul(x, w), right(x, w)) < 1e-3
    asked = []
    chosen = matmul(x, w, heuristics=lambda vendor, **features: asked.append(features) or WHOLE)
    assert error(chosen, right(x, w)) < 1e-3
    assert asked == [{"M": 5, "N": 48, "K": 64, "gated": False, "multiprocessors": 132}]


@pytest.mark.parametrize("gated", [1, np.bool_(True)])
def test_gated_is_a_bool_to_what_is_compiled(gated):
    """Whatever it was went on to the heuristics and into kernels as their constant."""
    asked = []
    x, w = draw(5, 48), draw(32, 48, seed=1)
    matmul(x, w, gated=gated, heuristics=lambda vendor, **features: asked.append(features["gated"]) or WHOLE)
    assert asked[0] is True


WRONG = [
    (lambda x, w: matmul(x.float(), w), r"x is torch.float32; expected float16 or bfloat16"),
    (
        lambda x, w: matmul(x, w.bfloat16()),
        r"w is torch.bfloat16 and x is torch.float16; expected the same type",
    ),
    (lambda x, w: matmul(x, w[:, :16]), r"K is 32 in x and 16 in w"),
    (lambda x, w: matmul(x, w.T.contiguous().T), r"w has strides \(1, 16\); expected a row-major matrix"),
    (lambda x, w: matmul(x, w[:15], gated=True), r"w has 15 rows; expected an even number"),
    (lambda x, w: matmul(x, w, draw(8)), r"bias has shape \(8,\); expected \(16,\)"),
    (lambda x, w: matmul(x, w, gated=True, residual=draw(4, 8)), r"residual is given for a gated product"),
    (lambda x, w: matmul(x, w, 1.0), r"bias is 1.0; expected a tensor"),
    (lambda x, w: matmul([1.0], w), r"x is \[1.0\]; expected a tensor"),
    (
        lambda x, w: matmul(x[None], w, residual=draw(4, 1, 16)),
        r"residual has shape \(4, 1, 16\); expected \(1, 4, 16\)",
    ),
    (lambda x, w: matmul(x[None], w, out=draw(4, 16)), r"out has shape \(4, 16\); expected \(1, 4, 16\)"),
    (
        lambda x, w: matmul(x.view(2, 2, 32), w, out=draw(2, 2, 16).transpose(0, 1)),
        r"out has strides \(16, 32, 1\); expected rows that lie at equal distances",
    ),
    (lambda x, w: matmul(x[None, :, :0], w[:, :0]), r"x has shape \(1, 4, 0\); K must be at least 1"),
    (
        lambda x, w: matmul(x, w, out=draw(1, 16).expand(4, 16)),
        r"out has strides \(0, 1\); expected a place of its own for each element",
    ),
    (lambda x, w: matmul(x, w, out=x[:, :16]), r"out shares memory with x; expected memory of its own"),
    (lambda x, w: matmul(x, w, out=w[4:8, 8:24]), r"out shares memory with w; expected memory of its own"),
    (lambda x, w: matmul(draw(), w), r"x is one number; expected \[M, K\] or \[..., K\]"),
    (lambda x, w: matmul(x.to("meta"), w.to("meta")), r"tensors are on meta, without memory"),
    (lambda x, w: matmul(x, draw()), r"w has shape \(\); expected \[N, K\]"),
    (lambda x, w: matmul(x[None], draw()), r"w has shape \(\); expected \[N, K\]"),
    (lambda x, w: matmul(x[None], w[:0]), r"w has 0 rows; expected at least one"),
    (lambda x, w: matmul(x[None], w[:0], out=x[None, :, :0]), r"w has 0 rows; expected at least one"),
    (lambda x, w: matmul(x[None], w, out=np.zeros((1, 4, 16))), r"out is array\(\[\[\[0"),
    (
        lambda x, w: matmul(x[None], w, gated=True, residual=draw(1, 4, 16)),
        r"residual is given for a gated product",
    ),
    (lambda x, w: matmul(x, w, out=draw(4, 15)), r"out has shape \(4, 15\); expected \(4, 16\)"),
    (
        lambda x, w: matmul(x, w, config={"BLOCK_M": 48}),
        r"config.BLOCK_M is 48; allowed: 1, 2, 16, 32, 64, 128, 256",
    ),
    (lambda x, w: matmul(x, w, config={"TILE_SIZE": 16}), r"config has TILE_SIZE = 16; the parameters"),
    (
        lambda x, w: matmul(x, w, config={"num_splits": 2, "programs_per_sm": 1}),
        r"config.num_splits is 2 with programs_per_sm 1; K is cut into",
    ),
    (
        lambda x, w: matmul(x, w, config={"variant": "warp_specialized", "BLOCK_N": 64}),
        r"config.BLOCK_N is 64; warp_specialized with BLOCK_M 16 takes 128",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_what_is_wrong_is_said_before_a_launch(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(draw(4, 32), draw(16, 32, seed=1))


class Wrapped(torch.Tensor):
    """As libraries quantise a weight in place: its shape, strides and type say what it was."""

    @staticmethod
    def __new__(cls, inner):
        layout = {"strides": inner.stride(), "dtype": inner.dtype, "device": inner.device}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **layout)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError


def freed(w):
    """As sharded training leaves a parameter between its layer's calls."""
    w.untyped_storage().resize_(0)
    return torch.nn.Parameter(w, requires_grad=False)


@pytest.mark.parametrize(
    ("name", "lose"),
    [("Wrapped", Wrapped), ("Parameter", freed), ("FakeTensor", lambda w: FakeTensorMode().from_tensor(w))],
)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_weights_without_memory_are_refused(device, name, lose, known):
    """Their address is 0, which ends the process on a GPU."""
    x, w = draw(5, 48, seed=3).to(device), draw(16, 48, seed=4).to(device)
    forget()
    if known:
        matmul(x, w)
    said = rf"^w is a {name} without memory; expected plain tensors, and where shapes are traced torch.ops"
    with pytest.raises(ValueError, match=said):
        matmul(x, lose(w))
