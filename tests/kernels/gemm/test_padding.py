"""x and the weight copied to rows in whole lines: in Triton's interpreter; where it is done, as for a Hopper GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from heurgen_kernels.ahead.linear import Linear, launches
from heurgen_kernels.caches import Cache
from heurgen_kernels.gemm import launch as launching
from heurgen_kernels.gemm import padding
from heurgen_kernels.gemm.call import FP8, Product, check
from heurgen_kernels.gemm.config import Config
from heurgen_kernels.gemm.padding import Copied, copies, fill, over, padded, padded_row, pays
from heurgen_kernels.gemm.plan import describes
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.tools.fits import DEVICES

from tests.kernels.host.test_bound import Stub, numbers
from tests.kernels.products import error, right

HOPPER = Device("nvidia", (9, 0), 132)
SPECIAL = Config("warp_specialized", 128, 128, 64, 4, 12)
WHOLE = Config("stream_k", 32, 32, 32)
X, WEIGHT, BOTH = Copied(True, False), Copied(False, True), Copied(True, True)


def product(rows, width, size, apart=0, gated=False, target=HOPPER, dtype=torch.bfloat16, weight_apart=0):
    """A checked call of tensors without memory; apart: columns between the rows of x."""

    def meta(height, columns, between=0, kind=torch.bfloat16):
        return torch.empty((height, columns + between), dtype=kind, device="meta")[:, :columns]

    weight = meta(width, size, weight_apart, dtype)
    scale = torch.empty((), device="meta") if dtype == FP8 else None
    out = meta(rows, width // 2 if gated else width)
    call = Product(meta(rows, size, apart), weight, None, None, out, gated, scale)
    check(call, target)
    return call


def on_cpu(x, width=8):
    """A checked call of x for a Hopper GPU; its weight is random, its output NaN."""
    generator = torch.Generator().manual_seed(1)
    weight = (torch.randn((width, x.shape[1]), generator=generator) / x.shape[1] ** 0.5).to(x.dtype)
    call = Product(x, weight, None, None, torch.full((len(x), width), torch.nan, dtype=x.dtype), False)
    check(call, HOPPER)
    return call


def lay(rows, size, apart=0, shift=0, dtype=torch.float16):
    """Random [rows, size] that begins `shift` elements behind a multiple of 128 bytes, NaN between rows and around."""
    stride = size + apart
    flat = torch.full((64 + shift + rows * stride + 64,), torch.nan, dtype=dtype)
    first = -flat.data_ptr() % 128 // 2 + shift
    x = flat.as_strided((rows, size), (stride, 1), first)
    return x.copy_(torch.randn((rows, size), generator=torch.Generator().manual_seed(rows + size)))


@pytest.mark.parametrize("size", [1, 8, 63, 64, 65, 256, 257, 520, 3000])
@pytest.mark.parametrize(
    ("rows", "apart", "shift"), [(1, 0, 0), (7, 8, 0), (8, 1, 8), (9, 0, 3), (17, 56, 4)]
)
def test_what_is_copied(rows, apart, shift, size):
    """Each number of x; nothing behind it in its row but what fills a word, and nothing behind the last row."""
    call = on_cpu(lay(rows, size, apart, shift))
    copy = over(call, X)
    row = padded_row(size)
    assert (copy.x.shape, copy.x.stride()) == ((rows, size), (row, 1))
    memory = torch.full((rows + 2, row), torch.nan).half()
    copy.x = memory[:rows, :size]
    fill(call, copy)
    assert torch.equal(copy.x, call.x)
    assert memory[:rows, size + size % 2 :].isnan().all()
    assert memory[rows:].isnan().all()


def test_brain_floats_are_copied():
    call = on_cpu(lay(9, 100, dtype=torch.bfloat16))
    copy = over(call, X)
    fill(call, copy)
    assert torch.equal(copy.x, call.x)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 16, 64, 129, 515, 1032])
@pytest.mark.parametrize(("apart", "shift"), [(0, 0), (1, 0), (3, 2), (4, 4), (7, 1), (8, 3)])
def test_bytes_are_copied_from_anywhere(size, apart, shift):
    """A weight of fp8 numbers, whose rows begin at any byte of a word."""
    stride, rows = size + apart, 9
    flat = torch.arange(rows * stride + 128).to(torch.uint8)
    first = -flat.data_ptr() % 16 + shift
    weight = flat.as_strided((rows, size), (stride, 1), first)
    call = on_cpu(torch.zeros(2, size).half(), rows)
    call.weight = weight.view(FP8)
    copy = over(call, WEIGHT)
    assert (copy.x is call.x, copy.weight.stride()) == (True, (padded_row(size), 1))
    fill(call, copy)
    assert torch.equal(copy.weight.view(torch.uint8), weight)


@pytest.mark.parametrize(
    ("size", "row"),
    [(1, 64), (8, 64), (63, 64), (64, 64), (65, 128), (3000, 3008), (3008, 3008), (3009, 3072)],
)
def test_rows_are_whole_lines(size, row):
    assert padded_row(size) == row


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rows": 191}, False), ({"rows": 192}, True), ({"rows": 8192}, True),
        ({"width": 992}, False), ({"width": 1000}, True),
        ({"size": 992}, False), ({"size": 1000}, True),
        # in whole lines as they are: of 47, of 48 lines; one element, 16 bytes, half a line more
        ({"size": 3008}, False), ({"apart": 8}, False), ({"size": 3072}, False), ({"apart": 72}, False),
        ({"size": 3072, "apart": 1}, True), ({"size": 3072, "apart": 8}, True), ({"size": 3072, "apart": 32}, True),
        ({"gated": True, "width": 5008}, True), ({"dtype": FP8, "weight_apart": 8}, True),
        # x's rows may end inside 16 bytes, the output's may not
        ({"apart": 4}, True), ({"size": 3004, "weight_apart": 4}, True), ({"width": 5004}, False),
        ({"target": DEVICES["sm_80"]}, False), ({"target": DEVICES["gfx942"]}, False),
        ({"target": Device("nvidia", (10, 0), 148)}, False), ({"target": Device("nvidia", None, 132)}, False),
    ],
    ids=str,
)  # fmt: skip
def test_where_x_is_copied(given, expected):
    call = product(**{"rows": 300, "width": 5000, "size": 3000} | given)
    copy = padded(call, SPECIAL)
    assert (copy is not None) == expected
    if copy is not None:
        assert copy.x.stride(0) == padded_row(call.x.shape[1])
        assert (copy.weight is call.weight, copy.out is call.out) == (True, True)
        assert copy.layout.features == call.layout.features
        beside = padded_row(call.x.shape[1]) - call.x.shape[1]
        assert (
            copy.layout.kind
            == product(**{"rows": 300, "width": 5000, "size": 3000} | given | {"apart": beside}).layout.kind
        )
        assert padded(copy, SPECIAL) is None


# Where the weight is read by words and where by single elements, the fewest rows and products that copies pay for.
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rows": 257}, BOTH), ({"rows": 256}, None),
        ({"rows": 257, "size": 3002}, BOTH), ({"rows": 256, "size": 3002}, None),
        ({"rows": 65, "size": 3001}, BOTH), ({"rows": 64, "size": 3001}, None), ({"rows": 65, "apart": 1}, BOTH),
        ({"rows": 500, "width": 500, "size": 2004}, BOTH), ({"rows": 500, "width": 500, "size": 1996}, None),
        ({"rows": 300, "dtype": FP8, "size": 3000}, BOTH), ({"rows": 65, "dtype": FP8, "size": 3000}, WEIGHT),
        ({"rows": 65, "dtype": FP8}, BOTH), ({"rows": 64, "dtype": FP8}, None),
        ({"rows": 300, "size": 3072, "weight_apart": 4}, WEIGHT),
        ({"rows": 256, "size": 3072, "weight_apart": 4}, None),
        ({"rows": 65, "size": 3000, "apart": 4}, X), ({"rows": 64, "size": 3000, "apart": 4}, None),
        ({"rows": 300, "gated": True, "width": 6000}, BOTH), ({"rows": 300, "width": 5003}, BOTH),
        ({"rows": 300, "target": DEVICES["sm_80"]}, None), ({"rows": 300, "target": DEVICES["gfx942"]}, None),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_descriptor_reads_is_copied(given, expected):
    call = product(**{"width": 5000, "size": 3004} | given)
    copy = padded(call, SPECIAL)
    if expected is None:
        assert copy is None
    else:
        assert (copy.x is not call.x, copy.weight is not call.weight) == expected
        assert describes(copy, copy.x, copy.weight)
        assert copies(copy, given["rows"]) == (False, False)


def test_an_address_inside_16_bytes_is_read_by_single_elements(monkeypatch):
    """The same lengths and strides elsewhere."""
    monkeypatch.setattr(padding, "UNREAD_PRODUCTS", 0)
    plain, shifted = (on_cpu(lay(20, 76, shift=shift), 64) for shift in (0, 1))
    assert (copies(plain, 66), copies(shifted, 66)) == ((False, False), BOTH)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SPECIAL, True), (SPECIAL._replace(BLOCK_M=64, BLOCK_N=64, programs_per_sm=1), True),
        (Config("stream_k", 64, 64, 64), False), (Config("stream_k_tma", 64, 128, 64, 4, 5), False),
        (Config("vector", 2, 8, 512, 2, 4), False),
    ],
    ids=str,
)  # fmt: skip
def test_the_variant_that_is_chosen_for_many_rows_reads_a_copy(config, expected):
    assert (padded(product(300, 5000, 3000), config) is not None) == expected


def test_the_copy_stays_within_its_memory(monkeypatch):
    for call, rows in ((product(300, 5000, 3000), 300), (product(300, 5000, 3004), 5000)):
        monkeypatch.setattr(padding, "COPY_LIMIT", rows * 3008 * 2)
        assert padded(call, SPECIAL) is not None
        monkeypatch.setattr(padding, "COPY_LIMIT", rows * 3008 * 2 - 1)
        assert padded(call, SPECIAL) is None


@pytest.mark.parametrize(
    ("size", "expected"),
    # rows and the copy's are multiples of 16 elements; a copy's are, and x's are not; as they are
    [
        (4112, [(129, None)]), (3000, [(129, None), (192, X)]), (4096, [(129, None)]),
        (3004, [(129, None), (257, BOTH)]), (3001, [(163, BOTH)]),
    ],
)  # fmt: skip
def test_a_warm_up_launches_each_kind_once(size, expected):
    """The kernel that makes the copies is warmed up beside them."""
    found = launches(Linear(1024, size), range(163 if size % 2 else 129, 300), lambda **_: SPECIAL, HOPPER)
    assert [(m, copied) for m, _, _, copied in found] == expected


@pytest.fixture
def small(monkeypatch):
    """Twenty rows are many, and 40 columns; memory holds NaN before it is filled. The copies that launches made."""
    made = []

    def poisoned(call, copied):
        made.append(over(call, copied))
        for matrix, has in zip((made[-1].x, made[-1].weight), copied, strict=True):
            if has:
                matrix.fill_(torch.nan)
        return made[-1]

    for module in (padding, launching):
        monkeypatch.setattr(module, "LEAST_ROWS", 20)
    monkeypatch.setattr(padding, "SIDE", 40)
    for name, fewest in (("UNREAD_ROWS", 20), ("UNREAD_ROWS_PAIRS", 20), ("UNREAD_PRODUCTS", 0)):
        monkeypatch.setattr(padding, name, fewest)
    monkeypatch.setattr(launching, "over", poisoned)
    for name in ("_plans", "_launches"):
        monkeypatch.setattr(launching, name, Cache())
    return made


@pytest.fixture
def ran(monkeypatch, small):
    """(plan, the call that it is launched with, addresses) of each launch; only copies run."""
    found = []
    monkeypatch.setattr(
        launching, "_run", lambda plan, call, addresses, _: found.append((plan, call, addresses))
    )
    return found


def test_launches_are_over_the_copy(ran, small):
    call = on_cpu(lay(20, 72), 64)
    for _ in range(3):
        assert launching.launch(call, SPECIAL) is call.out
    assert len(launching._launches) == len(launching._plans) == 1
    assert len({id(given) for _, given, _ in ran}) == len(small) == 3
    assert len({id(given.layout) for _, given, _ in ran}) == 1
    for plan, given, addresses in ran:
        assert plan.specialised
        assert torch.equal(given.x, call.x)
        assert addresses == (given.x.data_ptr(), call.weight.data_ptr(), 0, 0, call.out.data_ptr(), 0)
        (a,), (b,) = launching.weight_descriptors(plan, given), launching.x_descriptor(plan, given)
        assert a.base is call.weight
        assert (b.base is given.x, b.shape, b.strides) == (True, [20, 72], [128, 1])


def test_the_kernel_that_reads_a_copy_does_not_depend_on_where_x_lies(ran, small):
    for shift in (0, 3, 8):
        launching.launch(on_cpu(lay(20, 72, shift=shift), 64), SPECIAL)
    assert len({id(plan) for plan, _, _ in ran}) == 1
    assert len(small) == 3


def test_few_rows_and_whole_lines_are_read_as_they_lie(ran, small):
    for call in (on_cpu(lay(19, 72), 64), on_cpu(lay(20, 72, apart=56), 64), on_cpu(lay(20, 64), 64)):
        launching.launch(call, SPECIAL)
        assert ran[-1][1] is call
    assert small == []


def test_an_address_inside_a_line_is_no_line_s_begin(ran, small):
    """The same shapes and strides, at one address and at another."""
    calls = [on_cpu(lay(20, 72, apart=56, shift=shift), 64) for shift in (0, 8, 0, 8, 64)]
    assert len({id(call.layout) for call in calls}) == 1
    for call in calls:
        launching.launch(call, SPECIAL)
    assert [given is call for (_, given, _), call in zip(ran, calls, strict=True)] == [
        True,
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(("size", "apart", "shift"), [(72, 0, 0), (65, 7, 0), (100, 4, 3), (64, 1, 0)])
def test_a_launch_over_the_copy_is_right(monkeypatch, small, size, apart, shift):
    """By a kernel that the interpreter knows, which reads through pointers."""
    monkeypatch.setattr(launching, "padded", lambda call, config: over(call, X))
    call = on_cpu(lay(21, size, apart, shift), 48)
    for _ in range(2):
        call.out.fill_(torch.nan)
        launching.launch(call, WHOLE)
        assert error(call.out, right(call.x, call.weight)) < 1e-3
    assert len(small) == 2


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(padding, "pad_kernel", Stub())
    monkeypatch.setattr(padding, "pad_words_kernel", kernel := Stub())
    monkeypatch.setattr(padding, "_kept", Cache())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7 + index, raising=False)
    return kernel


@pytest.mark.parametrize(
    ("size", "apart", "name", "last"),
    [(72, 0, "pad_kernel", 2), (72, 1, "pad_words_kernel", True), (65, 0, "pad_words_kernel", True),
     (66, 0, "pad_words_kernel", False), (72, 4, "pad_words_kernel", False)],
)  # fmt: skip
def test_x_is_copied_past_the_dispatch_with_what_it_would_be_given(kernel, size, apart, name, last):
    """last: by 16 bytes, lines of a padded row; by words, whether these are shifted."""
    call = on_cpu(lay(20, size, apart))
    copy = over(call, X)
    for _ in range(2):
        fill(call, copy)
    found = getattr(padding, name)
    (once,), (past,) = found.dispatched, found.given
    assert once[0] == (3, 1, 1)
    assert past[:4] == (*once[0], 6)
    assert numbers(past[13:]) == numbers(once[1])
    assert past[13:15] == (call.x.data_ptr(), copy.x.data_ptr())
    assert (past[-1], type(past[-1])) == (last, type(last))


def test_each_device_has_a_kernel_of_its_own(kernel):
    """What is loaded on one GPU cannot be launched on another."""
    call = on_cpu(lay(20, 74))
    copy = over(call, X)
    for index in (0, 1, 0, 1):
        call.layout = replace(call.layout, place=torch.device("cuda", index), index=index)
        fill(call, copy)
    assert (len(kernel.dispatched), len(padding._kept)) == (2, 2)
    assert [given[3] for given in kernel.given] == [7, 8]


@pytest.mark.parametrize("other", [{"apart": 1}, {"shift": 1}, {"dtype": torch.bfloat16}], ids=str)
def test_what_changes_the_compiled_kernel_is_dispatched_anew(kernel, other):
    for given in ({}, other, {"rows": 30, "size": 146}, other | {"rows": 30}):
        call = on_cpu(lay(**{"rows": 20, "size": 74} | given))
        fill(call, over(call, X))
    assert len(kernel.dispatched) == 2


def test_strides_beyond_32_bits_are_read_as_they_lie():
    for stride, expected in (((1 << 30) - 8, True), ((1 << 30) + 8, False)):
        call = product(300, 5000, 3000)
        call.x = torch.empty_strided((300, 3000), (stride, 1), dtype=torch.bfloat16, device="meta")
        assert pays(call, 300) == expected
