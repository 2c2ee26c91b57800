"""Which tensors tensor descriptors can describe, and how."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels.config import Config
from heurgen_kernels.host.descriptors import (
    descriptor_sources,
    new_descriptors,
    page_descriptors,
    row_view,
)
from heurgen_kernels.host.hardware import Device
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.kernels.batches import checked, halves, make_batch, shifted

HOPPER, AMPERE, BLACKWELL = (Device("nvidia", (major, 0), 132) for major in (9, 8, 10))
Q_BLOCK, SPECIALISED = Config("q_block", 64, 32), Config("warp_specialized", 128, 64, 4, 3)


def cache(pages=3, page=16, heads=2, size=64, dtype=torch.bfloat16):
    """[pages, page, heads, size], contiguous, aligned."""
    return torch.zeros(pages, page, heads, size, dtype=dtype)


def rows_of(tensor):
    """Each row of the view: its elements as they lie."""
    rows, columns, stride = row_view(tensor)
    return torch.as_strided(tensor, (rows, columns), (stride, 1))


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_a_row_holds_the_heads_of_a_token(heads):
    tensor = cache(heads=heads)
    tensor += torch.arange(tensor.numel()).view(tensor.shape) % 251
    assert row_view(tensor) == (48, heads * 64, heads * 64)
    assert torch.equal(rows_of(tensor), tensor.view(48, heads * 64))


def test_a_row_holds_one_head_where_heads_lie_outside_tokens():
    """As vLLM lays them out: [page][head][token][K then V]."""
    tensor = torch.arange(3 * 2 * 16 * 128, dtype=torch.float32).view(3, 2, 16, 128).transpose(1, 2)[..., :64]
    assert row_view(tensor) == (96, 64, 128)
    rows = rows_of(tensor).view(3, 2, 16, 64)
    assert torch.equal(rows.transpose(1, 2), tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        cache()[..., ::2],
        cache(size=65)[..., :64],  # rows of 130 elements
        cache(size=72, dtype=torch.float8_e4m3fn),  # a head of 72 bytes
        cache(size=136)[..., 4:132],  # a base off 16 bytes
        torch.zeros(48, 2, 64).as_strided((3, 16, 2, 64), (2000, 128, 64, 1)),  # a page of 15.6 tokens
        torch.zeros(9000).as_strided((3, 16, 2, 64), (2048, 64, 1000, 1)),  # a head of 15.6 tokens
        torch.zeros(64).expand(3, 16, 2, 64),
        torch.empty(2**31 // 16 + 1, 16, 1, 16, device="meta"),
        torch.empty(1, device="meta").as_strided((2, 16, 3, 64), (2**36, 2**32, 2**30, 1)),
        torch.zeros(0, 16, 2, 64),
    ],
    ids=[
        "elements apart",
        "tokens apart",
        "heads apart",
        "base",
        "pages apart",
        "heads outside apart",
        "no stride",
        "rows beyond 32 bits",
        "columns beyond 32 bits",
        "no pages",
    ],
)
def test_what_has_no_rows(tensor):
    assert row_view(tensor) is None


@pytest.mark.parametrize(
    ("device", "config", "more", "expected"),
    [
        (HOPPER, Q_BLOCK, {}, (True, False)),
        (BLACKWELL, Q_BLOCK, {"fresh": True}, (False, False)),  # whose drivers encode small ones wrongly
        (AMPERE, Q_BLOCK, {}, (False, False)),
        (HOPPER, Config("naive"), {}, (False, False)),
        (HOPPER, Q_BLOCK, {"fresh": True}, (True, True)),
        (HOPPER, Q_BLOCK, {"page": 24}, (False, False)),
        (HOPPER, Q_BLOCK, {"size": 80}, (False, False)),  # a tile of 128 would read the next head
        (HOPPER, SPECIALISED, {"size": 80}, (True, False)),  # which it multiplies by zeros
        (HOPPER, Q_BLOCK, {"size": 256}, (True, False)),
        (HOPPER, Q_BLOCK, {"size": 256, "dtype": torch.float32}, (False, False)),  # 1,024 bytes
        (HOPPER, Q_BLOCK, {"cache": torch.float8_e4m3fn}, (False, False)),
    ],
)
def test_what_is_read_through_descriptors(device, config, more, expected):
    given = {"size": 64, "page": 32, "dtype": torch.bfloat16, "heads": (4, 2)} | more
    call = checked(make_batch([(5, 70), (1, 33)], **given), device)
    assert descriptor_sources(call, config, 1 << (given["size"] - 1).bit_length(), 32) == expected


def test_pages_that_k_and_v_keep_unlike_or_that_nobody_reads_have_none():
    batch = make_batch([(5, 70)], (4, 2), 64, 32, torch.bfloat16, fresh=True)
    call = checked(batch, HOPPER)
    call.prefix = False
    assert descriptor_sources(call, Q_BLOCK, 64, 32) == (False, True)
    other = batch | {"value_cache": halves(batch)["value_cache"]}
    assert descriptor_sources(checked(other, HOPPER), Q_BLOCK, 64, 32) == (False, True)


def test_new_tokens_lie_multiples_of_16_bytes_apart():
    batch = make_batch([(5, 70)], (4, 2), 64, 32, torch.bfloat16, fresh=True)
    for step, described in ((128, True), (132, False), (136, True)):
        wide = torch.zeros(5, step, dtype=torch.bfloat16)[:, :128].view(5, 2, 64)
        call = checked(batch | {"key": wide, "value": wide}, HOPPER)
        assert descriptor_sources(call, Q_BLOCK, 64, 32) == (True, described)


@pytest.mark.parametrize("name", ["key", "value"])
def test_new_tokens_begin_at_multiples_of_16_bytes(name):
    batch = make_batch([(5, 70)], (4, 2), 64, 32, torch.bfloat16, fresh=True)
    call = checked(batch | {name: shifted(batch[name])}, HOPPER)
    assert descriptor_sources(call, Q_BLOCK, 64, 32) == (True, False)


def test_new_tokens_that_are_one_repeated_have_no_rows():
    batch = make_batch([(5, 70)], (4, 2), 64, 32, torch.bfloat16, fresh=True)
    call = checked(batch | {"key": batch["key"][:1].expand(5, 2, 64)}, HOPPER)
    assert descriptor_sources(call, Q_BLOCK, 64, 32) == (True, False)


def described(found):
    return [(d.base, d.shape, d.strides, d.block_shape) for d in found]


def test_descriptors_describe_pages_and_new_tokens():
    batch = make_batch([(5, 70), (3, 33)], (4, 2), 64, 32, torch.bfloat16, fresh=True)
    call = checked(batch, HOPPER)
    plan = SimpleNamespace(variant="q_block", rows=32, tile=16, d_pad=64)
    pages, new = page_descriptors(plan, call), new_descriptors(plan, call)
    rows = call.k.shape[0] * 32
    assert described(pages) == [(t, [rows, 128], [128, 1], [32, 64]) for t in (call.k, call.v)]
    assert described(new) == [(t, [8, 128], [128, 1], [16, 64]) for t in (call.new_k, call.new_v)]
    assert {type(d) for d in (*pages, *new)} == {TensorDescriptor}


def test_the_warp_specialised_kernel_takes_tiles_of_64_columns():
    batch = make_batch([(5, 70), (3, 33)], (4, 2), 128, 32, torch.bfloat16, fresh=True)
    call = checked(batch, HOPPER)
    plan = SimpleNamespace(variant="warp_specialized", rows=32, tile=64, d_pad=128)
    found = (*page_descriptors(plan, call), *new_descriptors(plan, call))
    assert [d.block_shape for d in found] == [[32, 64]] * 2 + [[64, 64]] * 2
    assert {type(d) for d in found} == {GluonDescriptor}
    assert {(d.layout.swizzle_byte_width, d.layout.element_bitwidth, d.layout.rank) for d in found} == {
        (128, 16, 2)
    }
