"""Data cards: what measured a log. `[tools]` is what provenance says of the measuring tools, `[device]` the device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heurgen.base.errors import quoted
from heurgen.base.toml import Table, is_finite, read_toml
from heurgen.ir import NAME

# `device` of every row that was measured in Triton's interpreter: such times say nothing about a GPU.
INTERPRETER = "Triton interpreter"
# Numbers of `[device]` that are not about the device: how many of them measured.
_NO_FEATURE = frozenset(("gpus", "index"))

# The columns of a sweep's log before its features, and after its parameters.
FIRST = ("scenario", "vendor", "device")
LAST = ("status", "time_ms", "reason")


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a card says of its device: the compute capability ("9.0", "gfx942"), and numbers by name."""

    capability: str | None
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep measured: the kernel, and which columns of its log are features and which parameters."""

    kernel: str
    features: tuple[str, ...]
    parameters: tuple[str, ...]


def card_path(log: Path) -> Path:
    """`h200.csv` -> `h200.card.toml`, the card of a log's only device."""
    return log.parent / f"{log_stem(log)}.card.toml"


def log_stem(log: Path) -> str:
    """`h200.csv.gz` -> `h200`, with which the names of its cards begin."""
    return log.name.removesuffix(".gz").removesuffix(".csv") or log.name


def read_swept(log: str, header: Sequence[str]) -> Swept | None:
    """What the card beside a log of `heurgen tune` says; None where there is none, or its columns are others now.

    Raises:
        SpecError: the card cannot be read; names the file.
    """
    card = card_path(Path(log))
    if not os.path.isfile(card):  # unlike Path's, False for any text
        return None
    told = read_toml(card).data.get("log")
    table = told if isinstance(told, dict) else {}
    kernel, parameters = table.get("kernel"), table.get("parameters")
    if type(kernel) is not str or not isinstance(parameters, list):
        return None
    features = header[len(FIRST) : len(header) - len(LAST) - len(parameters)]
    same = [*FIRST, *features, *parameters, *LAST] == [*header]
    return Swept(kernel, tuple(features), tuple(parameters)) if same else None


def read_tools(paths: Iterable[str | Path]) -> dict[str, list[str]]:
    """Tool -> its versions, over the `[tools]` tables of all cards, sorted.

    Raises:
        SpecError: a card cannot be read, or its `[tools]` is no flat table of strings; names the file.
    """
    versions: dict[str, set[str]] = {}
    for path in paths:
        for tool, version in _tools(path).items():
            versions.setdefault(tool, set()).add(version)
    return {tool: sorted(versions[tool]) for tool in sorted(versions)}


def _tools(path: str | Path) -> dict[str, str]:
    top = read_toml(path)
    if "tools" not in top and "device" in top:
        return {}
    if "tools" not in top or any(type(v) is not str for v in top.table("tools").data.values()):
        raise top.error("has no flat table of strings", "tools", '[tools], then torch = "2.11"')
    return dict(top.table("tools").data)


def read_devices(paths: Iterable[str | Path]) -> dict[str, DeviceFacts]:
    """Device -> what the `[device]` tables of the cards agree on.

    Raises:
        SpecError: a card cannot be read, or its `[device]` is no table of a device; names the file.
    """
    found: dict[str, DeviceFacts] = {}
    for path in paths:
        device = read_toml(path).table("device")
        if "name" not in device:
            continue
        name = device.text("name")
        # torch's `gcnArchName` goes on with what is switched on: gfx942:sramecc+:xnack-.
        capability = device.text("capability", "", expected='text such as "9.0"').partition(":")[0]
        facts = DeviceFacts(capability or None, _numbers(device))
        found[name] = _agreed(found[name], facts) if name in found else facts
    return found


def strangers(carded: Iterable[str], measured: Sequence[str]) -> list[str]:
    """A note for every device that has a card and no row in the logs: what the card says of it is not used."""
    known = ", ".join(map(quoted, measured))
    return [
        f"the card of {quoted(device)} is of no device in the logs, which have {known}: devices are told by their names"
        for device in carded
        if device not in measured
    ]


def _numbers(device: Table) -> dict[str, float]:
    return {
        key: float(device.data[key])
        for key in device
        if key not in _NO_FEATURE and NAME.fullmatch(key) and is_finite(device.data[key])
    }


def _agreed(a: DeviceFacts, b: DeviceFacts) -> DeviceFacts:
    """What both say, or one alone."""
    numbers = {**a.numbers, **b.numbers}
    same = {k: v for k, v in numbers.items() if a.numbers.get(k, v) == v}
    capability = a.capability or b.capability
    return DeviceFacts(capability if b.capability in (None, capability) else None, same)
