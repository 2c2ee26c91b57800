"""Compile a product's config for a target without a GPU and say whether it fits."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import torch

from ..gemm.call import FP8, Product, check, scale_shapes
from ..gemm.config import normalise
from ..gemm.launch import dispatched, launch_of, scratch_of
from ..gemm.padding import OPTIONS as PADDING
from ..gemm.padding import Copied, copier, over
from ..gemm.plan import make_plan
from ..host.hardware import Device
from .fits import DEVICES, ELEMENTS, Resources, resources


@dataclass(frozen=True, slots=True)
class Shape:
    """The product a config is compiled for. element: "bf16", "fp16"; scaled: the weight is fp8, with a scale for all of
    it ("one"), for each row, or for each block.
    """

    M: int = 16
    N: int = 4096
    K: int = 4096
    element: str = "bf16"
    gated: bool = False
    bias: bool = False
    residual: bool = False
    scaled: str = ""


def meta_product(shape: Shape, target: str) -> Product:
    """`product_on` a device of the target."""
    return product_on(shape, DEVICES[target])


def product_on(shape: Shape, device: Device) -> Product:
    """A checked call of tensors without memory, laid out as for the device."""

    def meta(*sizes: int, dtype: torch.dtype = ELEMENTS[shape.element]) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device="meta")

    width = 2 * shape.N if shape.gated else shape.N
    weight = meta(width, shape.K, dtype=FP8) if shape.scaled else meta(width, shape.K)
    call = Product(
        meta(shape.M, shape.K), weight, meta(width) if shape.bias else None,
        meta(shape.M, shape.N) if shape.residual else None, meta(shape.M, shape.N), shape.gated,
        meta(*scale_shapes(width, shape.K)[shape.scaled], dtype=torch.float32) if shape.scaled else None,
    )  # fmt: skip
    check(call, device)
    return call


def compile_config(config: Any, target: str, shape: Shape | None = None) -> Resources:
    """Compile what a launch of the config would run on a target of `tools.fits.TARGETS`, and read what it uses. Where x
    or the weight is copied: the kernel that reads the copies; `compile_padding` is of the one before it.
    """
    call, launched, shares = launch_of(meta_product(shape or Shape(), target), normalise(config))
    plan = make_plan(call, launched, shares)
    arguments = dispatched(plan, call, shares, scratch_of(plan, call, 0, shares))
    return resources(plan.kernel, arguments, plan.options, target)


def compile_padding(target: str) -> Resources:
    """Compile the kernels that copy to padded rows, by 16 bytes, words and shifted words: the most that they use."""
    found = []
    for size in (3000, 3002, 3001):
        call = meta_product(Shape(300, 5000, size), target)
        copied = over(call, Copied(True, False)).x
        kernel, numbers = copier(call.x, copied, 0)
        found.append(resources(kernel, (call.x, copied, *numbers), PADDING, target))
    return Resources(*(max(numbers) for numbers in zip(*map(astuple, found), strict=True)))
