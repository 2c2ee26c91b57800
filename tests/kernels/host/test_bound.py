"""Bound launches: what Triton's launcher would hand to its C function, without its work at every launch.

Triton's own launcher class stands around a C function that only notes what it is given: there is no GPU here.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import triton
from heurgen_kernels.caches import Cache
from heurgen_kernels.config import Config
from heurgen_kernels.device.split_kv import split_kv_kernel
from heurgen_kernels.host import bound, dispatch, launch, pages, plan, widen
from heurgen_kernels.host.hardware import Device
from triton.backends.nvidia import driver

from tests.kernels.batches import checked, make_batch

CONFIG = Config("split_kv", 16, 16, 4, 2, 3)
FRESH = [(5, 40), (3, 33)]


@pytest.fixture
def encoded(monkeypatch):
    """What was encoded: the arguments of the driver's `fill_tma_descriptor`."""
    notes = []

    def fill(*arguments):
        notes.append(arguments)
        return ("CUtensorMap", *arguments[:1])

    utils = SimpleNamespace(fill_tma_descriptor=fill, fill_tma_descriptor_tiled=fill)
    monkeypatch.setattr(triton.runtime, "driver", SimpleNamespace(active=SimpleNamespace(utils=utils)))
    return notes


# Triton 3.6's C function takes a kernel's own arguments as its own, from the 13th on; later ones together, as the last.
TOGETHER = triton.__version__.startswith(bound.TOGETHER)
SINCE = {"arg_annotations": ("annotations",), "kernel_signature": b"signature", "gsan_enabled": False}


def compiled(tma, changes=(), metadata=True):
    """A compiled kernel with Triton's launcher, and the list of what its C function was given: a kernel's own arguments
    from the 13th on.
    """
    given = []

    def note(*a):
        if TOGETHER:
            assert a[4:15] == (77, False, False, (4, 1, 0), *[None] * 5, ("annotations",), b"signature")
        given.append((*a[:13], *a[-1]) if TOGETHER else a)

    indices = [slot for pair in launch.sources_of(tma) for slot in pair]
    signature = {
        i: "tensordesc<fp16[16,32]>" if i in indices else "*fp16"
        for i in range(len(split_kv_kernel.arg_names))
    }
    block = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [16, 32], "fp4_padded": False}
    run = object.__new__(driver.CudaLauncher)
    vars(run).update(
        {"num_ctas": 1, "launch_cooperative_grid": False, "launch_pdl": False, "global_scratch_size": 0,
         "global_scratch_align": 1, "profile_scratch_size": 0, "profile_scratch_align": 1}
        | (SINCE if TOGETHER else {})
    )  # fmt: skip
    described = [block | {"slot": slot} for slot in indices] if metadata else []
    run.launch = driver.wrap_handle_tensordesc(note, signature, described)
    vars(run).update(changes)
    return SimpleNamespace(run=run, function=77, packed_metadata=(4, 1, 0)), given


def launched(monkeypatch, batch, kernel, tma, config=CONFIG):
    """Launches as if the config's kernel were compiled for a GPU; returns the call and the plan."""
    monkeypatch.setattr(plan, "descriptor_sources", lambda *_: tma)
    monkeypatch.setattr(launch, "_plans", Cache())
    made = []

    def make(call, config):
        made.append(plan.make_plan(call, config))
        made[-1].bound = bound.bind(kernel, launch.sources_of(tma))
        return made[-1]

    monkeypatch.setattr(launch, "make_plan", make)
    call = checked(batch)
    for _ in range(3):
        launch.launch(call, config)
    return call, made


def addresses(arguments):
    """Flat, tensors as the addresses that the C function reads of them, scratch aside."""
    flat = [a for given in arguments for a in (given if isinstance(given, tuple) else (given,))]
    return [a.data_ptr() if isinstance(a, torch.Tensor) and a.dtype != torch.float32 else a for a in flat]


def expected(monkeypatch, call, plan_, tma):
    """What Triton's launcher hands on when it is called as Triton calls it: tensors, and descriptors to encode."""
    kernel, given = compiled(tma)
    noted = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *arguments, **_: noted.append((*grid, 0, *arguments))

    real = plan_.kernel
    monkeypatch.setattr(launch, "split_kv_kernel", fake := Kernel())
    plan_.kernel, plan_.bound = fake, None
    launch._run(plan_, call, plan.addresses_of(call), (2, 2, 3), *plan.launch_grid(plan_, call)[1:])
    plan_.kernel = real
    kernel.run(*noted[0][:4], 77, (4, 1, 0), None, None, None, *noted[0][4:])
    return given[0]


@pytest.mark.parametrize("tma", [(True, True), (True, False), (False, True), (False, False)], ids=str)
def test_the_c_function_is_given_what_tritons_launcher_would_give(monkeypatch, encoded, tma):
    kernel, given = compiled(tma)
    batch = make_batch(FRESH, fresh=True)
    call, made = launched(monkeypatch, batch, kernel, tma)
    assert len(made) == 1
    assert len(given) == 3
    assert len(encoded) == 2 * sum(tma), "each descriptor is encoded once for all three launches"
    right = expected(monkeypatch, call, made[0], tma)
    wrong = [
        (i, a, b)
        for i, (a, b) in enumerate(zip(addresses(given[-1])[3:], addresses(right)[3:], strict=True))
        # None is a constexpr of the signature, which the C function skips: any object stands for it
        if b is not None and not isinstance(b, torch.Tensor) and a != b
    ]
    assert not wrong


def test_descriptors_follow_addresses_and_rows(monkeypatch, encoded):
    kernel, given = compiled((True, True))
    batch = make_batch(FRESH, fresh=True)
    _, made = launched(monkeypatch, batch, kernel, (True, True))
    other = batch | {"key_cache": batch["key_cache"].clone(), "key": batch["key"].clone()}
    launch.launch(checked(other), CONFIG)
    fewer = batch | {"key_cache": batch["key_cache"][:-1], "value_cache": batch["value_cache"][:-1]}
    launch.launch(checked(fewer), CONFIG)
    launch.launch(checked(batch), CONFIG)
    assert len(made) == 1
    assert len(encoded) == 4 + 4 + 2
    flat = [arguments[13 + 1 :][:5] for arguments in given]
    assert flat[0] == flat[2] == flat[5]
    assert flat[3][0] == ("CUtensorMap", other["key_cache"].data_ptr())
    assert flat[4][0] == flat[0][0]
    assert flat[4][1] == flat[0][1] - 16


def test_encoded_descriptors_hold_no_memory(monkeypatch, encoded):
    import weakref

    kernel, _ = compiled((True, True))
    batch = make_batch(FRESH, fresh=True)
    call, made = launched(monkeypatch, batch, kernel, (True, True))
    storage = [weakref.ref(batch[name]) for name in ("key_cache", "value_cache", "key", "value")]
    del batch, call
    assert made[0].bound.encoded[1]
    assert [ref() for ref in storage] == [None] * 4


def test_what_is_kept_is_bounded(monkeypatch, encoded):
    monkeypatch.setattr(bound, "ENCODED", 3)
    kernel, _ = compiled((True, False))
    batch = make_batch([(5, 40)])
    _, made = launched(monkeypatch, batch, kernel, (True, False))
    for _ in range(8):
        batch["key_cache"] = batch["key_cache"].clone()
        launch.launch(checked(batch), CONFIG)
        assert len(made[0].bound.encoded[1]) <= 3


@pytest.mark.parametrize(
    ("changes", "metadata"),
    [
        ({"global_scratch_size": 128}, True),
        ({"profile_scratch_size": 128}, True),
        ({"launch": lambda *_: None}, True),
        ({"launch": print}, True),
        ({}, False),
    ],
    ids=["scratch", "profile", "another closure", "no closure", "descriptors that are no TMA"],
)
def test_an_unknown_launcher_is_called_as_triton_calls_it(monkeypatch, changes, metadata):
    kernel, _ = compiled((True, True), changes, metadata)
    made = bound.bind(kernel, launch.SLOTS)
    assert made.launch is kernel.run
    assert made.head == (77, (4, 1, 0), None, None, None)
    pair = (object(), object())
    assert made.descriptors((1, 2), (1, 2, 3), lambda: pair) is pair


def test_another_convention_is_not_relied_on(monkeypatch):
    kernel, _ = compiled((False, False))
    assert bound.bind(kernel, ()).launch is not kernel.run
    if TOGETHER:
        kernel.run.gsan_enabled = True
        assert bound.bind(kernel, ()).launch is kernel.run
    monkeypatch.setattr(triton, "__version__", "3.60.0")
    monkeypatch.setattr(driver, "_BASE_ARGS_FORMAT", "iiiKKpOOOOO", raising=False)
    assert bound.bind(kernel, ()).launch is kernel.run
    foreign = SimpleNamespace(run=lambda *_: None, function=1, packed_metadata=())
    assert bound.bind(foreign, ()).launch is foreign.run


def test_kernels_take_their_descriptors_where_they_are_expected():
    from heurgen_kernels.device.mixed import mixed_kernel
    from heurgen_kernels.device.naive import naive_kernel
    from heurgen_kernels.device.q_block import q_block_kernel
    from heurgen_kernels.device.static_grid import static_grid_kernel
    from heurgen_kernels.device.warp_specialized import warp_specialized_kernel

    kernels = (naive_kernel, q_block_kernel, split_kv_kernel, static_grid_kernel, mixed_kernel)
    for kernel in (*kernels, warp_specialized_kernel):
        names = [[kernel.arg_names[slot] for slot in pair] for pair in launch.SLOTS]
        assert names == [["k_desc", "v_desc"], ["new_k_desc", "new_v_desc"]]


@pytest.mark.parametrize("which", range(5))
def test_each_address_counts(which):
    addresses = [512, 1024, 0, 0, 4096]
    assert bound.aligned(tuple(addresses)) is True
    addresses[which] += 8
    assert bound.aligned(tuple(addresses)) == tuple(place != which for place in range(5))


def test_a_kernel_is_dispatched_until_it_is_bound(monkeypatch):
    """Nothing is bound where nothing was compiled or nothing launches, and no binding is made anew."""
    kept, gone, found = bound.Kept(), [], [None, SimpleNamespace(packed_metadata=())]
    monkeypatch.setattr(bound, "bind", lambda *given: ("binding", *given))

    def past(made, given):
        gone.append((made, given))

    def dispatched(given):
        gone.append(given)
        return found[given], ((3, 4),)

    assert bound.run(kept, past, dispatched, 0) is None
    with dispatch.compiling():
        assert bound.run(kept, past, dispatched, 1) is found[1]
    assert kept.bound is None
    assert bound.run(kept, past, dispatched, 1) is found[1]
    made = ("binding", found[1], ((3, 4),))
    first = kept.bound
    assert first == made
    assert bound.run(kept, past, dispatched, 1) is None
    with dispatch.compiling():
        assert bound.run(kept, past, dispatched, 1) is found[1]
    assert kept.bound is first
    assert gone == [0, 1, 1, (made, 1), 1]


class Stub:
    """A kernel that compiles to one whose C function notes what it is given, as dispatches are noted."""

    def __init__(self):
        self.dispatched = []
        self.compiled, self.given = compiled((False, False))

    def __getitem__(self, grid):
        return lambda *given, **options: self.dispatched.append((grid, given)) or self.compiled


def numbers(given):
    """Tensors as their addresses, 0 for None; flat."""
    flat = [a for one in given for a in (one if isinstance(one, tuple) else (one,))]
    return [a.data_ptr() if isinstance(a, torch.Tensor) else a or 0 for a in flat]


@pytest.mark.parametrize("start", [0, 1])
def test_pages_are_written_past_the_dispatch_with_what_it_would_be_given(monkeypatch, start):
    """At addresses of either alignment, each of which is compiled for."""
    monkeypatch.setattr(pages, "write_pages_kernel", kernel := Stub())
    monkeypatch.setattr(pages, "_plans", Cache())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)
    size = 70 * 2 * 64
    new, value = (torch.zeros(size + 1, dtype=torch.float16)[start:][:size].view(70, 2, 64) for _ in range(2))
    cache = torch.zeros(9, 16, 2, 64, dtype=torch.float16)
    given = (new, value, cache, cache, torch.arange(70))
    for other in (given, given, (*given[:1], *given[:1], *given[2:])):
        pages.write_pages(*other)
    (once,), (first, again) = kernel.dispatched, kernel.given
    assert once[0] == (-(-140 // pages.ROWS),)
    assert first[:4] == (*once[0], 1, 1, 7)
    assert numbers(first[13:]) == numbers(once[1])
    assert again[13:15] == (new.data_ptr(),) * 2
    pages.write_pages(*(tensor.clone() for tensor in given))
    assert len(kernel.dispatched) == 1 + start


class Elsewhere(torch.Tensor):
    """As a tensor of the second GPU says where it is."""

    def get_device(self):
        return 1


def test_pages_of_each_gpu_are_written_by_a_kernel_of_its_own(monkeypatch):
    """A loaded kernel is of one GPU, also where two are alike."""
    monkeypatch.setattr(pages, "write_pages_kernel", kernel := Stub())
    monkeypatch.setattr(pages, "_plans", Cache())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7 + index, raising=False)
    here = torch.zeros(70, 2, 64, dtype=torch.float16)
    given = (here, torch.zeros(9, 16, 2, 64, dtype=torch.float16), torch.arange(70))
    for key in (here, here.as_subclass(Elsewhere)) * 2:
        monkeypatch.setattr(pages, "current_device", key.get_device)
        pages.write_pages(key, given[0], given[1], given[1], given[2])
    assert len(kernel.dispatched) == len(pages._plans) == 2
    assert [past[3] for past in kernel.given] == [6, 8]


def test_pages_are_written_by_one_kernel_wherever_slots_begin(monkeypatch):
    """Drafters hand over a part of theirs."""
    monkeypatch.setattr(pages, "write_pages_kernel", kernel := Stub())
    monkeypatch.setattr(pages, "_plans", Cache())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)
    new, cache = torch.zeros(70, 2, 64), torch.zeros(9, 16, 2, 64)
    for first in range(3):
        pages.write_pages(new, new, cache, cache, torch.arange(72)[first:][:70])
    assert len(kernel.dispatched) == 1


def test_fp8_pages_are_copied_past_the_dispatch_with_what_it_would_be_given(monkeypatch):
    monkeypatch.setattr(widen, "widen_kernel", kernel := Stub())
    monkeypatch.setattr(widen, "_kept", Cache())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)
    call = checked(make_batch(FRESH, (2, 1), 64, cache=torch.float8_e4m3fn), Device("nvidia", (9, 0), 132))
    copy = widen.widened(call)
    for _ in range(2):
        widen.widen(call, copy)
    (once,), (past,) = kernel.dispatched, kernel.given
    assert past[:4] == (*once[0], 7)
    assert numbers(past[13:]) == numbers(once[1])
