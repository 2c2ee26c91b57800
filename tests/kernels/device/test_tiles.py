"""Where a Q block's sequence is looked up."""

from __future__ import annotations

from bisect import bisect_right

import pytest
import torch
import triton
import triton.language as tl
from heurgen_kernels.device.tiles import find_sequence

BLOCK_Q = 4


@triton.jit
def found_kernel(cu_ptr, found_ptr, num_seqs, BLOCK_Q: tl.constexpr, IMPLICIT: tl.constexpr):
    target = tl.program_id(0)
    tl.store(found_ptr + target, find_sequence(cu_ptr, target, num_seqs, BLOCK_Q, IMPLICIT))


# Around one, two and more entries for each thread of a warp, and one, two and more turns of the search.
@pytest.mark.parametrize("num_seqs", [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257])
@pytest.mark.parametrize("implicit", [True, False])
def test_the_last_sequence_that_has_begun_is_found(device, num_seqs, implicit):
    """Some sequences are empty; behind the last one memory holds what a search must not count."""
    torch.manual_seed(num_seqs)
    lengths = torch.randint(0, 9, (num_seqs,)).tolist()
    firsts = [0]
    for length in lengths:
        firsts.append(firsts[-1] + (length if implicit else -(-length // BLOCK_Q)))
    begins = [first // BLOCK_Q + at if implicit else first for at, first in enumerate(firsts[:-1])]
    targets = firsts[-1] // BLOCK_Q + num_seqs if implicit else firsts[-1] + 2
    cu = torch.tensor([*firsts, *[0] * 300], dtype=torch.int32, device=device)
    found = torch.full((targets,), -9, dtype=torch.int32, device=device)
    found_kernel[(targets,)](cu, found, num_seqs, BLOCK_Q, implicit)
    assert found.tolist() == [bisect_right(begins, target) - 1 for target in range(targets)]
