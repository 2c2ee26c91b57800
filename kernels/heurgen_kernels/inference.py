"""The kernels compute no gradients: a call that would cut one is refused."""

from __future__ import annotations

import torch


def check_inference(name: str, **tensors: torch.Tensor | None) -> None:
    """ValueError for a tensor that requires a gradient, of a call of the function `name`. Asked for where gradients are
    enabled alone: servers launch without.
    """
    for argument, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            raise ValueError(
                f"{argument} requires a gradient, and {name} computes none: call it under torch.no_grad() or "
                f"torch.inference_mode(), or give it {argument}.detach()"
            )
