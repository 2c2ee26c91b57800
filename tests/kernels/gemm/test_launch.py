"""From a product to a launch: what is kept from call to call, and on which device."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.caches import Cache
from heurgen_kernels.gemm import launch
from heurgen_kernels.gemm.call import Product, check
from heurgen_kernels.gemm.config import Config
from heurgen_kernels.host import bound, dispatch
from heurgen_kernels.host.bound import Bound
from heurgen_kernels.host.hardware import Device

CONFIG = Config("stream_k", 16, 32, 32)


def product(rows=3, width=64, size=96, residual=False, apart=0):
    def half(height, columns):
        return torch.zeros((height, columns + apart), dtype=torch.float16)[:, :columns]

    call = Product(
        half(rows, size), half(width, size), None, half(rows, width) if residual else None,
        half(rows, width), False,
    )  # fmt: skip
    check(call)
    return call


@pytest.fixture
def ran(monkeypatch):
    """(plan, how tiles are shared) of each launch; nothing runs."""
    found = []
    monkeypatch.setattr(launch, "_run", lambda plan, call, addresses, shares: found.append((plan, shares)))
    monkeypatch.setattr(launch, "_plans", Cache())
    monkeypatch.setattr(launch, "_launches", Cache())
    return found


def test_the_same_product_is_prepared_once(ran, monkeypatch):
    call, prepared = product(), []
    original = launch._known
    monkeypatch.setattr(launch, "_known", lambda *given: prepared.append(given) or original(*given))
    for _ in range(3):
        launch.launch(call, CONFIG)
    launch.launch(product(), CONFIG)  # other tensors of the same shapes
    assert (len(ran), len(prepared)) == (4, 1)
    launch.launch(call, CONFIG._replace(num_warps=8))
    assert len(prepared) == 2


def test_products_that_run_the_same_kernel_have_one_plan_and_shares_of_their_own(ran):
    for width in (64, 96, 160):
        launch.launch(product(width=width), CONFIG)
    assert len({id(plan) for plan, _ in ran}) == len(launch._plans) == 1
    assert [shares.n_tiles for _, shares in ran] == [2, 3, 5]


@pytest.mark.parametrize(
    "other", [{"rows": 17}, {"size": 100}, {"residual": True}, {"apart": 3}, {"width": 63}], ids=str
)
def test_what_changes_the_compiled_kernel_has_a_plan_of_its_own(ran, other):
    launch.launch(product(), CONFIG)
    launch.launch(product(**other), CONFIG)
    assert len(launch._plans) == 2
    assert ran[0][0] is not ran[1][0]


def test_gpus_that_are_alike_have_plans_of_their_own(ran):
    """A loaded kernel is of one GPU; the second one here is no GPU at all, but as much alike."""
    call, device = product(), Device("nvidia", (9, 0), 132)
    elsewhere = Product(
        *(tensor.to("meta") for tensor in (call.x, call.weight)), None, None, call.out.to("meta"), False
    )
    for one in (call, elsewhere) * 2:
        check(one, device)
        launch.launch(one, CONFIG)
    assert [plan for plan, _ in ran[2:]] == [plan for plan, _ in ran[:2]]
    assert len(launch._plans) == 2


def test_what_is_kept_is_bounded(ran, monkeypatch):
    monkeypatch.setattr(launch, "_launches", Cache(3))
    for width in range(32, 32 * 9, 32):
        launch.launch(product(width=width), CONFIG)
        assert len(launch._launches) <= 3
    assert [shares.n_tiles for _, shares in ran] == list(range(1, 9))


def test_no_rows_are_no_launch(ran):
    call = product(rows=0)
    assert launch.launch(call, CONFIG) is call.out
    assert ran == []


def test_another_gpu_is_entered_first(ran, monkeypatch):
    """The tensors are on GPU 1 as far as the launch can see; GPU 0 is the current one, then GPU 1."""
    call, current, entered = product(), [0], []
    call.layout = replace(call.layout, index=1)

    @contextmanager
    def device(index):
        entered.append((index, len(ran)))
        current.append(index)
        yield
        current.pop()

    monkeypatch.setattr(launch, "current_device", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "device", device)
    assert launch.launch(call, CONFIG) is call.out
    assert (entered, len(ran)) == ([(1, 0)], 1)
    current.append(1)
    launch.launch(call, CONFIG)
    assert (len(entered), len(ran)) == (1, 2)


class Kernel(dict):
    """Notes whether it is launched, with the grid it has, or compiled alone."""

    def __init__(self, grid, compiled, names):
        self[grid] = lambda *_, **__: names.append("triton") or compiled
        self.run = lambda *_, grid, warmup, **__: names.append(f"warmup={warmup}") or compiled


@pytest.fixture
def planned(monkeypatch):
    """(plan, call, shares, names): what launches the plan is noted under names, and nothing runs."""
    call, names = product(), []
    _, plan, shares, _ = launch._known(call, CONFIG)
    compiled = SimpleNamespace(packed_metadata=())
    plan.kernel = Kernel((shares.programs,), compiled, names)
    monkeypatch.setattr(launch, "_launch_bound", lambda *_: names.append("bound"))
    monkeypatch.setattr(bound, "bind", lambda *given: given)
    monkeypatch.setattr(launch, "dispatched", lambda *_: ())
    monkeypatch.setattr(launch, "settle_cache_keys", lambda: None)
    plan.bound = None
    return plan, call, shares, names


def test_the_first_launch_is_tritons_and_binds_the_next(planned, monkeypatch):
    """And nothing is launched inside `compiling`, whether bound or not."""
    plan, call, shares, names = planned
    addresses = (0, 0, 0, 0, 0)
    with dispatch.compiling():
        for _ in range(2):
            launch._run(plan, call, addresses, shares)
    assert plan.bound is None
    launch._run(plan, call, addresses, shares)
    assert plan.bound is not None
    launch._run(plan, call, addresses, shares)
    with dispatch.compiling():
        launch._run(plan, call, addresses, shares)
    monkeypatch.setattr(dispatch._ENTER, "calls", [print])
    launch._run(plan, call, addresses, shares)
    assert names == ["warmup=True", "warmup=True", "triton", "bound", "warmup=True", "triton"]


def described(rows=256, width=512, size=128, apart=(0, 0, 0, 0)):
    """A product over tensors that all begin at 0, with `apart` columns between rows of x, w, residual and out."""

    def meta(height, columns, more):
        return torch.empty((height, columns + more), dtype=torch.float16, device="meta")[:, :columns]

    shapes = ((rows, size), (width, size), (rows, width), (rows, width))
    x, w, residual, out = (meta(*shape, more) for shape, more in zip(shapes, apart, strict=True))
    call = Product(x, w, None, residual, out, False)
    check(call, Device("nvidia", (9, 0), 132))
    return call


@pytest.mark.parametrize(
    ("other", "anew"),
    [
        ({}, []),
        ({"rows": 512}, [2, 4, 5]),
        ({"width": 1024}, [1, 4, 5]),
        ({"size": 256}, [1, 2]),
        ({"apart": (128, 0, 0, 0)}, [2]),
        ({"apart": (0, 128, 0, 0)}, [1]),
        ({"apart": (0, 0, 128, 0)}, [4, 5]),
        ({"apart": (0, 0, 0, 128)}, [4, 5]),
    ],
    ids=str,
)
def test_descriptors_are_encoded_anew_for_what_they_describe(ran, other, anew):
    """By slot: weight, x, out and residual, of products that run the same kernel over the same addresses."""
    config, encoded, given = Config("warp_specialized", 64, 128, 64, 4, 4, 1, 1), [], []

    def encode(slot, descriptor):
        encoded.append(slot)
        return [(slot, descriptor.shape, descriptor.strides)]

    for call in (described(), described(**other)):
        launch.launch(call, config)
        (plan, shares), encoded[:] = ran[-1], []
        bind = Bound(lambda *a: given.append(a), (), encode, {slots[0]: Cache() for slots in plan.sources})
        plan.bound = plan.bound or bind
        launch._launch_bound(plan.bound, (plan, call, (0,) * 6, 0, shares, (None, None)))
    assert encoded == anew
    assert len(launch._plans) == 1
    assert [tuple(one[1:]) for one in given[-1] if isinstance(one, tuple) and len(one) == 3] == [
        (list(tensor.shape), [tensor.stride(0), 1])
        for tensor in (call.weight, call.x, call.out, call.residual)
    ]


def test_scratch_is_for_shared_tiles_alone():
    for splits in (1, 3):
        call = product()
        _, plan, shares, _ = launch._known(call, CONFIG._replace(num_splits=splits))
        part, counters = launch.scratch_of(plan, call, 0, shares)
        if splits == 1:
            assert (part, counters) == (None, None)
            continue
        assert (part.dtype, part.numel()) == (torch.float32, 2 * 3 * 16 * 32)
        assert counters.numel() >= 2
        assert not counters[:2].any()
