"""Triton paged-attention kernels that launch through generated selectors."""
