"""What CLBlast's tuners and CLTune write (JSON) -> measurements; one problem a file.

`{"kernel_family", "precision", "arg_m", ..., "device", "results": [{"kernel", "time" (ms), "parameters": {...}}]}`; the
arguments and the precision are features. CLBlast's database holds such objects as `sections`, whose results may be
`["32,16", time]` with `parameter_names` beside them. A time of null, 0 or infinity is a config that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json, setting, time_in
from heurgen.logs.vendors import vendor_of
from heurgen.spec.kernel_spec import vendor_problem

_ARGUMENT = "arg_"
_DEVICES = ("clblast_device_name", "device")
_VENDORS = ("clblast_device_vendor", "device_vendor")


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
    if options.vendor is None and options.device is None and told and not vendor_of(told):
        options = replace(options, vendor=_vendor(file, path, section))
    device, vendor = found.place(file.file, told, options)
    features = {"precision": _text(file, section, "precision", path)} | {
        n.removeprefix(_ARGUMENT): _text(file, section, n, path) for n in section if n.startswith(_ARGUMENT)
    }
    scenario = found.scenario(vendor, device, features)
    for place, row, given in _results(file, path, section):
        config = {k: setting(file, v, f"{place}.parameters.{k}", k) for k, v in given.items()}
        if not config:
            raise file.error("the config is empty", path=f"{place}.parameters")
        ran = row.get("time") != 0 or row["time"] is False
        time = time_in(file, row, "time", place) if ran else None
        found.add(scenario, config, time, "ok" if time is not None else "invalid")


def _results(
    file: Foreign, path: str, section: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The place of each result, the result, and its parameters."""
    given = a(file, section.get("parameter_names", []), list, f"{path}parameter_names", "parameter_names")
    names = [a(file, n, str, f"{path}parameter_names", "parameter_names") for n in given]
    for i, result in enumerate(a(file, section.get("results"), list, f"{path}results", "results")):
        place = f"{path}results[{i}]"
        if names and isinstance(result, list):
            values = result[0].split(",") if len(result) == 2 and isinstance(result[0], str) else []
            if len(values) != len(names):
                said = f"found {quoted(result)}, expected {counted(len(names), 'value')} between commas, and their time"
                raise file.error(said, path=place)
            yield place, {"time": result[1]}, dict(zip(names, values, strict=True))
        else:
            row = a(file, result, dict, place)
            yield place, row, a(file, row.get("parameters"), dict, f"{place}.parameters")


def _vendor(file: Foreign, path: str, section: dict[str, Any]) -> str | None:
    """The vendor that the section tells: ARM, Apple or Qualcomm, whose devices' names do not."""
    told = next((_text(file, section, n, path) for n in _VENDORS if section.get(n)), "")
    first = told.lower().partition(" ")[0]
    return vendor_of(told) or (first if first and vendor_problem(first) is None else None)


def _text(file: Foreign, section: dict[str, Any], name: str, path: str) -> str:
    if name not in section:
        raise file.error(f"the key '{name}' is missing", path=path.removesuffix("."))
    return cell(file, section[name], f"{path}{name}", name)
