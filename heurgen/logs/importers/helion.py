"""Helion's AOT measurements (`measurements_<hardware>.csv`) and autotune logs (`<base>.csv`) -> measurements.

Measurements hold config and shape features as JSON in cells, times in ms, and in later versions a status. The rows of
an autotune log are of runs, each of one shape, and write a config as `Config(block_sizes=[64], num_warps=4)`; kernel,
shapes, dtypes and device of the runs are in `<base>.meta.jsonl`, which Helion writes where it is asked to collect a
dataset. Where it is missing `--const` and `--device` say them, and the log must be of one run. Lists of a config become
one parameter an entry (block_sizes_0).
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import (
    Foreign,
    a,
    cell,
    csv_rows,
    csv_time,
    parse_json,
    python_value,
    read_foreign,
    setting,
)

_MEASUREMENTS = ("kernel_name", "config", "shape_features", "timing_ms")
# After these 0.3 and older write config_index, later versions run_id and config_id.
_LOG = ("generation", "status", "perf_ms", "config")
# The device, the version of CUDA, ROCm or the driver, and what a structural policy adds.
_HARDWARE = re.compile(
    r"measurements_(?:cuda|rocm|gpu|xpu|tpu|cpu|hip)_(.+?)(?:_[0-9]+\.[^_]*)?(?:__policy_.+)?\.csv"
)
# What a tensor's other features determine.
_IMPLIED = re.compile(r"arg[0-9]+_(ndim|numel|dtype_size|dtype_cat)")
# Rows that are no measurement: begun, or never run. What ran under another config's name has that one's time.
_NOT_RUN, _ALIKE = ("started", "filtered"), "deduplicated"
_GOOD = ("ok", "success")
_MAX_CONFIG = 65_536
_SEVERAL = "their runs give several shapes one time"


@dataclass(frozen=True, slots=True)
class _Run:
    """What `<base>.meta.jsonl` says of a run; one of `several` shapes has one time for all, a mean or the worst."""

    kernel: str
    features: dict[str, str]
    device: str
    several: bool = False


def recognises(file: Foreign) -> bool:
    first = file.text[:65536].split("\n", 1)[0].strip()
    header = first.split(",")
    return set(_MEASUREMENTS) <= set(header) or set(_LOG) <= set(header) or _is_meta(first)


def _is_meta(first: str) -> bool:
    return first.startswith("{") and '"run_id"' in first and '"input_shapes"' in first


def import_helion(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("helion", absent="none")
    metas = [f for f in files if _is_meta(f.text[:65536].split("\n", 1)[0])]
    kernels: set[str] = set()
    for file in (f for f in files if f not in metas):
        header, rows = csv_rows(file)
        wanted = _MEASUREMENTS if "shape_features" in header else _LOG
        if missing := [n for n in wanted if n not in header]:
            raise file.error(f"the column {quoted(missing[0])} is missing", row=1)
        read = ((line, dict(zip(header, cells, strict=True))) for line, cells in rows)
        if wanted is _LOG:
            kernels |= _logs(file, list(read), _runs(file, metas), options, found)
        else:
            kernels |= _measurements(file, read, options, found)
    if len(kernels) > 1:
        raise UsageError(
            f"the files are of {len(kernels)} kernels", hint=f"--kernel {' or '.join(sorted(kernels))}"
        )
    if not len(found) and any(note.endswith(_SEVERAL) for note in found.notes):
        log = next(f for f in files if f not in metas)
        raise log.error(f"nothing to read: {_SEVERAL}", hint="tune one shape at a time")
    found.kernel = kernels.pop() if kernels else "kernel"
    return found.imported(options)


# --- measurements -----------------------------------------------------------------------------------------


def _measurements(file: Foreign, rows: Any, options: Options, found: Collected) -> set[str]:
    kernels = set()
    hardware = _HARDWARE.fullmatch(file.name)
    told = hardware[1].replace("_", " ") if hardware else None
    device, vendor = found.place(file.file, told, options)
    for line, row in rows:
        if options.kernel not in (None, row["kernel_name"]):
            continue
        kernels.add(cell(file, row["kernel_name"], f"line {line}: kernel_name"))
        status = cell(file, row.get("status") or "ok", f"line {line}: status")
        if status in _NOT_RUN:
            continue
        given = parse_json(file, row["shape_features"], row=line)
        shape = flat(file, f"line {line}", a(file, given, dict, f"line {line}: shape_features"), line)
        features = {k: v for k, v in shape.items() if not _IMPLIED.fullmatch(k)}
        good = status in (*_GOOD, _ALIKE)
        time = csv_time(file, row["timing_ms"], line, "timing_ms") if good else None
        why = "ok" if time is not None else "invalid" if good else status
        found.add(found.scenario(vendor, device, features), _config(file, line, row), time, why)
    return kernels


# --- autotune logs ----------------------------------------------------------------------------------------


def _logs(
    file: Foreign,
    rows: Sequence[tuple[int, dict[str, str]]],
    runs: dict[str, _Run],
    options: Options,
    found: Collected,
) -> set[str]:
    """Of a log only what ended counts."""
    ids = {row.get("run_id", "") for _, row in rows}
    if len(ids) > 1 and (lacking := sorted(ids - runs.keys())):
        raise file.error(
            f"holds {len(ids)} runs, and nothing says the shapes of {counted(len(lacking), 'run')}",
            hint=f"give {file.name.removesuffix('.csv')}.meta.jsonl too",
        )
    kernels = set()
    for line, row in _ended(rows, runs, found):
        run = runs.get(row.get("run_id", ""), _Run("", {}, ""))
        status = cell(file, row["status"] or "failed", f"line {line}: status")
        if options.kernel not in (None, run.kernel or options.kernel):
            continue
        kernels |= {run.kernel} - {""}
        device, vendor = found.place(file.file, run.device or None, options)
        time = None
        if status in (*_GOOD, _ALIKE) and row["perf_ms"]:
            time = csv_time(file, row["perf_ms"], line, "perf_ms")
        why = "ok" if time is not None else "invalid" if status in _GOOD else status
        found.add(found.scenario(vendor, device, run.features), _config(file, line, row), time, why)
    return kernels


def _ended(
    rows: Sequence[tuple[int, dict[str, str]]], runs: dict[str, _Run], found: Collected
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows that are measurements. A config whose code another has takes its time, also if it failed before."""
    alike = [row for _, row in rows if row["status"] == _ALIKE and row["perf_ms"]]
    timed = {(row.get("run_id"), row["config"]) for row in alike}
    several = {name for name, run in runs.items() if run.several}
    if n := sum(row.get("run_id") in several for _, row in rows):
        found.notes.append(f"{counted(n, 'row')} left out: {_SEVERAL}")
    for line, row in (pair for pair in rows if pair[1].get("run_id") not in several):
        begun = row["status"] in _NOT_RUN or (row["status"] == _ALIKE and not row["perf_ms"])
        if not begun and (row["perf_ms"] or (row.get("run_id"), row["config"]) not in timed):
            yield line, row


def _runs(file: Foreign, metas: Sequence[Foreign]) -> dict[str, _Run]:
    """The runs that the given meta files describe, and the one that lies beside the log."""
    beside = re.sub(r"\.csv(\.gz|\.bz2)?$", "", file.file) + ".meta.jsonl"
    own = [] if metas or not os.path.isfile(beside) else [read_foreign(beside)]
    runs: dict[str, _Run] = {}
    for meta in (*metas, *own):
        for row, text in enumerate(meta.text.split("\n"), 1):
            if text.strip():
                data = a(meta, parse_json(meta, text, row=row), dict, f"line {row}")
                run_id = cell(meta, data.get("run_id"), f"line {row}: run_id")
                runs[run_id] = _run(meta, row, data)
    return runs


def _run(meta: Foreign, row: int, data: dict[str, Any]) -> _Run:
    shapes, dtypes = (_literal(meta, row, data, key) for key in ("input_shapes", "dtypes"))
    words = [cell(meta, data.get(key) or None, f"line {row}: {key}") for key in ("kernel_name", "hardware")]
    if shapes and all(isinstance(s, list) for s in shapes):
        return _Run(words[0], {}, words[1], several=True)
    sizes = [s for shape in shapes if isinstance(shape, tuple) for s in shape]
    if not all(isinstance(s, tuple) for s in shapes) or not all(type(s) is int and s >= 0 for s in sizes):
        raise meta.error(
            f"found the shapes {quoted(data['input_shapes'])}, expected a tuple of sizes for each tensor",
            row=row,
        )
    features = {f"arg{i}_dim{j}": str(size) for i, shape in enumerate(shapes) for j, size in enumerate(shape)}
    features |= {f"arg{i}_dtype": cell(meta, d, f"line {row}: dtypes") for i, d in enumerate(dtypes)}
    return _Run(words[0], features, words[1])


def _literal(meta: Foreign, row: int, data: dict[str, Any], key: str) -> list[Any]:
    """`[(128, 4096), (4096,)]`, a Python list as text."""
    text = data.get(key)
    found = python_value(text) if isinstance(text, str) else None
    if not isinstance(found, list):
        raise meta.error(f"found {quoted(text)}, expected a list as text", row=row, path=key)
    return found


# --- configs ----------------------------------------------------------------------------------------------


def _config(file: Foreign, line: int, row: dict[str, str]) -> dict[str, str]:
    text = row["config"]
    data = _called(text) if re.match(r"(helion\.)?Config\(", text) else parse_json(file, text, row=line)
    if data is None:
        raise file.error(f"found {quoted(text)}, expected Config(name=value, ...)", row=line, path="config")
    config = flat(file, f"line {line}", a(file, data, dict, f"line {line}: config"), line)
    if not config:
        raise file.error("the config is empty", row=line, path="config")
    return config


def _called(text: str) -> dict[str, Any] | None:
    """`Config(block_sizes=[64], num_warps=4)`; nothing is run. None where it is another expression."""
    try:
        call = ast.parse(text, mode="eval").body if len(text) < _MAX_CONFIG else None
        if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
            return None
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def flat(file: Foreign, where: str, data: dict[str, Any], row: int | None = None) -> dict[str, str]:
    """Lists of scalars one cell an entry (null and "" are blank); lists of lists and objects as JSON text."""
    flat: dict[str, str] = {}
    for name, value in data.items():
        path = f"{where}: {name}"
        if isinstance(value, list | tuple) and not any(isinstance(v, list | tuple | dict) for v in value):
            flat |= {f"{name}_{i}": setting(file, v, path) for i, v in enumerate(value)}
        elif isinstance(value, list | tuple | dict):
            try:
                text = json.dumps(value, separators=(",", ":"), sort_keys=True)
            except (TypeError, ValueError) as error:
                raise file.error(
                    f"found {quoted(value)}, expected plain values", row=row, path=name
                ) from error
            flat[name] = cell(file, text, path)
        else:
            flat[name] = setting(file, value, path)
    return flat
