"""What a launch has to know of the device it is for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from ..caches import Cache, shared

FP8_NVIDIA = (torch.float8_e4m3fn, torch.float8_e5m2)
FP8 = (*FP8_NVIDIA, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
# Of one program: CUDA C++ programming guide, compute capability 8.0.
A100_SHARED_MEMORY = 163 * 1024


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the launch path sees it: what a plan follows from, besides the call and the config.

    vendor      nvidia | amd
    capability  (major, minor) of CUDA's compute capability; None for AMD, and for a CPU, where kernels are interpreted
    processors  streaming multiprocessors or compute units
    arch        AMD's name of it, such as gfx942
    shared_memory  bytes that one program may use; 0 where torch does not say, and for a CPU
    model       what torch calls it, such as NVIDIA H200, by which a selector may know it; "" for a CPU
    """

    vendor: str
    capability: tuple[int, int] | None
    processors: int
    arch: str = ""
    shared_memory: int = 0
    model: str = ""

    @property
    def hopper(self) -> bool:
        return self.capability is not None and self.capability[0] == 9

    @property
    def descriptors(self) -> bool:
        """Whether tensor descriptors (TMA) are used. Blackwell has them, but CUDA's drivers up to 13.1 encode some of
        less than 128 KB wrongly there, for which Triton 3.6 does nothing: sporadic illegal accesses (triton-lang's
        pull request 9235), of slices of a fused projection, say.
        """
        return self.hopper

    @property
    def from_registers(self) -> bool:
        """Whether matrix instructions read their operands from registers alone: before Hopper, and where Triton uses
        none but Ampere's, on 12.x (RTX 5090) for one. On 9.x and 10.x they read shared memory.
        """
        return self.capability is not None and self.capability[0] not in (9, 10)

    @property
    def room(self) -> int | None:
        """Bytes of shared memory that configs are fitted to; None where all that selectors return has room as it is,
        and a config that has none is an error: on an A100 and where there is more.
        """
        small = self.vendor == "nvidia" and 0 < self.shared_memory < A100_SHARED_MEMORY
        return self.shared_memory if small else None

    @property
    def fp8(self) -> tuple[torch.dtype, ...]:
        """The fp8 types that Triton compiles, or interprets, for it; on gfx90a AMD's own end the process."""
        if self.vendor == "amd":
            return FP8_NVIDIA if self.arch.startswith("gfx90a") else FP8
        return FP8_NVIDIA if self.capability is None or self.capability >= (8, 9) else (torch.float8_e5m2,)

    @property
    def told(self) -> str:
        """Its capability as a generated module has it: "9.0", "gfx942"."""
        if self.capability is not None:
            return "{}.{}".format(*self.capability)
        return self.arch.partition(":")[0]

    @property
    def described(self) -> str:
        """What messages call it."""
        if self.capability is not None:
            return f"compute capability {self.told}"
        return self.arch or "no GPU"


VENDOR = "amd" if torch.version.hip is not None else "nvidia"
# Stands for a CPU: as many processors as an H100 or H200 has.
INTERPRETER = Device(VENDOR, None, 132)

_devices: Cache[torch.device, Device] = shared()


def device_of(device: torch.device) -> Device:
    """What torch says of a device; INTERPRETER for one that is no GPU."""
    if device.type != "cuda":
        return _devices.get(device) or _devices.keep(device, INTERPRETER)
    found = _devices.get(device)
    if found is None:
        capability = torch.cuda.get_device_capability(device) if VENDOR == "nvidia" else None
        properties = torch.cuda.get_device_properties(device)
        arch = properties.gcnArchName if VENDOR == "amd" else ""
        shared_memory = getattr(properties, "shared_memory_per_block_optin", 0)
        found = _devices.keep(
            device,
            Device(
                VENDOR, capability, properties.multi_processor_count, arch, shared_memory, properties.name
            ),
        )
    return found


def check_memory(**tensors: torch.Tensor | None) -> None:
    """ValueError for tensors without memory: a kernel would be given address 0. For those of torch.jit.trace as well,
    whose sizes are tensors.
    """
    if torch.jit.is_tracing():
        raise ValueError("torch.jit.trace records no launch; expected torch.ops.heurgen's ops inside it")
    for name, tensor in tensors.items():
        if tensor is None or address_of(tensor) or not tensor.numel():
            continue
        found = "tensors are on meta," if tensor.is_meta else f"{name} is a {type(tensor).__name__}"
        raise ValueError(
            f"{found} without memory; expected plain tensors, and where shapes are traced torch.ops.heurgen's ops"
        )


def address_of(tensor: torch.Tensor) -> int:
    """0 of what has no memory: tensors that are traced, that wrap others, or whose storage was freed."""
    if type(tensor).__name__ == "FakeTensor":  # which warns
        return 0
    try:
        return int(tensor.data_ptr())
    except RuntimeError:
        return 0


def on_device(place: torch.device) -> AbstractContextManager[object]:
    """The place as torch's current device, where it is a GPU and another one is: Triton launches on the current one."""
    if place.type != "cuda" or place.index == torch.cuda.current_device():
        return nullcontext()
    guard: AbstractContextManager[object] = torch.cuda.device(place)
    return guard
