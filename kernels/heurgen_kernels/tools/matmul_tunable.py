"""`matmul` as a tunable for `heurgen tune heurgen_kernels.tools.matmul_tunable:tunable` (heurgen/tune/protocol.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..gemm.api import matmul
from ..gemm.call import FP8
from ..gemm.config import Config, normalise
from ..gemm.launch import launch_of
from ..host.dispatch import compiling
from ..host.hardware import Device, device_of
from .matmul_fits import Shape, product_on

PACKAGE = Path(__file__).parents[1]
# (BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages) and values of programs_per_sm: of 78 configs that were measured
# on an H200 those that together are within 1.001 of the best of all, in the mean over the scenarios of data/, and
# 128 x 256 in parts and 32 x 128 by descriptors, of fifteen more that were measured later.
Form = tuple[tuple[int, int, int, int, int], tuple[int, ...]]
FORMS: Mapping[str, tuple[Form, ...]] = {
    "vector": (
        ((1, 4, 512, 2, 4), (0,)),
        ((1, 8, 512, 4, 3), (0,)),
        ((1, 16, 256, 4, 1), (0,)),
        ((1, 16, 256, 4, 4), (0,)),
        ((2, 4, 512, 2, 4), (0,)),
        ((2, 8, 512, 4, 3), (0,)),
        ((2, 16, 256, 4, 4), (0,)),
    ),
    "stream_k": (
        ((16, 32, 128, 4, 5), (1,)),
        ((16, 32, 256, 4, 5), (0,)),
        ((16, 64, 64, 4, 4), (0,)),
        ((16, 64, 64, 4, 6), (1,)),
        ((16, 64, 128, 4, 4), (1, 2)),
        ((16, 128, 128, 4, 3), (0,)),
        ((32, 64, 64, 4, 4), (0,)),
        ((32, 64, 128, 4, 4), (1, 2)),
        ((64, 32, 128, 4, 5), (0,)),
        ((64, 64, 128, 4, 4), (1,)),
    ),
    "stream_k_tma": (
        ((16, 64, 128, 4, 5), (0,)),
        ((16, 64, 128, 4, 8), (0,)),
        ((32, 128, 64, 4, 6), (1,)),
        ((64, 128, 64, 4, 5), (1,)),
    ),
    # twelve stages: as many as have room
    "warp_specialized": (
        ((32, 64, 64, 4, 12), (0, 1)),
        ((32, 128, 64, 4, 12), (0,)),
        ((64, 64, 64, 4, 12), (0, 1)),
        ((64, 80, 64, 4, 12), (0, 1)),
        ((64, 96, 64, 4, 12), (0, 1)),
        ((64, 128, 64, 4, 12), (0, 1)),
        ((64, 144, 64, 4, 12), (0, 1)),
        ((64, 160, 64, 4, 12), (0, 1)),
        ((64, 256, 64, 4, 12), (0, 1)),
        ((128, 64, 64, 4, 12), (1,)),
        ((128, 96, 64, 4, 12), (1,)),
        ((128, 128, 64, 4, 12), (0, 1)),
        ((128, 160, 64, 4, 12), (1,)),
        ((128, 192, 64, 4, 12), (1,)),
        ((128, 256, 64, 4, 12), (0, 1)),
        ((256, 128, 64, 4, 12), (0,)),
    ),
}


def listed(forms: Mapping[str, tuple[Form, ...]]) -> list[str]:
    """Constraints of a space that holds these forms of their variants and no others: what each parameter may be, given
    those before it.
    """
    allowed: dict[
        str, dict[Any, None]
    ] = {}  # by what is given; the least first, which most of a product fails
    for variant, found in forms.items():
        for values, programs in found:
            for per in programs:
                given = f"variant != '{variant}'"
                for name, value in zip(Config._fields[1:], (*values, 1, per), strict=True):
                    allowed.setdefault(f"{given} or {name}", {})[value] = None
                    given += f" or {name} != {value}"
    told = sorted(allowed.items(), key=lambda one: one[0].count(" or "))
    return [f"{text} in ({', '.join(map(str, values))},)" for text, values in told]


@dataclass(slots=True)
class Inputs:
    """One product on the device; shapes as `gemm.api.matmul`."""

    x: torch.Tensor
    weight: torch.Tensor
    out: torch.Tensor
    gated: bool
    scale: torch.Tensor | None = None


def device_of_sweep(info: Any, processors: int) -> Device:
    """A `DeviceInfo` as launches see the device. processors: of the scenario."""
    nvidia, told = info.vendor == "nvidia", info.capability
    major, _, minor = told.partition(".") if nvidia else ("", "", "")
    capability = (int(major), int(minor)) if major else None
    return Device(info.vendor, capability, processors, "" if nvidia else told, info.shared_memory)


def make_inputs(features: Mapping[str, Any], device: str, seed: int, fp8: bool = False) -> Inputs:
    """Random x and weight, the weight's rows of about unit length: bfloat16; float16 on a CPU, since Triton's
    interpreter multiplies bfloat16 as if its bits were integers. fp8: the weight is, with a scale for each row.
    """
    rows, width, size = (int(features[name]) for name in "MNK")
    gated = bool(features["gated"])
    generator = torch.Generator(device=device).manual_seed(seed)
    dtype = torch.float16 if device == "cpu" else torch.bfloat16
    draw = {"generator": generator, "device": device, "dtype": dtype}
    weight = torch.randn((2 * width if gated else width, size), **draw).mul_(size**-0.5)
    x = torch.randn((rows, size), **draw)
    scale = None
    if fp8:
        scale = weight.abs().amax(1).float() / torch.finfo(FP8).max
        weight = (weight / scale[:, None]).to(FP8)
    return Inputs(x, weight, torch.empty((rows, width), device=device, dtype=dtype), gated, scale)


class Matmul:
    """See heurgen/tune/protocol.py for what each attribute is. forms: of the space; weight_bytes: of a number."""

    name = "matmul"
    forms = FORMS
    weight_bytes = 2
    features: Mapping[str, str] = {
        "M": "int",
        "N": "int",
        "K": "int",
        "gated": "bool",
        "multiprocessors": "int",
    }
    sources = tuple(sorted(str(path) for path in (PACKAGE / "gemm").rglob("*.py")))

    @property
    def space(self) -> Any:
        from heurgen.tune.protocol import Space

        return Space(
            parameters={
                "variant": tuple(self.forms),
                **{
                    name: tuple(sorted({form[0][place] for found in self.forms.values() for form in found}))
                    for place, name in enumerate(Config._fields[1:6])
                },
                "num_splits": (1,),
                "programs_per_sm": tuple(
                    sorted({per for found in self.forms.values() for form in found for per in form[1]})
                ),
            },
            constraints=(
                # rows of x: what holds them all, or half of them; of many, one of the large blocks
                "BLOCK_M <= 16 or M > BLOCK_M / 2",
                "M <= 2 * BLOCK_M or BLOCK_M >= 128 or (BLOCK_M == 64 and M <= 512)"
                " or (BLOCK_M == 64 and M <= 1024 and variant == 'warp_specialized' and BLOCK_N == 128)",
                "variant != 'vector' or M == BLOCK_M",
                # of gated products the weight is always the left operand, 64 or 128 rows of it
                "variant != 'warp_specialized' or not gated or BLOCK_N == 128 or (BLOCK_N == 64 and BLOCK_M < 128)",
                "variant != 'warp_specialized' or not gated or BLOCK_M <= 128",
                *listed(self.forms),
            ),
        )

    @property
    def workload(self) -> Mapping[str, Any]:
        """Linear layers of real models and of their shards, as in data/hopper_matmul.workload.toml."""
        place = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
        processors = device_of(torch.device(place)).processors
        layers = (
            (6144, 4096),
            (4096, 4096),
            (4096, 14336),
            (10240, 8192),
            (8192, 28672),
            (4608, 3584),
            (3584, 18944),
        )
        return {
            "grid": [
                {
                    "name": f"{n}x{k}{' gated' if gated else ''}", "N": n, "K": k, "gated": gated,
                    "M": [1, 4, 16, 32, 64, 128, 512, 2048, 8192], "multiprocessors": processors,
                }
                for n, k, gated in (*((n, k, False) for n, k in layers), (14336, 4096, True), (28672, 8192, True))
            ]
        }  # fmt: skip

    def inputs(self, scenario: Any, device: str) -> Inputs:
        return make_inputs(scenario.features, device, scenario.seed, self.weight_bytes == 1)

    def launch(self, inputs: Inputs, config: Mapping[str, Any]) -> torch.Tensor:
        return matmul(
            inputs.x, inputs.weight, w_scale=inputs.scale, gated=inputs.gated, out=inputs.out, config=config
        )

    def compile(self, inputs: Inputs, config: Mapping[str, Any]) -> None:
        """As `launch`, which launches nothing, bound or not."""
        with compiling():
            self.launch(inputs, config)

    def reference(self, inputs: Inputs) -> torch.Tensor:
        product = inputs.x.double() @ inputs.weight.double().T
        if inputs.scale is not None:
            product *= inputs.scale.double()
        if not inputs.gated:
            return product
        gate, up = product.chunk(2, dim=1)
        return torch.nn.functional.silu(gate) * up

    def scenario_class(self, scenario: Any) -> str:
        """What changes the compiled code: sizes are numbers to a kernel, but for what they divide by, and whether one
        row of tiles holds all rows of x.
        """
        f = scenario.features
        rows = next((block for block in (1, 2, 16, 32, 64, 128, 256) if f["M"] <= block), 257)
        return f"{f['gated']} {f['K'] % 512 == 0} {f['K'] % 256 == 0} {f['K'] % 16 == 0} {f['N'] % 16 == 0} {rows}"

    def work(self, scenario: Any) -> float:
        f = scenario.features
        return float(f["M"] * f["N"] * f["K"])

    def launched(self, config: Mapping[str, Any], scenario: Any, device: Any) -> Mapping[str, Any]:
        """What `programs_per_sm` comes to where each tile has as many parts: `num_splits`, the same for many values.
        Tiles are those that the launch takes, which may be others than the config's.
        """
        f = scenario.features
        scaled = "row" if self.weight_bytes == 1 else ""
        shape = Shape(f["M"], f["N"], f["K"], gated=f["gated"], scaled=scaled)
        call = product_on(shape, device_of_sweep(device, f["multiprocessors"]))
        _, _, work = launch_of(call, normalise(config))
        if work.left or 0 < work.whole < work.items:
            return config
        return {**config, "num_splits": work.splits, "programs_per_sm": 0}

    def fits(self, config: Mapping[str, Any], scenario: Any, device: Any) -> str | None:
        """Shared memory of the portable kernel's stages; those of descriptors are as many as have room."""
        if config["variant"] != "stream_k" or not device.shared_memory:
            return None
        c = normalise(config)
        weights = 2 if scenario.features["gated"] else 1
        step = (2 * c.BLOCK_M + self.weight_bytes * weights * c.BLOCK_N) * c.BLOCK_K
        needed = step * (c.num_stages - 1)
        if needed <= device.shared_memory:
            return None
        return f"needs {needed} bytes of shared memory, the device has {device.shared_memory}"


tunable = Matmul()
