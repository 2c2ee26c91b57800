"""AITER's tuned CSVs and Triton JSON -> winners.

A CSV has a row a shape: arch or gfx (with cu_num: the device), the shape, the winner's parameters, `us` or
`duration` in microseconds, and what followed (kernelName, tflops, bw, errRatio). A JSON file
`<arch>-GEMM-<kind>[-N=..-K=..].json` has a winner for each bound of M: `M_LEQ_64`, `M_GEQ_4096`, `any`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.devices import amd_device, device_and_vendor
from heurgen.logs.importers.foreign import Foreign, a, cell, csv_number, csv_rows, parse_json, time_of

_TIMES = ("us", "duration")
_RESULTS = frozenset(
    (
        *_TIMES,
        "us1",
        "us2",
        "kernelName",
        "kernelName1",
        "kernelName2",
        "tflops",
        "bw",
        "errRatio",
        "err_ratio",
    )
) | {"err1", "err2", "_tag"}
_PARAMETERS = frozenset("libtype kernelId solidx splitK block_m ksplit run_1stage BV".split())
_PLACE = ("gfx", "arch", "cu_num")
_BOUND = re.compile(r"M_(LEQ|GEQ)_([0-9]{1,9})|any")
_NAME = re.compile(r"(gfx[0-9a-f]{3,4})-(.+?)((?:-[A-Z]+=[0-9]{1,9})*)\.json")
_FOLDER = re.compile(r"gfx[0-9a-f]{3,4}")


def recognises(file: Foreign) -> bool:
    if _is_json(file):
        return re.search(r'"(M_LEQ_[0-9]+|M_GEQ_[0-9]+|any)"\s*:\s*\{', file.text[:65536]) is not None
    header = file.text[:4096].split("\n", 1)[0].strip().split(",")
    return any(p in header for p in _PLACE) and any(t in header for t in _TIMES)


def import_aiter(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("aiter", winners_only=True)
    kernels = sorted({_kernel(file) for file in files})
    if options.kernel is not None and options.kernel not in kernels:
        raise UsageError(
            f"no file is of the kernel {quoted(options.kernel)}", hint=f"found: {', '.join(kernels)}"
        )
    if options.kernel is None and len(kernels) > 1:
        raise UsageError(
            f"the files are of {len(kernels)} kernels", hint=f"say which: --kernel {' or '.join(kernels)}"
        )
    found.kernel = options.kernel or kernels[0]
    for file in files:
        if _kernel(file) == found.kernel:
            (_json if _is_json(file) else _csv)(file, options, found)
    return found.imported(options)


def _is_json(file: Foreign) -> bool:
    return file.text.lstrip().startswith("{")


def _kernel(file: Foreign) -> str:
    """The kernel that a file's name tells."""
    if _is_json(file):
        name = _NAME.fullmatch(file.name)
        return name[2] if name else "kernel"
    return re.sub(r"_tuned.*", "", file.name.partition(".")[0])


# --- CSV --------------------------------------------------------------------------------------------------


def _csv(file: Foreign, options: Options, found: Collected) -> None:
    header, rows = csv_rows(file)
    time = next((t for t in _TIMES if t in header), None)
    if time is None:
        raise file.error(
            f"found none of the columns {' and '.join(_TIMES)}", row=1, hint="an untuned list of shapes?"
        )
    parameters = [n for n in header if n in _PARAMETERS or (len(n) > 2 and n.isupper() and n != "T_FLAT")]
    if not parameters:
        raise file.error(f"found no parameter, such as {', '.join(sorted(_PARAMETERS))}", row=1)
    left_out = [n for n in header if n in _RESULTS and n != time]
    if left_out:
        found.notes.append(f"left out, results of the winner: {', '.join(left_out)}")
    skipped = 0
    for line, cells in rows:
        row = {
            n: cell(file, v.strip() or None, f"line {line}: {n}") for n, v in zip(header, cells, strict=True)
        }
        value = csv_number(file, row[time], line, time)
        if value <= 0 or value == float("inf"):  # AITER writes -1 or inf where nothing ran
            skipped += 1
            continue
        told, units = _device(file, line, row)
        device, vendor = device_and_vendor(file.file, told, options.device, options.vendor)
        features = {
            n: v for n, v in row.items() if n not in _RESULTS and n not in _PLACE and n not in parameters
        }
        features = {n: v or "none" for n, v in features.items()} | units
        config = {n: row[n] for n in parameters}
        found.add(
            found.scenario(vendor, device, features),
            config,
            time_of(file, value, f"line {line}", factor=1e-3),
        )
    if skipped:
        found.notes.append(f"{counted(skipped, 'shape')} without a time left out: nothing ran")


def _device(file: Foreign, line: int, row: dict[str, str]) -> tuple[str | None, dict[str, str]]:
    units = row.get("cu_num", "")
    if units and not re.fullmatch(r"[0-9]{1,6}", units):
        raise file.error(
            f"found {quoted(units)}, expected a number of compute units", row=line, path="cu_num"
        )
    architecture = row.get("gfx") or row.get("arch")
    told = amd_device(architecture, int(units) if units else None) if architecture else None
    return told or (f"AMD GPU, {int(units)} CUs" if units else None), {
        "cu_num": str(int(units))
    } if units else {}


# --- JSON -------------------------------------------------------------------------------------------------


def _json(file: Foreign, options: Options, found: Collected) -> None:
    """A winner for each bound, at the bound itself: the largest M of `M_LEQ_`, the smallest of `M_GEQ_`."""
    name = _NAME.fullmatch(file.name)
    folder = next((p for p in reversed(re.split(r"[/\\]", file.file)) if _FOLDER.fullmatch(p)), None)
    told = name[1] if name else folder
    device, vendor = device_and_vendor(file.file, told, options.device, options.vendor)
    shape = dict(p.split("=") for p in name[3].split("-") if p) if name else {}
    data = a(file, parse_json(file), dict, "")
    bounds: dict[str, Any] = {}
    for key, config in data.items():
        if not _BOUND.fullmatch(key):
            raise file.error(f"found the key {quoted(key)}, expected M_LEQ_<M>, M_GEQ_<M> or any", at=key)
        bounds[key] = config
    largest = max((int(k.split("_")[2]) for k in bounds if k != "any"), default=0)
    for key, config in bounds.items():
        m = largest + 1 if key == "any" else int(key.split("_")[2])
        given = a(file, config, dict, key, key)
        cells = {k: cell(file, v, f"{key}.{k}", key) for k, v in given.items() if v is not None and v != ""}
        if not cells:
            raise file.error("the config is empty", at=key)
        features = {"M": str(max(m, 1)), **{k: str(int(v)) for k, v in shape.items()}}
        found.add(found.scenario(vendor, device, features), cells, None)
