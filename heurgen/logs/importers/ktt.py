"""KTT's results (JSON) -> measurements; one problem a file.

`{"Metadata": {"Device", "TimeUnit"}, "Results": [{"KernelName", "Status", "TotalDuration", "Configuration": [{"Name",
"Value"}]}], "UserData": {...}}`. The duration is in the unit that the metadata name. UserData are features; without
them the problem is the file's name, or `--const`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heurgen.base.errors import quoted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json, setting, time_in

_MS = {"Nanoseconds": 1e-6, "Microseconds": 1e-3, "Milliseconds": 1.0, "Seconds": 1e3}
_OK = "Ok"


def recognises(file: Foreign) -> bool:
    head = file.text[:65536]
    return '"Metadata"' in head and '"Results"' in file.text and '"TimeUnit"' in head


def import_ktt(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("ktt", absent="none")
    read = []
    for file in files:
        data = a(file, parse_json(file), dict, "")
        for i, result in enumerate(a(file, data.get("Results"), list, "Results", "Results")):
            row = a(file, result, dict, f"Results[{i}]")
            kernel = cell(file, row.get("KernelName", "kernel"), f"Results[{i}].KernelName", "KernelName")
            read.append((file, data, f"Results[{i}]", row, kernel))
    if not read:
        raise files[0].error("found no result", at="Results")
    found.kernel = one_kernel((kernel for *_, kernel in read), options.kernel)
    for file, data, path, row, kernel in read:
        if kernel == found.kernel:
            _result(file, data, (path, row), options, found, alone=len(files) == 1)
    return found.imported(options)


def _result(
    file: Foreign,
    data: dict[str, Any],
    result: tuple[str, dict[str, Any]],
    options: Options,
    found: Collected,
    *,
    alone: bool,
) -> None:
    path, row = result
    meta = a(file, data.get("Metadata"), dict, "Metadata", "Metadata")
    unit = meta.get("TimeUnit", "Milliseconds")
    if not isinstance(unit, str) or unit not in _MS:
        raise file.error(f"found the unit {quoted(unit)}, expected one of {', '.join(_MS)}", at="TimeUnit")
    told = cell(file, meta.get("Device") or None, "Metadata.Device", "Device") or None
    device, vendor = found.place(file.file, told, options)
    said = a(file, data.get("UserData") or {}, dict, "UserData", "UserData")
    features = {k: cell(file, v, f"UserData.{k}", k) for k, v in said.items()}
    if not features and not (alone and options.const):
        features = {"problem": file.name.partition(".")[0]}
    status = cell(file, row.get("Status", _OK), f"{path}.Status", "Status")
    time = None
    if status == _OK:
        time = time_in(file, row, "TotalDuration", path, factor=_MS[unit])
    why = "ok" if time is not None else "invalid" if status == _OK else status
    found.add(found.scenario(vendor, device, features), _config(file, path, row), time, why)


def _config(file: Foreign, path: str, row: dict[str, Any]) -> dict[str, str]:
    config = {}
    for i, pair in enumerate(a(file, row.get("Configuration"), list, f"{path}.Configuration")):
        place = f"{path}.Configuration[{i}]"
        entry = a(file, pair, dict, place)
        name = cell(file, entry.get("Name"), f"{place}.Name")
        if not name or name in config:
            raise file.error(f"found the name {quoted(name)}, expected one that is new", path=place)
        config[name] = setting(file, entry.get("Value"), f"{place}.Value")
    if not config:
        raise file.error("the config is empty", path=f"{path}.Configuration")
    return config
