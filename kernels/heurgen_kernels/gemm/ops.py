"""`torch.ops.heurgen.matmul`: a custom op with a fake kernel, so that torch.compile(fullgraph=True) works.

Importing this module registers the op; the config is chosen inside it, so nothing of the choice is traced.
"""

from __future__ import annotations

from typing import Any

import torch

from .api import matmul


@torch.library.custom_op("heurgen::matmul", mutates_args=())
def matmul_op(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gated: bool = False,
) -> torch.Tensor:
    """As `gemm.api.matmul`."""
    return matmul(x, w, bias, residual=residual, gated=gated)


@matmul_op.register_fake
def _fake_matmul(
    x: torch.Tensor, w: torch.Tensor, bias: Any = None, residual: Any = None, gated: bool = False
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], w.shape[0] // 2 if gated else w.shape[0]))
