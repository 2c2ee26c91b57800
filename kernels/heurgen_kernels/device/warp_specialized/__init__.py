"""Prompts on Hopper: one warp loads, two or three groups of four warps compute (a Gluon kernel, sm_90 alone).

One program per processor takes work items until none is left. An item is a Q block of 128 or 192 rows, 64 for each of
two or three consumers, over one segment of its keys. The producer finds the items and loads K and V through tensor
descriptors, a page or a part of a page at a time, so pages of 16 tokens are read as fast as contiguous K and V; it runs
ahead into the next item. A consumer issues the scores of the next tile before it multiplies this tile's weights with V,
so that the matrix unit works while the softmax does (FlashAttention-3, Shah et al. 2024, section 3.2): its own softmax
at heads of more than 96 without a soft cap (`hides_values`), else the other consumer's, since the assembler waits
for V first. With three consumers the products of two others hide the softmax of one, where it takes as long as they do:
heads of 64, without window or soft cap.

Tiles that need a mask come first: the diagonal of the new tokens, the last partial tile of the cached ones.
"""

from .combine import combine_prompts_kernel
from .kernel import warp_specialized_kernel

__all__ = ["combine_prompts_kernel", "warp_specialized_kernel"]
