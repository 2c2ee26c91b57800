"""Kernel Tuner's cache files and T4 results -> measurements; one problem a file.

A cache may lack its last brackets: Kernel Tuner appends to it while it runs. `problem_size` is the only thing
that is known of the problem; `--feature` names its numbers. Where a function computed it ("callable") the file's
name tells the problem. A failure is the name of its kind, in place of a time or as `__error__`. Whatever a tuning
optimised, its times are read; but where it was a throughput and configs do different amounts of work (steps a launch,
as in temporal tiling), times do not compare: 1 / the throughput does.

T4 holds neither kernel nor problem nor device. Its device is what a file's name tells (`convolution_A100_T4.json`), or
`--device`; its problem that of the caches beside it, where they agree in one, else the rest of the name, as a
feature `problem`, or `--const`. A T4 file that holds the measurements of a cache beside it is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.devices import device_in
from heurgen.logs.importers.foreign import Foreign, a, cell, distinct, parse_json, setting, time_in, time_of
from heurgen.spec.log_columns import MS, UNIT_WORDS, Unit

# Beside the usual words: none at all, and a misspelling.
_UNITS: Mapping[str, Unit] = {**UNIT_WORDS, "": "ms", "miliseconds": "ms"}
_ERRORS = ("ErrorConfig", "InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
# What old versions gave a config that failed for a time.
_FAILED = 1e20
# Beyond rounding: one config does this many times the work of another.
_WORK = 1.01
# T4's word for a measurement that counts.
_CORRECT = "correct"


_Measured = list[tuple[dict[str, str], float | None, str]]


def recognises(file: Foreign) -> bool:
    head = file.text[:65536]
    return ('"tune_params"' in head and '"device_name"' in head) or (
        '"results"' in head and '"configuration"' in head and '"invalidity"' in file.text
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """What one file holds. `kernel` and `problem` are None where it does not say them, as T4 does not."""

    file: Foreign
    device: str | None
    kernel: str | None
    problem: dict[str, str] | None
    measured: _Measured

    @property
    def times(self) -> dict[tuple[tuple[str, str], ...], float | None]:
        return {tuple(sorted(config.items())): time for config, time, _ in self.measured}


def import_kernel_tuner(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("kernel-tuner")
    runs = [_run(file, options, found.notes) for file in files]
    known = {r.kernel for r in runs if r.kernel is not None}
    kernel = one_kernel(known, options.kernel) if known else None
    caches = [r for r in runs if r.kernel is not None and r.kernel == kernel]
    whole, copies = distinct([r.file for r in caches])
    found.notes += copies
    caches = [r for r in caches if any(r.file is file for file in whole)]
    results = _without_copies([r for r in runs if r.kernel is None], caches, found.notes)
    _check_same_kernel(results, caches)
    found.kernel = kernel or _name(results, options)
    problems = _problems(results, caches, options, found.notes)
    for run in (*caches, *results):
        device, vendor = found.place(run.file.file, run.device, options)
        problem = problems[run.file.file] if run.problem is None else run.problem
        scenario = found.scenario(vendor, device, problem)
        for config, time, status in run.measured:
            found.add(scenario, config, time, status)
    return found.imported(options)


def _run(file: Foreign, options: Options, notes: list[str]) -> _Run:
    data = a(file, _parsed(file, notes), dict, "")
    if "cache" in data:
        given = a(file, data.get("tune_params_keys"), list, "tune_params_keys")
        names = [a(file, n, str, f"tune_params_keys[{i}]", "tune_params_keys") for i, n in enumerate(given)]
        objective = data.get("objective", "time")
        said = ", ".join(map(str, objective)) if isinstance(objective, list) else str(objective)
        entries = a(file, data["cache"], dict, "cache")
        measured = list(_cached(file, entries, names))
        # Of code that g++ or nvcc compiled it is blank on Linux.
        name = data.get("device_name") or None
        by_work = _by_work(file, measured, [entry.get(said) for entry in entries.values()], said, notes)
        if said != "time" and by_work is measured:
            notes.append(f"{printable(file.file)}: tuned for {printable(said)}; its times are read")
        return _Run(
            file,
            cell(file, name, "device_name", "device_name") if name is not None else None,
            cell(file, data.get("kernel_name") or "kernel", "kernel_name", "kernel_name"),
            _problem(file, data.get("problem_size"), options),
            by_work,
        )
    if "results" not in data:
        raise file.error("found neither 'cache' nor 'results'", hint="expected Kernel Tuner's cache or T4")
    device = device_in(_stem(file))[0]
    if device is not None and options.device is None:
        notes.append(f"{printable(file.file)}: of the device {device}, by its name")
    measured = list(_results(file, data))
    objective = _objective(data["results"][0]) if measured else "time"
    rates = [_value(row, objective) for row in data["results"]]
    return _Run(file, device, None, None, _by_work(file, measured, rates, objective, notes))


def _without_copies(results: list[_Run], caches: list[_Run], notes: list[str]) -> list[_Run]:
    """T4 results less those that Kernel Tuner wrote of a cache beside them."""
    first = {frozenset(cache.times.items()): cache for cache in caches}
    kept = []
    for run in results:
        cache = first.get(frozenset(run.times.items()))
        if cache is None:
            kept.append(run)
        else:
            own, other = printable(run.file.file), printable(cache.file.file)
            notes.append(f"{own} holds the measurements of {other}: taken once")
    return kept


def _problems(
    results: list[_Run], caches: list[_Run], options: Options, notes: list[str]
) -> dict[str, dict[str, str]]:
    """The problem of each T4 file, by its path."""
    shared = {tuple(cache.problem.items()) for cache in caches if cache.problem is not None}
    if results and len(shared) > 1:
        raise UsageError(
            f"{printable(results[0].file.file)} says no problem size, and the caches beside it have several",
            hint="import it alone",
        )
    if results and shared:
        problem = dict(shared.pop())
        notes.append(
            f"T4 files say no problem size: taken as that of the cache, {', '.join(problem.values())}"
        )
        return {run.file.file: problem for run in results}
    if results and options.features:
        raise UsageError("T4 files hold no problem size to name", hint="use --const NAME=VALUE")
    named = {run.file.file: device_in(_stem(run.file))[1] or "unknown" for run in results}
    if options.const and len(set(named.values())) == 1:
        return {file: {} for file in named}
    if named:
        notes.append(
            "T4 files say no problem size: the feature `problem` is the files' names; --const says it"
        )
    return {file: {"problem": problem} for file, problem in named.items()}


def _check_same_kernel(results: list[_Run], caches: list[_Run]) -> None:
    """T4 files do not say their kernel: of other parameters than a cache or T4 file beside them they are of another.

    Raises:
        UsageError: one is.
    """
    known = {frozenset(run.measured[0][0]): run for run in caches or results[:1] if run.measured}
    for run in results:
        if run.measured and known and frozenset(run.measured[0][0]) not in known:
            first, second = (printable(r.file.file) for r in (next(iter(known.values())), run))
            raise UsageError(
                f"{first} and {second} tune other parameters", hint="import one kernel at a time"
            )


def _name(results: list[_Run], options: Options) -> str:
    """The kernel's name where no cache says it."""
    names = {device_in(_stem(run.file))[1] for run in results}
    return options.kernel or (names.pop() if len(names) == 1 else "") or "kernel"


def _stem(file: Foreign) -> str:
    """The file's name without its endings and the name of the format."""
    return re.sub(r"(?i)[_.-]t4$", "", file.name.partition(".json")[0])


def _parsed(file: Foreign, notes: list[str]) -> Any:
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
                        notes.append(f"{printable(file.file)}: its last line is torn: left out")
                    return data
        raise


def _by_work(
    file: Foreign, measured: _Measured, rates: Sequence[Any], objective: str, notes: list[str]
) -> _Measured:
    """What was measured; where the objective is a throughput ("GFLOP/s") that says, times the time, that some configs
    do more work than others, its inverse is there for the time."""
    known = [r if isinstance(r, int | float) and 0 < r < math.inf else None for r in rates]
    pairs = [(time, rate) for (_, time, _), rate in zip(measured, known, strict=True) if time is not None]
    work = [time * rate for time, rate in pairs if rate is not None]
    if (
        not objective.endswith("/s")
        or len(work) < len(pairs)
        or max(work, default=0) <= _WORK * min(work, default=0)
    ):
        return measured
    why = "configs do different amounts of work"
    notes.append(
        f"{printable(file.file)}: {why}: 1 / {printable(objective)}, which it was tuned for, is read"
    )
    return [
        (config, 1 / rate if time is not None and rate is not None else None, status)
        for (config, time, status), rate in zip(measured, known, strict=True)
    ]


def _cached(
    file: Foreign, entries: dict[str, Any], names: list[str]
) -> Iterator[tuple[dict[str, str], float | None, str]]:
    for key, entry in entries.items():
        row = a(file, entry, dict, f"cache[{key}]", key)
        config = {}
        for name in names:
            if name not in row:
                raise file.error(f"the parameter {quoted(name)} is missing", at=key, path=f"cache[{key}]")
            config[name] = setting(file, row[name], f"cache[{key}].{name}", key)
        time = row.get("time")
        why = time if isinstance(time, str) else next((v for v in row.values() if v in _ERRORS), None)
        if why is not None:
            yield config, None, cell(file, why, f"cache[{key}].time", key)
        elif time == _FAILED:
            yield config, None, "invalid"
        else:
            yield config, *_or_failure(time_in(file, row, "time", f"cache[{key}]", at=key))


def _or_failure(time: float | None) -> tuple[float | None, str]:
    return (time, "ok") if time is not None else (None, "invalid")


def _problem(file: Foreign, size: Any, options: Options) -> dict[str, str]:
    if size == "callable":
        return {"problem": device_in(_stem(file))[1] or "unknown"}
    values = size if isinstance(size, list) else [] if size is None else [size]
    texts = [cell(file, v, "problem_size", "problem_size") for v in values]
    names = options.features or tuple(f"problem_size_{i}" for i in range(len(texts)))
    if len(names) != len(texts):
        raise file.error(
            f"problem_size has {counted(len(texts), 'number')}, and --feature names {len(names)}",
            at="problem_size",
            path="problem_size",
            hint="--feature once for each number, in order",
        )
    return dict(zip(names, texts, strict=True))


def _results(file: Foreign, data: dict[str, Any]) -> Iterator[tuple[dict[str, str], float | None, str]]:
    meta = data.get("metadata")
    unit = meta.get("timeunit", "") if isinstance(meta, dict) else ""
    for i, entry in enumerate(a(file, data["results"], list, "results")):
        path = f"results[{i}]"
        row = a(file, entry, dict, path)
        given = a(file, row.get("configuration"), dict, f"{path}.configuration")
        config = {k: setting(file, v, f"{path}.configuration.{k}") for k, v in given.items()}
        if not config:
            raise file.error("the configuration is empty", path=path)
        why = cell(file, row.get("invalidity", _CORRECT), f"{path}.invalidity")
        if why != _CORRECT:
            yield config, None, why
        else:
            yield config, *_or_failure(_t4_time(file, row, path, _factor(file, unit, "metadata.timeunit")))


def _objectives(row: dict[str, Any]) -> list[Any]:
    given = row.get("objectives", ["time"])
    return given if isinstance(given, list) else [given]


def _objective(row: dict[str, Any]) -> str:
    """What a T4 result was measured for, where that is one thing."""
    said = _objectives(row)
    return str(said[0]) if len(said) == 1 else "time"


def _value(row: dict[str, Any], name: str) -> Any:
    """The measurement of that name in a T4 result."""
    given = row.get("measurements")
    known = [m for m in given if isinstance(m, dict)] if isinstance(given, list) else []
    return next((m.get("value") for m in known if m.get("name") == name), None)


def _factor(file: Foreign, unit: Any, path: str) -> float:
    """Milliseconds of a unit of time."""
    if not isinstance(unit, str) or unit.lower() not in _UNITS:
        raise file.error(f"found the unit {quoted(unit)}, expected one of time", path=path)
    return MS[_UNITS[unit.lower()]]


def _t4_time(file: Foreign, row: dict[str, Any], path: str, factor: float) -> float | None:
    """The measurement that is the objective; else the mean of the runtimes. `factor`: where it says no unit.

    Kernel Tuner calls it `time`, KTT's converter `TotalDuration`, in a unit that stands there alone.
    """
    objectives = _objectives(row)
    for measurement in a(file, row.get("measurements", []), list, f"{path}.measurements"):
        entry = a(file, measurement, dict, f"{path}.measurements")
        unit, place = entry.get("unit", ""), f"{path}.measurements"
        timed = entry.get("name") == "time" or (isinstance(unit, str) and unit and unit.lower() in _UNITS)
        if timed and entry.get("name") in objectives:
            return time_in(file, entry, "value", place, factor=_factor(file, unit, place) if unit else factor)
    times = a(file, row.get("times"), dict, f"{path}.times")
    runs = a(file, times.get("runtimes"), list, f"{path}.times.runtimes")
    if not runs:
        raise file.error("found no runtime", path=f"{path}.times.runtimes")
    values = [time_of(file, r, f"{path}.times.runtimes", factor=factor) for r in runs]
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
