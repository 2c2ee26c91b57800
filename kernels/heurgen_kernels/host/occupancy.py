"""How many programs of a compiled kernel a processor holds at once: what a static grid is sized by."""

from __future__ import annotations

from typing import Any

import torch

# More programs than this only read the lengths once more each.
MOST = 16
# Shared memory that the driver keeps of every block, and the granularity of a warp's registers: CUDA's occupancy
# calculator, compute capabilities 8.0 to 9.0.
RESERVED_SHARED = 1024
REGISTER_UNIT = 256


def resident_programs(compiled: Any, num_warps: int, place: torch.device) -> int:
    """Programs per processor, 1 to MOST; 2 where the device does not say what it has (ROCm)."""
    device = torch.cuda.get_device_properties(place)
    shared = int(getattr(device, "shared_memory_per_multiprocessor", 0))
    if torch.version.hip is not None or not shared:
        return 2
    return fitting(
        compiled.n_regs,
        compiled.metadata.shared,
        num_warps,
        int(getattr(device, "regs_per_multiprocessor", 65536)),
        shared,
        int(device.max_threads_per_multi_processor),
    )


def fitting(
    registers: int, shared: int, num_warps: int, all_registers: int, all_shared: int, all_threads: int
) -> int:
    """Programs that fit beside each other. registers per thread, shared in bytes; the rest per processor."""
    per_warp = -(-max(registers, 1) * 32 // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = all_registers // (per_warp * num_warps)
    by_shared = all_shared // (shared + RESERVED_SHARED)
    return max(1, min(by_registers, by_shared, all_threads // (32 * num_warps), MOST))
