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
    if scale.dim() == 2 and scale.shape != (n, 1):
        return scale.double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    return scale.double().reshape(-1, 1)


def shape_of(scaled, n, k):
    return {"one": (1,), "row": (n,), "column": (n, 1), "block": (-(-n // 128), -(-k // 128))}[scaled]


def quantised(weight, scaled, dtype=torch.float16):
    """(e4m3 numbers, the scale, the weight that they stand for) of a weight [N, K] for an x of this type: with one
    scale, or one for each "row" (as [N, 1]: "column") or "block", which differ by powers of two: with one applied where
    it does not belong a result is far off.
    """
    n, k = weight.shape
    count = shape_of(scaled, n, k)
    power = torch.arange(torch.Size(count).numel(), device=weight.device).reshape(count) * 7 % 5
    scale = (
        2.0 ** (power - power.max()).float() * 1.1 * float(weight.abs().max()) / 448
    )  # behind 448 lies NaN
    narrow = (weight.double() / scale.max()).float().to(torch.float8_e4m3fn)
    return narrow, scale, dequantised(narrow, scale, dtype)


def dequantised(narrow, scale, dtype):
    """In float64. A weight with scales of blocks is rounded to x's type; with others it is not."""
    weight = narrow.double() * spread(scale, *narrow.shape)
    blocks = scale.dim() == 2 and scale.numel() > 1 and scale.shape != (narrow.shape[0], 1)
    return weight.float().to(dtype).double() if blocks else weight


def exact(rows, n, k, device="cpu"):
    """(x, e4m3 numbers, scales of blocks) whose products with a rounded weight float32 adds up without an error, in any
    order: -1, 0 and 1 times numbers of 1 to 4.
    """
    generator = torch.Generator(device).manual_seed(rows + n + k)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator, device=device)

    x = draw(-1, 2, rows, k).half()
    narrow = (1 + draw(0, 8, n, k) / 8).to(torch.float8_e4m3fn)
    return x, narrow, 1 + draw(0, 1 << 20, *shape_of("block", n, k)).float() / (1 << 20)
