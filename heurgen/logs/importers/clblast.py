"""What CLBlast's tuners and CLTune write (JSON) -> measurements; one problem a file.

`{"kernel_family", "precision", "arg_m", ..., "device", "results": [{"kernel", "time" (ms), "parameters": {...}}]}`; the
arguments and the precision are features. CLBlast's database holds such objects as `sections`. A time of null, 0 or
infinity is a config that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json, setting, time_in

_ARGUMENT = "arg_"
_DEVICES = ("clblast_device_name", "device")


def recognises(file: Foreign) -> bool:
    head = file.text[:65536]
    return '"kernel_family"' in head and '"results"' in head


def import_clblast(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("clblast", absent="none")
    read = [(file, path, section) for file in files for path, section in _sections(file)]
    if not read:
        raise files[0].error("found no section", at="sections")
    kernels = [_text(file, section, "kernel_family", path) for file, path, section in read]
    found.kernel = one_kernel(kernels, options.kernel)
    for (file, path, section), kernel in zip(read, kernels, strict=True):
        if kernel == found.kernel:
            _section(file, path, section, options, found)
    return found.imported(options)


def _sections(file: Foreign) -> Iterator[tuple[str, dict[str, Any]]]:
    data = a(file, parse_json(file), dict, "")
    if "sections" not in data:
        yield "", data
        return
    for i, section in enumerate(a(file, data["sections"], list, "sections")):
        yield f"sections[{i}].", a(file, section, dict, f"sections[{i}]")


def _section(file: Foreign, path: str, section: dict[str, Any], options: Options, found: Collected) -> None:
    told = next((_text(file, section, n, path) for n in _DEVICES if section.get(n)), None)
    device, vendor = found.place(file.file, told, options)
    features = {"precision": _text(file, section, "precision", path)} | {
        n.removeprefix(_ARGUMENT): _text(file, section, n, path) for n in section if n.startswith(_ARGUMENT)
    }
    scenario = found.scenario(vendor, device, features)
    for i, result in enumerate(a(file, section.get("results"), list, f"{path}results", "results")):
        place = f"{path}results[{i}]"
        row = a(file, result, dict, place)
        given = a(file, row.get("parameters"), dict, f"{place}.parameters")
        config = {k: setting(file, v, f"{place}.parameters.{k}", k) for k, v in given.items()}
        if not config:
            raise file.error("the config is empty", path=f"{place}.parameters")
        ran = row.get("time") != 0 or row["time"] is False
        time = time_in(file, row, "time", place) if ran else None
        found.add(scenario, config, time, "ok" if time is not None else "invalid")


def _text(file: Foreign, section: dict[str, Any], name: str, path: str) -> str:
    if name not in section:
        raise file.error(f"the key '{name}' is missing", path=path.removesuffix("."))
    return cell(file, section[name], f"{path}{name}", name)
