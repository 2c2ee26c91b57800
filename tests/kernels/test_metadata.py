from __future__ import annotations

import pytest
import torch
from heurgen_kernels.metadata import build_metadata_device, build_metadata_host

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


def test_negative_lengths_are_refused():
    with pytest.raises(ValueError, match="query_lens holds -1; lengths are 0 or more tokens"):
        build_metadata_host([3, -1], 4, "cpu")


@pytest.mark.parametrize("variant", ["q_block", "split_kv", "static_grid"])
def test_kernels_use_exact_q_blocks(device, variant):
    lengths = [(1, 21), (5, 18), (19, 35), (0, 9)]
    batch = make_batch(lengths, heads=(2, 1), device=device)
    setting = config(variant)
    exact = build_metadata_host([q for q, _ in lengths], setting.BLOCK_M // 2, device)
    assert error_of(batch, setting, metadata=exact) < 2e-3
