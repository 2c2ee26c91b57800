"""Kernel Launcher's wisdom files (JSON lines) -> measurements: the best few configs of every problem.

The first line names the `tunable_parameters`; each other line has `config` (their values), `problem_size`
(`--feature` names its numbers), `time` (ms) and `environment.device_name`. Lines that begin with # are comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json, setting, time_of


def recognises(file: Foreign) -> bool:
    return file.name.endswith(".wisdom") or '"tunable_parameters"' in file.text[:4096]


def import_kernel_launcher(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("kernel-launcher")
    heads = [(file, *_head(file)) for file in files]
    found.kernel = one_kernel((kernel for _, kernel, _, _ in heads), options.kernel)
    for file, kernel, names, lines in heads:
        if kernel == found.kernel:
            for row, text in lines:
                data = a(file, parse_json(file, text, row=row), dict, f"line {row}")
                _line(file, row, data, names, options, found)
    return found.imported(options)


def _head(file: Foreign) -> tuple[str, list[str], list[tuple[int, str]]]:
    """The kernel, the names of its parameters, and the other lines with their numbers."""
    lines = [(i, t) for i, t in enumerate(file.text.split("\n"), 1) if t.strip() and t.strip()[0] != "#"]
    if not lines:
        raise file.error("holds comments alone")
    head = a(file, parse_json(file, lines[0][1], row=lines[0][0]), dict, "the first line")
    return cell(file, head.get("key", "kernel"), "key", "key"), _names(file, head), lines[1:]


def _names(file: Foreign, head: dict[str, Any]) -> list[str]:
    if head.get("objective", "time") != "time":
        raise file.error(f"the objective is {quoted(head['objective'])}, expected 'time'", at="objective")
    names = a(file, head.get("tunable_parameters"), list, "tunable_parameters")
    texts = [cell(file, n, "tunable_parameters", "tunable_parameters") for n in names]
    if not texts or len(set(texts)) < len(texts):
        raise file.error("tunable_parameters is empty or names one twice", at="tunable_parameters")
    return texts


def _line(
    file: Foreign, row: int, data: dict[str, Any], names: list[str], options: Options, found: Collected
) -> None:
    values = a(file, data.get("config"), list, f"line {row}: config")
    sizes = a(file, data.get("problem_size"), list, f"line {row}: problem_size")
    features = options.features or tuple(f"problem_size_{i}" for i in range(len(sizes)))
    if len(values) != len(names):
        raise file.error(f"config has {counted(len(values), 'value')}, expected {len(names)}", row=row)
    if len(sizes) != len(features):
        message = f"problem_size has {counted(len(sizes), 'number')}, and --feature names {len(features)}"
        raise file.error(message, row=row, hint="--feature once for each number, in order")
    environment = a(file, data.get("environment", {}), dict, f"line {row}: environment")
    told = cell(file, environment.get("device_name"), f"line {row}: device_name") or None
    device, vendor = found.place(file.file, told, options)
    problem = {n: cell(file, v, f"line {row}: problem_size") for n, v in zip(features, sizes, strict=True)}
    config = {n: setting(file, v, f"line {row}: {n}") for n, v in zip(names, values, strict=True)}
    if "time" not in data:
        raise file.error("the key 'time' is missing", row=row)
    time = time_of(file, data["time"], f"line {row}: time")
    found.add(found.scenario(vendor, device, problem), config, time, "ok" if time is not None else "invalid")
