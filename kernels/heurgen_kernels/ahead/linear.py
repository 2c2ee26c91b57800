"""`warm_up_matmul`: everything that `matmul` can launch for a model's linear layers, compiled before the first call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral
from operator import index
from typing import Any

import torch

from ..gemm.call import DTYPES, FP8, Product, check, scale_shapes
from ..gemm.config import Config, normalise
from ..gemm.launch import dispatch, scratch_of
from ..gemm.padding import Copied, copies, fill, large, over, reads
from ..gemm.plan import Work, adapted, addresses_of, make_plan, plan_key, share
from ..gemm.select import bind
from ..host.bound import aligned
from ..host.hardware import Device, device_of, on_device
from .compiling import compile_ahead
from .layouts import check_flags
from .warm import WarmUp, each, place_of


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer as `matmul` is called for it; all tensors are contiguous and of one type, but for fp8 weights.

    n, k            the weight is [n, k]; of a gated layer n are the rows of gate and up projection together
    bias, residual  whether calls have them
    gated           whether w is the fused gate and up projection, see `matmul`
    scaled          of an fp8 weight, what its w_scale is of: "one" (all of it), "row" or "block"; "" for others

    ValueError for what is of another type; `warm_up_matmul` checks the rest.
    """

    n: int
    k: int
    bias: bool = False
    residual: bool = False
    gated: bool = False
    dtype: torch.dtype = torch.bfloat16
    scaled: str = ""

    def __post_init__(self) -> None:
        for name in ("n", "k"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 0:
                raise ValueError(f"{name} is {value!r}; expected a whole number")
        if not isinstance(self.dtype, torch.dtype):
            raise ValueError(f"dtype is {self.dtype!r}; expected one of {', '.join(map(str, DTYPES))}")
        check_flags(self, ("bias", "residual", "gated"))
        if self.scaled and self.scaled not in (known := list(scale_shapes(self.n, self.k))):
            raise ValueError(f"scaled is {self.scaled!r}; expected '' or one of {', '.join(known)}")


def warm_up_matmul(
    layers: Iterable[Linear],
    rows: Iterable[int],
    *,
    heuristics: Any = None,
    device: torch.device | str | None = None,
    processes: int | None = None,
) -> WarmUp:
    """Compiles all that `matmul` can launch for these layers with so many rows of x, so that no call compiles.

    rows          every M that may come: range(1, 8193), or the few that graphs are recorded with
    heuristics    as in `matmul`; they are asked for each M
    device        the current GPU where None
    processes     that compile at the same time; None for as many as there are processors, 1 for this one alone

    Kernels come from Triton's cache on disk where they are in it. Tensors of the later calls must be contiguous and
    aligned to 16 bytes; others compile when they come. No memory of the device is used.

    ValueError for layers that `matmul` does not take, for rows and processes that are no whole numbers, and for
    configs, the heuristics', that no launch knows; RuntimeError where device is None and there is no GPU, and where
    Triton interprets. Triton's own error for the first kernel that does not compile or fit the GPU, once all others
    are there.
    """
    started = time.perf_counter()
    place = place_of(device)
    found, every_m = device_of(place), counted(rows)
    calls = []
    for layer in each("layers", layers, Linear):
        for m, config, shares, copied in launches(layer, every_m, heuristics, found):
            call = product(layer, m, found)
            given = call if copied is None else over(call, copied)
            calls.append(partial(compile_one, given, config, shares))
            if copied is not None:
                calls.append(partial(fill, call, given))
        many = product(layer, max(every_m, default=1), found)
        if large(many, many.layout.rows):  # at an address inside a line of memory all such x are copied
            calls.append(partial(fill, many, over(many, Copied(True, False))))
    with on_device(place):
        compiled = compile_ahead(calls, processes)
    return WarmUp(len(calls), compiled, time.perf_counter() - started)


def counted(rows: Iterable[int]) -> list[int]:
    """Every M of one and more, in order, as Python's numbers: Triton compiles for no number of NumPy's, and for a
    tensor as for a pointer. ValueError for what is no whole number.
    """
    try:
        return sorted({m for m in map(index, rows) if m > 0})
    except TypeError:
        raise ValueError(f"rows is {rows!r:.80}; expected whole numbers, every M that may come") from None


def product(layer: Linear, rows: int, device: Device) -> Product:
    """A checked call of tensors without memory, laid out as for the device: it compiles as the layer's calls do."""

    def meta(*sizes: int, dtype: torch.dtype = layer.dtype) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device="meta")

    n, k, width = layer.n, layer.k, layer.n // 2 if layer.gated else layer.n
    scale = meta(*scale_shapes(n, k)[layer.scaled], dtype=torch.float32) if layer.scaled else None
    call = Product(
        meta(rows, k), meta(n, k, dtype=FP8 if layer.scaled else layer.dtype), meta(n) if layer.bias else None,
        meta(rows, width) if layer.residual else None, meta(rows, width), layer.gated, scale,
    )  # fmt: skip
    check(call, device)
    return call


def compile_one(call: Product, config: Config, shares: Work) -> None:
    """Inside `compiling`: what `launch` would compile, without its caches, since these tensors are on no GPU."""
    plan = make_plan(call, config, shares)
    dispatch((plan, call, addresses_of(call), 0, shares, scratch_of(plan, call, 0, shares)))


def launches(
    layer: Linear, rows: Iterable[int], heuristics: Any, device: Device
) -> Iterator[tuple[int, Config, Work, Copied | None]]:
    """(M, the config as `adapted`, how its tiles are shared, what is copied) of every kind of launch, by its first M:
    calls of one kind run the same compiled kernel.

    M is all that changes from call to call: each is tried, which takes microseconds and is exact. Ranges would answer
    what no M gets, since ceilings and remainders of M follow from it and not from its ends.
    """
    select = bind(heuristics, device.vendor, bool(layer.scaled), device)
    # what a config is adapted to does not depend on M, but for what is copied
    call = product(layer, 1, device)
    over_copies, alignment = cache(partial(over, call)), aligned(addresses_of(call))
    _, width, size, *rest = call.layout.features
    kinds = set()
    for m in rows:
        config = normalise(select((m, width, size, *rest)))
        copied = copies(call, m)
        given = over_copies(copied)
        if not any(copied) or not reads(config, call, given):
            given = call
        config = adapted(config, given)
        shares = share(config, m, width, size, layer.gated, device.processors)
        kind = plan_key(config, given.layout, shares, alignment)
        if kind not in kinds:
            kinds.add(kind)
            yield m, config, shares, None if given is call else copied
