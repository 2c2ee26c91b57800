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


def spread(scale, n, k):
    """The scale of each number of a weight [n, k], in float64."""
    if scale.dim() == 2:
        return scale.double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    return scale.double().reshape(-1, 1)


def quantised(weight, scaled):
    """(e4m3 numbers, the scale, the weight that they stand for) of a weight [N, K]: with one scale, or one for each
    "row" or "block", which differ by powers of two: with one applied where it does not belong a result is far off.
    """
    n, k = weight.shape
    count = {"one": (1,), "row": (n,), "block": (-(-n // 128), -(-k // 128))}[scaled]
    power = torch.arange(torch.Size(count).numel(), device=weight.device).reshape(count) * 7 % 5
    scale = (
        2.0 ** (power - power.max()).float() * 1.1 * float(weight.abs().max()) / 448
    )  # behind 448 lies NaN
    narrow = (weight.double() / scale.max()).float().to(torch.float8_e4m3fn)
    return narrow, scale, narrow.double() * spread(scale, n, k)
