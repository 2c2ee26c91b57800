"""Products computed by other means than the kernels, and how far a result is from them."""

from __future__ import annotations

import torch


def right(x, w, bias=None, residual=None, gated=False):
    product = x.double() @ w.double().T
    if bias is not None:
        product = product + bias.double()
    if gated:
        gate, up = product.chunk(2, dim=-1)
        product = torch.nn.functional.silu(gate) * up
    return product if residual is None else product + residual.double()


def error(got, expected):
    return float((got.double() - expected).norm() / expected.norm())
