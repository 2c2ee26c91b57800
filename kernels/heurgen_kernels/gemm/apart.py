"""Whether the memory of a product's result is its own."""

from __future__ import annotations

import torch

from .call import Product


def check_apart(call: Product) -> None:
    """ValueError where `out` shares memory with what other programs of the launch still read. Of a product that was
    checked. A residual may be `out` itself, which is read where it is written.
    """
    out, reaches = call.out, call.layout.reaches
    first: int = out.data_ptr()
    end = first + reaches[0]
    operands = (
        ("x", call.x),
        ("w", call.weight),
        ("bias", call.bias),
        ("w_scale", call.scale),
        ("residual", call.residual),
    )
    for (name, tensor), reach in zip(operands, reaches[1:], strict=True):
        if tensor is None or end <= (at := tensor.data_ptr()) or at + reach <= first:
            continue
        if name == "residual" and at == first and (out.shape[0] == 1 or out.stride(0) == tensor.stride(0)):
            continue
        if share_memory(out, tensor):
            own = "memory of its own" if name != "residual" else "the same matrix, or memory of its own"
            raise ValueError(f"out shares memory with {name}; expected {own}")


def share_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a byte of `a` is one of `b`. Matrices of which one lies between the rows of the other, at the same
    distance from row to row, share none; those that interleave in another way are taken to share some.
    """
    (first, rows, step, width), (second, others, pitch, breadth) = _bytes_of(a), _bytes_of(b)
    if not width or not breadth or not first or not second:  # empty, or without memory: meta tensors
        return False
    if first + (rows - 1) * step + width <= second or second + (others - 1) * pitch + breadth <= first:
        return False
    steps = {*([step] if rows > 1 else ()), *([pitch] if others > 1 else ())}
    if len(steps) != 1 or 0 in steps:
        return True
    distance = steps.pop()
    shift: int = (second - first) % distance
    return shift < width or shift + breadth > distance


def _bytes_of(tensor: torch.Tensor) -> tuple[int, int, int, int]:
    """(address, rows, bytes from one row's begin to the next's, bytes that a row reaches over): a vector is one row."""
    size = tensor.element_size()
    if not tensor.numel():
        return tensor.data_ptr(), 1, 0, 0
    shape, strides = (1, 1, *tensor.shape)[-2:], (0, 0, *tensor.stride())[-2:]
    return tensor.data_ptr(), shape[0], strides[0] * size, ((shape[1] - 1) * strides[1] + 1) * size
