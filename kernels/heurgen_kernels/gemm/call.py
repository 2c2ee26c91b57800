"""One product, its checks, and what its shapes, types and device say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..caches import Cache, shared
from ..host.hardware import Device, check_memory, device_of
from .device.scales import BLOCK, NOTHING, ROW, SIDE, WITHIN

DTYPES = (torch.float16, torch.bfloat16)
FP8 = torch.float8_e4m3fn  # of weights


@dataclass(frozen=True, slots=True, eq=False)
class ProductLayout:
    """What shapes, strides, dtypes and devices say of a product: read from the tensors once per signature.

    rows, width   of the output, [M, N], or [M, N / 2] for a gated product
    size          K
    gate          rows of the weight between a gate and its up projection; 0
    counted       elements that strides of x and the weight and K are counted in for kernels that read through pointers
    scaled        what a scale of the weight is of, see `device/scales.py`
    scale_strides  elements between scales of rows and columns, or of blocks of them; 0 where there is one for all
    reaches       bytes from the first to the last of out, x, weight, bias, scale and residual; 0 of what is not there
    kind          of products that differ in M, N and K alone, the same
    features      of `select.FEATURES`, in their order
    """

    rows: int
    width: int
    size: int
    gate: int
    counted: int
    place: torch.device
    index: int
    device: Device
    scaled: int
    scale_strides: tuple[int, int]
    reaches: tuple[int, ...]
    kind: tuple[Any, ...]
    features: tuple[Any, ...]


@dataclass(slots=True)
class Product:
    """The tensors of one call of `matmul`, see there."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    residual: torch.Tensor | None
    out: torch.Tensor
    gated: bool
    scale: torch.Tensor | None = None
    layout: ProductLayout = field(init=False)  # set by `check`


_good: Cache[tuple[Any, ...], ProductLayout] = shared()


def check(call: Product, device: Device | None = None) -> None:
    """Sets the call's layout; ValueError where its tensors do not fit together.

    device: lay the launch out as for this device, whatever the tensors are on (meta tensors, say): for tools and tests.
    """
    x, weight, out, bias, residual, scale = (
        call.x,
        call.weight,
        call.out,
        call.bias,
        call.residual,
        call.scale,
    )
    signature = (
        device, call.gated, x.shape, x.stride(), x.dtype, x.device, weight.shape, weight.stride(), weight.dtype,
        weight.device, out.shape, out.stride(), out.dtype, out.device,
        None if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.device),
        None if residual is None else (residual.shape, residual.stride(), residual.dtype, residual.device),
        None if scale is None else (scale.shape, scale.stride(), scale.dtype, scale.device),
    )  # fmt: skip
    try:
        layout = _good.get(signature)
    except TypeError:  # sizes that are traced have no hash
        check_placed(call)
        raise
    if layout is None:
        check_operands(x, weight, call.gated)
        check_rest(call)
        check_scale(weight, scale)
        if device is None:
            check_placed(call)
        layout = _good.keep(signature, layout_of(call, device))
    call.layout = layout


def check_placed(call: Product) -> None:
    check_memory(
        x=call.x, w=call.weight, bias=call.bias, residual=call.residual, out=call.out, w_scale=call.scale
    )


def flattened(
    x: torch.Tensor, w: torch.Tensor, residual: torch.Tensor | None, out: torch.Tensor | None, gated: bool
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """x [..., K], residual and out [..., N] as matrices; ValueError where they do not fit together."""
    check_tensors(w=w, residual=residual, out=out)
    if not x.dim():
        raise ValueError("x is one number; expected [M, K] or [..., K]")
    check_size("x", x)
    check_weight(w, gated)
    check_gated(gated, residual)
    rows, size = x.shape[:-1], x.shape[-1]
    wanted = (*rows, w.shape[0] // 2 if gated else w.shape[0])
    for name, tensor in (("residual", residual), ("out", out)):
        if tensor is not None and tuple(tensor.shape) != wanted:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {wanted}")
    try:
        flat = None if out is None else out.view(-1, wanted[-1])
    except RuntimeError:
        raise ValueError(
            f"out has strides {out.stride()}; expected rows that lie at equal distances"  # type: ignore[union-attr]
        ) from None
    return x.reshape(-1, size), None if residual is None else residual.reshape(-1, wanted[-1]), flat


def check_tensors(**tensors: object) -> None:
    """Of a call that has something else in the place of a tensor."""
    for name, tensor in tensors.items():
        required = name in ("x", "w")
        if not isinstance(tensor, torch.Tensor) and (required or tensor is not None):
            raise ValueError(f"{name} is {tensor!r:.80}; expected a tensor")


def result_shape(x: torch.Tensor, w: torch.Tensor, gated: bool) -> tuple[int, int]:
    """[M, N], or [M, N / 2]; nothing of operands that are no matrices, which `check` says."""
    if x.dim() != 2 or w.dim() != 2:
        return 0, 0
    return x.shape[0], w.shape[0] // 2 if gated else w.shape[0]


def check_size(name: str, matrix: torch.Tensor) -> None:
    if matrix.shape[-1] == 0:
        raise ValueError(f"{name} has shape {tuple(matrix.shape)}; K must be at least 1")


def check_operands(x: torch.Tensor, weight: torch.Tensor, gated: bool) -> None:
    """x [M, K], weight [N, K], both row-major."""
    if x.dtype not in DTYPES:
        raise ValueError(f"x is {x.dtype}; expected float16 or bfloat16")
    if weight.dtype not in (x.dtype, FP8):
        raise ValueError(f"w is {weight.dtype} and x is {x.dtype}; expected the same type, or {FP8}")
    check_matrix("x", x, "[M, K]")
    check_weight(weight, gated)
    if x.shape[1] != weight.shape[1]:
        raise ValueError(f"K is {x.shape[1]} in x and {weight.shape[1]} in w")


def check_matrix(name: str, matrix: torch.Tensor, shape: str) -> None:
    if matrix.dim() != 2:
        raise ValueError(f"{name} has shape {tuple(matrix.shape)}; expected {shape}")
    check_size(name, matrix)
    if matrix.stride(1) != 1 and matrix.shape[1] > 1:
        raise ValueError(
            f"{name} has strides {matrix.stride()}; expected a row-major matrix, contiguous along K"
        )


def check_weight(weight: torch.Tensor, gated: bool) -> None:
    check_matrix("w", weight, "[N, K]")
    if weight.shape[0] == 0 or (gated and weight.shape[0] % 2):
        raise ValueError(
            f"w has {weight.shape[0]} rows; expected {'an even number' if gated else 'at least one'}"
        )


def check_gated(gated: bool, residual: torch.Tensor | None) -> None:
    if gated and residual is not None:
        raise ValueError("residual is given for a gated product; expected one or the other")


def check_rest(call: Product) -> None:
    """bias [N], residual and out [M, N] (gated: out [M, N / 2])."""
    x, weight, bias, residual, out = call.x, call.weight, call.bias, call.residual, call.out
    shape = (x.shape[0], weight.shape[0] // (2 if call.gated else 1))
    check_gated(call.gated, residual)
    wanted = (("bias", bias, (weight.shape[0],)), ("residual", residual, shape), ("out", out, shape))
    for name, tensor, expected in wanted:
        if tensor is None:
            continue
        if tuple(tensor.shape) != expected:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")
        if tensor.dtype != x.dtype:
            raise ValueError(f"{name} is {tensor.dtype} and x is {x.dtype}; expected the same type")
        if tensor.stride(-1) != 1 and tensor.shape[-1] > 1:
            raise ValueError(f"{name} has strides {tensor.stride()}; expected its last dimension contiguous")
    if shape[0] > 1 and out.stride(0) < shape[1]:
        raise ValueError(f"out has strides {out.stride()}; expected a place of its own for each element")
    for name, tensor in (("w", weight), ("bias", bias), ("residual", residual), ("out", out)):
        if tensor is not None and tensor.device != x.device:
            raise ValueError(f"{name} is on {tensor.device} and x on {x.device}; expected one device")


def check_scale(weight: torch.Tensor, scale: torch.Tensor | None) -> None:
    """scale: one number, [N], [N, 1], or [ceil(N / 128), ceil(K / 128)], float32; of an fp8 weight, which has one."""
    if (scale is None) != (weight.dtype != FP8):
        given = "given" if scale is not None else "missing"
        raise ValueError(
            f"w_scale is {given} and w is {weight.dtype}; {FP8} needs one, other types take none"
        )
    if scale is None:
        return
    if scale.dtype != torch.float32:
        raise ValueError(f"w_scale is {scale.dtype}; expected float32")
    shape, shapes = tuple(scale.shape), scale_shapes(*weight.shape)
    if scale.numel() != 1 and shape not in ((*shapes["row"], 1), *shapes.values()):
        raise ValueError(
            f"w_scale has shape {shape}; expected one number, [N] or [N, 1], here {shapes['row']}, or one for each "
            f"block of 128 x 128, here {shapes['block']}"
        )
    reach = sum((size - 1) * stride for size, stride in zip(shape, scale.stride(), strict=True))
    if reach >= 1 << 31:  # kernels count in 32 bits
        raise ValueError(
            f"w_scale has strides {scale.stride()}: its numbers lie {reach} elements apart; expected less than "
            f"{1 << 31}"
        )
    if scale.device != weight.device:
        raise ValueError(f"w_scale is on {scale.device} and w on {weight.device}; expected one device")


def scale_shapes(n: int, k: int) -> dict[str, tuple[int, ...]]:
    """By what a scale of a weight [n, k] is of."""
    return {"one": (), "row": (n,), "block": (-(-n // 128), -(-k // 128))}


def scales_of(scale: torch.Tensor | None, n: int, gated: bool) -> tuple[int, tuple[int, int]]:
    """(what a scale that was checked is of, its strides along the rows and the columns of a weight of n rows). One
    number is of all rows, whatever its shape: of a weight with one row or one block several mean the same.
    """
    if scale is None:
        return int(NOTHING.value), (0, 0)
    strides = [stride if size > 1 else 0 for size, stride in zip(scale.shape, scale.stride(), strict=True)]
    rows, columns = (*strides, 0, 0)[:2]
    kind = ROW
    if scale.dim() == 2 and scale.numel() > 1 and scale.shape != (n, 1):
        kind = WITHIN if gated and n // 2 % SIDE.value else BLOCK
    return int(kind.value), (rows, columns)


def layout_of(call: Product, device: Device | None = None) -> ProductLayout:
    """The layout of a product whose tensors were checked; as for `device` where it is given."""
    device = device or device_of(call.x.device)
    rows, size = call.x.shape
    width = call.out.shape[1]
    read = (call.x.stride(0), call.weight.stride(0))
    stored = (call.out.stride(0), *(() if call.residual is None else (call.residual.stride(0),)))
    counted = counted_in((*read, size))
    scaled, scale_strides = scales_of(call.scale, call.weight.shape[0], call.gated)
    kind = (
        device, call.x.device, call.x.dtype, call.gated, call.bias is not None, call.residual is not None,
        tuple((step == counted, step % 16 == 0, step % (16 * counted) == 0, step < 1 << 31) for step in read),
        tuple((step == 1, step % 16 == 0, step < 1 << 31) for step in stored),
        all(step % 8 == 0 for step in (*read, *stored)), width % 8 == 0, call.weight.dtype, scaled,
    )  # fmt: skip
    features = (rows, width, size, call.gated, device.processors)
    reaches = tuple(map(reach, (call.out, call.x, call.weight, call.bias, call.scale, call.residual)))
    return ProductLayout(
        rows, width, size, call.weight.shape[0] // 2 if call.gated else 0, counted, call.x.device,
        call.x.get_device() if call.x.is_cuda else -1, device, scaled, scale_strides,
        reaches, kind, features,
    )  # fmt: skip


def reach(tensor: torch.Tensor | None) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if tensor is None or not tensor.numel():
        return 0
    last: int = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * int(tensor.element_size())


def counted_in(lengths: tuple[int, ...]) -> int:
    """Elements that strides and K are passed in: a kernel that multiplies them by as many itself loads so many at a
    time. The most of 8, 4, 2 and 1 that all are whole multiples of; 1 where all are of the 16 that Triton looks for in
    a number, too, or one is over 32 bits.
    """
    if all(length % 16 == 0 for length in lengths) or any(length >= 1 << 31 for length in lengths):
        return 1
    return next(count for count in (8, 4, 2, 1) if all(length % count == 0 for length in lengths))
