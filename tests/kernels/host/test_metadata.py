from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from heurgen_kernels.host.metadata import build_metadata_device, build_metadata_host

from tests.kernels.batches import config, error_of, make_batch


@pytest.mark.parametrize("lens", [[1, 5, 0, 1, 33], [1], [0, 0], [7] * 1500])
def test_host_and_device_agree(device, lens):
    host = build_metadata_host(lens, 4, device)
    starts = torch.tensor([0, *lens], dtype=torch.int32).cumsum(0).to(torch.int32).to(device)
    built = build_metadata_device(starts, 4)
    blocks = [0]
    for n in lens:
        blocks.append(blocks[-1] + (n + 3) // 4)
    assert host.cu_q_blocks.tolist() == built.cu_q_blocks.tolist() == blocks
    assert host.decodes.tolist() == built.decodes.tolist() == [lens.count(1)]
    assert (host.num_decodes, host.num_q_blocks) == (lens.count(1), blocks[-1])
    assert (built.num_decodes, built.num_q_blocks) == (None, None)
    assert (host.address, built.address) == (None, starts.data_ptr())


def test_a_default_device_of_torch_changes_nothing(device):
    """Where it was a GPU the numbers were made there, and could not be pinned."""
    with torch.device("meta"):
        built = build_metadata_host([1, 5], 4, device)
    assert (built.cu_q_blocks.tolist(), built.decodes.tolist()) == ([0, 1, 3], [1])


def test_negative_lengths_are_refused():
    with pytest.raises(ValueError, match="query_lens holds -1; lengths are 0 or more tokens"):
        build_metadata_host([3, -1], 4, "cpu")


@pytest.mark.parametrize("block_q", [0, -1, 4.0])
def test_blocks_hold_a_token(block_q):
    """The device's count of blocks of no tokens was a batch of no blocks; the host's, Python's own error."""
    for build in (
        lambda: build_metadata_host([3, 1], block_q, "cpu"),
        lambda: build_metadata_device(torch.tensor([0, 3, 4], dtype=torch.int32), block_q),
    ):
        with pytest.raises(ValueError, match=f"^block_q is {block_q}; expected 1 or more query tokens$"):
            build()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda starts: starts.tolist(), r"\[0, 3, 4\]; expected a tensor"),
        (
            lambda starts: starts.long(),
            r"torch.int64 of shape \(3,\), strides \(1,\); expected contiguous int32",
        ),
        (
            lambda starts: starts.repeat_interleave(2)[::2],
            r"torch.int32 of shape \(3,\), strides \(2,\); expected",
        ),
        (
            lambda starts: starts[None],
            r"torch.int32 of shape \(1, 3\), strides \(3, 1\); expected contiguous",
        ),
        (
            lambda starts: starts[:0],
            r"torch.int32 of shape \(0,\), strides \(1,\); expected contiguous int32",
        ),
    ],
)
def test_starts_are_those_of_a_launch(change, said):
    """Of strided ones other blocks were counted."""
    with pytest.raises(ValueError, match=f"^cu_seqlens_q is {said}"):
        build_metadata_device(change(torch.tensor([0, 3, 4], dtype=torch.int32)), 4)


def test_what_is_no_metadata(device):
    batch = make_batch([(5, 18)], heads=(2, 1), device=device)
    said = "metadata is {'num_decodes': 1}; expected what build_metadata_host"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        error_of(batch, config("q_block"), metadata={"num_decodes": 1})


@pytest.mark.parametrize("variant", ["q_block", "split_kv", "static_grid"])
def test_kernels_use_exact_q_blocks(device, variant):
    lengths = [(1, 21), (5, 18), (19, 35), (0, 9)]
    batch = make_batch(lengths, heads=(2, 1), device=device)
    setting = config(variant)
    exact = build_metadata_host([q for q, _ in lengths], setting.BLOCK_M // 2, device)
    assert error_of(batch, setting, metadata=exact) < 2e-3


@pytest.mark.parametrize("build", [build_metadata_host, build_metadata_device])
@pytest.mark.parametrize(
    ("said", "lens"),
    [
        ("has shape (3,); expected (4,): it is another batch's", [1, 5]),
        ("it is another batch's", [1, 5, 2]),
        ("it is another batch's", [1, 17, 1]),
        ("it is another batch's", [5, 9, 5]),
    ],
)
def test_metadata_of_another_batch_is_refused(device, build, said, lens):
    lengths = [(9, 21), (5, 18), (5, 35)]
    batch = make_batch(lengths, heads=(2, 1), device=device)
    starts = torch.tensor([0, *lens], dtype=torch.int32).cumsum(0).to(torch.int32).to(device)
    metadata = build(lens, 8, device) if build is build_metadata_host else build(starts, 8)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        error_of(batch, config("q_block"), metadata=metadata)
    assert said in str(caught.value) or "from another cu_seqlens_q" in str(caught.value)


def test_blocks_are_counted_where_lengths_lie_on_the_host():
    batch = make_batch([(9, 21), (5, 18), (5, 35)], heads=(2, 1))
    said = "metadata.cu_q_blocks does not count the Q blocks of cu_seqlens_q: it is another batch's"
    with pytest.raises(ValueError, match=f"^{said}$"):
        error_of(batch, config("q_block"), metadata=build_metadata_host([5, 9, 5], 8, "cpu"))


def test_metadata_of_the_batchs_own_tensor_is_used(device):
    lengths = [(9, 21), (5, 18), (5, 35)]
    batch = make_batch(lengths, heads=(2, 1), device=device)
    metadata = build_metadata_device(batch["cu_seqlens_q"], 8)
    assert error_of(batch, config("q_block"), metadata=metadata) < 2e-3
    batch["cu_seqlens_q"] = torch.tensor([0, 5, 10, 19], dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=r"another cu_seqlens_q|another batch"):
        error_of(batch, config("q_block"), metadata=metadata)


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("block_q is 0", {"block_q": 0}),
        ("is torch.int64", {"cu_q_blocks": torch.zeros(4, dtype=torch.int64)}),
    ],
)
def test_metadata_that_none_can_be_is_refused(device, said, change):
    batch = make_batch([(9, 21), (5, 18), (5, 35)], heads=(2, 1), device=device)
    metadata = replace(build_metadata_host([9, 5, 5], 8, device), **change)
    with pytest.raises(ValueError, match=said):
        error_of(batch, config("q_block"), metadata=metadata)
