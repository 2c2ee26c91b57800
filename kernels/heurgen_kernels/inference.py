"""The kernels compute no gradients: a call that would cut one is refused."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def check_inference(name: str, **tensors: torch.Tensor | None) -> None:
    """ValueError for a tensor that requires a gradient, or that carries a tangent of forward mode, of a call of the
    function `name`. Asked for where gradients are enabled alone: servers launch without.
    """
    for argument, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            raise ValueError(
                f"{argument} requires a gradient, and {name} computes none: call it under torch.no_grad() or "
                f"torch.inference_mode(), or give it {argument}.detach()"
            )
    if getattr(forward_ad, "_current_level", -1) < 0:  # torch's own name
        return
    for argument, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            raise ValueError(
                f"{argument} has a tangent, and {name} computes none: give it the primal of forward_ad.unpack_dual"
            )
