"""Kernel Tuner's cache files and T4 results -> measurements; one problem a file.

A cache may lack its last brackets: Kernel Tuner appends to it while it runs. `problem_size` is the only thing
that is known of the problem; `--feature` names its numbers. T4 holds neither problem nor device: `--device` and
`--const` say them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.devices import device_and_vendor
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json, time_of

_MS = {
    "": 1.0,
    "ms": 1.0,
    "milliseconds": 1.0,
    "miliseconds": 1.0,
    "s": 1e3,
    "seconds": 1e3,
    "us": 1e-3,
    "ns": 1e-6,
}
_MS |= {"microseconds": 1e-3, "nanoseconds": 1e-6}
# T4's word for a measurement that counts.
_CORRECT = "correct"


def recognises(file: Foreign) -> bool:
    head = file.text[:65536]
    return ('"tune_params"' in head and '"device_name"' in head) or (
        '"results"' in head and '"configuration"' in head and '"invalidity"' in file.text
    )


def import_kernel_tuner(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("kernel-tuner")
    kernels = set()
    for file in files:
        data = a(file, _parsed(file, found), dict, "")
        if "cache" in data:
            kernels.add(_cache(file, data, options, found))
        elif "results" in data:
            _t4(file, data, options, found)
        else:
            raise file.error(
                "found neither 'cache' nor 'results'", hint="expected Kernel Tuner's cache or T4"
            )
    if len(kernels) > 1:
        raise UsageError(f"the files are of the kernels {', '.join(sorted(map(quoted, kernels)))}")
    found.kernel = kernels.pop() if kernels else "kernel"
    return found.imported(options)


def _parsed(file: Foreign, found: Collected) -> Any:
    """The JSON; of a cache that was not closed, what Kernel Tuner's own reader makes of it.

    It appends an entry a line while it runs: of a cache whose run was killed the last line may be torn.
    """
    try:
        return parse_json(file)
    except LogError:
        if '"cache"' not in file.text[:65536]:
            raise
        whole = file.text.rstrip()
        lines, _, torn = whole.rpartition("\n")
        for text, lost in ((whole, ""), (lines, torn)):
            for end in ("}\n}", "}"):
                with suppress(LogError):
                    data = parse_json(file, text.rstrip().rstrip(",") + end)
                    if lost:
                        found.notes.append(f"{printable(file.file)}: its last line is torn: left out")
                    return data
        raise


def _cache(file: Foreign, data: dict[str, Any], options: Options, found: Collected) -> str:
    names = a(file, data.get("tune_params_keys"), list, "tune_params_keys")
    objective = data.get("objective", "time")
    if objective != "time":
        raise file.error(f"the objective is {quoted(objective)}, expected 'time'", at="objective")
    device = cell(file, data.get("device_name"), "device_name", "device_name")
    features = _problem(file, data.get("problem_size"), options)
    told, vendor = device_and_vendor(file.file, device, options.device, options.vendor)
    scenario = found.scenario(vendor, told, features)
    for key, entry in a(file, data["cache"], dict, "cache").items():
        row = a(file, entry, dict, f"cache[{key}]", key)
        config = {}
        for name in names:
            if name not in row:
                raise file.error(f"the parameter {quoted(name)} is missing", at=key, path=f"cache[{key}]")
            config[name] = cell(file, row[name], f"cache[{key}].{name}", key)
        time = row.get("time")
        if isinstance(time, str):
            found.add(scenario, config, None, cell(file, time, f"cache[{key}].time", key))
        else:
            found.add(scenario, config, *_or_failure(time_of(file, time, f"cache[{key}].time", at=key)))
    return cell(file, data.get("kernel_name") or "kernel", "kernel_name", "kernel_name")


def _or_failure(time: float | None) -> tuple[float | None, str]:
    return (time, "ok") if time is not None else (None, "invalid")


def _problem(file: Foreign, size: Any, options: Options) -> dict[str, str]:
    values = size if isinstance(size, list) else [] if size is None else [size]
    texts = [cell(file, v, "problem_size", "problem_size") for v in values]
    names = options.features or tuple(f"problem_size_{i}" for i in range(len(texts)))
    if len(names) != len(texts):
        raise file.error(
            f"problem_size has {len(texts)} numbers, and --feature names {len(names)}",
            at="problem_size",
            path="problem_size",
            hint="--feature once for each number, in order",
        )
    return dict(zip(names, texts, strict=True))


def _t4(file: Foreign, data: dict[str, Any], options: Options, found: Collected) -> None:
    if options.features:
        raise UsageError("T4 files hold no problem size to name", hint="use --const NAME=VALUE")
    told, vendor = device_and_vendor(file.file, None, options.device, options.vendor)
    scenario = found.scenario(vendor, told, {})
    for i, entry in enumerate(a(file, data["results"], list, "results")):
        path = f"results[{i}]"
        row = a(file, entry, dict, path)
        given = a(file, row.get("configuration"), dict, f"{path}.configuration")
        config = {k: cell(file, v, f"{path}.configuration.{k}") for k, v in given.items()}
        if not config:
            raise file.error("the configuration is empty", path=path)
        why = cell(file, row.get("invalidity", _CORRECT), f"{path}.invalidity")
        if why != _CORRECT:
            found.add(scenario, config, None, why)
        else:
            found.add(scenario, config, *_or_failure(_t4_time(file, row, path)))


def _t4_time(file: Foreign, row: dict[str, Any], path: str) -> float | None:
    """The measurement that is the objective; else the mean of the runtimes."""
    objectives = row.get("objectives", ["time"])
    for measurement in a(file, row.get("measurements", []), list, f"{path}.measurements"):
        entry = a(file, measurement, dict, f"{path}.measurements")
        if entry.get("name") == "time" and "time" in objectives:
            unit = entry.get("unit", "")
            if not isinstance(unit, str) or unit.lower() not in _MS:
                raise file.error(
                    f"found the unit {quoted(unit)}, expected one of time", path=f"{path}.measurements"
                )
            return time_of(file, entry.get("value"), f"{path}.measurements", factor=_MS[unit.lower()])
    times = a(file, row.get("times"), dict, f"{path}.times")
    runs = a(file, times.get("runtimes"), list, f"{path}.times.runtimes")
    if not runs:
        raise file.error("found no runtime", path=f"{path}.times.runtimes")
    values = [time_of(file, r, f"{path}.times.runtimes") for r in runs]
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
