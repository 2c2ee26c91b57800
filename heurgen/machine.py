"""Which GPU is here: vendor, device name and capability, found without torch.

NVIDIA's NVML answers in about a millisecond and starts no context on the GPU; where it cannot know which GPU is meant
CUDA's driver library does. AMD's driver says in /sys what it drives. What none of them knows is asked of a torch that
is imported already. Such a torch also says which vendor's GPUs its program launches on, where a machine has both.
Standard library only; imports what it needs where it needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ctypes

NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"
_KFD_NODES = "sys/class/kfd/kfd/topology/nodes"
_AMD_NAMES = ("usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids")


@dataclass(frozen=True, slots=True)
class Machine:
    """One GPU. `device` is the name that torch gives it; `capability` is "9.0" on NVIDIA, "gfx942" on AMD."""

    vendor: str
    device: str
    capability: str


def machine(index: int = 0) -> Machine | None:
    """The GPU that a program calls number `index`, as CUDA_VISIBLE_DEVICES and its like leave them; or None."""
    if _is_torch_for_amd():
        return _amd(index, os.environ, Path("/")) or _imported_torch(index)
    # Beside NVIDIA's cards there may be an AMD processor with graphics, which KFD lists too: it is asked last.
    return (
        _nvidia(index, os.environ)
        or _cuda_driver(index, os.environ)
        or _amd(index, os.environ, Path("/"))
        or _imported_torch(index)
    )


# --- NVIDIA -----------------------------------------------------------------------------------------------


def _nvidia(index: int, environ: Mapping[str, str], library: str = NVML) -> Machine | None:
    """What NVML says; None where there is no NVML, or where it cannot know which GPU is meant."""
    nvml = _loaded(library)
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return None
    try:
        found = _nvml_devices(nvml)
        wanted = _visible(environ.get("CUDA_VISIBLE_DEVICES"), index, [uuid for uuid, _ in found])
        if wanted is None:
            return None
        # CUDA numbers the fastest first unless told otherwise; NVML goes by the bus. Equal cards are equal.
        by_number = _names_a_number(environ.get("CUDA_VISIBLE_DEVICES"))
        if by_number and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and len({m for _, m in found}) > 1:
            return None
        return found[wanted][1]
    finally:
        nvml.nvmlShutdown()


def _loaded(library: str) -> Any:
    import ctypes

    try:
        return ctypes.CDLL(library)
    except OSError:
        return None


def _nvml_devices(nvml: ctypes.CDLL) -> list[tuple[str, Machine]]:
    """(UUID, GPU) of every GPU, in NVML's order."""
    import ctypes

    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    found = []
    for i in range(count.value):
        handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
        failed = (
            nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(i), ctypes.byref(handle))
            or nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name)))
            or nvml.nvmlDeviceGetUUID(handle, uuid, ctypes.c_uint(len(uuid)))
            or nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        )
        if not failed:
            capability = f"{major.value}.{minor.value}"
            found.append((_text(uuid.value), Machine("nvidia", _text(name.value), capability)))
    return found


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _visible(setting: str | None, index: int, uuids: list[str]) -> int | None:
    """The place of visible GPU `index` among all, as CUDA reads its variable: it stops at the first bad entry."""
    if setting is None:
        return index if 0 <= index < len(uuids) else None
    places: list[int] = []
    for entry in (e.strip() for e in setting.split(",")):
        named = [i for i, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if entry.isdigit() and int(entry) < len(uuids):
            places.append(int(entry))
        elif len(named) == 1:
            places.append(named[0])
        else:
            break
    return places[index] if 0 <= index < len(places) else None


def _names_a_number(setting: str | None) -> bool:
    return setting is None or setting[:1].isdigit()


def _cuda_driver(index: int, environ: Mapping[str, str], library: str = CUDA) -> Machine | None:
    """What CUDA's driver library says: where NVML is absent (WSL, Jetson) or cannot know the order.

    Not after a fork of a process that will use CUDA, hence after NVML: `cuInit` does not survive one.
    """
    import ctypes

    cuda = _loaded(library)
    if cuda is None or environ.get("CUDA_VISIBLE_DEVICES") == "" or cuda.cuInit(0) != 0:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(96)
    # 75 and 76 are CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
    failed = (
        cuda.cuDeviceGet(ctypes.byref(device), ctypes.c_int(index))
        or cuda.cuDeviceGetName(name, ctypes.c_int(len(name)), device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(major), ctypes.c_int(75), device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(minor), ctypes.c_int(76), device)
    )
    return None if failed else Machine("nvidia", _text(name.value), f"{major.value}.{minor.value}")


def nvidia_driver() -> str:
    """The version of NVIDIA's driver, "" where there is none. Asking starts a process."""
    import subprocess

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer[0] if answer else ""


# --- AMD --------------------------------------------------------------------------------------------------


def _amd(index: int, environ: Mapping[str, str], root: Path) -> Machine | None:
    """What the kernel driver lists under /sys/class/kfd, in its order, which is HIP's."""
    found = []
    folders = (root / _KFD_NODES).glob("*/properties")
    for path in sorted(folders, key=lambda p: (len(p.parent.name), p.parent.name)):
        properties = _properties(path)
        if properties.get("simd_count", 0) > 0 and properties.get("gfx_target_version", 0) > 0:
            found.append(properties)
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        # HIP reads CUDA's variable where its own is not set.
        if variable == "CUDA_VISIBLE_DEVICES" and "HIP_VISIBLE_DEVICES" in environ:
            continue
        uuids = [f"GPU-{p.get('unique_id', 0):016x}" for p in found]
        places = [_visible(environ.get(variable), i, uuids) for i in range(len(found))]
        found = [found[i] for i in places if i is not None]
    if not 0 <= index < len(found):
        return None
    properties = found[index]
    capability = _gfx(properties["gfx_target_version"])
    return Machine("amd", _amd_name(properties, root) or capability, capability)


def _properties(path: Path) -> dict[str, int]:
    """The lines `name number` of a node; a node that the container hides reads as empty."""
    try:
        pairs = (line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
    except OSError:
        return {}


def _gfx(version: int) -> str:
    """90402 is gfx942, 90010 is gfx90a: decimal major, minor and stepping, the last two written in hex."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _amd_name(properties: Mapping[str, int], root: Path) -> str:
    """The marketing name by PCI device and revision, from libdrm's table, as ROCm itself looks it up."""
    location = properties.get("location_id", 0)
    bus = f"{location >> 8:02x}:{location >> 3 & 31:02x}.{location & 7}"
    folder = root / "sys/bus/pci/devices" / f"{properties.get('domain', 0):04x}:{bus}"
    try:
        revision = int((folder / "revision").read_text().strip(), 16)
    except (OSError, ValueError):
        return ""
    for path in _AMD_NAMES:
        try:
            lines = (root / path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            parts = [part.strip() for part in line.split(",", 2)]
            if (
                len(parts) == 3
                and _is_hex(parts[0], properties.get("device_id", -1))
                and _is_hex(parts[1], revision)
            ):
                return parts[2]
    return ""


def _is_hex(text: str, number: int) -> bool:
    try:
        return int(text, 16) == number
    except ValueError:
        return False


# --- torch ------------------------------------------------------------------------------------------------


def _is_torch_for_amd() -> bool:
    """Whether a torch built for ROCm is imported: it launches on no other GPUs. Asks none."""
    return bool(getattr(getattr(sys.modules.get("torch"), "version", None), "hip", None))


def _imported_torch(index: int) -> Machine | None:
    """What a torch that is imported already knows: Intel's GPUs, and systems that hide the rest."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        if torch.cuda.is_available() and index < torch.cuda.device_count():
            properties = torch.cuda.get_device_properties(index)
            if getattr(torch.version, "hip", None):
                return Machine("amd", properties.name, properties.gcnArchName.split(":")[0])
            return Machine("nvidia", properties.name, f"{properties.major}.{properties.minor}")
        if hasattr(torch, "xpu") and torch.xpu.is_available() and index < torch.xpu.device_count():
            properties = torch.xpu.get_device_properties(index)
            return Machine("intel", properties.name, str(getattr(properties, "architecture", "")))
    except (RuntimeError, AttributeError):
        return None
    return None
