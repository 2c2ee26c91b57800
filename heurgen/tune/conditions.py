"""Clocks, temperature and throttling of a GPU while it measured, where its driver tells: for the card.

NVIDIA's management library is asked through `nvidia-ml-py` where that is installed; other drivers tell nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Reasons that lower a clock below what was asked for (nvml.h); an idle GPU or set clocks are none.
_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal, software",
    0x40: "thermal, hardware",
    0x80: "power brake",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """At one moment: clocks in MHz, degrees Celsius, and why the clocks were lowered (none: they were not)."""

    sm_mhz: int
    memory_mhz: int
    celsius: int
    throttles: tuple[str, ...] = ()


def nvml_reader(uuid: str) -> Callable[[], Reading | None]:
    """A function that reads one GPU, which its UUID names; it gives None where nothing can be read."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    except Exception:  # no such package, no library, no permission: the driver does not allow it
        return lambda: None

    def read() -> Reading | None:
        try:
            bits = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
            return Reading(
                sm_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
                memory_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
                celsius=int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
                throttles=tuple(name for bit, name in _THROTTLES.items() if bits & bit),
            )
        except Exception:  # a driver may refuse any of them
            return None

    return read


@dataclass(frozen=True, slots=True)
class Conditions:
    """The readings of one kind of device over a sweep: one after every scenario, while its clocks are up."""

    readings: list[Reading] = field(default_factory=list)

    def table(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The card's [conditions]: lowest and highest values; `before` is what an interrupted sweep wrote."""
        table: dict[str, Any] = {"readings": int(before.get("readings", 0)) + len(self.readings)}
        for name in ("sm_mhz", "memory_mhz", "celsius"):
            values = [getattr(r, name) for r in self.readings] + list(before.get(name, []))
            table[name] = [min(values), max(values)]
        counts, earlier = self._throttles(), before.get("throttled", {})
        names = sorted({*counts, *earlier})
        table["throttled"] = {name: counts[name] + int(earlier.get(name, 0)) for name in names}
        return table

    def _throttles(self) -> Counter[str]:
        """How many readings have each reason."""
        return Counter(throttle for r in self.readings for throttle in r.throttles)

    def note(self, device: str) -> str | None:
        """What a run that throttled says of itself."""
        counts = self._throttles()
        if not counts:
            return None
        reasons = ", ".join(f"{name} in {n}" for name, n in sorted(counts.items()))
        throttled = sum(bool(r.throttles) for r in self.readings)
        share = f"{throttled} of {len(self.readings)} scenarios ({reasons})"
        return f"{device} throttled after {share}: times may be too long"
