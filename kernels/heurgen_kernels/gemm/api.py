"""Entry point: `matmul`."""

from __future__ import annotations

from typing import Any

import torch

from ..inference import check_inference
from ..untraced import untraced
from .apart import check_apart
from .call import Product, check, check_placed, check_tensors, flattened, result_shape
from .config import normalise
from .launch import launch
from .select import choose


@untraced("matmul")
def matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    w_scale: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gated: bool = False,
    out: torch.Tensor | None = None,
    config: Any = None,
    heuristics: Any = None,
) -> torch.Tensor:
    """A linear layer: x @ w.T, plus bias, plus residual; returns [M, N]. Products are summed in float32.

    x             [M, K], or [..., K], also [K], which gives [..., N]; float16 or bfloat16, contiguous along K
    w             [N, K] of x's type, contiguous along K; or float8_e4m3fn, with
    w_scale       float32, of any strides: one number; [N] or [N, 1]; or [ceil(N / 128), ceil(K / 128)] for blocks of
                  128 x 128. One number, whatever its shape, is of the whole weight. Numerics: see below
    bias          [N], contiguous, of x's type, as residual and out are
    residual      [M, N], or [..., N] as x, contiguous along N, added to the product; may be `out` itself
    gated         w is the fused gate and up projection of a Llama block, N / 2 rows of each, the gate's first. Returns
                  silu(x @ gate.T) * (x @ up.T), [M, N / 2], with bias [N] added before. Not with a residual
    out           where the result goes, [M, N] or [M, N / 2], or [..., N] as x; shares no memory with an operand, but
                  may lie between its rows, at the same distance from row to row
    config        what to launch, as `gemm.config.Config` says: a named tuple, a mapping or an object of its
                  parameters; what it leaves out takes the defaults there
    heuristics    a generated module, whose selector for this device answers, else for its capability, else its vendor;
                  or a callable of `vendor` and the features of `gemm.select.FEATURES`, by name, that returns a config,
                  the same for the same features; without it and `config` the shipped heuristics choose

    An fp8 weight is its numbers times their scales. Scales of all and of rows multiply sums in float32. Those of blocks
    multiply the weight, and the product is rounded to x's type, as that of a dequantised weight: in float16 what lies
    beyond 65504 is infinite in either. Few rows of x round nothing: the variant `vector` has the weight in float32, and
    `stream_k` multiplies each step's sums where BLOCK_M is 16 and BLOCK_K at most 128.

    For inference alone: ValueError before any launch for tensors that require a gradient where gradients are enabled,
    for what is no tensor, for shapes, dtypes and devices that do not fit together, and for configs, the heuristics'
    too, that no launch knows.
    """
    if torch.is_grad_enabled():
        check_inference("matmul", x=x, w=w, bias=bias, w_scale=w_scale, residual=residual, out=out)
    try:
        shape, whole = x.shape, x.dim() == 2
        if not whole:
            x, residual, out = flattened(x, w, residual, out, gated)
        given = out is not None
        if out is None:
            out = torch.empty(result_shape(x, w, gated), dtype=x.dtype, device=x.device)
        # a bool, since it is a constant of what Triton compiles
        call = Product(x, w, bias, residual, out, bool(gated), w_scale)
        check(call)
        if given:
            check_apart(call)
    except AttributeError:
        check_tensors(x=x, w=w, bias=bias, w_scale=w_scale, residual=residual, out=out)
        raise
    try:
        launch(call, choose(call, heuristics) if config is None else normalise(config))
    except RuntimeError:  # traced since its signature was found good, it has no address
        check_placed(call)
        raise
    return out if whole else out.view(*shape[:-1], out.shape[1])
